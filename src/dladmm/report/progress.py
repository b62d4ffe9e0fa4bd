"""A sink for `solve`'s records: a progress bar with ETA, loss and accuracy."""

from __future__ import annotations

import math
import time
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from dladmm.core.options import Progress as Iteration


def _bar(columns: list[ProgressColumn], disable: bool) -> Progress:
    """A bar on standard error, shown on terminals only."""
    console = Console(stderr=True)
    return Progress(*columns, console=console, disable=disable or not console.is_terminal)


class CountBar:
    """One line per run of several: call it with the run's label and how far it is."""

    def __init__(self, total: int, disable: bool = False):
        self._total, self._tasks = total, dict[str, TaskID]()
        self._bar = _bar(
            [
                TextColumn("{task.description:<24}"),
                BarColumn(),
                TextColumn("{task.completed:.0f}/{task.total:.0f}"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
            ],
            disable,
        )

    def __enter__(self) -> CountBar:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def __call__(self, label: str, k: int) -> None:
        if label not in self._tasks:
            self._tasks[label] = self._bar.add_task(label, total=self._total)
        self._bar.update(self._tasks[label], completed=k)


class WorkBar:
    """One line for many runs of unequal length: call it with what runs and its share done."""

    def __init__(self, work: float, disable: bool = False):
        columns: list[ProgressColumn] = [
            TextColumn("{task.description:<32}"),
            BarColumn(),
            TextColumn("{task.percentage:.0f}%"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        ]
        self._bar, self._silent = _bar(columns, disable), disable
        self._task = self._bar.add_task("", total=max(work, 1.0))
        self._finished = self._work = 0.0

    def __enter__(self) -> WorkBar:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def say(self, line: str) -> None:
        """A line that stays, on files too, where there is no bar."""
        if not self._silent:
            self._bar.console.print(f"{time.strftime('%H:%M:%S')}  {line}", highlight=False)

    def begin(self, work: float) -> None:
        """The next run, of this much work, is under way; the one before is finished."""
        self._finished += self._work
        self._work = work

    def __call__(self, label: str, share: float) -> None:
        done = self._finished + share * self._work
        self._bar.update(self._task, description=label, completed=done)


class ProgressBar:
    """Use as a context manager and as a callback of `solve`; the bar goes to standard error."""

    def __init__(self, title: str, max_iter: int, disable: bool = False):
        self._bar = _bar(
            [
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.completed:.0f}/{task.total:.0f}"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                TextColumn("{task.fields[figures]}"),
            ],
            disable,
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
