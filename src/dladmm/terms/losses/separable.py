"""Losses that are sums over outputs: each is a scalar function and its scalar prox."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dladmm.engine.arrays import Array, sigmoid, softplus, xp
from dladmm.engine.loops import repeat
from dladmm.terms.losses.base import Loss, wright_omega


@dataclass(frozen=True)
class Separable(Loss):
    """A loss that is a sum over outputs too: R(z; y) = sum_j R(z_j; y_j), possibly with kinks."""

    def pointwise(self, z: Array, y: Array) -> Array:
        """R(z_j; y_j), elementwise.

        Parameters
        ----------
        z : array
            The outputs, a row for each sample.
        y : array
            The targets, shaped like z.

        Returns
        -------
        array
            A number for each output.
        """
        raise TypeError(f"{type(self).__name__} does not define pointwise")

    def slopes(self, z: Array, y: Array) -> tuple[Array, Array]:
        """The left and the right derivative of R, elementwise.

        Parameters
        ----------
        z : array
            The outputs, a row for each sample.
        y : array
            The targets, shaped like z.

        Returns
        -------
        tuple of array
            Both derivatives, shaped like z.
        """
        raise TypeError(f"{type(self).__name__} does not define slopes")

    def pointwise_prox(self, q: Array, u: Array, y: Array, rho: Array) -> Array:
        """argmin_z R(z; y) + u (z - q) + rho/2 (z - q)^2, elementwise.

        Parameters
        ----------
        q : array
            The centre, a row for each sample.
        u : array
            The dual, shaped like q.
        y : array
            The targets, shaped like q.
        rho : array
            The penalty, a number.

        Returns
        -------
        array
            z, shaped like q.
        """
        raise TypeError(f"{type(self).__name__} does not define pointwise_prox")

    def bend(self, z: Array, y: Array) -> Array | None:
        """The second derivative of R, elementwise; None where R has kinks.

        Parameters
        ----------
        z : array
            The outputs, a row for each sample.
        y : array
            The targets, shaped like z.

        Returns
        -------
        array or None
            Shaped like z, if it is known.
        """
        return None

    def curvature_roots(self, z: Array, y: Array) -> Array | None:
        """A vector for each output, whose Hessian does not mix them."""
        bend = self.bend(z, y)
        return (
            None if bend is None else xp.sqrt(bend)[:, :, None] * np.eye(z.shape[1], dtype=z.dtype)
        )

    def value(self, z: Array, y: Array) -> Array:
        return xp.sum(self.pointwise(z, y), axis=-1)

    def gradient(self, z: Array, y: Array) -> Array:
        """The subgradient in the middle at a kink."""
        left, right = self.slopes(z, y)
        return (left + right) / 2

    def stationarity(self, z: Array, y: Array, u: Array) -> Array:
        left, right = self.slopes(z, y)
        return xp.maximum(xp.maximum(left + u, -u - right), 0)

    def prox(self, q: Array, u: Array, y: Array, rho: Array, z: Array) -> tuple[Array, Array]:
        return self.pointwise_prox(q, u, y, rho), np.zeros((), np.int32)


@dataclass(frozen=True)
class OneVsRest(Separable):
    """A loss of y in {0, 1}, one output per class, and a single one for two classes."""

    name: ClassVar[str]
    classifies: ClassVar[bool] = True
    one_vs_rest: ClassVar[bool] = True

    def check_targets(self, y: np.ndarray) -> None:
        if not np.isin(y, (0, 1)).all():
            raise ValueError(
                f"y has values other than 0 and 1, which do not fit loss={self.name!r};"
                " expected 0 or 1"
            )


@dataclass(frozen=True)
class BinaryLogLoss(OneVsRest):
    """R(z; y) = log(1 + exp(z)) - y z for y in {0, 1}, one output per class, H = 1/4."""

    name: ClassVar[str] = "binary_log_loss"
    lipschitz: ClassVar[float] = 0.25

    def pointwise(self, z: Array, y: Array) -> Array:
        return softplus((1 - 2 * y) * z)

    def slopes(self, z: Array, y: Array) -> tuple[Array, Array]:
        sign = 1 - 2 * y
        slope = sign * sigmoid(sign * z)
        return slope, slope

    def pointwise_prox(self, q: Array, u: Array, y: Array, rho: Array) -> Array:
        """In t = (2y - 1) z the gradient rises through 0 once; Newton inside a bracket finds it."""
        sign = 2 * y - 1
        q, u = sign * q, sign * u

        def improve(bracket: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            low, high, t = bracket
            p = sigmoid(-t)
            g = rho * (t - q) + u - p
            low, high = xp.where(g < 0, t, low), xp.where(g > 0, t, high)
            trial = t - g / (rho + p * (1 - p))
            inside = (trial >= low) & (trial <= high)
            return low, high, xp.where(g == 0, t, xp.where(inside, trial, (low + high) / 2))

        low, high = q - u / rho, q + (1 - u) / rho
        start = xp.clip(xp.zeros_like(q), low, high)
        return sign * repeat(40, improve, (low, high, start))[2]

    def bend(self, z: Array, y: Array) -> Array:
        return sigmoid(z) * sigmoid(-z)

    def predict(self, z: Array) -> Array:
        return sigmoid(z)


@dataclass(frozen=True)
class Hinge(OneVsRest):
    """R(z; y) = max(0, 1 - (2y - 1) z) for y in {0, 1}, one output per class; no finite H."""

    name: ClassVar[str] = "hinge"

    def pointwise(self, z: Array, y: Array) -> Array:
        return xp.maximum(1 - (2 * y - 1) * z, 0)

    def slopes(self, z: Array, y: Array) -> tuple[Array, Array]:
        sign = 2 * y - 1
        margin = sign * z
        before = -(margin <= 1).astype(z.dtype)  # in the direction of the margin
        after = -(margin < 1).astype(z.dtype)
        return xp.where(sign > 0, before, -after), xp.where(sign > 0, after, -before)

    def pointwise_prox(self, q: Array, u: Array, y: Array, rho: Array) -> Array:
        sign = 2 * y - 1
        q, u = sign * q, sign * u
        flat, steep = q - u / rho, q + (1 - u) / rho
        return sign * xp.where(flat >= 1, flat, xp.minimum(steep, 1))


@dataclass(frozen=True)
class Distance(Separable):
    """A loss of z - y alone: outputs have the unit of the targets, and start on their scale."""

    def target_scale(self, y: np.ndarray, weights: np.ndarray | None) -> tuple[Any, Any]:
        centre = np.average(y, axis=0, weights=weights)
        spread = np.sqrt(np.average((y - centre) ** 2, axis=0, weights=weights))
        return centre, spread

    def standardised(self, y: np.ndarray, weights: np.ndarray | None) -> tuple[Any, Any, Any]:
        centre, spread = self.target_scale(y, weights)
        return centre, np.where(spread > 0, spread, 1.0), self


@dataclass(frozen=True)
class Huber(Distance):
    """R(z; y) = d^2/2 for |d| <= delta, else delta |d| - delta^2/2, with d = z - y; H = 1.

    Parameters
    ----------
    delta : float
        From where on an error counts linearly, in the unit of y.
    """

    lipschitz: ClassVar[float] = 1.0
    delta: float = 1.0

    def standardised(self, y: np.ndarray, weights: np.ndarray | None) -> tuple[Any, Any, Any]:
        """One scale for all outputs: `delta` is in their unit."""
        centre, spread = self.target_scale(y, weights)
        scale = float(np.sqrt(np.mean(np.square(spread)))) or 1.0
        return centre, scale, replace(self, delta=self.delta / scale)

    def pointwise(self, z: Array, y: Array) -> Array:
        size = xp.abs(z - y)
        inner = xp.minimum(size, self.delta)
        return inner * (size - inner / 2)

    def slopes(self, z: Array, y: Array) -> tuple[Array, Array]:
        slope = xp.clip(z - y, -self.delta, self.delta)
        return slope, slope

    def pointwise_prox(self, q: Array, u: Array, y: Array, rho: Array) -> Array:
        inner = q + (y - u - q) / (1 + rho)
        outer = q - (u + self.delta * xp.sign(inner - y)) / rho
        return xp.where(xp.abs(inner - y) <= self.delta, inner, outer)


@dataclass(frozen=True)
class Quantile(Distance):
    """The pinball loss: R(z; y) = quantile (y - z) below y, (1 - quantile) (z - y) above; no H.

    Parameters
    ----------
    quantile : float
        Between 0 and 1: 0.9 has nine of ten targets below it.
    """

    _weight: ClassVar[float] = 1.0
    quantile: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.quantile < 1:
            raise ValueError(
                f"quantile={self.quantile!r} is not valid; expected a number between 0 and 1"
            )

    def pointwise(self, z: Array, y: Array) -> Array:
        d = z - y
        return self._weight * xp.maximum((1 - self.quantile) * d, -self.quantile * d)

    def slopes(self, z: Array, y: Array) -> tuple[Array, Array]:
        down, up = np.asarray([-self.quantile, 1 - self.quantile], z.dtype) * self._weight
        return xp.where(z > y, up, down), xp.where(z >= y, up, down)

    def pointwise_prox(self, q: Array, u: Array, y: Array, rho: Array) -> Array:
        above = q - (u + self._weight * (1 - self.quantile)) / rho
        below = q - (u - self._weight * self.quantile) / rho
        return xp.where(above > y, above, xp.where(below < y, below, y))


@dataclass(frozen=True)
class AbsoluteError(Quantile):
    """R(z; y) = |z - y|: twice the pinball loss of the median; no finite H.

    Parameters
    ----------
    quantile : float
        0.5, the median.
    """

    _weight: ClassVar[float] = 2.0


@dataclass(frozen=True)
class Poisson(Separable):
    """R(z; y) = exp(z) - y z for counts y >= 0; predicts exp(z); no finite H."""

    def check_targets(self, y: np.ndarray) -> None:
        if (y < 0).any():
            raise ValueError(
                "y has negative values, which do not fit loss='poisson'; expected >= 0"
            )

    def pointwise(self, z: Array, y: Array) -> Array:
        return xp.exp(z) - y * z

    def slopes(self, z: Array, y: Array) -> tuple[Array, Array]:
        slope = xp.exp(z) - y
        return slope, slope

    def bend(self, z: Array, y: Array) -> Array:
        return xp.exp(z)

    def pointwise_prox(self, q: Array, u: Array, y: Array, rho: Array) -> Array:
        """exp(z) = rho w, w = omega(q + (y - u)/rho - ln rho), omega the Wright omega function."""
        centre = q + (y - u) / rho
        w = wright_omega(centre - xp.log(rho))
        return xp.where(w > 1, xp.log(rho * w), centre - w)

    def predict(self, z: Array) -> Array:
        return xp.exp(z)

    def initial_output(self, y: Array) -> Array:
        return xp.log(y + 0.5)


@dataclass(frozen=True)
class SquaredError(Distance):
    """R(z; y) = 1/2 (z - y)^2, H = 1."""

    lipschitz: ClassVar[float] = 1.0
    has_noise_level: ClassVar[bool] = True

    def bend(self, z: Array, y: Array) -> Array:
        return xp.ones_like(z)

    def pointwise(self, z: Array, y: Array) -> Array:
        return (z - y) ** 2 / 2

    def slopes(self, z: Array, y: Array) -> tuple[Array, Array]:
        return z - y, z - y

    def pointwise_prox(self, q: Array, u: Array, y: Array, rho: Array) -> Array:
        return q + (y - u - q) / (1 + rho)
