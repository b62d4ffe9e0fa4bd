"""What is to be predicted: its task, its classes and their type, or its mean and scale."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np

from dladmm.data.columns import Column, named

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
    """

    name: str
    task: Task
    class_type: ClassType | None = None
    classes: tuple[Any, ...] = ()
    mean: float = 0.0
    scale: float = 1.0

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "classes": list(self.classes)}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Target:
        return cls(**{**plain, "classes": tuple(plain["classes"])})

    def encode(self, column: Column) -> np.ndarray:
        """The y an estimator is fitted and scored on: labels of the classes' type, or numbers."""
        _refuse_missing(column)
        if self.task == "classification":
            return _labels(column)
        if column.kind not in ("number", "boolean"):
            raise ValueError(f"the target {column.name!r} is {column.kind}; expected numbers")
        _refuse_infinite(column)
        return (column.values.astype(np.float64) - self.mean) / self.scale

    def decode(self, predicted: np.ndarray) -> np.ndarray:
        """An estimator's prediction in the target's own units."""
        if self.task == "classification":
            return predicted
        return np.asarray(predicted, dtype=np.float64) * self.scale + self.mean


def fit_target(column: Column, task: str | None = None, standardise: bool = True) -> Target:
    """The target of these rows; `task` None infers it, see `inferred_task`."""
    if task is not None and task not in TASKS:
        raise ValueError(f"task={task!r} is unknown; expected one of {', '.join(TASKS)}")
    _refuse_missing(column)
    if (task or inferred_task(column)) == "classification":
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
