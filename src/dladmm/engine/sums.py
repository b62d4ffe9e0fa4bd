"""Sums over samples and over units, with sample weights omega_i."""

from collections.abc import Iterable
from functools import reduce
from operator import add

import numpy as np

from dladmm.engine.arrays import Array, xp


def weighted(v: Array, weights: Array | None) -> Array:
    """omega_i v_i; without weights v itself, at no cost."""
    return v if weights is None else v * weights.reshape(-1, *(1,) * (v.ndim - 1))


def masked(v: Array, mask: Array | None) -> Array:
    """v where a mask is 1, and 0 where it is 0; without a mask v itself, at no cost."""
    return v if mask is None else v * mask


def inner(v: Array, w: Array) -> Array:
    """<v_i, w_i> for each sample or unit i, the first axis, shaped to broadcast against both."""
    return xp.sum(v * w, axis=tuple(range(1, v.ndim)), keepdims=True)


def squares_of_each(v: Array) -> Array:
    """|v_i|^2 of each sample, (N, 1)."""
    return inner(v, v).reshape(-1, 1)


def for_each(numbers: Array, like: Array) -> Array:
    """One number for each sample, shaped to broadcast against `like`."""
    return numbers.reshape(-1, *(1,) * (like.ndim - 1))


def total(v: Array, weights: Array | None) -> Array:
    """sum_i omega_i v_i over samples and everything else."""
    return weighted(v, weights).sum()


def added(parts: Iterable[Array]) -> Array:
    """Their sum, of which there is one at least: none is added to a zero first."""
    return reduce(add, parts)


def squared_norm(v: Array) -> Array:
    """|v|^2 over all entries."""
    flat = v.reshape(-1)
    return flat.dot(flat)


def mass(n_samples: int, weights: Array | None, dtype: np.dtype) -> Array:
    """sum_i omega_i: what a mean over samples divides by."""
    return np.asarray(n_samples, dtype) if weights is None else xp.sum(weights)


def flat_rows(v: Array) -> Array:
    """Samples and positions as one axis."""
    return v if v.ndim == 2 else v.reshape(-1, v.shape[-1])


def row_gram(v: Array, weights: Array | None) -> Array:
    """sum_i omega_i v_i v_i^T, over all positions of each sample."""
    return flat_rows(weighted(v, weights)).T @ flat_rows(v)
