"""Where a run computes: with NumPy, or with JAX on one device or on a mesh of them.

Rows of x, y, z, a, p and u are spread over the mesh's `data` axis; the network is on every device.
`spread` runs a function on each device's own rows by `shard_map`: only what goes through `Samples`
crosses between devices, as all-reduces whose size does not depend on the number of samples.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import ThreadpoolController

from dladmm.engine import trees
from dladmm.engine.arrays import Array, load_jax
from dladmm.engine.process import is_out_of_memory, reuse_freed_memory
from dladmm.engine.processes import over_processes, process_count, process_index
from dladmm.engine.walks import AXIS, Samples, blocks_for

if TYPE_CHECKING:
    from jax.sharding import Mesh

# Where an array lives on a mesh: its rows spread over the devices, those of each of several batches
# along its first axis, or all of it on each.
ROWS, BATCHES, EVERYWHERE = "rows", "batches", "everywhere"


@dataclass(frozen=True)
class Engine:
    """What computes a run: NumPy, or JAX on the devices of a mesh, or on one where that is None.

    one_thread: whether NumPy's products are too small to be shared between cores.
    """

    is_jax: bool
    mesh: Mesh | None = None
    one_thread: bool = False

    @property
    def name(self) -> str:
        return "jax" if self.is_jax else "numpy"

    @property
    def devices(self) -> int:
        """How many devices this process has."""
        return 1 if self.mesh is None else len(self.mesh.local_devices)

    @contextmanager
    def computing(self, dtype: str) -> Iterator[None]:
        """While it computes in this dtype. A context, not a configuration: the caller's settings of
        JAX, and the threads of NumPy's and SciPy's libraries, are theirs again afterwards."""
        if self.is_jax:
            with self.threads(), self.precision(dtype):
                try:
                    yield
                except RuntimeError as error:
                    if is_out_of_memory(error):
                        raise MemoryError(str(error).splitlines()[0]) from None
                    raise
            return
        reuse_freed_memory()
        # Where numbers overflow, the records of a run say so.
        with self.threads(), np.errstate(all="ignore"):
            yield

    def precision(self, dtype: str) -> AbstractContextManager[Any]:
        """While it computes in this dtype, which JAX has to be told."""
        return load_jax().enable_x64(dtype == "float64") if self.is_jax else nullcontext()

    def threads(self) -> AbstractContextManager[Any]:
        """While NumPy's products have the threads they are worth, and libraries that would be in
        the way one: for NumPy that is SciPy's own; for JAX, which factors by it, both."""
        if has_one_thread():
            return nullcontext()
        alone = self.one_thread or self.is_jax
        return (blas() if alone else scipys_own()).limit(limits=1)

    def place_rows(self, v: np.ndarray, rows: int, filling: str = "edge") -> Array:
        """This process's rows on its devices, `rows` on each; `filling` is np.pad's mode."""
        return self._placed(_filled_up(v, rows * self.devices, 0, filling), ROWS)

    def lend_batches(self, v: np.ndarray, rows: int, filling: str = "edge") -> Array:
        """Rows along the second axis, of each of several batches: on the devices, or where they
        are, if those can read them there. Until that is done v must not change."""
        v = _filled_up(v, rows * self.devices, 1, filling)
        if self.is_jax and self.mesh is None:
            return load_jax().device_put(v)
        return self._placed(v, BATCHES)

    def wait_for(self, value: Any) -> None:
        """Until it is computed."""
        if self.is_jax:
            load_jax().block_until_ready(value)

    def replicate(self, tree: Any) -> Any:
        """Arrays that are the same in every process, on every device."""
        return trees.map(lambda v: self._placed(v, EVERYWHERE), tree)

    def _placed(self, v: Any, where: str) -> Array:
        if not self.is_jax:
            return np.asarray(v)
        jax = load_jax()
        if self.mesh is None:
            return jax.numpy.asarray(v)
        sharding = jax.sharding.NamedSharding(self.mesh, _spec(where))
        return jax.make_array_from_process_local_data(sharding, np.asarray(v))


NUMPY, JAX = Engine(False), Engine(True)


@lru_cache
def blas() -> ThreadpoolController:
    """The libraries that multiply matrices for NumPy and SciPy; finding them takes a moment."""
    import scipy.linalg  # noqa: F401  or its library might come after those were found

    return ThreadpoolController().select(user_api="blas")


def has_one_thread() -> bool:
    """Whether the environment gave those libraries one thread each, as a worker of GridSearchCV has
    it: then they need not be found, which takes as long as a tenth of a small fit."""
    shared = os.environ.get("OMP_NUM_THREADS")
    own = (os.environ.get(f"{name}_NUM_THREADS", shared) for name in ("OPENBLAS", "MKL", "BLIS"))
    return all(limit == "1" for limit in own)


@lru_cache
def scipys_own() -> ThreadpoolController:
    """The library that NumPy does not use, as SciPy's wheels bring it. A thread without work goes
    on asking for it: products of NumPy's and of JAX's then take several times as long."""
    paths = [library.filepath for library in blas().lib_controllers]
    return blas().select(filepath=[path for path in paths if "scipy.libs" in path])


def _filled_up(v: np.ndarray, rows: int, axis: int, filling: str) -> np.ndarray:
    """v with so many rows along an axis."""
    missing = rows - v.shape[axis]
    if not missing:
        return v
    mode: Any = filling if v.shape[axis] else "constant"
    return np.pad(v, [(0, missing if k == axis else 0) for k in range(v.ndim)], mode=mode)


