"""The pictures of the paper's evaluation as PNG files."""

from pathlib import Path

from matplotlib.figure import Figure

from dladmm.experiments.plots import titled
from dladmm.io.files import write_atomically
from dladmm.paper.panels import Picture

LEGEND_WIDTH = 180  # in characters; a line's sample takes about six of them


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
        titled(axes, panel.title, log=panel.log, legend=False)
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
