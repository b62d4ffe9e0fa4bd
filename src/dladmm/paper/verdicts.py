"""What the records say to each claim of the paper: figures in words, verdicts, and reasons."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

Records = Mapping[str, Mapping[str, Any]]  # the record of each piece that is on disk

ROUNDING = 1e-5  # a relative rise below this is float32's
SWING = 0.1  # a relative rise or fall that is seen on the paper's logarithmic axes
AGAIN = 4  # turns, and it goes up and down again and again: a hill has one, a dip after it two
EARLY = 0.25  # of the iterations
LATE = 0.1  # of the iterations, at the end
SETTLED = 0.01  # a relative change there
GONE = 0.1  # of its largest value, what a residual that vanishes is below at the end
LEVEL, GOAL = 0.8, 0.9  # the accuracies the paper names; its "towards 0.9" is taken as 0.9 itself
AROUND = 0.1  # an accuracy
STEADY = 0.01  # an accuracy that is never further below its best
SLIGHTLY = 0.05  # an accuracy
A_LITTLE = 0.001  # an accuracy
HARDLY = 0.01  # of its size, by which a layer moves
PARTS = ("train", "test")


class NoRecord(Exception):
    """The record a claim needs, or a run of it, is not on disk."""


def run_of(record: Mapping[str, Any] | None, name: str) -> Any:
    """A run by its name."""
    if record is None or name not in record["runs"]:
        raise NoRecord(name)
    return record["runs"][name]


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
        """A value per iteration, until the run ended or broke down."""
        values = run_of(self.records.get(self.piece), self.run)["history"].get(name, [])
        return np.array(values[: values.index(None)] if None in values else values)

    def broken(self) -> str:
        """Where the run broke down, in words; empty if it did not."""
        made = len(self.series("lagrangian"))
        wanted = self.records[self.piece]["scale"]["convergence_iterations"]
        return "" if made == wanted else f"values are not finite from iteration {made + 1} on"

    def falls(self, name: str) -> Verdict:
        if broken := self.broken():
            return Verdict(broken, False, "It broke down.")
        values = self.series(name)
        rising = np.flatnonzero(step_rises(values) > ROUNDING) + 2  # iterations, from 1
        text = f"{values[0]:.3g} to {values[-1]:.3g}, {len(rising)} of {len(values) - 1} steps rise"
        if not len(rising):
            return Verdict(text, True, "")
        text += f", from iteration {rising[0]} to {rising[-1]}"
        if name == "residual":
            why = "The theorems promise descent of the objective, not of the residual."
        elif rising[-1] <= EARLY * len(values):
            in_code = self.variant == "authors"
            reason = "as in that code" if in_code else "since rho = 1 is not above 2H = 1"
            why = f"u starts at 0, {reason}"
            why += ": Lemma 2 fails at first, and with it the descent."
        else:
            why = "rho = 1 is not above 2H = 1, as the theorems ask: they promise no descent here."
        return Verdict(text, False, why)

    def converges(self) -> Verdict:
        if broken := self.broken():
            return Verdict(broken, False, "It broke down.")
        values = self.series("lagrangian")
        last = values[-_late(values) :]
        change = float(np.ptp(last) / np.max(np.abs(last)))
        left = self._left()
        text = f"L_rho changes by {change:.2%} in the last tenth; |r| is {left:.2g} of its largest"
        slow = f"After {len(values)} iterations it is still under way."
        return Verdict(text, change < SETTLED and left < GONE, slow)

    def _left(self) -> float:
        """What is left of the residual's largest value at the end."""
        residual = self.series("residual")
        return float(residual[-1] / max(residual.max(), np.finfo(float).tiny))

    def diverges(self) -> Verdict:
        if broken := self.broken():
            return Verdict(broken, True, "")
        objective, residual = (_late_climb(self.series(v)) for v in ("lagrangian", "residual"))
        text = (
            f"in the last tenth L_rho climbs by {objective:.2%} of its largest size,"
            f" |r| by {residual:.2%}"
        )
        why = "Both settle or fall at the end" + (
            ": with tau and theta as small as the majorisation allows, what the blocks take away"
            " from L_rho exceeds what the dual step adds."
            if self.variant != "authors"
            else "."
        )
        return Verdict(text, max(objective, residual) >= SETTLED, why)

    def stays_infeasible(self) -> Verdict:
        if broken := self.broken():
            return Verdict(broken, True, "")
        left = self._left()
        return Verdict(f"|r| is {left:.2g} of its largest at the end", left >= GONE, "It vanishes.")

    def fluctuates(self, name: str) -> Verdict:
        """Up and down again and again: a series that rises once and then falls does not."""
        values = self.series(name)
        rises, turned = step_rises(values), turns(values, SWING)
        up, largest = int(np.sum(rises > ROUNDING)), float(np.max(rises, initial=0.0))
        text = (
            f"{up} of {len(rises)} steps rise, the largest by {largest:.1%};"
            f" it turns {turned} times, counting swings of {SWING:.0%} or more"
        )
        text += f"; {self.broken()}" if self.broken() else ""
        why = f"It turns fewer than {AGAIN} times."
        if name == "lagrangian" and self.variant != "authors":
            why = (
                "With tau and theta as small as the majorisation allows it falls in nearly every"
                " step. It rises where they start at 1, as in the authors' code, and fluctuates"
                " where z_L is not solved for to the end either."
            )
        return Verdict(text, turned >= AGAIN, why)

    def trends_down(self) -> Verdict:
        residual = self.series("residual")
        known = np.flatnonzero(residual > 0)
        if len(known) < 2:
            return Verdict(self.broken() or "it is 0", False, "There is no trend to be seen.")
        slope = np.polyfit(known, np.log10(residual[known]), 1)[0]
        text = f"{residual[0]:.3g} to {residual[-1]:.3g}, {slope:+.4f} decades per iteration"
        return Verdict(text, bool(slope < 0), "It grows on the whole.")