def _spec(where: str) -> Any:
    from jax.sharding import PartitionSpec

    specs = {ROWS: (AXIS,), BATCHES: (None, AXIS), EVERYWHERE: ()}
    return PartitionSpec(*specs[where])


def spread(
    samples: Samples, function: Callable[..., Any], into: tuple[Any, ...], out: Any
) -> Callable[..., Any]:
    """`function` on every device's own rows; without a mesh it is the function itself.

    `into` and `out` say where arguments and results live: trees of ROWS and EVERYWHERE.
    """
    if samples.mesh is None:
        return function
    # What is the same everywhere comes from all-reduces; JAX's check does not see it through loops.
    return load_jax().shard_map(
        function,
        mesh=samples.mesh,
        in_specs=trees.map(_spec, into),
        out_specs=trees.map(_spec, out),
        check_vma=False,
    )


def make_mesh(devices: Any, layer_devices: int | None = None) -> Mesh | None:
    """The devices of a run, in an order.

    A run of several processes uses every device of all of them unless a mesh says otherwise, and
    one in groups of layers (engine/layer_mesh.py) a device for each.

    Parameters
    ----------
    devices : int, list of jax.Device, jax.sharding.Mesh or None
        How many, which ones, or a mesh of one axis; None for one device, and for all devices where
        there are several processes.
    layer_devices : int, optional
        How many groups of layers share them.

    Returns
    -------
    jax.sharding.Mesh or None
        None for one device.
    """
    if layer_devices is not None:
        return _dealt_to(layer_devices, devices)
    if devices is None and process_count() == 1:
        return None
    jax = load_jax()
    if isinstance(devices, jax.sharding.Mesh):
        if tuple(devices.axis_names) != (AXIS,):
            raise ValueError(
                f"devices is a mesh with axes {devices.axis_names}; expected one axis {AXIS!r}"
            )
        return _mesh(devices.devices.tolist())
    known = jax.devices()
    if devices is None:
        return _mesh(known)
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


def _dealt_to(groups: int, devices: Any) -> Mesh:
    """The mesh of devices that so many groups share alike."""
    if devices is None:
        known = load_jax().devices()
        if len(known) < groups:
            raise ValueError(
                f"layer_devices={groups} is more than the {len(known)} {known[0].platform} devices"
                " there are; expected no more groups than devices, of which several processes have"
                " one each, or XLA_FLAGS=--xla_force_host_platform_device_count=N makes N to try"
            )
    mesh = make_mesh(groups if devices is None and process_count() == 1 else devices)
    count = 1 if mesh is None else mesh.size
    if mesh is None or count % groups:
        raise ValueError(
            f"layer_devices={groups} does not divide the {count} devices of this run; expected"
            " groups of as many devices each"
        )
    _check_owners([d.process_index for d in mesh.devices.flat], groups)
    return mesh


def _check_owners(owners: Sequence[int], groups: int) -> None:
    """ValueError where a process would run programs of two groups that each wait for another
    process: they may then wait for each other. The n-th device is of group n mod `groups`."""
    processes = [set(owners[g::groups]) for g in range(groups)]
    for process in sorted(set(owners)):
        own = [one for one in processes if process in one]
        if len(own) > 1 and any(len(one) > 1 for one in own):
            raise ValueError(
                f"layer_devices={groups} gives process {process} devices of {len(own)} groups that"
                " other processes have devices of too; expected a process for each device, or all"
                " of them in one"
            )


def _mesh(devices: Sequence[Any]) -> Mesh:
    owners = [device.process_index for device in devices]
    without = set(range(process_count())) - set(owners)
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
    return load_jax().sharding.Mesh(np.asarray(devices, dtype=object), (AXIS,))


def layout(n_samples: int, mesh: Mesh | None) -> tuple[int, int]:
    """(blocks, rows) of each device for this many samples in all."""
    own = max(1, -(-n_samples // (1 if mesh is None else mesh.size)))
    blocks, padding = blocks_for(own)
    return blocks, own + padding


def own_rows(n_samples: int, mesh: Mesh | None) -> slice:
    """Which of all rows this process holds: those of its devices, in the order of the mesh.

    Parameters
    ----------
    n_samples : int
        The number of rows of all processes.
    mesh : jax.sharding.Mesh or None
        What `make_mesh` gave.

    Returns
    -------
    slice
        The rows to pass to `fit` or `solve` in this process.
    """
    if mesh is None:
        return slice(0, n_samples)
    _, rows = layout(n_samples, mesh)
    owners = [device.process_index for device in mesh.devices.flat]
    begins = {process: rows * owners.index(process) for process in set(owners)}
    if len(begins) > 1 and max(begins.values()) >= n_samples:
        raise ValueError(
            f"there are {n_samples} rows for {len(begins)} processes; expected some for each"
        )
    mine = begins[process_index()]
    return slice(min(n_samples, mine), min(n_samples, mine + rows * len(mesh.local_devices)))


def layout_of_own(n_own: int, engine: Engine) -> tuple[int, int, int]:
    """(blocks, rows) of each device where every process has brought some rows, and their sum.

    For the rows that `own_rows` gives this is `layout`; others leave gaps between processes, which
    are filled like the end.
    """
    brought = over_processes([n_own, engine.devices])
    blocks, padding = blocks_for(most := int(np.max(-(-brought[:, 0] // brought[:, 1]))))
    return blocks, most + padding, int(brought[:, 0].sum())
