"""Schedules for the penalties rho and nu: what the next iteration uses, given the last record."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any


@dataclass(frozen=True)
class Constant:
    """The same value throughout; what the theorems assume."""

    start: float

    def __call__(self, k: int, value: float, row: Mapping[str, float]) -> float:
        return self.start


@dataclass(frozen=True)
class Multiply:
    """start * factor^(k // every), at most `maximum`: the paper's x10 every 100 iterations."""

    start: float
    factor: float = 10.0
    every: int = 100
    maximum: float = 1e6

    def __call__(self, k: int, value: float, row: Mapping[str, float]) -> float:
        return min(self.start * self.factor ** (k // self.every), max(self.start, self.maximum))


@dataclass(frozen=True)
class BalanceResiduals:
    """Adaptive rho: grows where |r| exceeds `ratio` times rho |z_L change|, shrinks where it is
    below 1/ratio of it; at most every `every` iterations, within [minimum, maximum]."""

    start: float
    factor: float = 2.0
    ratio: float = 10.0
    every: int = 10
    minimum: float = 1e-6
    maximum: float = 1e6

    def __call__(self, k: int, value: float, row: Mapping[str, float]) -> float:
        if not row or k % self.every:
            return value
        primal, dual = row["residual"], value * row["zl_change"]
        if primal > self.ratio * dual:
            return min(value * self.factor, max(value, self.maximum))
        if dual > self.ratio * primal:
            return max(value / self.factor, min(value, self.minimum))
        return value


@dataclass(frozen=True)
class CloseGap:
    """Adaptive nu: grows while the feed-forward gap exceeds `tolerance` times the real loss,
    that is while the auxiliary variables still hide an error of the network."""

    start: float
    factor: float = 2.0
    tolerance: float = 0.1
    maximum: float = 1e3

    def __call__(self, k: int, value: float, row: Mapping[str, float]) -> float:
        if row and row["gap"] > self.tolerance * row["train_loss"]:
            return min(value * self.factor, max(value, self.maximum))
        return value


Schedule = Constant | Multiply | BalanceResiduals | CloseGap
RHO_SCHEDULES: dict[str, type[Any]] = {
    "constant": Constant,
    "paper": Multiply,
    "adaptive": BalanceResiduals,
}
NU_SCHEDULES: dict[str, type[Any]] = {"constant": Constant, "paper": Multiply, "adaptive": CloseGap}


def make_schedule(argument: str, kind: str | Schedule, start: float) -> Schedule:
    """The schedule for `argument` ("rho" or "nu") by name, or the one given, from `start`."""
    if isinstance(start, bool) or not isinstance(start, Real) or not 0 < start < float("inf"):
        raise ValueError(f"{argument}={start!r} is not valid; expected a finite number > 0")
    if isinstance(kind, Schedule):
        return replace(kind, start=float(start))
    known = RHO_SCHEDULES if argument == "rho" else NU_SCHEDULES
    if not isinstance(kind, str) or kind not in known:
        raise ValueError(
            f"{argument}_schedule={kind!r} is unknown; expected one of {', '.join(known)}"
        )
    schedule: Schedule = known[kind](float(start))
    return schedule
