"""Figures, drawn from saved records only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dladmm.files import write_atomically

BLUE, ORANGE, GREY = "#2a6fbb", "#d9822b", "#8a8f98"


def plot_run(history: Mapping[str, Sequence[float]], path: Path, title: str) -> None:
    """L_rho, residual, feed-forward gap and accuracy of one run over its iterations, as a PNG."""
    figure = Figure(figsize=(10, 6.4), layout="constrained", dpi=120)
    figure.suptitle(title)
    (top_left, top_right), (low_left, low_right) = figure.subplots(2, 2, sharex=True)
    _curve(top_left, history["lagrangian"], BLUE, "$L_\\rho$")
    _titled(top_left, "Augmented Lagrangian", log=True)
    _curve(top_right, history["residual"], BLUE, "$\\|z_L - W_L a_{L-1} - b_L\\|$")
    _titled(top_right, "Residual", log=True)
    _curve(low_left, history["train_loss"], BLUE, "loss of the network")
    _curve(low_left, history["gap"], ORANGE, "feed-forward gap")
    _titled(low_left, "Loss per sample, and what of it the relaxation hides", log=True)
    _curve(low_right, history["train_accuracy"], BLUE, "training")
    if "test_accuracy" in history:
        _curve(low_right, history["test_accuracy"], ORANGE, "test")
    _titled(low_right, "Accuracy")
    for axes in (low_left, low_right):
        axes.set_xlabel("iteration")
    with write_atomically(path) as part:
        figure.savefig(part, format="png")


def _curve(axes: Axes, values: Sequence[float], colour: str, label: str) -> None:
    """One curve through the sampled values; NaN marks iterations that were not sampled."""
    y = np.asarray(values, dtype=float)
    k = np.arange(1, len(y) + 1)
    seen = np.isfinite(y)
    axes.plot(k[seen], y[seen], color=colour, label=label, linewidth=1.8)


def _titled(axes: Axes, title: str, log: bool = False) -> None:
    axes.set_title(title, fontsize=10)
    if log:
        axes.set_yscale("log")
    axes.grid(color=GREY, alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
