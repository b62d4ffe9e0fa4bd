"""The picture of a race."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from dladmm.experiments.plots import BLUE, GREY, OTHERS, titled
from dladmm.io.files import write_atomically


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
            [point["seconds"] for point in run["curve"]],
            [point[key] for point in run["curve"]],
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
    titled(axes, f"{title}: {key.replace('_', ' ')}", log=not mini)
    with write_atomically(path) as part:
        figure.savefig(part, format="png")
