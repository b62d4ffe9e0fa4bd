"""Sums over samples and over units, with sample weights omega_i."""

import jax.numpy as jnp
from jax import Array


def weighted(v: Array, weights: Array | None) -> Array:
    """omega_i v_i; without weights v itself, at no cost."""
    return v if weights is None else v * weights.reshape(-1, *(1,) * (v.ndim - 1))


def inner(v: Array, w: Array) -> Array:
    """<v_i, w_i> for each sample or unit i, the first axis, shaped to broadcast against both."""
    return jnp.sum(v * w, axis=tuple(range(1, v.ndim)), keepdims=True)


def total(v: Array, weights: Array | None) -> Array:
    """sum_i omega_i v_i over samples and everything else."""
    return jnp.sum(weighted(v, weights))


def mass(n_samples: int, weights: Array | None, dtype: jnp.dtype) -> Array:
    """sum_i omega_i: what a mean over samples divides by."""
    return jnp.asarray(n_samples, dtype) if weights is None else jnp.sum(weights)


def flat_rows(v: Array) -> Array:
    """Samples and positions as one axis."""
    return v.reshape(-1, v.shape[-1])
