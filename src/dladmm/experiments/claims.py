"""Every claim of the paper's Section 5, with our figure: computed from records, or left empty."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from dladmm.experiments import paper

Records = Mapping[str, Mapping[str, Any]]  # the record of each piece that is on disk

ROUNDING = 1e-5  # a relative rise below this is float32's
EARLY = 0.25  # of the iterations
LEVEL, GOAL = 0.8, 0.9  # the accuracies the paper names
SLIGHTLY = 0.05
PARTS = ("train", "test")
LONGER = 1.02  # a time is longer if by more than the clock's noise

WORDS = {True: "holds", False: "does not hold", None: ""}  # of a verdict; None: no record


class Verdict(NamedTuple):
    """Our figure in words, and whether the claim holds for it."""

    ours: str
    holds: bool


@dataclass(frozen=True)
class Claim:
    """A claim: where it stands, in short, the paper's figure if there is one, and our test of it.

    `variant` says which dlADMM is asked: the paper's text or its authors' code. `why` explains a
    claim that does not hold.
    """

    place: str
    data: str
    words: str
    paper: str
    variant: str
    test: Callable[[], Verdict]
    why: str


def claims_table(records: Records) -> list[dict[str, Any]]:
    """A row per claim and variant; where the record it needs is missing, figure and verdict are."""
    rows = []
    for claim in sorted(_claims(records), key=lambda claim: (claim.place, claim.data)):
        try:
            verdict = claim.test()
        except KeyError:  # a record, or a run of it, is not there
            verdict = None
        rows.append(
            {
                "place": claim.place,
                "data": claim.data,
                "claim": claim.words,
                "paper": claim.paper,
                "variant": claim.variant,
                "ours": verdict.ours if verdict else None,
                "holds": bool(verdict.holds) if verdict else None,
                "why": claim.why if verdict and not verdict.holds else None,
            }
        )
    return rows


def _claims(records: Records) -> Iterator[Claim]:
    for data, title in paper.DATA.items():
        for variant in paper.VARIANTS:
            yield from _convergence_claims(records, data, title, variant)
            yield from _accuracy_claims(records, data, title, variant)
        yield from _time_claims(records, data, title)


def _convergence_claims(records: Records, data: str, title: str, variant: str) -> Iterator[Claim]:
    def series(piece: str, key: str) -> np.ndarray:
        values = records[piece]["runs"][f"{data} {variant}"][key]
        return np.array([np.nan if v is None else v for v in values])

    def falls(key: str) -> Callable[[], Verdict]:
        def test() -> Verdict:
            values = series("fig3", key)
            rises = relative_rises(values)
            count = int(np.sum(rises > ROUNDING))
            text = f"{values[0]:.3g} to {values[-1]:.3g}, {count} of {len(rises)} steps rise"
            return Verdict(text, count == 0)

        return test

    def fluctuates(key: str) -> Callable[[], Verdict]:
        def test() -> Verdict:
            values = series("fig4", key)
            rises = relative_rises(values)
            count, largest = int(np.sum(rises > ROUNDING)), float(np.max(rises))
            text = f"{count} of {len(rises)} steps rise, the largest by {max(largest, 0):.1%}"
            return Verdict(text, count >= len(rises) / 10)

        return test

    yield Claim(
        "Fig. 3(a)", title, "at rho = 1 the objective decreases monotonically", "curve", variant,
        falls("lagrangian"), WHY["fig3"][variant],
    )  # fmt: skip
    yield Claim(
        "Fig. 3(b)", title, "at rho = 1 the residual decreases monotonically", "curve", variant,
        falls("residual"), WHY["fig3 residual"][variant],
    )  # fmt: skip
    yield Claim(
        "Fig. 4(a)", title, "at rho = 1e-6 the objective fluctuates drastically", "curve", variant,
        fluctuates("lagrangian"), WHY["fig4"][variant],
    )  # fmt: skip
    yield Claim(
        "Fig. 4(b)", title, "at rho = 1e-6 the residual fluctuates and does not converge", "curve",
        variant, fluctuates("residual"), WHY["fig4 residual"][variant],
    )  # fmt: skip


def relative_rises(values: np.ndarray) -> np.ndarray:
    """(v[k+1] - v[k]) / |v[k]| for every step; a step to or from what is not finite counts as 1."""
    before, after = values[:-1], values[1:]
    with np.errstate(invalid="ignore", divide="ignore"):
        rises = (after - before) / np.maximum(np.abs(before), np.finfo(float).tiny)
    return np.where(np.isfinite(rises), rises, 1.0)


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

    def curve(self, run: str, part: str = "train") -> np.ndarray:
        """The median over seeds; what is not a number is no accuracy at all."""
        curves = [c[f"{part}_accuracy"] for c in self.records[self.piece]["runs"][run]["curves"]]
        values = np.array([[0.0 if v is None else v for v in c] for c in curves])
        return np.median(values, axis=0)

    def lead(self, run: str, part: str) -> float:
        """How far a baseline ends ahead of dlADMM."""
        return float(self.curve(run, part)[-1] - self.curve(self.ours, part)[-1])

    def soars(self) -> Verdict:
        curve = self.curve(self.ours)
        k = first_at(curve, LEVEL)
        text = f"{LEVEL} at iteration {k}" if k else f"never {LEVEL}"
        return Verdict(text, k is not None and k <= EARLY * len(curve))

    def reaches(self) -> Verdict:
        train, test = self.curve(self.ours)[-1], self.curve(self.ours, "test")[-1]
        text = f"{train:.3f} training, {test:.3f} test at the end"
        return Verdict(text, min(train, test) >= GOAL)

    def slower(self, run: str) -> Verdict:
        theirs, mine = self.curve(run).mean(), self.curve(self.ours).mean()
        text = f"mean training accuracy over the run {theirs:.3f}, dlADMM's {mine:.3f}"
        return Verdict(text, theirs < mine)

    def admm_falls(self) -> Verdict:
        train = self.curve("admm")
        text = f"highest {train.max():.3f}, at the end {train[-1]:.3f}"
        near = abs(train.max() - LEVEL) <= 0.1
        return Verdict(text, near and train[-1] < train.max() - 1e-3)

    def only_adam(self) -> Verdict:
        leads = {part: self.lead("adam paper", part) for part in PARTS}
        ahead = {run for run in BASELINES for part in PARTS if self.lead(run, part) > 0}
        others = sorted({BASELINES[run] for run in ahead} - {"Adam"})
        text = ", ".join(f"Adam {lead:+.3f} {part}" for part, lead in leads.items())
        text += f"; ahead too: {', '.join(others)}" if others else ""
        return Verdict(text, all(0 < v <= SLIGHTLY for v in leads.values()) and not others)

    def most(self) -> Verdict:
        counts = [sum(self.lead(run, part) < 0 for run in BASELINES) for part in PARTS]
        text = f"{counts[0]} of {len(BASELINES)} in training, {counts[1]} in test accuracy"
        return Verdict(text, min(counts) > len(BASELINES) / 2)


def _accuracy_claims(records: Records, data: str, title: str, variant: str) -> Iterator[Claim]:
    piece = paper.accuracy_figure(data)
    say = Accuracies(records, piece, f"dladmm {variant}")
    why = {claim: reasons[variant] for claim, reasons in WHY.items()}
    claims: list[tuple[str, str, Callable[[], Verdict], str]] = [
        ("dlADMM soars to 0.8 at the early stage", "0.8", say.soars, why["level"]),
        ("then it rises towards 0.9 or more", "0.9", say.reaches, why["level"]),
        *(
            (
                f"{BASELINES[run]} moves more slowly than dlADMM",
                "curve",
                partial(say.slower, run),
                why["slower"],
            )
            for run in ("sgd paper", "adagrad paper", "adadelta paper")
        ),
        ("only Adam is better, slightly", "curve", say.only_adam, why["adam"]),
        ("dlADMM outperforms most baselines", "curve", say.most, why["adam"]),
    ]
    if variant == "text":  # the other dlADMM has no other ADMM beside it
        words = "ADMM rockets to about 0.8, then decreases slightly"
        claims.append((words, "0.8", say.admm_falls, _ADMM))
    place = piece.replace("fig", "Fig. ")
    for words, printed, test, reason in claims:
        yield Claim(place, title, words, printed, variant, test, reason)


def first_at(values: np.ndarray, level: float) -> int | None:
    """The first iteration, counted from 1, with at least this accuracy."""
    there = np.flatnonzero(values >= level)
    return int(there[0]) + 1 if len(there) else None


def _time_claims(records: Records, data: str, title: str) -> Iterator[Claim]:
    for piece, place, what, printed in (
        ("table2", "Table 2", "the number of neurons", paper.SECONDS_BY_NEURONS[data]),
        ("table3", "Table 3", "the training size", paper.SECONDS_BY_SIZE[data]),
    ):

        def ours(piece: str = piece) -> list[list[float]]:
            return seconds_table(records[piece], data)

        def grows(by_rho: bool, ours: Callable[[], list[list[float]]] = ours) -> Verdict:
            longer, total = longer_steps(ours(), by_rho)
            return Verdict(f"{longer} of {total} steps longer", longer > total / 2)

        for by_rho, factor in ((False, what), (True, "the value of rho")):
            said = longer_steps(printed, by_rho)
            yield Claim(
                place, title, f"the time per iteration grows with {factor}",
                f"{said[0]} of {said[1]} steps longer", "text",
                lambda by_rho=by_rho, grows=grows: grows(by_rho),  # type: ignore[misc]
                _TRIALS if by_rho else _CONSTANT,
            )  # fmt: skip


def seconds_table(record: Mapping[str, Any], data: str) -> list[list[float]]:
    """Seconds per iteration as the paper prints them: a row per rho, a column per size."""
    key = "neurons" if record["piece"] == "table2" else "samples"
    runs = [run for name, run in record["runs"].items() if name.startswith(f"{data} ")]
    if not runs:
        raise KeyError(data)
    runs.sort(key=lambda run: run[key])
    return [[run["rows"][k]["seconds"] for run in runs] for k in range(len(paper.RHOS))]


def longer_steps(table: Sequence[Sequence[float]], by_rho: bool) -> tuple[int, int]:
    """How many steps along rows (or from row to row) take longer, of how many."""
    lines = list(zip(*table, strict=True)) if by_rho else table
    steps = [after > LONGER * before for line in lines for before, after in pairwise(line)]
    return sum(steps), len(steps)


# What explains a claim that does not hold, by claim and by variant of dlADMM.
_FROZEN = (
    "tau = theta = 1 is a million times the curvature at rho = 1e-6: the lower layers hardly move,"
    " and the network stays close to a linear model on random features."
)
_RELAXED = (
    "The auxiliary variables take over part of the error, so the network itself learns more slowly"
    " than the relaxed problem is solved."
)
_ADMM = (
    "Our ADMM solves its least squares with a ridge at rounding level only and starts z_L at the"
    " labels; the paper says neither how it regularises nor where it starts."
)
_TRIALS = (
    "Our steps are exact in closed form and need no trials, so the work of an iteration does not"
    " depend on rho; the paper's time grows with its number of trials."
)
_CONSTANT = "Small problems are dominated by costs that do not grow."
WHY: dict[str, dict[str, str]] = {
    "fig3": dict.fromkeys(
        paper.VARIANTS,
        "Outside the theorems: rho = 1 with u = 0 at the start breaks Lemma 2 at first.",
    ),
    "fig3 residual": {
        "text": "The theorems promise descent of the objective, not of the residual: from a"
        " feasible start it overshoots in the first iterations before it falls.",
        "authors": "The theorems promise descent of the objective, not of the residual, which"
        " oscillates while it falls.",
    },
    "fig4": {
        "text": "With tau and theta as small as the majorisation allows, what the blocks take away"
        " from L_rho exceeds what the dual step adds. It fluctuates as soon as they start at 1, as"
        " in the authors' code, whatever else is kept.",
        "authors": "Too few steps rise.",
    },
    "fig4 residual": dict.fromkeys(paper.VARIANTS, "Too few steps rise."),
    "level": {"text": _RELAXED, "authors": _FROZEN},
    "slower": {
        "text": "At the paper's rate this optimiser is the faster one here.",
        "authors": _FROZEN,
    },
    "adam": {"text": _RELAXED, "authors": _FROZEN},
}
