"""What is to be predicted: its task, its classes and their type, or its mean and scale."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from dladmm.data.columns import Column, lookalikes, named
from dladmm.data.dates import date_formats
from dladmm.data.numbers import NumberText, looks_like_numbers, number_text

Task = Literal["classification", "regression"]
ClassType = Literal["int", "float", "bool", "str"]
TASKS: tuple[str, ...] = get_args(Task)
# Whole numbers are classes if they take few values, each of them often enough.
MOST_CLASSES = 20
ROWS_PER_CLASS = 5
_DTYPES: dict[str, Any] = {"int": np.int64, "float": np.float64, "bool": np.bool_, "str": np.str_}


@dataclass(frozen=True)
class Target:
    """The target column as learned from the training rows.

    A regression trains on (y - mean) / scale, so that one default serves targets of any size.
    `written` is how its numbers are written, where they are text.
    """

    name: str
    task: Task
    class_type: ClassType | None = None
    classes: tuple[Any, ...] = ()
    mean: float = 0.0
    scale: float = 1.0
    written: NumberText | None = None

    @property
    def unit(self) -> str:
        return self.written.unit if self.written else ""

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "classes": list(self.classes)}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Target:
        written = NumberText.from_dict(plain.get("written"))
        return cls(**{**plain, "classes": tuple(plain["classes"]), "written": written})

    def answered(self, column: Column) -> np.ndarray:
        """Which rows have a target."""
        return ~self.read(column).missing

    def encode(self, column: Column) -> np.ndarray:
        """The y an estimator is fitted and scored on: labels of the classes' type, or numbers."""
        column = self.read(column)
        _refuse_missing(column)
        if self.task == "classification":
            labels = _labels(column)
            return labels.astype(np.int64) if self.class_type == "int" else labels
        if column.kind not in ("number", "boolean"):
            raise ValueError(f"the target {column.name!r} is {column.kind}; expected numbers")
        _refuse_infinite(column)
        return (column.values.astype(np.float64) - self.mean) / self.scale

    def decode(self, predicted: np.ndarray) -> np.ndarray:
        """An estimator's prediction in the target's own units."""
        if self.task == "classification":
            return predicted
        return np.asarray(predicted, dtype=np.float64) * self.scale + self.mean

    def read(self, column: Column) -> Column:
        """The column as it was taken in training: numbers where their text was read as such."""
        return _as_numbers(column, self.written) if self.written else column


def fit_target(column: Column, task: str | None = None, standardise: bool = True) -> Target:
    """The target of the rows that have one; `task` None infers it, see `inferred_task`."""
    if task is not None and task not in TASKS:
        raise ValueError(f"task={task!r} is unknown; expected one of {', '.join(TASKS)}")
    written = None
    if column.kind == "text" and not column.declared and task != "classification":
        written = _written(column, task)
    if written is not None:
        column = _as_numbers(column, written)
        how = f" with {written}" if str(written) else ""
        warnings.warn(f"the target {column.name!r} is read as numbers{how}", stacklevel=2)
    present = ~column.missing
    if not present.all():
        column = _without_gaps(column, present)
    return replace(_fitted(column, task or inferred_task(column), standardise), written=written)


def _without_gaps(column: Column, present: np.ndarray) -> Column:
    """The rows that have a target; whole numbers, which gaps have made floats, are whole again."""
    if not present.any():
        raise ValueError(f"the target {column.name!r} is missing in all rows; expected some")
    warnings.warn(
        f"the target {column.name!r} is missing in {int((~present).sum())} of {len(present)} rows,"
        " which are left out",
        stacklevel=3,
    )
    values = column.values[present]
    if column.kind == "number" and np.all(values == np.round(values)) and np.ptp(values) < 2**53:
        values = values.astype(np.int64)
    return replace(column, values=values)


def _written(column: Column, task: str | None) -> NumberText | None:
    """How to read a target that is text as numbers; None if its texts are classes.

    Hundreds of classes are not made of what may have been meant as numbers: ValueError.
    """
    cells = Counter(cell for cell in column.values if cell is not None)
    if (task or len(cells) > MOST_CLASSES) and all(cell.strip().isdecimal() for cell in cells):
        return NumberText()  # filled up with zeros, which are names where they are few
    written = number_text(cells, column.decimal, stray_part=0)
    if written is not None:
        numbers = _as_numbers(column, written)
        values = numbers.values[~numbers.missing]
        if task or inferred_task(replace(numbers, values=values)) == "regression":
            return written
        return written if numbers.missing.sum() > column.missing.sum() else None
    if task is not None or len(cells) <= MOST_CLASSES:
        return None
    if date_formats(cells):
        raise ValueError(f"the target {column.name!r} is a date; expected numbers or classes")
    what = None
    if looks_like_numbers(cells):
        what = f"most of them numbers, but not all alike ({named(_odd_cells(cells), 3)})"
    elif 2 * len(cells) > sum(cells.values()):
        what = f"in {sum(cells.values())} rows"
    if what is not None:
        raise ValueError(
            f"the target {column.name!r} has {len(cells)} different texts, {what};"
            " expected numbers, fewer classes, or --task classification"
        )
    return None


