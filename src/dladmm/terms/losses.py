"""Losses R(z; y): value, gradient, Lipschitz constant H of the gradient, prox, prediction link.

Each is a sum over samples of a convex function of that sample's row of z. The last layer's
subproblem (equations 5 and 15 of the paper) is, per sample,

    prox(q, u, y, rho) = argmin_z R(z; y) + <u, z - q> + rho/2 |z - q|^2,   q = p_L + b_L.

u is kept apart from q: at the paper's rho = 1e-6 the shifted centre q - u/rho would lose all
digits of q in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dladmm.terms.layers import sample_squares
from dladmm.terms.registry import Registry


@dataclass(frozen=True)
class Loss:
    """The contract. `lipschitz` is H; infinity where the gradient is not Lipschitz."""

    @property
    def lipschitz(self) -> float:
        return float("inf")

    @property
    def classifies(self) -> bool:
        """Whether targets are one-hot rows, so that accuracy is defined."""
        return False

    def check_targets(self, y: np.ndarray) -> None:
        """ValueError if y, already two-dimensional and finite, does not fit this loss."""

    def value(self, z: Array, y: Array) -> Array:
        """R(z_i; y_i) for each sample i, shape (N,)."""
        raise TypeError(f"{type(self).__name__} does not define value")

    def gradient(self, z: Array, y: Array) -> Array:
        """dR/dz, shaped like z."""
        raise TypeError(f"{type(self).__name__} does not define gradient")

    def prox(self, q: Array, u: Array, y: Array, rho: Array, z: Array) -> tuple[Array, Array]:
        """argmin_z R(z; y) + <u, z - q> + rho/2 |z - q|^2 from the start z, and iterations used."""
        raise TypeError(f"{type(self).__name__} does not define prox")

    def predict(self, z: Array) -> Array:
        """What the network's output z stands for: probabilities, or the values themselves."""
        return z

    def initial_output(self, y: Array) -> Array:
        """The z_L a run of the authors' code starts from."""
        return y


@dataclass(frozen=True)
class SquaredError(Loss):
    """R(z; y) = 1/2 |z - y|^2, H = 1."""

    @property
    def lipschitz(self) -> float:
        return 1.0

    def value(self, z: Array, y: Array) -> Array:
        return jnp.sum((z - y) ** 2, axis=-1) / 2

    def gradient(self, z: Array, y: Array) -> Array:
        return z - y

    def prox(self, q: Array, u: Array, y: Array, rho: Array, z: Array) -> tuple[Array, Array]:
        return q + (y - u - q) / (1 + rho), jnp.zeros((), jnp.int32)


