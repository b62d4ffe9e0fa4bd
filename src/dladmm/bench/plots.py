"""The picture of a race."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dladmm.experiments.plots import BLUE, CLOCK, GREY, OTHERS, Line, Panel, Picture, plot_picture


def plot_race(figures: Mapping[str, Any], path: Path) -> None:
    """Loss (full batch) or test accuracy (mini-batches) over wall clock, as a PNG.

    One curve per racer: its seed of median time, or its last one if it never arrived.
    """
    mini = figures["mode"] == "mini-batch"
    key = "test_accuracy" if mini else "train_loss"
    lines = []
    for place, name in enumerate(row["racer"] for row in figures["table"]):
        runs = [run for run in figures["runs"] if run["racer"] == name]
        runs.sort(key=lambda run: np.inf if run["seconds"] is None else run["seconds"])
        curve, ours = runs[len(runs) // 2]["curve"], name.startswith("restored")
        x, y = ([point[what] for point in curve] for what in ("seconds", key))
        lines.append(Line(name, x, y, BLUE if ours else OTHERS[place % len(OTHERS)], wide=ours))
    targets = {run["target"] for run in figures["runs"]}
    ends = [end(x for line in lines for x in line.x) for end in (min, max)]
    lines += [Line("_target", ends, [target, target], GREY, dashed=True) for target in targets]
    network = "-".join(str(n) for n in figures["hidden"])
    title = f"{figures['data']}, {figures['samples']:,} images, hidden layers {network}"
    bottom = max(0.8, min(targets) - 0.05) if mini else None
    words = f"{title}: {key.replace('_', ' ')}"
    panel = Panel(words, lines, CLOCK, log=not mini, log_x=True, bottom=bottom)
    plot_picture(Picture("", [panel]), path)
