"""Every claim of the paper's Section 5, with our figure: computed from records, or left empty."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from dladmm.paper import settings as paper
from dladmm.paper.timings import Times, exactly, step_counts
from dladmm.paper.verdicts import (
    BASELINES,
    GOAL,
    LEVEL,
    Accuracies,
    Convergence,
    NoRecord,
    Records,
    Verdict,
)

WORDS = {True: "holds", False: "does not hold", None: ""}  # of a verdict; None: no record


@dataclass(frozen=True)
class Claim:
    """A claim: where it stands, in short, the paper's figure if there is one, and our test of it.

    `variant` says which dlADMM is asked: the paper's text, its authors' code, or the text with
    matrices for theta and tau.
    """

    place: str
    data: str
    claim: str
    paper: str
    variant: str
    test: Callable[[], Verdict]


def claims_table(records: Records) -> list[dict[str, Any]]:
    """A row per claim and variant; where the record it needs is missing, figure and verdict are."""
    rows = []
    for claim in sorted(_claims(records), key=lambda claim: (claim.place, claim.data)):
        try:
            verdict = claim.test()
        except NoRecord:
            verdict = None
        words = {key: value for key, value in vars(claim).items() if key != "test"}
        ours = {
            "ours": verdict.ours if verdict else None,
            "holds": bool(verdict.holds) if verdict else None,
            "why": verdict.why if verdict and not verdict.holds else None,
        }
        rows.append(words | ours)
    return rows


def _claims(records: Records) -> Iterator[Claim]:
    for data, title in paper.DATA.items():
        for variant in paper.VARIANTS:
            yield from _convergence_claims(records, data, title, variant)
            yield from _accuracy_claims(records, data, title, variant)
        yield from _rate_claims(records, data, title)
        yield from _time_claims(records, data, title)


def _convergence_claims(records: Records, data: str, title: str, variant: str) -> Iterator[Claim]:
    at_1, tiny = (
        Convergence(records, piece, f"{data} {variant}", variant) for piece in ("fig3", "fig4")
    )
    claims: list[tuple[str, str, Callable[[], Verdict]]] = [
        ("Fig. 3(a)", "at rho = 1 the objective decreases monotonically",
         partial(at_1.falls, "lagrangian")),
        ("Fig. 3(b)", "at rho = 1 the residual decreases monotonically",
         partial(at_1.falls, "residual")),
        ("Fig. 3", "at rho = 1 dlADMM converged", at_1.converges),
        ("Fig. 4(a)", "at rho = 1e-6 the objective fluctuates drastically",
         partial(tiny.fluctuates, "lagrangian")),
        ("Fig. 4(b)", "at rho = 1e-6 the residual fluctuates irregularly",
         partial(tiny.fluctuates, "residual")),
        ("Fig. 4(b)", "at rho = 1e-6 the residual has a decreasing trend", tiny.trends_down),
        ("Fig. 4(b)", "at rho = 1e-6 the residual fails to converge", tiny.stays_infeasible),
        ("Fig. 4", "at rho = 1e-6 dlADMM diverged", tiny.diverges),
    ]  # fmt: skip
    for place, words, test in claims:
        yield Claim(place, title, words, "curve", variant, test)


def _accuracy_claims(records: Records, data: str, title: str, variant: str) -> Iterator[Claim]:
    piece = paper.accuracy_figure(data)
    say = Accuracies(records, piece, f"dladmm {variant}")
    slower = BASELINES | {"sgd summed": "SGD on the summed loss"}
    claims: list[tuple[str, str, Callable[[], Verdict]]] = [
        ("dlADMM soars to 0.8 at the early stage", f"{LEVEL}", say.soars),
        ("then it rises steadily towards 0.9 or more", f"{GOAL}", say.reaches),
        *(
            (f"{slower[run]} moves more slowly than dlADMM", "curve", partial(say.slower, run))
            for run in ("sgd paper", "sgd summed", "adagrad paper", "adadelta paper")
        ),
        ("only Adam is better, slightly", "curve", say.only_adam),
        ("dlADMM outperforms most baselines", "curve", say.most),
    ]
    if variant == "text":  # the other dlADMM has no other ADMM beside it
        words = "ADMM rockets to about 0.8, then decreases slightly"
        claims.append((words, f"{LEVEL}", say.admm_falls))
    for words, printed, test in claims:
        yield Claim(piece.replace("fig", "Fig. "), title, words, printed, variant, test)


def _rate_claims(records: Records, data: str, title: str) -> Iterator[Claim]:
    say = Accuracies(records, paper.accuracy_figure(data), "dladmm text")
    for run in ("sgd paper", "adagrad paper", "adadelta paper", "adam paper"):
        name = run.split()[0]
        words = f"the rate of {BASELINES[run]} was chosen by training accuracy"
        test = partial(say.chosen_by_accuracy, name)
        yield Claim("5.1.3", title, words, f"{paper.RATES[name]:g}", "text", test)


def _time_claims(records: Records, data: str, title: str) -> Iterator[Claim]:
    for piece, place, what, printed in (
        ("table2", "Table 2", "the number of neurons", paper.SECONDS_BY_NEURONS[data]),
        ("table3", "Table 3", "the training size", paper.SECONDS_BY_SIZE[data]),
    ):
        say = Times(records, piece, data)
        theirs = {by_rho: step_counts(exactly(printed), by_rho) for by_rho in (False, True)}
        for by_rho, factor in ((False, what), (True, "the value of rho")):
            longer, _, total = theirs[by_rho]
            words = f"generally, the time per iteration grows with {factor}"
            figure = f"{longer} of {total} steps longer"
            yield Claim(place, title, words, figure, "text", partial(say.grow, by_rho))
        shorter, total = (sum(counts[k] for counts in theirs.values()) for k in (1, 2))
        figure = f"{shorter} of {total} steps shorter"
        yield Claim(place, title, "with a few exceptions", figure, "text", say.have_exceptions)
        if (piece, data) == ("table2", "mnist"):
            words = "for example the fewest neurons from rho = 1e-5 to 1e-4"
            figure = " to ".join(f"{row[0]}" for row in printed[1:3]) + " s"
            yield Claim(place, title, words, figure, "text", say.example)