@dataclass(frozen=True)
class LogLoss(Loss):
    """Softmax cross-entropy R(z; y) = log sum_j exp(z_j) - <y, z> for one-hot y, H = 1/2."""

    max_iter: int = 30

    @property
    def lipschitz(self) -> float:
        return 0.5

    @property
    def classifies(self) -> bool:
        return True

    def check_targets(self, y: np.ndarray) -> None:
        if y.shape[1] < 2 or not (np.isin(y, (0, 1)).all() and (y.sum(axis=1) == 1).all()):
            raise ValueError(
                f"y of shape {y.shape} does not fit loss='log_loss'; expected one-hot rows,"
                " a single 1 among at least two columns of zeros"
            )

    def value(self, z: Array, y: Array) -> Array:
        # Centred at the label, the value is log1p of a small sum: no cancellation near zero.
        gap = z - jnp.sum(y * z, axis=-1, keepdims=True)
        top = jnp.maximum(jnp.max(gap, axis=-1), 0)
        others = jnp.sum((1 - y) * jnp.exp(gap - top[:, None]), axis=-1)
        return jnp.where(top > 0, top + jnp.log(jnp.exp(-top) + others), jnp.log1p(others))

    def gradient(self, z: Array, y: Array) -> Array:
        # p_j - 1 at the label is minus the sum of the others: exact where 1 - p would cancel.
        wrong = (1 - y) * jax.nn.softmax(z, axis=-1)
        return wrong - y * jnp.sum(wrong, axis=-1, keepdims=True)

    def prox(self, q: Array, u: Array, y: Array, rho: Array, z: Array) -> tuple[Array, Array]:
        """Newton per sample, O(K) by Sherman-Morrison; a global start where that is too slow."""
        z, iterations, solved = self._newton(q, u, y, rho, z)

        def restart(z: Array) -> tuple[Array, Array]:
            cold = jnp.where(solved, z, self._wright_omega(q, u, y, rho))
            polished, more, _ = self._newton(q, u, y, rho, cold)
            return polished, iterations + more

        return jax.lax.cond(jnp.all(solved), lambda z: (z, iterations), restart, z)

    def _newton(
        self, q: Array, u: Array, y: Array, rho: Array, z: Array
    ) -> tuple[Array, Array, Array]:
        """The Hessian is diag(p + rho) - p p^T; stops when every sample's gradient is rounding."""
        eps = jnp.finfo(z.dtype).eps

        def model(z: Array) -> tuple[Array, Array, Array]:
            p = jax.nn.softmax(z, axis=-1)
            dR = self.gradient(z, y)
            pull = rho * (z - q)
            g = dR + u + pull
            rounding = jnp.abs(dR) + jnp.abs(u) + jnp.abs(pull) + rho * jnp.abs(z)
            size = jnp.sqrt(sample_squares(g))
            noise = eps * jnp.sqrt(sample_squares(rounding))
            d = p + rho
            h, s = g / d, p / d
            # 1 - sum p^2/d, written without its cancellation, is rho sum p/d.
            along = jnp.sum(p * h, -1, keepdims=True) / (rho * jnp.sum(s, -1, keepdims=True))
            return size, noise, h + s * along

        def unfinished(carry: tuple[Array, ...]) -> Array:
            k, _, _, solved, *_ = carry
            return (k < self.max_iter) & ~jnp.all(solved)

        def advance(carry: tuple[Array, ...]) -> tuple[Array, ...]:
            k, z, size, solved, step, scale = carry
            trial = z - scale * step
            t_size, t_noise, t_step = model(trial)
            # |g| must fall as a Newton step predicts; where it does not, the step is shortened.
            better = ~solved & (t_size <= (1 - 0.25 * scale) * size)
            stalled = ~better & (size <= 256 * t_noise)
            return (
                k + 1,
                jnp.where(better, trial, z),
                jnp.where(better, t_size, size),
                solved | stalled | (better & (t_size <= 4 * t_noise)),
                jnp.where(better, t_step, step),
                jnp.where(better, jnp.minimum(1.0, 2 * scale), scale / 2),
            )

        size, noise, step = model(z)
        start = (jnp.zeros((), jnp.int32), z, size, size <= 4 * noise, step, jnp.ones_like(size))
        k, z, _, solved, *_ = jax.lax.while_loop(unfinished, advance, start)
        return z, k, solved

    def _wright_omega(self, q: Array, u: Array, y: Array, rho: Array) -> Array:
        """The solution from no start at all: p_j = rho omega(q_j + (y_j - u_j)/rho - ln rho - s).

        s is the root of sum_j p_j = 1, a convex decreasing function of s, by scalar Newton from
        the left, where it climbs monotonically.
        """
        c = q + (y - u) / rho - jnp.log(rho)
        s = jnp.max(c, -1, keepdims=True) - 1 / rho + jnp.log(rho)

        def climb(_: int, s: Array) -> Array:
            w = wright_omega(c - s)
            excess = jnp.log(rho * jnp.sum(w, -1, keepdims=True))
            return s + excess * jnp.sum(w, -1, keepdims=True) / jnp.sum(w / (1 + w), -1, keepdims=True)

        s = jax.lax.fori_loop(0, 12, climb, s)
        return q + (y - u) / rho - wright_omega(c - s)

    def predict(self, z: Array) -> Array:
        return jax.nn.softmax(z, axis=-1)

    def initial_output(self, y: Array) -> Array:
        return 2 * y - 1


def wright_omega(x: Array) -> Array:
    """The w > 0 with w + ln w = x, by Newton on that equation from an asymptotic start."""
    w = jnp.where(x > 1, x - jnp.log(jnp.maximum(x, 1.0)), jnp.exp(jnp.minimum(x, 1.0) - 0.5))
    w = jnp.maximum(w, jnp.finfo(x.dtype).tiny)

    def improve(_: int, w: Array) -> Array:
        # In ln w the equation is convex and Newton cannot leave w > 0.
        return w * jnp.exp((x - w - jnp.log(w)) / (1 + w))

    return jax.lax.fori_loop(0, 6, improve, w)


def fista(
    loss: Loss, q: Array, u: Array, y: Array, rho: Array, z: Array, max_iter: int = 500
) -> tuple[Array, Array]:
    """The same minimiser by monotone FISTA with step 1/(H + rho), as the paper solves it.

    Stops at |gradient| <= tol per sample, tol = 1e-6 (H + rho) in float64, 1e-4 (H + rho) in
    float32; the point returned is the best one met.
    """
    step = 1 / (loss.lipschitz + rho)
    tol = jnp.where(jnp.finfo(z.dtype).eps < 1e-10, 1e-6, 1e-4) / step

    def gradient(z: Array) -> Array:
        return loss.gradient(z, y) + u + rho * (z - q)

    def objective(z: Array) -> Array:
        d = z - q
        return loss.value(z, y)[:, None] + jnp.sum(u * d, -1, keepdims=True) + rho / 2 * sample_squares(d)

    def unfinished(carry: tuple[Array, ...]) -> Array:
        k, z, *_ = carry
        return (k < max_iter) & jnp.any(sample_squares(gradient(z)) > tol**2)

    def advance(carry: tuple[Array, ...]) -> tuple[Array, ...]:
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


def newton(
    loss: Loss, q: Array, u: Array, y: Array, rho: Array, z: Array
) -> tuple[Array, Array]:
    """The loss's own prox: closed form, or Newton to rounding."""
    return loss.prox(q, u, y, rho, z)


ZLSolver = Callable[[Loss, Array, Array, Array, Array, Array], tuple[Array, Array]]
zl_solvers: dict[str, ZLSolver] = {"newton": newton, "fista": fista}

losses: Registry[Loss] = Registry("loss", Loss)
losses.register("log_loss", LogLoss)
losses.register("squared_error", SquaredError)
