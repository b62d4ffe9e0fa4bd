"""A sink for `solve`'s records: a progress bar with ETA, loss and accuracy."""

from __future__ import annotations

import math
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from dladmm.core.options import Progress as Iteration


class ProgressBar:
    """Use as a context manager and as a callback of `solve`; the bar goes to standard error."""

    def __init__(self, title: str, max_iter: int, disable: bool = False):
        console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[figures]}"),
            console=console,
            disable=disable or not console.is_terminal,
        )
        self._task = self._bar.add_task(title, total=max_iter, figures="")

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def __call__(self, iteration: Iteration) -> None:
        row = iteration.row
        if math.isfinite(row["train_loss"]):
            figures = f"loss {row['train_loss']:.4f}"
            if math.isfinite(row["train_accuracy"]):
                figures += f"  accuracy {row['train_accuracy']:.1%}"
            self._bar.update(self._task, figures=figures)
        self._bar.update(self._task, completed=iteration.iteration)
