"""Walks over the units of a layer, the rows of W: phi separates over them, as over the samples."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from dladmm.core.relaxed.step_rules import StepRule
from dladmm.terms.layers import Layer

# Units are taken in this many parts, if each still has so many: narrower products are slow.
PARTS, LEAST_UNITS = 4, 100


class Step(NamedTuple):
    """A W or a update's record: sum of omega |D|^2, least theta or tau, trials, and failures."""

    moved: Array
    curvature: Array
    trials: Array
    exhausted: Array

    @classmethod
    def none(cls, dtype: jnp.dtype) -> Step:
        """No step at all."""
        zero = jnp.zeros((), jnp.int32)
        return cls(jnp.zeros((), dtype), jnp.full((), jnp.inf, dtype), zero, zero)

    def joined(self, other: Step) -> Step:
        """Two steps on different units as one."""
        return Step(
            self.moved + other.moved,
            jnp.minimum(self.curvature, other.curvature),
            jnp.maximum(self.trials, other.trials),
            jnp.maximum(self.exhausted, other.exhausted),
        )


def unit_parts(layer: Layer, rule: StepRule) -> int:
    """The parts in which a W update takes a layer's units; one theta for all needs them all."""
    return 1 if rule.scalar else max(1, min(PARTS, layer.units // LEAST_UNITS))


def walk_units(
    body: Callable[[Array, Any, Array], tuple[Array, Array, Step, Array]],
    p: Array,
    by_unit: Any,
    parts: int,
) -> tuple[Array, Array, Step]:
    """body(p, by_unit, memory) -> (p, step, record, memory) for a part of the units at a time.

    Units are the columns of p and the rows of all else; `memory` is shaped like their part of p,
    and the only part of A(G, a_prev) that is ever held.
    """
    n = p.shape[-1]
    size = -(-n // parts)
    memory = jnp.empty((*p.shape[:-1], size), p.dtype)
    if parts == 1:
        return body(p, by_unit, memory)[:3]

    def advance(first: Array | int, carry: Any, size: int) -> Any:
        p, step, record, memory = carry
        cut = partial(jax.lax.dynamic_slice_in_dim, start_index=first, slice_size=size)
        put = partial(jax.lax.dynamic_update_slice_in_dim, start_index=first)
        own = jax.tree.map(partial(cut, axis=0), by_unit)
        new_p, new_step, more, memory = body(cut(p, axis=-1), own, memory)
        return put(p, new_p, axis=-1), put(step, new_step, axis=0), record.joined(more), memory

    carry = (p, jnp.zeros((n, 1), p.dtype), Step.none(p.dtype), memory)
    whole, rest = divmod(n, size)
    p, step, record, _ = jax.lax.fori_loop(
        0, whole, lambda k, carry: advance(k * size, carry, size), carry
    )
    if rest:
        smaller = jnp.empty((*p.shape[:-1], rest), p.dtype)
        p, step, record, _ = advance(whole * size, (p, step, record, smaller), rest)
    return p, step, record
