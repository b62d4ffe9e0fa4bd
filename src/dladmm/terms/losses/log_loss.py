"""Softmax cross-entropy, with a prox that keeps its digits at the paper's rho = 1e-6."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dladmm.engine.arrays import Array, softmax, turned, xp
from dladmm.engine.loops import branch, repeat, repeat_while
from dladmm.terms.losses.base import Loss, wright_omega


@dataclass(frozen=True)
class LogLoss(Loss):
    """Softmax cross-entropy R(z; y) = log sum_j exp(z_j) - <y, z> for one-hot y, H = 1/2.

    Parameters
    ----------
    max_iter : int
        The most iterations of its prox.
    """

    lipschitz: ClassVar[float] = 0.5
    classifies: ClassVar[bool] = True
    max_iter: int = 30

    def check_targets(self, y: np.ndarray) -> None:
        if y.shape[1] < 2 or not (np.isin(y, (0, 1)).all() and (y.sum(axis=1) == 1).all()):
            raise ValueError(
                f"y of shape {y.shape} does not fit loss='log_loss'; expected one-hot rows,"
                " a single 1 among at least two columns of zeros"
            )

    def value(self, z: Array, y: Array) -> Array:
        return self.value_and_gradient(z, y)[0]

    def gradient(self, z: Array, y: Array) -> Array:
        return self.value_and_gradient(z, y)[1]

    def value_and_gradient(self, z: Array, y: Array) -> tuple[Array, Array]:
        # Centred at the label, the value is log1p of a small sum: no cancellation near zero; nor is
        # there any in the gradient, whose part at the label is minus the sum of the others.
        # Chosen, not multiplied by y: jaxlib 0.10.2 gets such sums wrong under vmap on large arrays
        # (jax issue 39103).
        z, label = turned(z), turned(y) > 0
        gap = z - _over_classes(xp.where(label, z, 0))
        top = xp.maximum(gap.max(axis=0, keepdims=True), 0)
        wrong = xp.where(label, 0, xp.exp(gap - top))
        others = _over_classes(wrong)
        right = xp.exp(-top)
        value = xp.where(top > 0, top + xp.log(right + others), xp.log1p(others))
        return value[0], (xp.where(label, -others, wrong) / (right + others)).T

    def curvature_roots(self, z: Array, y: Array) -> Array:
        """diag(p) - p p^T = L D L^T, one vector less than there are classes: with t_k the sum of
        p_j over j >= k, D_k = p_k t_{k+1}/t_k and L_jk = -p_j/t_{k+1} for j > k."""
        p, classes = softmax(z, axis=-1), z.shape[-1]
        t = xp.flip(xp.cumsum(xp.flip(p, -1), axis=-1), -1)
        later = xp.maximum(t[..., 1:], np.finfo(z.dtype).tiny)
        D = p[..., :-1] * later / (p[..., :-1] + later)
        below = np.triu(np.ones((classes - 1, classes), z.dtype), 1)
        L = np.eye(classes - 1, classes, dtype=z.dtype) - below * (
            p[:, None, :] / later[:, :, None]
        )
        return xp.sqrt(D)[:, :, None] * L

    def prox(self, q: Array, u: Array, y: Array, rho: Array, z: Array) -> tuple[Array, Array]:
        """Newton per sample, O(K) by Sherman-Morrison; a global start where that is too slow."""
        q, u, y, z = turned(q), turned(u), turned(y), turned(z)

        def attempt(carry: Any) -> Any:
            tries, z, iterations, solved = carry
            z = branch(
                tries == 0,
                lambda z: z,
                lambda z: xp.where(solved, z, self._wright_omega(q, u, y, rho)),
                z,
            )
            z, more, solved = self._newton(q, u, y, rho, z)
            return tries + 1, z, iterations + more, solved

        def unfinished(carry: Any) -> Array:
            tries, _, _, solved = carry
            return (tries < 2) & ~xp.all(solved)

        none = np.zeros((), np.int32)
        start = (none, z, none, np.zeros((1, z.shape[1]), bool))
        _, z, iterations, _ = repeat_while(unfinished, attempt, start)
        return z.T, iterations

    def _newton(
        self, q: Array, u: Array, y: Array, rho: Array, z: Array
    ) -> tuple[Array, Array, Array]:
        """The Hessian is diag(p + rho) - p p^T; stops when every sample's gradient is rounding."""
        eps = np.finfo(z.dtype).eps

        def model(z: Array) -> tuple[Array, Array, Array]:
            p = softmax(z, axis=0)
            dR = _less_label(p, y)
            pull = rho * (z - q)
            g = dR + u + pull
            rounding = xp.abs(dR) + xp.abs(u) + xp.abs(pull) + rho * xp.abs(z)
            size, noise = _norm(g), eps * _norm(rounding)
            d = p + rho
            h, s = g / d, p / d
            # 1 - sum p^2/d, written without its cancellation, is rho sum p/d.
            along = _over_classes(p * h) / (rho * _over_classes(s))
            return size, noise, h + s * along

        def unfinished(carry: Any) -> Array:
            k, _, _, solved, *_ = carry
            return (k < self.max_iter) & ~xp.all(solved)

        def advance(carry: Any) -> Any:
            k, z, size, solved, step, scale = carry
            trial = z - scale * step
            t_size, t_noise, t_step = model(trial)
            # |g| must fall as a Newton step predicts; where it does not, the step is shortened.
            better = ~solved & (t_size <= (1 - 0.25 * scale) * size)
            stalled = ~better & (size <= 256 * t_noise)
            return (
                k + 1,
                xp.where(better, trial, z),
                xp.where(better, t_size, size),
                solved | stalled | (better & (t_size <= 4 * t_noise)),
                xp.where(better, t_step, step),
                xp.where(better, xp.minimum(1.0, 2 * scale), scale / 2),
            )

        size, noise, step = model(z)
        start = (np.zeros((), np.int32), z, size, size <= 4 * noise, step, xp.ones_like(size))
        k, z, _, solved, *_ = repeat_while(unfinished, advance, start)
        return z, k, solved

    def _wright_omega(self, q: Array, u: Array, y: Array, rho: Array) -> Array:
        """The solution from no start at all: p_j = rho omega(q_j + (y_j - u_j)/rho - ln rho - s).

        s is the root of sum_j p_j = 1, a convex decreasing function of s, by scalar Newton from
        the left, where it climbs monotonically.
        """
        c = q + (y - u) / rho - xp.log(rho)
        s = xp.max(c, 0, keepdims=True) - 1 / rho + xp.log(rho)

        def climb(s: Array) -> Array:
            w = wright_omega(c - s)
            excess = _over_classes(w) - 1 / rho
            return s + excess / _over_classes(w / (1 + w))

        s = repeat(12, climb, s)
        return q + (y - u) / rho - wright_omega(c - s)

    def predict(self, z: Array) -> Array:
        return softmax(z, axis=-1)


def _less_label(p: Array, y: Array) -> Array:
    """p - y; at the label p - 1 is minus the sum of the others: exact where it would cancel."""
    wrong = (1 - y) * p
    return wrong - y * _over_classes(wrong)


def _over_classes(v: Array) -> Array:
    return v.sum(axis=0, keepdims=True)


def _norm(v: Array) -> Array:
    return xp.sqrt(_over_classes(v * v))