def _odd_cells(cells: Counter[str]) -> list[str]:
    """One cell that reads as a number and those that do not, or that have another unit."""
    numbers = [cell for cell in cells if looks_like_numbers([cell])]
    others = [cell for cell in cells if not looks_like_numbers([cell])]
    return [*numbers[:1], *others] if others else numbers


def _as_numbers(column: Column, written: NumberText) -> Column:
    """A target of numbers as text as numbers, NaN where there is none."""
    if column.kind != "text":
        return column
    try:
        values, _ = written.read(column.values, column.decimal)
    except ValueError as error:
        raise ValueError(f"the target {column.name!r} has {error}; expected numbers") from None
    return replace(column, kind="number", values=values)


def _fitted(column: Column, task: str, standardise: bool) -> Target:
    if task == "classification":
        return _classification(column)
    if column.kind not in ("number", "boolean"):
        raise ValueError(
            f"the target {column.name!r} is {column.kind}; expected numbers for a regression"
        )
    _refuse_infinite(column)
    if not standardise:
        return Target(column.name, "regression")
    y = column.values.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        mean, scale = float(y.mean()), float(y.std())
    if not np.isfinite([mean, scale]).all():
        raise ValueError(
            f"the target {column.name!r} has numbers up to {np.abs(y).max():.3g};"
            " expected numbers whose squares can be added"
        )
    if np.ptp(y) == 0:
        warnings.warn(f"the target {column.name!r} is always {y[0]:g}", stacklevel=2)
        scale = 1.0
    return Target(column.name, "regression", mean=mean, scale=scale)


def inferred_task(column: Column) -> Task:
    """Classification for text, booleans and few whole numbers; regression for other numbers."""
    if column.kind in ("text", "boolean"):
        return "classification"
    if column.kind == "date":
        raise ValueError(f"the target {column.name!r} is a date; expected numbers or classes")
    _refuse_infinite(column)
    if not np.all(column.values == np.round(column.values)):
        return "regression"
    n_classes = len(np.unique(column.values))
    most = min(MOST_CLASSES, max(2, len(column.values) // ROWS_PER_CLASS))
    return "classification" if n_classes <= most else "regression"


def _classification(column: Column) -> Target:
    labels = _labels(column)
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) < 2:
        raise ValueError(
            f"the target {column.name!r} has one class only, {classes.tolist()[0]!r};"
            " expected at least two"
        )
    rare = classes[counts == 1].tolist()
    if rare:
        what = "class" if len(rare) == 1 else "classes"
        warnings.warn(
            f"the target {column.name!r} has one row only of the {what} {named(rare)}:"
            " too few to learn from",
            stacklevel=3,
        )
    if alike := lookalikes(classes.tolist()):
        warnings.warn(f"the target {column.name!r} {alike}", stacklevel=3)
    types: dict[str, ClassType] = {"i": "int", "u": "int", "f": "float", "b": "bool", "U": "str"}
    kind = types[labels.dtype.kind]
    return Target(column.name, "classification", class_type=kind, classes=tuple(classes.tolist()))


def _labels(column: Column) -> np.ndarray:
    """The labels in their own type: text, booleans, or whole numbers."""
    if column.kind == "text":
        return column.values.astype(_DTYPES["str"])
    if column.kind == "boolean":
        return column.values.astype(_DTYPES["bool"])
    if column.kind == "date":
        raise ValueError(f"the target {column.name!r} is a date; expected numbers or classes")
    _refuse_infinite(column)
    fractions = column.values[column.values != np.round(column.values)]
    if len(fractions):
        raise ValueError(
            f"the target {column.name!r} has the value {fractions[0]:g};"
            " expected whole numbers, text or booleans as classes, or task 'regression'"
        )
    whole = column.values.dtype.kind in "iu"
    return column.values.astype(_DTYPES["int" if whole else "float"])


def _refuse_missing(column: Column) -> None:
    count = int(column.missing.sum())
    if count:
        raise ValueError(
            f"the target {column.name!r} is missing in {count} of {len(column.values)} rows;"
            " expected a value in each"
        )


def _refuse_infinite(column: Column) -> None:
    count = int(np.isinf(column.values).sum())
    if count:
        raise ValueError(
            f"the target {column.name!r} is infinite in {count} rows; expected finite numbers"
        )
