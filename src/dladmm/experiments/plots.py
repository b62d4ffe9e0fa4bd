"""Figures as PNG files, drawn from saved records only."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from dladmm.io.files import write_atomically
from dladmm.report.panels import BLUE, COLOURS, GREY, ORANGE, Line, Panel, Picture

CLOCK = "seconds of training, compilation apart"
FEW_DECADES = 100.0  # as a ratio
LEGEND_WIDTH = 180  # in characters; a line's sample takes about six of them


def plot_picture(picture: Picture, path: Path) -> None:
    """A picture as a PNG; a legend that all panels share is below them."""
    columns = min(2, len(picture.panels))
    rows = len(picture.panels) // columns
    size = (12 if columns > 1 else 10, 3.8 + 1.8 * rows)
    figure = Figure(figsize=size, layout="constrained", dpi=120)
    figure.suptitle(picture.title)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, panel in zip(grid, picture.panels, strict=True):
        _draw(axes, panel)
    handles, labels = grid[0].get_legend_handles_labels()
    if any(axes.get_legend_handles_labels()[1] != labels for axes in grid):
        for axes in grid:
            axes.legend(frameon=False, fontsize=9)
    elif handles:
        # At most five: a pair of the tables' ten lines per column; fewer where labels are long.
        ncols = max(1, min(5, len(handles), LEGEND_WIDTH // (max(map(len, labels)) + 6)))
        where: dict[str, Any] = {"loc": "outside lower center", "ncols": ncols}
        figure.legend(handles, labels, frameon=False, fontsize=9, **where)
    with write_atomically(path) as part:
        figure.savefig(part, format="png")


def _draw(axes: Axes, panel: Panel) -> None:
    for line in panel.lines:
        style: dict[str, Any] = {
            "color": line.colour,
            "linestyle": "--" if line.dashed else "-",
            "linewidth": 2.2 if line.wide else 1.3,
            "marker": "o" if len(line.x) < 10 and line.label[0] != "_" else None,
            "markersize": 3,
            "zorder": 3 if line.wide else 2,
        }
        axes.plot(line.x, line.y, label=line.label, **style)
        if line.low is not None and line.high is not None:
            axes.fill_between(line.x, line.low, line.high, color=line.colour, alpha=0.15)
    axes.set_title(panel.title, fontsize=10)
    axes.set_xlabel(panel.x_title)
    axes.set_ylabel(panel.y_title)
    if panel.log_x:
        axes.set_xscale("log")
    if panel.bottom is not None:
        axes.set_ylim(bottom=panel.bottom)
    if panel.log:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        if high < FEW_DECADES * low:  # powers of ten alone would be one label or none
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(color=GREY, alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def plot_run(history: Mapping[str, Sequence[float]], path: Path, title: str) -> None:
    """L_rho, residual, feed-forward gap and accuracy of one run over its iterations, as a PNG."""

    def curve(name: str, label: str, colour: str = BLUE) -> Line:
        """Through the sampled values; NaN marks iterations that were not sampled."""
        y = np.asarray(history[name], dtype=float)
        seen = np.flatnonzero(np.isfinite(y))
        return Line(label, (seen + 1).tolist(), y[seen].tolist(), colour)

    losses = [curve("train_loss", "loss of the network"), curve("gap", "feed-forward gap", ORANGE)]
    accuracies = [curve("train_accuracy", "training"), curve("test_accuracy", "test", ORANGE)]
    residual = curve("residual", "$\\|z_L - W_L a_{L-1} - b_L\\|$")
    panels = [
        Panel("Augmented Lagrangian", [curve("lagrangian", "$L_\\rho$")], log=True),
        Panel("Residual", [residual], log=True),
        Panel("Loss per sample, and what of it the relaxation hides", losses, log=True),
        Panel("Accuracy", accuracies),
    ]
    plot_picture(Picture(title, panels), path)


def plot_compare(runs: Sequence[Mapping[str, Any]], path: Path, title: str) -> None:
    """Loss and test accuracy (or test loss) of every run over iterations and seconds, as a PNG."""
    methods = list(dict.fromkeys(run["method"] for run in runs))
    classifies = any(np.isfinite(run["test_accuracy"]).any() for run in runs)
    below = "test_accuracy" if classifies else "test_loss"

    def panel(key: str, by_clock: bool) -> Panel:
        lines = []
        for run in runs:
            place, seconds = methods.index(run["method"]), run["seconds"]
            x = seconds if by_clock else range(1, len(seconds) + 1)
            label = run["method"] if run["seed"] == 0 else "_"
            lines.append(Line(label, x, run[key], COLOURS[place % len(COLOURS)], wide=place == 0))
        words = "Training loss" if key == "train_loss" else key.replace("_", " ").capitalize()
        clock: dict[str, Any] = {"x_title": CLOCK, "log_x": True} if by_clock else {}
        return Panel(words, lines, log=key != "test_accuracy", **clock)

    panels = [panel(key, clock) for key in ("train_loss", below) for clock in (False, True)]
    plot_picture(Picture(title, panels), path)