def _late(values: np.ndarray) -> int:
    """How many of these values are the last ones."""
    return max(2, round(LATE * len(values)))


def _late_climb(values: np.ndarray) -> float:
    """By how much a series is above an earlier value in the last tenth, of its largest size."""
    last = values[-_late(values) - 1 :]
    climb = np.max(last - np.minimum.accumulate(last))
    return float(climb / max(np.max(np.abs(values)), np.finfo(float).tiny))


BASELINES = {
    "sgd paper": "SGD",
    "adagrad paper": "Adagrad",
    "adadelta paper": "Adadelta",
    "adam paper": "Adam",
    "admm": "ADMM",
}
# SGD's rate on the mean loss or, if the paper's R is a sum, on that: whichever ends higher.
RUNS_OF = {"sgd paper": ("sgd paper", "sgd summed")}


@dataclass(frozen=True)
class Accuracies:
    """What one accuracy figure says of one dlADMM, `ours`: a method per claim."""

    records: Records
    piece: str
    ours: str

    def run(self, name: str) -> Any:
        return run_of(self.records.get(self.piece), name)

    def curve(self, run: str, part: str) -> np.ndarray:
        """The median over seeds; what is not a number is no accuracy at all."""
        curves = [c[f"{part}_accuracy"] for c in self.run(run)["curves"]]
        values = np.array([[0.0 if v is None else v for v in c] for c in curves])
        return np.median(values, axis=0)

    def lead(self, run: str, part: str) -> float:
        """How far a baseline ends ahead of dlADMM."""
        ends = [self.curve(name, part)[-1] for name in RUNS_OF.get(run, (run,))]
        return float(max(ends) - self.curve(self.ours, part)[-1])

    def own_reason(self) -> str:
        """Why this dlADMM may stay behind, by what its own record of seed 0 says."""
        curve = self.run(self.ours)["curves"][0]
        if None in curve["train_accuracy"]:
            return f"It broke down at iteration {curve['train_accuracy'].index(None) + 1}."
        if self.ours != "dladmm authors":
            loss, risk = curve["train_loss"][-1], curve["history"]["risk"][-1]
            return (
                "The auxiliary variables take over the error: at the end the network's loss is"
                f" {loss:.3g} a sample, R(z_L) of the relaxed problem {risk:.1e} for all samples."
            )
        moved = curve["weights_moved"]
        changes = ", ".join(f"W_{l} by {v:.1e}" for l, v in enumerate(moved, 1))
        if max(moved[:-1]) < HARDLY:
            changes += ": close to a linear model on random features"
        return (
            "tau and theta start at 1, far above what rho = 1e-6 asks for. In the whole run the"
            f" weights move, of their size, {changes}."
        )

    def soars(self) -> Verdict:
        first = [first_at(self.curve(self.ours, part), LEVEL) for part in PARTS]
        places = [f"at iteration {k}" if k else "never" for k in first]
        count = len(self.curve(self.ours, "train"))
        text = f"{LEVEL} in training {places[0]}, in test {places[1]}"
        early = all(k is not None and k <= EARLY * count for k in first)
        return Verdict(text, early, self.own_reason())

    def reaches(self) -> Verdict:
        curves = [self.curve(self.ours, part) for part in PARTS]
        sags = []
        for curve in curves:
            rising = curve[(first_at(curve, LEVEL) or len(curve)) - 1 :]
            sags.append(float(np.max(np.maximum.accumulate(rising) - rising)))
        text = f"{curves[0][-1]:.3f} training, {curves[1][-1]:.3f} test at the end"
        if max(curve.max() for curve in curves) >= LEVEL:
            text += f"; from {LEVEL} on never more than {max(sags):.3f} below its best"
        high = min(curve[-1] for curve in curves) >= GOAL
        why = "It is there, but not steadily." if high else self.own_reason()
        return Verdict(text, high and max(sags) <= STEADY, why)

    def slower(self, run: str) -> Verdict:
        means = {part: (self.curve(run, part).mean(), self.curve(self.ours, part).mean())
                 for part in PARTS}  # fmt: skip
        text = "mean accuracy over the run " + ", ".join(
            f"{theirs:.3f} to dlADMM's {mine:.3f} in {part}"
            for part, (theirs, mine) in means.items()
        )
        ahead = [part for part, (theirs, mine) in means.items() if theirs >= mine]
        why = f"It is ahead in {' and '.join(ahead)}. {self.own_reason()}"
        return Verdict(text, not ahead, why)

    def admm_falls(self) -> Verdict:
        peaks = {part: self.curve("admm", part) for part in PARTS}
        text = ", ".join(
            f"{part}: highest {curve.max():.3f}, at the end {curve[-1]:.3f}"
            for part, curve in peaks.items()
        )
        as_said = all(
            (first_at(curve, LEVEL - AROUND) or math.inf) <= EARLY * len(curve)
            and curve.max() <= LEVEL + AROUND
            and A_LITTLE < curve.max() - curve[-1] <= SLIGHTLY
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
        best = self.run(f"{name} best")["rate"]
        ends = [self.curve(f"{name} {which}", "train")[-1] for which in ("paper", "best")]
        text = f"{ends[0]:.3f} training at the end; {ends[1]:.3f} at {best:g}"
        why = "A rate of our grid is better by training accuracy."
        if name == "sgd":
            summed = self.run("sgd summed")["rate"]
            why += (
                f" If the paper's R is a sum over samples, its 1e-6 is a rate of {summed:g} here."
            )
        return Verdict(text, bool(ends[0] >= ends[1] - STEADY), why)


def relative_rise(before: Any, after: Any) -> Any:
    """(after - before) / max(|before|, |after|)."""
    size = np.maximum(np.abs(before), np.abs(after))
    return (after - before) / np.maximum(size, np.finfo(float).tiny)


def step_rises(values: np.ndarray) -> np.ndarray:
    """The `relative_rise` of every step of a series."""
    return np.asarray(relative_rise(values[:-1], values[1:]))


def turns(values: np.ndarray, swing: float) -> int:
    """How often a rise is followed by a fall or a fall by a rise, each of at least this swing.

    A swing is a `relative_rise`.
    """
    count, way = 0, 0  # 1 after a rise, -1 after a fall
    low = high = values[0] if len(values) else 0.0  # since then
    for value in values[1:]:
        rise, fall = relative_rise(low, value), -relative_rise(high, value)
        new_way = 1 if way <= 0 and rise >= swing else -1 if way >= 0 and fall >= swing else way
        if new_way != way:
            count, way, low, high = count + (way != 0), new_way, value, value
        low, high = min(low, value), max(high, value)
    return count


def first_at(values: np.ndarray, level: float) -> int | None:
    """The first iteration, counted from 1, with at least this accuracy."""
    there = np.flatnonzero(values >= level)
    return int(there[0]) + 1 if len(there) else None


def rises_in_a_row(values: Sequence[float | None], length: int) -> list[int]:
    """The iterations, counted from 1, that end a run of at least `length` rises."""
    ends, current = [], 0
    for k, (before, after) in enumerate(pairwise(values), 2):
        risen = before is not None and after is not None and after > before
        current = current + 1 if risen else 0
        if current >= length:
            ends.append(k)
    return ends
