"""Figures, drawn from saved records only."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from dladmm.io.files import write_atomically

BLUE, ORANGE, GREY = "#2a6fbb", "#d9822b", "#8a8f98"
OTHERS = (
    ORANGE, "#a03b2a", "#6b8e23", "#7a5ba6", "#c2a12d", "#4f9a94", "#b56a8d", "#708090",
    "#22b2d6", "#8fce00",
)  # fmt: skip
FEW_DECADES = 100.0  # as a ratio


def plot_run(history: Mapping[str, Sequence[float]], path: Path, title: str) -> None:
    """L_rho, residual, feed-forward gap and accuracy of one run over its iterations, as a PNG."""
    figure = Figure(figsize=(10, 6.4), layout="constrained", dpi=120)
    figure.suptitle(title)
    (top_left, top_right), (low_left, low_right) = figure.subplots(2, 2, sharex=True)
    _curve(top_left, history["lagrangian"], BLUE, "$L_\\rho$")
    titled(top_left, "Augmented Lagrangian", log=True)
    _curve(top_right, history["residual"], BLUE, "$\\|z_L - W_L a_{L-1} - b_L\\|$")
    titled(top_right, "Residual", log=True)
    _curve(low_left, history["train_loss"], BLUE, "loss of the network")
    _curve(low_left, history["gap"], ORANGE, "feed-forward gap")
    titled(low_left, "Loss per sample, and what of it the relaxation hides", log=True)
    _curve(low_right, history["train_accuracy"], BLUE, "training")
    if "test_accuracy" in history:
        _curve(low_right, history["test_accuracy"], ORANGE, "test")
    titled(low_right, "Accuracy")
    for axes in (low_left, low_right):
        axes.set_xlabel("iteration")
    with write_atomically(path) as part:
        figure.savefig(part, format="png")


def plot_compare(runs: Sequence[Mapping[str, Any]], path: Path, title: str) -> None:
    """Loss and test accuracy (or test loss) of every run over iterations and seconds, as a PNG."""
    figure = Figure(figsize=(11, 7.4), layout="constrained", dpi=120)
    figure.suptitle(title)
    grid = figure.subplots(2, 2, sharex="col")
    labels = list(dict.fromkeys(run["method"] for run in runs))
    classifies = any(np.isfinite(run["test_accuracy"]).any() for run in runs)
    below = "test_accuracy" if classifies else "test_loss"
    for run in runs:
        place = labels.index(run["method"])
        style = {
            "color": (BLUE, *OTHERS)[place % (1 + len(OTHERS))],
            "linewidth": 2.2 if place == 0 else 1.2,
            "label": run["method"] if run["seed"] == 0 else None,
        }
        steps = np.arange(1, len(run["seconds"]) + 1)
        for column, where in enumerate((steps, run["seconds"])):
            grid[0][column].plot(where, run["train_loss"], **style)
            grid[1][column].plot(where, run[below], **style)
    for column, name in enumerate(("iteration", "seconds of training, compilation apart")):
        titled(grid[0][column], "Training loss", log=True)
        titled(grid[1][column], below.replace("_", " ").capitalize(), log=not classifies)
        grid[1][column].set_xlabel(name)
    grid[1][1].set_xscale("log")
    with write_atomically(path) as part:
        figure.savefig(part, format="png")


def _curve(axes: Axes, values: Sequence[float], colour: str, label: str) -> None:
    """One curve through the sampled values; NaN marks iterations that were not sampled."""
    y = np.asarray(values, dtype=float)
    k = np.arange(1, len(y) + 1)
    seen = np.isfinite(y)
    axes.plot(k[seen], y[seen], color=colour, label=label, linewidth=1.8)


def titled(axes: Axes, title: str, log: bool = False, legend: bool = True) -> None:
    axes.set_title(title, fontsize=10)
    if log:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        if high < FEW_DECADES * low:  # powers of ten alone would be one label or none
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(color=GREY, alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    if legend:
        axes.legend(frameon=False, fontsize=9)
