"""Factorisations of symmetric positive definite matrices."""

from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import cho_factor, cho_solve


def factored(M: Array) -> Any:
    """The Cholesky factor of M, for `solve_factored`."""
    return cho_factor(M)


def solve_factored(factor: Any, right: Array) -> Array:
    """M^-1 right, from the factor of M."""
    return cho_solve(factor, right)


def inverse(M: Array) -> Array:
    """M^-1."""
    return cho_solve(cho_factor(M), identity(M))


def identity(M: Array) -> Array:
    """I of M's size and dtype."""
    return jnp.eye(M.shape[0], dtype=M.dtype)
