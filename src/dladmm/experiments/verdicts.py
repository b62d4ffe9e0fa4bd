"""What the records say to each claim of the paper: figures in words, verdicts, and reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from dladmm.experiments import paper

Records = Mapping[str, Mapping[str, Any]]  # the record of each piece that is on disk

ROUNDING = 1e-5  # a relative rise below this is float32's
OFTEN = 0.1  # of the steps
DRASTIC = 0.1  # a relative rise
EARLY = 0.25  # of the iterations
LATE = 0.1  # of the iterations, at the end
SETTLED = 0.01  # a relative change there
LEVEL, GOAL = 0.8, 0.9  # the accuracies the paper names
STEADY = 0.01  # an accuracy that never falls by more from one iteration to the next
SLIGHTLY = 0.05
PARTS = ("train", "test")
LONGER = 1.02  # a time is longer if by more than the clock's noise, which is at least this


class Verdict(NamedTuple):
    """Our figure in words, whether the claim holds for it, and what explains it if it does not."""

    ours: str
    holds: bool
    why: str


@dataclass(frozen=True)
class Convergence:
    """What a convergence figure says of one dlADMM: a method per claim."""

    records: Records
    piece: str
    run: str
    variant: str

    def series(self, name: str) -> np.ndarray:
        """A value per iteration; NaN from where a run broke down."""
        record = self.records[self.piece]
        values = record["runs"][self.run]["history"].get(name, [])
        missing = [None] * (record["scale"]["iterations"] - len(values))
        return np.array([np.nan if v is None else v for v in [*values, *missing]])

    def falls(self, name: str) -> Verdict:
        values = self.series(name)
        rising = np.flatnonzero(relative_rises(values) > ROUNDING) + 2  # iterations, from 1
        text = f"{values[0]:.3g} to {values[-1]:.3g}, {len(rising)} of {len(values) - 1} steps rise"
        if not len(rising):
            return Verdict(text, True, "")
        text += f", from iteration {rising[0]} to {rising[-1]}"
        if name == "residual":
            why = "The theorems promise descent of the objective, not of the residual."
        elif rising[-1] <= EARLY * len(values):
            why = (
                "u starts at 0, since rho = 1 is not above 2H = 1: Lemma 2 fails at first, and with"
                " it the descent of L_rho."
            )
        else:
            why = "rho = 1 is not above 2H = 1, as the theorems ask: they promise no descent here."
        return Verdict(text, False, why)

    def converges(self) -> Verdict:
        change, residual = self._late_change(), self.series("residual")
        left = residual[-1] / np.nanmax(residual)
        text = f"L_rho changes by {change:.2%} in the last tenth; |r| is {left:.2g} of its largest"
        slow = f"After {len(residual)} iterations it is still under way."
        return Verdict(text, bool(change < SETTLED and left < OFTEN), slow)

    def diverges(self) -> Verdict:
        rises = relative_rises(self.series("lagrangian"))
        largest = max(float(np.max(rises[-max(1, round(LATE * len(rises))) :])), 0.0)
        why = "It settles or falls at the end" + (
            ": with tau and theta as small as the majorisation allows, what the blocks take away"
            " from L_rho exceeds what the dual step adds."
            if self.variant == "text"
            else "."
        )
        text = f"in the last tenth L_rho rises by {largest:.2%} at most in a step"
        return Verdict(text, largest >= SETTLED, why)

    def _late_change(self) -> float:
        """The range of L_rho over the last iterations, relative to its size there."""
        values = self.series("lagrangian")
        last = values[-max(2, round(LATE * len(values))) :]
        return float(np.ptp(last) / np.max(np.abs(last)))

    def fluctuates(self, name: str, drastically: bool) -> Verdict:
        rises = relative_rises(self.series(name))
        count, largest = int(np.sum(rises > ROUNDING)), max(float(np.max(rises)), 0.0)
        text = f"{count} of {len(rises)} steps rise, the largest by {largest:.1%}"
        often = count >= OFTEN * len(rises)
        if not often and self.variant == "text":
            why = (
                "With tau and theta as small as the majorisation allows it falls in nearly every"
                " step. In the quick setting it fluctuates as soon as they start at 1, as in the"
                " authors' code, whatever else is kept."
            )
        elif not often:
            why = f"Fewer than {OFTEN:.0%} of the steps rise."
        else:
            why = f"It rises often, but never by {DRASTIC:.0%}."
        return Verdict(text, often and (largest >= DRASTIC or not drastically), why)

    def trends_down(self) -> Verdict:
        residual = self.series("residual")
        known = np.isfinite(residual) & (residual > 0)
        slope = np.polyfit(np.flatnonzero(known), np.log10(residual[known]), 1)[0]
        text = f"{residual[0]:.3g} to {residual[-1]:.3g}, {slope:+.4f} decades per iteration"
        return Verdict(text, bool(slope < 0), "It grows on the whole.")


BASELINES = {
    "sgd paper": "SGD",
    "adagrad paper": "Adagrad",
    "adadelta paper": "Adadelta",
    "adam paper": "Adam",
    "admm": "ADMM",
}


@dataclass(frozen=True)
class Accuracies:
    """What one accuracy figure says of one dlADMM, `ours`: a method per claim."""

    records: Records
    piece: str
    ours: str

    def curve(self, run: str, part: str) -> np.ndarray:
        """The median over seeds; what is not a number is no accuracy at all."""
        curves = [c[f"{part}_accuracy"] for c in self.records[self.piece]["runs"][run]["curves"]]
        values = np.array([[0.0 if v is None else v for v in c] for c in curves])
        return np.median(values, axis=0)

    def lead(self, run: str, part: str) -> float:
        """How far a baseline ends ahead of dlADMM."""
        return float(self.curve(run, part)[-1] - self.curve(self.ours, part)[-1])

    def own_reason(self) -> str:
        """Why this dlADMM may stay behind, the authors' by how far its weights ever move."""
        if self.ours == "dladmm text":
            return (
                "The auxiliary variables take over part of the error, so the network itself learns"
                " more slowly than the relaxed problem is solved."
            )
        curve = self.records[self.piece]["runs"][self.ours]["curves"][0]
        moved = ", ".join(f"W_{l} by {v:.1e}" for l, v in enumerate(curve["weights_moved"], 1))
        return (
            "tau and theta start at 1, far above what rho = 1e-6 asks for. In the whole run, of"
            f" their size, {moved}: close to a linear model on random features."
        )

    def soars(self) -> Verdict:
        first = [first_at(self.curve(self.ours, part), LEVEL) for part in PARTS]
        said = [f"at iteration {k}" if k else "never" for k in first]
        count = len(self.curve(self.ours, "train"))
        text = f"{LEVEL} in training {said[0]}, in test {said[1]}"
        early = all(k is not None and k <= EARLY * count for k in first)
        return Verdict(text, early, self.own_reason())

    def reaches(self) -> Verdict:
        curves = [self.curve(self.ours, part) for part in PARTS]
        falls = []
        for curve in curves:
            rising = curve[(first_at(curve, LEVEL) or len(curve)) - 1 :]
            falls.append(float(np.max(-np.diff(rising), initial=0.0)))
        text = f"{curves[0][-1]:.3f} training, {curves[1][-1]:.3f} test at the end"
        if max(curve.max() for curve in curves) >= LEVEL:
            text += f"; from {LEVEL} on no step falls by more than {max(0.0, *falls):.3f}"
        high = min(curve[-1] for curve in curves) >= GOAL
        why = "It is there, but not steadily." if high else self.own_reason()
        return Verdict(text, high and max(falls) <= STEADY, why)

    def slower(self, run: str) -> Verdict:
        means = {part: (self.curve(run, part).mean(), self.curve(self.ours, part).mean())
                 for part in PARTS}  # fmt: skip
        text = "mean accuracy over the run " + ", ".join(
            f"{theirs:.3f} to dlADMM's {mine:.3f} in {part}"
            for part, (theirs, mine) in means.items()
        )
        behind = all(theirs < mine for theirs, mine in means.values())
        return Verdict(text, behind, f"It is ahead here. {self.own_reason()}")

    def admm_falls(self) -> Verdict:
        peaks = {part: self.curve("admm", part) for part in PARTS}
        text = ", ".join(
            f"{part}: highest {curve.max():.3f}, at the end {curve[-1]:.3f}"
            for part, curve in peaks.items()
        )
        as_said = all(
            abs(curve.max() - LEVEL) <= OFTEN and curve[-1] < curve.max() - 1e-3
            for curve in peaks.values()
        )
        why = (
            "Our ADMM solves its least squares with a ridge at rounding level only and starts z_L"
            " at the labels; the paper says neither how it regularises nor where it starts."
        )
        return Verdict(text, as_said, why)

    def only_adam(self) -> Verdict:
        leads = {part: self.lead("adam paper", part) for part in PARTS}
        ahead = {run for run in BASELINES for part in PARTS if self.lead(run, part) > 0}
        others = sorted({BASELINES[run] for run in ahead} - {"Adam"})
        text = ", ".join(f"Adam {lead:+.3f} {part}" for part, lead in leads.items())
        text += f"; ahead too: {', '.join(others)}" if others else ""
        slightly = all(0 < v <= SLIGHTLY for v in leads.values())
        if min(leads.values()) <= 0:
            why = "Adam at the paper's rate is not better here."
        else:
            why = self.own_reason()
        return Verdict(text, slightly and not others, why)

    def most(self) -> Verdict:
        counts = [sum(self.lead(run, part) < 0 for run in BASELINES) for part in PARTS]
        text = f"{counts[0]} of {len(BASELINES)} in training, {counts[1]} in test accuracy"
        return Verdict(text, min(counts) > len(BASELINES) / 2, self.own_reason())

    def chosen_by_accuracy(self, name: str) -> Verdict:
        """Whether the paper's rate is the one that the training accuracy chooses."""
        best = self.records[self.piece]["runs"][f"{name} best"]["rate"]
        ends = [self.curve(f"{name} {which}", "train")[-1] for which in ("paper", "best")]
        text = f"{ends[0]:.3f} training at the end; {ends[1]:.3f} at {best:g}"
        why = "A rate of our grid is better by training accuracy."
        if name == "sgd":
            why += (
                " The paper's R is a sum over samples, ours a mean: 1e-6 there is a rate of"
                f" {self.records[self.piece]['runs']['sgd summed']['rate']:g} here."
            )
        return Verdict(text, bool(ends[0] >= ends[1] - STEADY), why)


