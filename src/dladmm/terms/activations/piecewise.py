"""Activations made of straight pieces: one candidate for argmin_z per piece."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from dladmm.engine.arrays import Array, xp
from dladmm.engine.buffers import positive_part
from dladmm.terms.activations.base import Activation, best

INF = float("inf")
Piece = tuple[float, float, float, float]  # slope, offset, and the least and the largest z


@dataclass(frozen=True)
class PiecewiseLinear(Activation):
    """f(z) = slopes[i] z + offsets[i] for knots[i-1] <= z <= knots[i], continuous.

    One candidate per piece: the piece's own minimiser (m + s (a - c)) / (1 + s^2), clamped to the
    piece. Ties go to the leftmost piece.
    """

    # `pieces` are (slope, offset) from left to right, one more than there are knots. A subclass may
    # make either a property, where it depends on a field.
    knots: ClassVar[Any] = ()
    pieces: ClassVar[Any] = ((1.0, 0.0),)

    def __call__(self, z: Array) -> Array:
        value = self.pieces[0][0] * z + self.pieces[0][1]
        for knot, (s, c) in zip(self.knots, self.pieces[1:], strict=True):
            value = xp.where(z > knot, s * z + c, value)
        return value

    def straight_pieces(self, dtype: Any) -> list[Piece]:
        """The pieces of f from left to right.

        Parameters
        ----------
        dtype : dtype
            Of z.

        Returns
        -------
        list of tuple
            Of each: slope, offset, and the least and the largest z.
        """
        edges = (-INF, *self.knots, INF)
        return [(*piece, *ends) for piece, ends in zip(self.pieces, pairwise(edges), strict=True)]

    def argmin_z(self, m: Array, a: Array) -> Array:
        candidates = []
        for s, c, low, high in self.straight_pieces(m.dtype):
            z = xp.clip((m + s * (a - c)) / (1 + s * s), low, high)
            candidates.append((z, (z - m) ** 2 + (s * z + c - a) ** 2))
        return best(candidates)

    def slopes(self, z: Array) -> tuple[Array, Array]:
        return self._slope(z, xp.greater), self._slope(z, xp.greater_equal)

    def times_slope(self, z: Array, g: Array) -> Array:
        return self._slope(z, xp.greater) * g

    def _slope(self, z: Array, beyond: Callable[[Array, float], Array]) -> Array:
        slope = xp.full_like(z, self.pieces[0][0])
        for knot, (s, _) in zip(self.knots, self.pieces[1:], strict=True):
            slope = xp.where(beyond(z, knot), s, slope)
        return slope


@dataclass(frozen=True)
class Identity(PiecewiseLinear):
    """f(z) = z."""


@dataclass(frozen=True)
class LeakyReLU(PiecewiseLinear):
    """f(z) = max(z, 0) + slope min(z, 0).

    Parameters
    ----------
    slope : float
        Of the negative half.
    """

    slope: float = 0.01

    knots: ClassVar[Any] = (0.0,)

    @property
    def pieces(self) -> Any:
        return ((self.slope, 0.0), (1.0, 0.0))


@dataclass(frozen=True)
class ReLU(LeakyReLU):
    """f(z) = max(z, 0). Candidates min(m, 0) and max((m + a)/2, 0); ties go to z <= 0.

    Parameters
    ----------
    slope : float
        0, else it is a LeakyReLU.
    """

    slope: float = 0.0

    def __call__(self, z: Array) -> Array:
        return positive_part(z)

    def times_slope(self, z: Array, g: Array) -> Array:
        return g * (z > 0)


@dataclass(frozen=True)
class HardTanh(PiecewiseLinear):
    """f(z) = clip(z, -1, 1)."""

    knots: ClassVar[Any] = (-1.0, 1.0)
    pieces: ClassVar[Any] = ((0.0, -1.0), (1.0, 0.0), (0.0, 1.0))


@dataclass(frozen=True)
class HardSigmoid(PiecewiseLinear):
    """f(z) = clip(z/6 + 1/2, 0, 1)."""

    knots: ClassVar[Any] = (-3.0, 3.0)
    pieces: ClassVar[Any] = ((0.0, 0.0), (1 / 6, 0.5), (0.0, 1.0))


@dataclass(frozen=True)
class ReLU6(PiecewiseLinear):
    """f(z) = clip(z, 0, 6)."""

    knots: ClassVar[Any] = (0.0, 6.0)
    pieces: ClassVar[Any] = ((0.0, 0.0), (1.0, 0.0), (0.0, 6.0))


@dataclass(frozen=True)
class PiecewiseConstant(Activation):
    """f(z) = levels[i] for knots[i-1] <= z < knots[i]: no gradient method can train it as it is.

    One candidate per level: m clamped strictly inside the level's interval.
    """

    continuous: ClassVar[Any] = False
    uses_slope: ClassVar[bool] = False
    knots: ClassVar[Any] = (0.0,)
    levels: ClassVar[Any] = (0.0, 1.0)

    def __call__(self, z: Array) -> Array:
        value = xp.full_like(z, self.levels[0])
        for knot, level in zip(self.knots, self.levels[1:], strict=True):
            value = xp.where(z >= knot, level, value)
        return value

    def straight_pieces(self, dtype: Any) -> list[Piece]:
        """The pieces of f from left to right.

        Parameters
        ----------
        dtype : dtype
            Of z.

        Returns
        -------
        list of tuple
            Of each: slope, offset, and the least and the largest z.
        """
        edges = (-INF, *self.knots, INF)
        return [
            (0.0, level, low, _just_below(high, dtype))
            for level, (low, high) in zip(self.levels, pairwise(edges), strict=True)
        ]

    def argmin_z(self, m: Array, a: Array) -> Array:
        candidates = []
        for _, level, low, high in self.straight_pieces(m.dtype):
            z = xp.clip(m, low, high)
            candidates.append((z, (z - m) ** 2 + (level - a) ** 2))
        return best(candidates)

    def slopes(self, z: Array) -> tuple[Array, Array]:
        return xp.zeros_like(z), xp.zeros_like(z)


def _just_below(knot: float, dtype: np.dtype) -> float:
    """The largest number of this dtype below `knot` that no compiler flushes to zero."""
    if knot == INF:
        return INF
    kind = np.dtype(dtype).type
    below = np.nextafter(kind(knot), kind(-INF))
    return float(below if knot != 0 else -np.finfo(dtype).tiny)


@dataclass(frozen=True)
class Step(PiecewiseConstant):
    """f(z) = 1 for z >= 0, else 0."""


@dataclass(frozen=True)
class Sign(PiecewiseConstant):
    """f(z) = 1 for z >= 0, else -1."""

    levels: ClassVar[Any] = (-1.0, 1.0)


@dataclass(frozen=True)
class QuantizedReLU(PiecewiseConstant):
    """f(z) = step * clip(floor(z/step + 1/2), 0, n_levels - 1): ReLU rounded to a few levels.

    Parameters
    ----------
    step : float
        Between two levels.
    n_levels : int
        How many there are, 0 among them.
    """

    step: float = 0.5
    n_levels: int = 5

    @property
    def knots(self) -> Any:
        return tuple(self.step * (i - 0.5) for i in range(1, self.n_levels))

    @property
    def levels(self) -> Any:
        return tuple(self.step * i for i in range(self.n_levels))
