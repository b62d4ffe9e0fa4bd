"""Devices: a mesh of them, which rows live where, and the same functions run on every one.

Rows of x, y, z, a, p and u are spread over the mesh's `data` axis; the network is on every device.
`spread` runs a function on each device's own rows by `shard_map`: only what goes through `Samples`
crosses between devices, as all-reduces whose size does not depend on the number of samples.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from dladmm.core.engine.walks import AXIS, Samples, blocks_for

ROWS, EVERYWHERE = P(AXIS), P()


def spread(
    samples: Samples, function: Callable[..., Any], into: tuple[Any, ...], out: Any
) -> Callable[..., Any]:
    """`function` on every device's own rows; without a mesh it is the function itself.

    `into` and `out` say where arguments and results live: trees of ROWS and EVERYWHERE.
    """
    if samples.mesh is None:
        return function
    # What is the same everywhere comes from all-reduces; JAX's check does not see it through loops.
    return jax.shard_map(function, mesh=samples.mesh, in_specs=into, out_specs=out, check_vma=False)


def make_mesh(devices: Any) -> Mesh | None:
    """The mesh of `devices`: None for one device, a count, a list of devices, or a mesh itself.

    A run of several processes uses every device of all of them unless a mesh says otherwise.
    """
    if isinstance(devices, Mesh):
        if tuple(devices.axis_names) != (AXIS,):
            raise ValueError(
                f"devices is a mesh with axes {devices.axis_names}; expected one axis {AXIS!r}"
            )
        return _mesh(devices.devices.tolist())
    known = jax.devices()
    if devices is None:
        return _mesh(known) if jax.process_count() > 1 else None
    if isinstance(devices, int | np.integer) and not isinstance(devices, bool):
        if not 1 <= devices <= len(known):
            raise ValueError(
                f"devices={devices!r} is not valid; expected a number from 1 to {len(known)}, the"
                f" {known[0].platform} devices there are"
            )
        return _mesh(known[: int(devices)])
    if isinstance(devices, Sequence) and devices and all(d in known for d in devices):
        return _mesh(devices)
    raise ValueError(
        f"devices={devices!r} is not valid; expected a count, a list of JAX devices, or a mesh"
    )


def _mesh(devices: Sequence[Any]) -> Mesh:
    owners = [device.process_index for device in devices]
    without = set(range(jax.process_count())) - set(owners)
    if without:
        raise ValueError(
            f"devices has none of process {min(without)}; expected some of every process, or None"
        )
    turns = [owner for owner, _ in groupby(owners)]
    if len(turns) > len(set(turns)):
        raise ValueError(
            f"devices are of processes {owners}; expected those of a process one after the other,"
            " since it holds rows that are"
        )
    return Mesh(np.asarray(devices, dtype=object), (AXIS,))


def layout(n_samples: int, mesh: Mesh | None) -> tuple[int, int]:
    """(blocks, rows) of each device for this many samples in all."""
    own = max(1, -(-n_samples // (1 if mesh is None else mesh.size)))
    blocks, padding = blocks_for(own)
    return blocks, own + padding


def own_rows(n_samples: int, mesh: Mesh | None) -> slice:
    """Which of all rows this process holds: those of its devices, in the order of the mesh."""
    if mesh is None:
        return slice(0, n_samples)
    _, rows = layout(n_samples, mesh)
    owners = [device.process_index for device in mesh.devices.flat]
    begins = {process: rows * owners.index(process) for process in set(owners)}
    if len(begins) > 1 and max(begins.values()) >= n_samples:
        raise ValueError(
            f"there are {n_samples} rows for {len(begins)} processes; expected some for each"
        )
    mine = begins[jax.process_index()]
    return slice(min(n_samples, mine), min(n_samples, mine + rows * len(mesh.local_devices)))


def layout_of_own(n_own: int, mesh: Mesh | None) -> tuple[int, int, int]:
    """(blocks, rows) of each device where every process has brought some rows, and their sum.

    For the rows that `own_rows` gives this is `layout`; others leave gaps between processes, which
    are filled like the end.
    """
    devices = 1 if mesh is None else len(mesh.local_devices)
    brought = over_processes([n_own, devices])
    blocks, padding = blocks_for(most := int(np.max(-(-brought[:, 0] // brought[:, 1]))))
    return blocks, most + padding, int(brought[:, 0].sum())


def place_rows(v: np.ndarray, rows: int, mesh: Mesh | None, filling: str = "edge") -> jax.Array:
    """This process's rows on its devices, `rows` on each; `filling` is np.pad's mode."""
    missing = (rows if mesh is None else rows * len(mesh.local_devices)) - v.shape[0]
    if missing:
        mode: Any = filling if v.shape[0] else "constant"
        v = np.pad(v, ((0, missing), *((0, 0),) * (v.ndim - 1)), mode=mode)
    if mesh is None:
        return jnp.asarray(v)
    return jax.make_array_from_process_local_data(NamedSharding(mesh, ROWS), v)


def replicate(tree: Any, mesh: Mesh | None) -> Any:
    """Arrays that are the same in every process, on every device."""
    if mesh is None:
        return jax.tree.map(jnp.asarray, tree)
    everywhere = NamedSharding(mesh, EVERYWHERE)
    return jax.tree.map(
        lambda v: jax.make_array_from_process_local_data(everywhere, np.asarray(v)), tree
    )


def over_processes(values: Any) -> np.ndarray:
    """`values` of every process, along a new first axis."""
    own = np.atleast_1d(np.asarray(values))
    if jax.process_count() > 1:
        # As bytes: JAX would cut eight-byte numbers to four where it is not told otherwise.
        raw = np.frombuffer(own.tobytes(), np.uint8)
        gathered = np.asarray(multihost_utils.process_allgather(raw))
        all_of_them = np.frombuffer(gathered.tobytes(), own.dtype).reshape(-1, *own.shape)
    else:
        all_of_them = own[None]
    return all_of_them[:, 0] if np.ndim(values) == 0 else all_of_them


@contextmanager
def refused_together() -> Iterator[None]:
    """What one process refuses, or cannot read or write, is refused by all of them: the others
    would wait for it forever. Nothing inside may wait for other processes.
    """
    if jax.process_count() == 1:
        yield
        return
    problem = ""
    try:
        yield
    except (ValueError, OSError) as error:
        problem = str(error) or type(error).__name__
    problems = [text for text in texts_of_processes(problem) if text]
    if problems:
        raise ValueError(problems[0])


def texts_of_processes(text: str) -> list[str]:
    """`text` of every process."""
    content = np.frombuffer(text.encode(), np.uint8)
    lengths = over_processes(np.int32(content.size))
    longest = max(1, int(lengths.max()))  # nothing at all cannot be gathered
    padded = over_processes(np.pad(content, (0, longest - content.size)))
    return [row[:n].tobytes().decode() for row, n in zip(padded, lengths, strict=True)]
