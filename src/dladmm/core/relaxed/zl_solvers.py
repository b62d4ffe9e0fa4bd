"""Solvers of the last layer's subproblem, selectable by name; see `losses` for the problem."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dladmm.engine.arrays import Array, xp
from dladmm.engine.loops import repeat_while
from dladmm.engine.sums import inner
from dladmm.terms.losses.base import Loss


def fista(
    loss: Loss, q: Array, u: Array, y: Array, rho: Array, z: Array, max_iter: int = 500
) -> tuple[Array, Array]:
    """The same minimiser by monotone FISTA with step 1/(H + rho), as the paper solves it.

    Stops at |gradient| <= tol per sample, tol = 1e-6 (H + rho) in float64, 1e-4 (H + rho) in
    float32; the point returned is the best one met.
    """
    step = 1 / (loss.lipschitz + rho)
    tol = xp.where(np.finfo(z.dtype).eps < 1e-10, 1e-6, 1e-4) / step

    def gradient(z: Array) -> Array:
        return loss.gradient(z, y) + u + rho * (z - q)

    def objective(z: Array) -> Array:
        d = z - q
        return loss.value(z, y)[:, None] + inner(u, d) + rho / 2 * inner(d, d)

    def unfinished(carry: Any) -> Array:
        k, z, *_ = carry
        g = gradient(z)
        return (k < max_iter) & xp.any(inner(g, g) > tol**2)

    def advance(carry: Any) -> Any:
        k, z, value, v, t = carry
        trial = v - step * gradient(v)
        t_next = (1 + xp.sqrt(1 + 4 * t * t)) / 2
        trial_value = objective(trial)
        best = xp.where(trial_value <= value, trial, z)
        v = best + t / t_next * (trial - best) + (t - 1) / t_next * (best - z)
        return k + 1, best, xp.minimum(value, trial_value), v, t_next

    start = (np.zeros((), np.int32), z, objective(z), z, np.ones((), z.dtype))
    k, z, *_ = repeat_while(unfinished, advance, start)
    return z, k


def authors_fista(
    loss: Loss, q: Array, u: Array, y: Array, rho: Array, z: Array, max_iter: int = 500
) -> tuple[Array, Array]:
    """The same problem as the code published with the paper solves it: not to its minimiser.

    FISTA with step 2/H on the loss, which is 4 for cross-entropy and twice what it allows, and the
    quadratic terms by their prox. It stops once the sum over these samples changes by less than
    1e-3, wherever it then is, and returns the extrapolated point.
    """
    step, tol = 2 / loss.lipschitz, 1e-3

    def objective(z: Array) -> Array:
        d = z - q
        return xp.sum(loss.value(z, y)) + xp.sum(u * d) + rho / 2 * xp.sum(d * d)

    def unfinished(carry: Any) -> Array:
        k, _, _, _, value, before = carry
        return (k < max_iter) & (xp.abs(value - before) >= tol)

    def advance(carry: Any) -> Any:
        k, v, z, t, value, _ = carry
        z_next = (v - step * (loss.gradient(v, y) + u - rho * q)) / (1 + step * rho)
        t_next = (1 + xp.sqrt(1 + 4 * t * t)) / 2
        v = z_next + (t - 1) / t_next * (z_next - z)
        return k + 1, v, z_next, t_next, objective(v), value

    value, one = objective(z), np.ones((), z.dtype)
    start = (np.zeros((), np.int32), z, z, one, value, xp.full_like(value, np.inf))
    k, v, *_ = repeat_while(unfinished, advance, start)
    return v, k


def newton(loss: Loss, q: Array, u: Array, y: Array, rho: Array, z: Array) -> tuple[Array, Array]:
    """The loss's own prox: closed form, or Newton to rounding."""
    return loss.prox(q, u, y, rho, z)


ZLSolver = Callable[[Loss, Array, Array, Array, Array, Array], tuple[Array, Array]]
zl_solvers: dict[str, ZLSolver] = {
    "newton": newton,
    "fista": fista,
    "authors": authors_fista,
}
