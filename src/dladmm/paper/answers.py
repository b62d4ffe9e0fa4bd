"""What of the paper holds, what does not, and why: five lines, counted from the rows of claims."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Row = Mapping[str, Any]


class Question(NamedTuple):
    """What is asked of rows: those whose place and claim begin and contain these words."""

    text: str
    places: tuple[str, ...]
    words: tuple[str, ...] = ()
    variant: str = ""

    def rows(self, claims: Sequence[Row]) -> list[Row]:
        return [
            row
            for row in claims
            if row["place"].startswith(self.places)
            and row["holds"] is not None
            and (not self.variant or row["variant"] == self.variant)
            and (not self.words or any(word in row["claim"] for word in self.words))
        ]


class Line(NamedTuple):
    """One line of the answer: its questions, and why what does not hold does not."""

    title: str
    questions: tuple[Question, ...]
    why: str


ACCURACIES = ("Fig. 5", "Fig. 6")
LINES = (
    Line(
        "Descent at rho = 1 (Figure 3)",
        (
            Question("the objective falls in every step", ("Fig. 3",), ("objective",)),
            Question("so does the residual", ("Fig. 3",), ("residual",)),
            Question("200 iterations are enough", ("Fig. 3",), ("converged",)),
        ),
        "the theorems promise the first, and neither of the others",
    ),
    Line(
        "Fluctuation at rho = 1e-6 (Figure 4)",
        (
            Question("by the paper's text", ("Fig. 4",), variant="text"),
            Question("by the authors' code", ("Fig. 4",), variant="authors"),
            Question("by the text with matrix steps", ("Fig. 4",), variant="matrix"),
        ),
        "it is their code that fluctuates, whose steps start at 1 and whose z_L is not solved for"
        " to the end",
    ),
    Line(
        "Accuracy (Figures 5 and 6)",
        (
            Question("dlADMM soars to 0.8, then towards 0.9", ACCURACIES, ("0.8 at", "0.9")),
            Question("the others move more slowly", ACCURACIES, ("more slowly",)),
            Question("only Adam is better", ACCURACIES, ("only Adam", "most baselines")),
        ),
        "the relaxed variables take over part of the error, which the network itself keeps",
    ),
    Line(
        "Seconds per iteration (Tables 2 and 3)",
        (
            Question(
                "they grow with neurons and samples", ("Table",), ("number of", "training size")
            ),
            Question("they grow with rho", ("Table",), ("value of rho",)),
        ),
        "our steps need no trials, whatever rho is",
    ),
)


def answer(claims: Sequence[Row], setting: str) -> list[str]:
    """Five lines; the first counts all rows."""
    held, failed = (sum(row["holds"] is verdict for row in claims) for verdict in (True, False))
    empty = len(claims) - held - failed
    text = f"{setting.capitalize() or 'No'} setting: {held} of {len(claims)} rows of claims hold,"
    text += f" {failed} do not" + (f", {empty} have no record" if empty else "")
    return [
        f"{text}. Every figure comes from a record.",
        *(answered(line, claims) for line in LINES),
    ]


def answered(line: Line, claims: Sequence[Row]) -> str:
    """A line with its counts; why something does not hold, where something does not."""
    parts, complete = [], True
    for question in line.questions:
        rows = question.rows(claims)
        held = sum(row["holds"] for row in rows)
        complete = complete and held == len(rows)
        if rows:
            word = "yes" if held == len(rows) else "no" if held == 0 else "in part"
            parts.append(f"{question.text}: {word} ({held} of {len(rows)})")
    why = "" if complete else f"; {line.why}"
    return f"{line.title}: {', '.join(parts) or 'no record'}{why}."
