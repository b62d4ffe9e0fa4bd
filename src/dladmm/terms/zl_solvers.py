"""Solvers of the last layer's subproblem, selectable by name; see `losses` for the problem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dladmm.terms.layers import sample_squares
from dladmm.terms.loss import Loss


def fista(
    loss: Loss, q: Array, u: Array, y: Array, rho: Array, z: Array, max_iter: int = 500
) -> tuple[Array, Array]:
    """The same minimiser by monotone FISTA with step 1/(H + rho), as the paper solves it.

    Stops at |gradient| <= tol per sample, tol = 1e-6 (H + rho) in float64, 1e-4 (H + rho) in
    float32; the point returned is the best one met.
    """
    step = 1 / (loss.lipschitz + rho)
    tol = jnp.where(np.finfo(z.dtype).eps < 1e-10, 1e-6, 1e-4) / step

    def gradient(z: Array) -> Array:
        return loss.gradient(z, y) + u + rho * (z - q)

    def objective(z: Array) -> Array:
        d = z - q
        return (
            loss.value(z, y)[:, None]
            + jnp.sum(u * d, -1, keepdims=True)
            + rho / 2 * sample_squares(d)
        )

    def unfinished(carry: Any) -> Array:
        k, z, *_ = carry
        return (k < max_iter) & jnp.any(sample_squares(gradient(z)) > tol**2)

    def advance(carry: Any) -> Any:
        k, z, value, v, t = carry
        trial = v - step * gradient(v)
        t_next = (1 + jnp.sqrt(1 + 4 * t * t)) / 2
        trial_value = objective(trial)
        best = jnp.where(trial_value <= value, trial, z)
        v = best + t / t_next * (trial - best) + (t - 1) / t_next * (best - z)
        return k + 1, best, jnp.minimum(value, trial_value), v, t_next

    start = (jnp.zeros((), jnp.int32), z, objective(z), z, jnp.ones((), z.dtype))
    k, z, *_ = jax.lax.while_loop(unfinished, advance, start)
    return z, k


def newton(loss: Loss, q: Array, u: Array, y: Array, rho: Array, z: Array) -> tuple[Array, Array]:
    """The loss's own prox: closed form, or Newton to rounding."""
    return loss.prox(q, u, y, rho, z)


ZLSolver = Callable[[Loss, Array, Array, Array, Array, Array], tuple[Array, Array]]
zl_solvers: dict[str, ZLSolver] = {"newton": newton, "fista": fista}