@dataclass(frozen=True)
class Times:
    """What a table of seconds says: a method per claim."""

    records: Records
    piece: str
    data: str

    def grow(self, by_rho: bool) -> Verdict:
        longer, _, total = self._steps(by_rho)
        why = (
            "Our steps are exact in closed form and need no trials, so that the work of an"
            " iteration hardly depends on rho; the paper's time grows with its number of trials."
            if by_rho
            else "Small problems are dominated by costs that do not grow."
        )
        return Verdict(f"{longer} of {total} steps longer", longer > total / 2, why)

    def have_exceptions(self) -> Verdict:
        shorter = sum(self._steps(by_rho)[1] for by_rho in (False, True))
        total = sum(self._steps(by_rho)[2] for by_rho in (False, True))
        return Verdict(f"{shorter} of {total} steps shorter", shorter > 0, "There are none here.")

    def _steps(self, by_rho: bool) -> tuple[int, int, int]:
        record = self.records[self.piece]
        return step_counts(seconds_table(record, self.data), by_rho, clock_noise(record))


def relative_rises(values: np.ndarray) -> np.ndarray:
    """(v[k+1] - v[k]) / |v[k]| for every step; a step to or from what is not finite counts as 1."""
    before, after = values[:-1], values[1:]
    with np.errstate(invalid="ignore", divide="ignore"):
        rises = (after - before) / np.maximum(np.abs(before), np.finfo(float).tiny)
    return np.where(np.isfinite(rises), rises, 1.0)


