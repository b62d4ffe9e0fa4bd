"""Linear maps. The updates know a layer only through this interface, so that a convolution or a
recurrence is a new map and not a new algorithm.

p = A(W, a) is linear in W for fixed a and linear in a for fixed W. Rows of W ("units") and
samples are the blocks over which phi separates, hence the two kinds of sums of squares. Units are
the first axis of W and b and the last of p; samples are the first of a and p.
Sample weights omega_i enter every sum over samples, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array


@dataclass(frozen=True)
class Dense:
    """p = a W^T with W of shape (n_out, n_in), a of shape (N, n_in), p of shape (N, n_out)."""

    n_in: int
    n_out: int

    @property
    def weight_shape(self) -> tuple[int, ...]:
        return (self.n_out, self.n_in)

    @property
    def bias_shape(self) -> tuple[int, ...]:
        return (self.n_out,)

    @property
    def fan_in(self) -> int:
        return self.n_in

    def apply(self, W: Array, a: Array) -> Array:
        """A(W, a)."""
        return a @ W.T

    def adjoint_a(self, W: Array, r: Array) -> Array:
        """The adjoint of a -> A(W, a) at r: the a-gradient of 1/2 |A(W, a)|^2 where r = A(W, a)."""
        return r @ W

    def adjoint_W(self, r: Array, a: Array, weights: Array | None) -> Array:
        """The adjoint of W -> A(W, a) at r, with sample weights."""
        return weighted(r, weights).T @ a

    def gram(self, a: Array, weights: Array | None) -> Array:
        """K with sum_i omega_i |A(D, a_i)|^2 = <D K, D> for every D, row by row."""
        return weighted(a, weights).T @ a

    def gram_with_bias(self, a: Array, weights: Array | None) -> Array:
        """K with sum_i omega_i |A(D, a_i) + d|^2 = <[D d] K, [D d]>: the Gram matrix of [a, 1]."""
        with_one = jnp.concatenate([a, jnp.ones((a.shape[0], 1), a.dtype)], axis=1)
        return weighted(with_one, weights).T @ with_one

    def unit_gram(self, r: Array, weights: Array | None) -> Array:
        """sum_i omega_i r_i r_i^T, the second moments of what arrives at the units."""
        return weighted(r, weights).T @ r

    def times_gram(self, D: Array, K: Array) -> Array:
        """D K: the adjoint of W -> A(W, a) at A(D, a), without a pass over the samples."""
        return D @ K

    def unit_squares(self, p: Array, weights: Array | None) -> Array:
        """sum_i omega_i p_ij^2 for each unit j, shaped to broadcast against W."""
        return jnp.sum(weighted(p * p, weights), axis=0)[:, None]

    def scale_units(self, p: Array, step: Array) -> Array:
        """A(step W, a) from p = A(W, a), for a step that broadcasts against the rows of W."""
        return p * step[:, 0]

    def unit_sum(self, r: Array, weights: Array | None) -> Array:
        """sum_i omega_i r_i for each unit: shaped like the bias, whose adjoint this is."""
        return jnp.sum(weighted(r, weights), axis=0)

    def unit_count(self, mass: Array) -> Array:
        """What turns `unit_sum` into a mean: how often the bias enters p, `mass` all weights."""
        return mass


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
