"""What the figures of the paper's evaluation show, from records alone; PNG files and the page draw
the same pictures."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dladmm.paper import settings as paper
from dladmm.paper.reproduce import CONVERGENCE_RHO
from dladmm.paper.tables import seconds_tables
from dladmm.paper.verdicts import BASELINES
from dladmm.report.panels import COLOURS, Line, Panel, Picture

FOR_COMPLETENESS = {*(f"{name} best" for name in paper.GRIDS if name not in paper.RATES), "lbfgs"}
VARIANT_TITLES = {
    "text": "dlADMM, paper's text",
    "authors": "dlADMM, authors' code",
    "matrix": "dlADMM, matrix steps",
}


def pictures(record: Mapping[str, Any]) -> list[Picture]:
    """The pictures of a piece; runs that are missing are lines that are missing."""
    piece = record["piece"]
    if piece in CONVERGENCE_RHO:
        return _convergences(record)
    if piece in paper.ACCURACY_FIGURES:
        return _accuracies(record)
    times = _times(record)
    return [times] if times.panels else []


def _convergences(record: Mapping[str, Any]) -> list[Picture]:
    """The paper's figure and, where they were run, what lies between the two variants."""
    piece, rho = record["piece"], CONVERGENCE_RHO[record["piece"]]
    between = {name: name for name in paper.BETWEEN}
    shown = [_convergence(record, VARIANT_TITLES, piece, f"Convergence at rho = {rho:g}")]
    if any(f"{data} {name}" in record["runs"] for data in paper.DATA for name in between):
        title = f"Between the text and the authors' code at rho = {rho:g}"
        shown.append(_convergence(record, between, f"{piece}-between", title))
    return shown


def _convergence(
    record: Mapping[str, Any], variants: Mapping[str, str], name: str, title: str
) -> Picture:
    panels = []
    for key, what in (("lagrangian", "Objective value"), ("residual", "Residual")):
        lines = []
        for place, (data, data_title) in enumerate(paper.DATA.items()):
            for colour, (variant, variant_title) in zip(COLOURS, variants.items(), strict=False):
                run = record["runs"].get(f"{data} {variant}")
                if run is not None:
                    values, label = run["history"].get(key, []), f"{data_title}: {variant_title}"
                    lines.append(_line(label, values, colour, dashed=place == 1))
        # Where its theorems do not hold L_rho can be negative: its curve leaves the axis below.
        panels.append(Panel(what, lines, y_title=what.lower(), log=True))
    return Picture(title, panels, name)


def _accuracies(record: Mapping[str, Any]) -> list[Picture]:
    data = paper.DATA[paper.ACCURACY_FIGURES[record["piece"]]]
    ours = {f"dladmm {variant}": title for variant, title in VARIANT_TITLES.items()}
    best = {f"{name} best": _rated(record, f"{name} best") for name in paper.GRIDS}
    groups = {
        f"{record['piece']}-paper": (
            f"{data}: the paper's methods and rates",
            ours | BASELINES | {"sgd summed": "SGD, summed loss"},
        ),
        f"{record['piece']}-best": (
            f"{data}: every optimiser at its best rate",
            {
                "restored": "restored sweeps",
                **{run: ours[run] for run in ("dladmm text", "dladmm matrix")},
            }
            | best
            | {"lbfgs": "L-BFGS"},
        ),
    }
    return [
        Picture(title, [_accuracy(record, part, runs) for part in ("train", "test")], name)
        for name, (title, runs) in groups.items()
    ]


def _rated(record: Mapping[str, Any], run: str) -> str:
    name = run.split()[0]
    title = {"sgd": "SGD", "rmsprop": "RMSProp", "amsgrad": "AMSGrad"}.get(name, name.capitalize())
    return f"{title} {record['runs'][run]['rate']:g}" if run in record["runs"] else title


def _accuracy(record: Mapping[str, Any], part: str, runs: Mapping[str, str]) -> Panel:
    lines = []
    for place, (run, label) in enumerate(runs.items()):
        if run not in record["runs"]:
            continue
        curves = [c[f"{part}_accuracy"] for c in record["runs"][run]["curves"]]
        values = np.array([[np.nan if v is None else v for v in curve] for curve in curves])
        spread = {"low": values.min(0), "high": values.max(0)} if len(curves) > 1 else {}
        colour = COLOURS[place % len(COLOURS)]
        style = {"dashed": run in FOR_COMPLETENESS, "wide": place == 0} | spread
        lines.append(_line(label, np.median(values, 0), colour, **style))
    title = {"train": "Training accuracy", "test": "Test accuracy"}[part]
    return Panel(title, lines, y_title="accuracy")


def _times(record: Mapping[str, Any]) -> Picture:
    what = "neurons per layer" if record["piece"] == "table2" else "training samples"
    panels = []
    for table in seconds_tables(record):
        lines = []
        for (rho, row), colour in zip(table.rows.items(), COLOURS, strict=False):
            ours, theirs = zip(*row, strict=True)
            lines.append(Line(f"ours, rho {rho:g}", table.sizes, ours, colour))
            if None not in theirs:
                lines.append(Line(f"paper, rho {rho:g}", table.sizes, theirs, colour, dashed=True))
        title = f"{table.title}: seconds"
        panels.append(Panel(title, lines, what, "seconds per iteration", log=True))
    return Picture(f"Seconds per iteration by {what}", panels, record["piece"])


def _line(label: str, values: Sequence[float | None], colour: str, **style: Any) -> Line:
    y = [np.nan if v is None else float(v) for v in values]
    return Line(label, list(range(1, len(y) + 1)), y, colour, **style)
