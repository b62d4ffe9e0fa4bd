"""Regularisers Omega(W) of one layer: value, prox, and the distance to a subgradient.

`quadratic` is lambda when Omega = lambda/2 |W|^2 (0 for none), which gives the W update a closed
form; None when the update must backtrack on the prox.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dladmm.engine.arrays import Array, xp
from dladmm.engine.sums import squared_norm
from dladmm.terms.registry import Registry


@dataclass(frozen=True)
class Regularizer:
    """Omega(W) = 0, and the contract of all regularisers."""

    # Whether zeros, signs and what else it asks of W hold in any unit, under positive factors.
    any_unit: ClassVar[bool] = False
    # A subclass may make it a property, where it depends on a field.
    quadratic: ClassVar[Any] = 0.0

    def at(self, strength: Any) -> "Regularizer":
        """This term where the run has found `strength`; most terms know their own.

        Parameters
        ----------
        strength : float
            What was found.

        Returns
        -------
        Regularizer
            The term with it.
        """
        return self

    def value(self, W: Array) -> Array:
        """Omega(W), a scalar; the indicator of a constraint is 0, since iterates satisfy it.

        Parameters
        ----------
        W : array
            The weights of a layer.

        Returns
        -------
        array
            A number.
        """
        return np.zeros((), W.dtype)

    def prox(self, V: Array, step: Array | float) -> Array:
        """argmin_W 1/2 |W - V|^2 + step Omega(W); `step` broadcasts against W.

        Parameters
        ----------
        V : array
            Where to start from.
        step : array or float
            How far to go.

        Returns
        -------
        array
            W, shaped like V.
        """
        return V

    def subgradient(self, W: Array, G: Array) -> Array:
        """The element of G + dOmega(W) with the smallest norm.

        Parameters
        ----------
        W : array
            The weights of a layer.
        G : array
            The gradient of everything else, shaped like W.

        Returns
        -------
        array
            Shaped like W; zero at a minimum.
        """
        return G


def _require(condition: bool, what: str, value: object, expected: str) -> None:
    if not condition:
        raise ValueError(f"{what}={value!r} is not valid; expected {expected}")


@dataclass(frozen=True)
class Quadratic(Regularizer):
    """Omega(W) = strength/2 |W|^2, of a strength that may be an array of a running program."""

    any_unit: ClassVar[bool] = True

    strength: Any = 1e-4

    @property
    def quadratic(self) -> Any:
        return self.strength

    def value(self, W: Array) -> Array:
        return self.strength / 2 * squared_norm(W)

    def prox(self, V: Array, step: Array | float) -> Array:
        return V / (1 + step * self.strength)

    def subgradient(self, W: Array, G: Array) -> Array:
        return G + self.strength * W


@dataclass(frozen=True)
class L2(Quadratic):
    """Omega(W) = strength/2 |W|^2.

    Parameters
    ----------
    strength : float
        Per data set: twice the rows bear twice the strength.
    """

    strength: float = 1e-4

    def __post_init__(self) -> None:
        _require(0 <= self.strength < float("inf"), "strength", self.strength, "a number >= 0")


@dataclass(frozen=True)
class Evidence(Regularizer):
    """Omega(W) = strength/2 |W|^2 with the strength of the largest evidence, which the run finds.

    Restored sweeps over all samples alone know how (core/restored/evidence.py). Nothing else reads
    this term: they replace it by `at(strength)`.
    """

    any_unit: ClassVar[bool] = True
    quadratic: ClassVar[Any] = None

    def at(self, strength: Any) -> Regularizer:
        return Quadratic(strength)


@dataclass(frozen=True)
class ElasticNet(Regularizer):
    """Omega(W) = l1 |W|_1 + l2/2 |W|^2; its minimisers have exact zeros.

    Parameters
    ----------
    l1, l2 : float
        Strengths per data set: twice the rows bear twice as much.
    """

    any_unit: ClassVar[bool] = True

    l1: float = 1e-4
    l2: float = 1e-4

    def __post_init__(self) -> None:
        for name, value in (("l1", self.l1), ("l2", self.l2)):
            _require(0 <= value < float("inf"), name, value, "a number >= 0")

    @property
    def quadratic(self) -> float | None:
        return self.l2 if self.l1 == 0 else None

    def value(self, W: Array) -> Array:
        return self.l1 * xp.sum(xp.abs(W)) + self.l2 / 2 * xp.sum(W * W)

    def prox(self, V: Array, step: Array | float) -> Array:
        shrunk = xp.sign(V) * xp.maximum(xp.abs(V) - step * self.l1, 0)
        return shrunk / (1 + step * self.l2)

    def subgradient(self, W: Array, G: Array) -> Array:
        smooth = G + self.l2 * W
        at_zero = xp.sign(smooth) * xp.maximum(xp.abs(smooth) - self.l1, 0)
        return xp.where(W == 0, at_zero, smooth + self.l1 * xp.sign(W))


@dataclass(frozen=True)
class L1(ElasticNet):
    """Omega(W) = l1 |W|_1.

    Parameters
    ----------
    l1 : float
        Strength per data set: twice the rows bear twice the strength.
    l2 : float
        0, else it is an ElasticNet.
    """

    l2: float = 0.0


@dataclass(frozen=True)
class GroupLasso(Regularizer):
    """Omega(W) = strength sum_j |W_j|, W_j the weights of unit or filter j: whole rows of W are
    exactly zero at its minimisers.

    Parameters
    ----------
    strength : float
        Per data set: twice the rows bear twice the strength.
    """

    any_unit: ClassVar[bool] = True
    quadratic: ClassVar[Any] = None

    strength: float = 1e-4

    def __post_init__(self) -> None:
        _require(0 <= self.strength < float("inf"), "strength", self.strength, "a number >= 0")

    def value(self, W: Array) -> Array:
        return self.strength * xp.sum(_norms(W))

    def prox(self, V: Array, step: Array | float) -> Array:
        """Each row V_j shortened by step_j strength, and zero where it is no longer than that;
        `step` is one number, or one for each row."""
        norms = _norms(V)
        left = xp.maximum(norms - step * self.strength, 0)
        return V * (left / xp.where(norms > 0, norms, 1))

    def subgradient(self, W: Array, G: Array) -> Array:
        norms, slopes = _norms(W), _norms(G)
        at_zero = G * (xp.maximum(slopes - self.strength, 0) / xp.where(slopes > 0, slopes, 1))
        elsewhere = G + self.strength * W / xp.where(norms > 0, norms, 1)
        return xp.where(norms == 0, at_zero, elsewhere)


def _norms(W: Array) -> Array:
    """|W_j| of each row, (units, 1); rows that are tiny or huge do not under- or overflow."""
    largest = xp.max(xp.abs(W), axis=1, keepdims=True, initial=0)
    scale = xp.where(largest > 0, largest, 1)
    return scale * xp.sqrt(xp.sum((W / scale) ** 2, axis=1, keepdims=True))


@dataclass(frozen=True)
class Box(Regularizer):
    """Omega(W) = 0 if low <= W <= high in every entry, else infinity.

    Parameters
    ----------
    low, high : float
        The least and the largest weight.
    """

    quadratic: ClassVar[Any] = None
    low: float = -1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        _require(self.low < self.high, "low", self.low, f"a number below high={self.high!r}")

    def prox(self, V: Array, step: Array | float) -> Array:
        return xp.clip(V, self.low, self.high)

    def subgradient(self, W: Array, G: Array) -> Array:
        at_low, at_high = self.low >= W, self.high <= W
        inward = xp.where(at_low, xp.minimum(G, 0), G)
        return xp.where(at_high, xp.maximum(inward, 0), inward)


@dataclass(frozen=True)
class NonNegative(Box):
    """Omega(W) = 0 if W >= 0 in every entry, else infinity.

    Parameters
    ----------
    low, high : float
        0 and infinity.
    """

    any_unit: ClassVar[bool] = True

    low: float = 0.0
    high: float = float("inf")


regularizers: Registry[Regularizer] = Registry("regularizer", Regularizer)
regularizers.register("none", Regularizer)
regularizers.register("l1", L1)
regularizers.register("l2", L2)
regularizers.register("elastic_net", ElasticNet)
regularizers.register("group_lasso", GroupLasso)
regularizers.register("non_negative", NonNegative)
regularizers.register("box", Box)
