"""Progress bars on standard error, shown on terminals only."""

import math
import time
from typing import Any, Self

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

from dladmm.core.results import Progress as Iteration

COUNT = "{task.completed:.0f}/{task.total:.0f}"


class _Bar:
    """A bar with these texts before and after it; a context manager."""

    def __init__(self, before: str, *after: str, disable: bool = False):
        console = Console(stderr=True)
        columns: list[ProgressColumn] = [TextColumn(before), BarColumn(), TextColumn(after[0])]
        columns += [TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()]
        columns += map(TextColumn, after[1:])
        hidden = disable or not console.is_terminal
        self._bar, self._disable = Progress(*columns, console=console, disable=hidden), disable

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._bar.stop()


class ProgressBar(_Bar):
    """One run: a callback of `solve`, with loss and accuracy."""

    def __init__(self, title: str, max_iter: int, compiles: bool = True, disable: bool = False):
        super().__init__("{task.description}", COUNT, "{task.fields[figures]}", disable=disable)
        # With JAX the first iteration is compiled before it runs.
        figures = "compiling" if compiles else ""
        self._task = self._bar.add_task(title, total=max_iter, figures=figures)

    def __call__(self, iteration: Iteration) -> None:
        row = iteration.row
        figures: dict[str, Any] = {}
        if math.isfinite(row["train_loss"]):
            figures["figures"] = f"loss {row['train_loss']:.4f}"
            if math.isfinite(row["train_accuracy"]):
                figures["figures"] += f"  accuracy {row['train_accuracy']:.1%}"
        self._bar.update(self._task, completed=iteration.iteration, **figures)


class CountBar(_Bar):
    """One line per run of several: call it with the run's label and how far it is."""

    def __init__(self, total: int, disable: bool = False):
        super().__init__("{task.description:<24}", COUNT, disable=disable)
        self._total, self._tasks = total, dict[str, TaskID]()

    def __call__(self, label: str, k: int) -> None:
        if label not in self._tasks:
            self._tasks[label] = self._bar.add_task(label, total=self._total)
        self._bar.update(self._tasks[label], completed=k)


class WorkBar(_Bar):
    """One line for many runs of unequal length: call it with what runs and its share done."""

    def __init__(self, work: float, disable: bool = False):
        super().__init__("{task.description:<32}", "{task.percentage:.0f}%", disable=disable)
        self._task = self._bar.add_task("", total=max(work, 1.0))
        self._finished = self._work = 0.0

    def print(self, line: str) -> None:
        """A line that stays, on files too, where there is no bar."""
        if not self._disable:
            self._bar.console.print(f"{time.strftime('%H:%M:%S')}  {line}", highlight=False)

    def begin(self, work: float) -> None:
        """The next run, of this much work, is under way; the one before is finished."""
        self._finished += self._work
        self._work = work

    def __call__(self, label: str, share: float) -> None:
        done = self._finished + share * self._work
        self._bar.update(self._task, description=label, completed=done)
