"""Sums over samples and over units, with sample weights omega_i."""

import jax.numpy as jnp
from jax import Array


def weighted(v: Array, weights: Array | None) -> Array:
    """omega_i v_i; without weights v itself, at no cost."""
    return v if weights is None else v * weights.reshape(-1, *(1,) * (v.ndim - 1))


def sample_squares(v: Array) -> Array:
    """|v_i|^2 for each sample i, shaped to broadcast against v."""
    return jnp.sum(v * v, axis=tuple(range(1, v.ndim)), keepdims=True)


def total(v: Array, weights: Array | None) -> Array:
    """sum_i omega_i v_i over samples and everything else."""
    return jnp.sum(weighted(v, weights))


def mass(n_samples: int, weights: Array | None, dtype: jnp.dtype) -> Array:
    """sum_i omega_i: what a mean over samples divides by."""
    return jnp.asarray(n_samples, dtype) if weights is None else jnp.sum(weights)


def row_squares(W: Array) -> Array:
    """|W_j|^2 for each unit j, shaped to broadcast against W."""
    return jnp.sum(W * W, axis=tuple(range(1, W.ndim)), keepdims=True)


def flat_rows(v: Array) -> Array:
    """Samples and positions as one axis."""
    return v.reshape(-1, v.shape[-1])