def first_at(values: np.ndarray, level: float) -> int | None:
    """The first iteration, counted from 1, with at least this accuracy."""
    there = np.flatnonzero(values >= level)
    return int(there[0]) + 1 if len(there) else None


def rises_in_a_row(values: Sequence[float | None], length: int) -> int:
    """How many iterations end a run of at least `length` rises."""
    count = current = 0
    for before, after in pairwise(values):
        risen = before is not None and after is not None and after > before
        current = current + 1 if risen else 0
        count += current >= length
    return count


def seconds_table(record: Mapping[str, Any], data: str) -> list[list[float]]:
    """Seconds per iteration as the paper prints them: a row per rho, a column per size.

    KeyError where a cell is missing: half a table says nothing of how the time grows.
    """
    by_neurons, scale = record["piece"] == "table2", record["scale"]
    sizes = scale["neurons"] if by_neurons else scale["sizes"][data]
    runs = [record["runs"][f"{data} {size}"] for size in sizes]
    return [[run["rows"][k]["seconds"] for run in runs] for k in range(len(paper.RHOS))]


def clock_noise(record: Mapping[str, Any]) -> float:
    """The factor by which times differ for no reason: 1 + their usual interquartile range."""
    times = [row["times"] for run in record["runs"].values() for row in run["rows"]]
    spread = [np.subtract(*np.quantile(cell, (0.75, 0.25))) / np.median(cell) for cell in times]
    return max(LONGER, 1 + float(np.median(spread)))


def step_counts(
    table: Sequence[Sequence[float]], by_rho: bool, noise: float = LONGER
) -> tuple[int, int, int]:
    """Steps along rows (or from row to row) that take longer, that take less long, and all."""
    lines = list(zip(*table, strict=True)) if by_rho else table
    steps = [(before, after) for line in lines for before, after in pairwise(line)]
    longer = sum(after > noise * before for before, after in steps)
    shorter = sum(before > noise * after for before, after in steps)
    return longer, shorter, len(steps)
