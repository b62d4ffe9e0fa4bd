"""Progress bars: on standard error where that is a terminal, below its cell in a notebook."""

import math
import time
from html import escape
from typing import Any, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from dladmm.core.results import Progress as Iteration

COUNT = "{task.completed:.0f}/{task.total:.0f}"
SECONDS_BETWEEN = 0.1  # two pictures of a bar in a notebook


def is_shown() -> bool:
    """Whether somebody sees a bar: in a notebook, or on a terminal."""
    console = Console(stderr=True)
    return console.is_jupyter or console.is_terminal


class _Bar:
    """A bar with these texts before and after it; a context manager.

    In a notebook it is HTML, which any of them shows: rich itself would need ipywidgets there, and
    a page that runs their scripts. The tasks and their times are rich's in both.
    """

    def __init__(self, before: str, *after: str, disable: bool = False):
        console = Console(stderr=True)
        self._columns: list[ProgressColumn] = [
            TextColumn(before),
            BarColumn(),
            TextColumn(after[0]),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            *map(TextColumn, after[1:]),
        ]
        in_notebook = console.is_jupyter and not disable
        hidden = disable or not console.is_terminal
        self._bar = Progress(*self._columns, console=console, disable=hidden)
        self._disable, self._cell = disable, _Cell() if in_notebook else None

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._bar.stop()
        self._draw(at_once=True)

    def _update(self, task: TaskID, **changes: Any) -> None:
        self._bar.update(task, **changes)
        self._draw()

    def _draw(self, at_once: bool = False) -> None:
        if self._cell is not None and self._bar.tasks:
            self._cell.show("".join(map(self._row, self._bar.tasks)), at_once)

    def _row(self, task: Task) -> str:
        """A task as HTML: what the columns say, the bar among them."""
        parts = []
        for column in self._columns:
            if isinstance(column, BarColumn):
                value = f'value="{task.completed:.0f}" max="{task.total or 1:.0f}"'
                name = escape(task.description or "progress", quote=True)
                parts.append(f'<progress {value} aria-label="{name}"></progress>')
            else:
                parts.append(escape(str(column.render(task))))
        return f"<div>{' '.join(parts)}</div>"


class _Cell:
    """A piece of HTML below a notebook's cell, drawn anew in its place."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._drawn = -math.inf

    def show(self, html: str, at_once: bool) -> None:
        """At once, or where the last picture is old enough."""
        now = time.monotonic()
        if not at_once and now < self._drawn + SECONDS_BETWEEN:
            return
        from IPython.display import HTML, display  # a notebook has it

        self._drawn, picture = now, HTML(html)
        if self._handle is None:
            self._handle = display(picture, display_id=True)
        else:
            self._handle.update(picture)


class ProgressBar(_Bar):
    """One run: a callback of `solve`, with loss and accuracy, and the score on rows held out."""

    def __init__(self, title: str, max_iter: int, compiles: bool = True, disable: bool = False):
        super().__init__("{task.description}", COUNT, "{task.fields[figures]}", disable=disable)
        # With JAX the first iteration is compiled before it runs.
        figures = "compiling" if compiles else ""
        self._task = self._bar.add_task(title, total=max_iter, figures=figures)
        self._draw()

    def __call__(self, iteration: Iteration) -> None:
        figures = figures_text(iteration.row)
        changes = {"figures": figures} if figures else {}
        self._update(self._task, completed=iteration.iteration, **changes)


def figures_text(row: Any) -> str:
    """Loss, accuracy and held-out score of an iteration; empty where they were not sampled."""
    if not math.isfinite(row["train_loss"]):
        return ""
    parts = [f"loss {row['train_loss']:.4f}"]
    classifies = math.isfinite(row["train_accuracy"])
    if classifies:
        parts.append(f"accuracy {row['train_accuracy']:.1%}")
    held_out = row.get("validation_score", math.nan)
    if math.isfinite(held_out):
        # Of numbers it is minus the loss.
        parts.append(f"held out {held_out:.1%}" if classifies else f"held out {-held_out:.4f}")
    return "  ".join(parts)


class CountBar(_Bar):
    """One line per run of several: call it with the run's label and how far it is."""

    def __init__(self, total: int, disable: bool = False):
        super().__init__("{task.description:<24}", COUNT, disable=disable)
        self._total, self._tasks = total, dict[str, TaskID]()

    def __call__(self, label: str, k: int) -> None:
        if label not in self._tasks:
            self._tasks[label] = self._bar.add_task(label, total=self._total)
        self._update(self._tasks[label], completed=k)


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
        self._update(self._task, description=label, completed=done)
