"""Figures, drawn from saved records only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from dladmm.files import write_atomically
from dladmm.report.panels import BLUE, GREY, ORANGE, OTHERS, Picture

FEW_DECADES = 100.0  # as a ratio
LEGEND_WIDTH = 180  # in characters; a line's sample takes about six of them


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
        _titled(grid[0][column], "Training loss", log=True)
        _titled(grid[1][column], below.replace("_", " ").capitalize(), log=not classifies)
        grid[1][column].set_xlabel(name)
    grid[1][1].set_xscale("log")
    with write_atomically(path) as part:
        figure.savefig(part, format="png")


def plot_race(figures: Mapping[str, Any], path: Path) -> None:
    """Loss (full batch) or test accuracy (mini-batches) over wall clock, as a PNG.

    One curve per racer: its seed of median time, or its last one if it never arrived.
    """
    figure = Figure(figsize=(10, 5), layout="constrained", dpi=120)
    axes = figure.subplots()
    mini = figures["mode"] == "mini-batch"
    key = "test_accuracy" if mini else "train_loss"
    names = [row["racer"] for row in figures["table"]]
    for name in names:
        runs = [run for run in figures["runs"] if run["racer"] == name]
        runs.sort(key=lambda run: np.inf if run["seconds"] is None else run["seconds"])
        run = runs[len(runs) // 2]
        ours = name.startswith("restored")
        colour = BLUE if ours else OTHERS[names.index(name) % len(OTHERS)]
        axes.plot(
            [lap["seconds"] for lap in run["laps"]],
            [lap[key] for lap in run["laps"]],
            color=colour,
            linewidth=2.2 if ours else 1.1,
            label=name,
            zorder=3 if ours else 2,
        )
    for target in {run["target"] for run in figures["runs"]}:
        axes.axhline(target, color=GREY, linewidth=0.8, linestyle="--")
    axes.set_xlabel("seconds of training, compilation apart")
    axes.set_xscale("log")
    if mini:
        axes.set_ylim(bottom=max(0.8, min(run["target"] for run in figures["runs"]) - 0.05))
    network = "-".join(str(n) for n in figures["hidden"])
    title = f"{figures['data']}, {figures['samples']:,} images, hidden layers {network}"
    _titled(axes, f"{title}: {key.replace('_', ' ')}", log=not mini)
    with write_atomically(path) as part:
        figure.savefig(part, format="png")


def plot_picture(picture: Picture, path: Path) -> None:
    """A picture of the paper's evaluation as a PNG, its legend below."""
    figure = Figure(figsize=(12, 5.6), layout="constrained", dpi=120)
    figure.suptitle(picture.title)
    grid = figure.subplots(1, len(picture.panels), squeeze=False)[0]
    for axes, panel in zip(grid, picture.panels, strict=True):
        for line in panel.lines:
            style = {
                "color": line.colour,
                "linestyle": "--" if line.dashed else "-",
                "linewidth": 2.2 if line.wide else 1.3,
                "marker": "o" if len(line.x) < 10 else None,
                "markersize": 3,
            }
            axes.plot(line.x, line.y, label=line.label, **style)
            if line.low is not None and line.high is not None:
                axes.fill_between(line.x, line.low, line.high, color=line.colour, alpha=0.15)
        _titled(axes, panel.title, log=panel.log, legend=False)
        axes.set_xlabel(panel.x_title)
        axes.set_ylabel(panel.y_title)
    handles, labels = grid[0].get_legend_handles_labels()
    if handles:
        # At most five: a pair of the tables' ten lines per column; fewer where labels are long.
        columns = max(1, min(5, len(handles), LEGEND_WIDTH // (max(map(len, labels)) + 6)))
        figure.legend(
            handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9
        )
    with write_atomically(path) as part:
        figure.savefig(part, format="png")


def _curve(axes: Axes, values: Sequence[float], colour: str, label: str) -> None:
    """One curve through the sampled values; NaN marks iterations that were not sampled."""
    y = np.asarray(values, dtype=float)
    k = np.arange(1, len(y) + 1)
    seen = np.isfinite(y)
    axes.plot(k[seen], y[seen], color=colour, label=label, linewidth=1.8)


def _titled(axes: Axes, title: str, log: bool = False, legend: bool = True) -> None:
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
