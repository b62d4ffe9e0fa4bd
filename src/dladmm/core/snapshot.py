"""What a run keeps of itself so that another process can go on with it, bit for bit."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Protocol

import numpy as np

from dladmm.core.data import Arrays
from dladmm.core.options import Options
from dladmm.core.problem import Problem, described_layers
from dladmm.engine import trees
from dladmm.engine.arrays import Array, bit_pattern, namespace, xp
from dladmm.engine.processes import over_processes, process_index
from dladmm.engine.programs import compiled


@dataclass(frozen=True)
class Snapshot:
    """A run after an iteration: pytrees of arrays, and everything else as plain JSON values.

    by_sample: arrays with one row per sample, padding last. count: the samples without padding,
    None where the padding is not last, which only the same number of devices can go on with.
    """

    by_sample: Any
    rest: Any
    plain: dict[str, Any]
    count: int | None

    def digest(self) -> int:
        """The same on any number of devices, and another one if a single bit is."""
        parts: list[int] = []
        # Each is waited for: programs that add up over the devices of a CPU must not run at once,
        # or they wait for each other's threads.
        for v in trees.leaves(self.by_sample):
            rows = v.shape[0] if self.count is None else self.count
            parts.append(int(array_digest(v, len(parts), 0, rows)))
        for v in trees.leaves(self.rest):
            parts.append(int(array_digest(xp.ravel(v), len(parts), 0, v.size)))
        return sum(parts) % 2**32


class SnapshotStore(Protocol):
    """Where snapshots go to, and come from."""

    def newest(self, like: Snapshot) -> Snapshot | None:
        """The last whole snapshot, as arrays shaped and placed as those of `like`."""

    def due(self, iteration: int) -> bool:
        """Whether a snapshot is wanted after this many iterations; the same in every process."""

    def keep(self, iteration: int, snapshot: Snapshot) -> None:
        """Write it in the background. What goes wrong costs this snapshot, not the run."""

    def close(self, wait: bool) -> None:
        """The end of the run; `wait` for what is being written."""


class StoreSettings(Protocol):
    """How snapshots are kept; `open` is called once the run knows what it is."""

    def open(self, identity: Mapping[str, Any]) -> SnapshotStore: ...


@compiled()
def array_digest(v: Array, salt: int, first_row: int, rows: int) -> Array:
    """sum_i bits_i mix(i) mod 2^32 over the first `rows` rows, which are first_row, ... of all.

    A sum of integers: whatever is added first, on whatever device, it is the same.
    """
    bits = bit_pattern(v).reshape(v.shape[0], -1)
    count = partial(namespace(v).arange, dtype=np.uint32)
    row, column = count(bits.shape[0])[:, None], count(bits.shape[1])
    start, before, end = (
        namespace(v).asarray([k]).astype(np.uint32) for k in (salt, first_row, rows)
    )
    place = (row + before) * np.uint32(bits.shape[1]) + column + start * np.uint32(0x9E3779B9)
    mixed = (place ^ (place >> 16)) * np.uint32(0x85EBCA6B)
    mixed = (mixed ^ (mixed >> 13)) * np.uint32(0xC2B2AE35) | np.uint32(1)
    return xp.sum(xp.where(row < end, bits * mixed, 0), dtype=np.uint32)


# Rows that are digested at once: x may be a file larger than memory.
DIGEST_ROWS = 4096


def rows_digest(v: np.ndarray) -> int:
    """Of the rows of all processes, in their order."""
    before = over_processes(np.int32(v.shape[0]))[: process_index()].sum()
    total = 0
    for start in range(0, v.shape[0], DIGEST_ROWS):
        block = np.asarray(v[start : start + DIGEST_ROWS])
        total += int(array_digest(block, 0, int(before) + start, len(block)))
    return int(over_processes(np.uint32(total % 2**32)).sum(dtype=np.uint32))


# Options that may differ between the run that was interrupted and the one that goes on.
FREE = (
    *("max_iter", "tol", "residual_tol", "patience", "stop_at_noise"),
    *("devices", "layer_devices", "engine"),
)
# Options that have another name here, since data have it already.
OPTIONS = {"targets": "kind of targets"}
FORMAT = 2


def identity(
    problem: Problem, options: Options, arrays: Arrays, held_out: Any = None, start: Any = None
) -> dict[str, Any]:
    """What a snapshot belongs to: network, terms, options, and a fingerprint of the data.

    `held_out` are x, y and weights of the rows to score on; `start` is the network, or the state,
    the run was given to begin with.
    """
    x, y, weights = arrays
    described = described_layers(problem.layers)
    return {
        "format": FORMAT,
        **{f"layer {l}": layer for l, layer in enumerate(described, 1)},
        "activations": [json_value(f) for f in problem.activations],
        "loss": json_value(problem.loss),
        "regularizers": [json_value(term) for term in problem.regularizers],
        "samples": int(over_processes(np.int32(x.shape[0])).sum()),
        "inputs": rows_digest(x),
        "targets": rows_digest(y),
        "sample weights": None if weights is None else rows_digest(weights[:, None]),
        "held-out rows": held_out
        and [
            None if v is None else rows_digest(np.asarray(v).reshape(len(v), -1)) for v in held_out
        ],
        "start": None if start is None else Snapshot((), start, {}, None).digest(),
        **{
            OPTIONS.get(field.name, field.name): json_value(getattr(options, field.name))
            for field in fields(options)
            if field.name not in FREE
        },
    }


def json_value(value: Any) -> Any:
    """Plain values as they are, terms by their fields; where code lives in memory says nothing."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


FINGERPRINTS = ("inputs", "targets", "sample weights", "held-out rows", "start")


def differences(kept: dict[str, Any], now: dict[str, Any]) -> str:
    """What differs, in words; empty where nothing does."""
    found = []
    for name in now | kept:
        if kept.get(name) == now.get(name):
            continue
        if name in FINGERPRINTS:
            found.append(f"other {name}")
        else:
            found.append(f"{name} {kept.get(name)!r} instead of {now.get(name)!r}")
    return ", ".join(found)
