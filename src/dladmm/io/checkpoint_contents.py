"""What a checkpoint holds: a snapshot's arrays under names, and the plain values beside them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dladmm.core.snapshot import Snapshot
from dladmm.engine import trees
from dladmm.engine.arrays import Array, bit_pattern, from_bit_pattern, is_jax, load_jax

# What the record of an iteration has by every method.
RECORDED = {"lagrangian", "risk", "residual", "change", "gap", "seconds"}


def flat(snapshot: Snapshot) -> dict[str, Array]:
    """Every array under a name of its own. Eight-byte numbers go as pairs of four bytes: the
    threads orbax restores in would cut them to four by JAX's default."""
    place = load_jax().numpy.asarray  # of NumPy's too: orbax keeps arrays of JAX
    named = _named(snapshot).items()
    return {name: place(bit_pattern(v) if _is_wide(v) else v) for name, v in named}


def shapes(like: Snapshot) -> dict[str, Any]:
    """What `flat` would give, without computing it."""

    jax = load_jax()

    def shape(v: Array) -> Any:
        kind = ((*v.shape, 2), np.uint32) if _is_wide(v) else (v.shape, v.dtype)
        one_device = jax.sharding.SingleDeviceSharding(jax.devices()[0])
        return jax.ShapeDtypeStruct(*kind, sharding=v.sharding if is_jax(v) else one_device)

    return {name: shape(v) for name, v in _named(like).items()}


def unflat(arrays: Mapping[str, Array], like: Snapshot, plain: dict[str, Any]) -> Snapshot:
    """The inverse of `flat`, in the shapes of `like`."""
    found = iter(
        from_bit_pattern(arrays[name], v)
        if _is_wide(v)
        else (arrays[name] if is_jax(v) else np.asarray(arrays[name]))
        for name, v in _named(like).items()
    )
    by_sample, rest = trees.map(lambda _: next(found), (like.by_sample, like.rest))
    return Snapshot(by_sample, rest, plain, like.count)


def _named(snapshot: Snapshot) -> dict[str, Array]:
    leaves = trees.leaves((snapshot.by_sample, snapshot.rest))
    return {f"array_{k:03d}": v for k, v in enumerate(leaves)}


def _is_wide(v: Array) -> bool:
    return v.dtype.itemsize == 8


def check_plain(plain: Mapping[str, Any], like: Mapping[str, Any], step: int) -> None:
    """ValueError where the plain values of a checkpoint are not of the kinds that a run has."""

    def is_like(value: Any, one: Any) -> bool:
        if isinstance(one, bool) or isinstance(value, bool):
            return isinstance(one, bool) and isinstance(value, bool)
        if isinstance(one, dict):
            return isinstance(value, dict) and all(is_like(v, 0.0) for v in value.values())
        if isinstance(one, list):
            return isinstance(value, list) and all(is_like(row, {}) for row in value)
        return isinstance(value, int | float if isinstance(one, float) else type(one))

    for name, one in like.items():
        if name not in plain or not is_like(plain[name], one):
            raise ValueError(f"its records have no valid {name}")
    alike = len({tuple(row) for row in plain["rows"]}) < 2
    complete = all(set(row) >= RECORDED for row in plain["rows"])
    same_names = set(plain) == set(like) and set(plain["penalty"]) == set(like["penalty"])
    if not (same_names and alike and complete):
        raise ValueError("its records are not those of a run")
    if plain["iteration"] != step:
        raise ValueError(f"its records are those of iteration {plain['iteration']}")
