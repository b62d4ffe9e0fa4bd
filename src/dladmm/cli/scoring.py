"""Scores of a trained estimator, on the rows of this process or of all. Nothing here prints."""

import math
from typing import Any

import jax
import numpy as np

from dladmm.core.engine.devices import over_processes
from dladmm.data.columns import Table
from dladmm.data.preprocessing import TablePreprocessor


def score(estimator: Any, X: np.ndarray, y: np.ndarray, pooled: bool = False) -> float | None:
    """Accuracy, or R2 (which standardising the target does not change); None if interrupted.

    R2 compares with the mean, so that a single row has none. `pooled`: every process has rows.
    """
    if pooled and jax.process_count() > 1:
        return _pooled_score(estimator, X, y)
    if len(y) < 2 and y.dtype.kind == "f":
        return None
    try:
        return finite(estimator.score(X, y))
    except KeyboardInterrupt:  # the model is saved by now, and worth more than its score
        return None


def _pooled_score(estimator: Any, X: np.ndarray, y: np.ndarray) -> float | None:
    """The score on the rows of all processes."""
    predicted = estimator.predict(X)
    if hasattr(estimator, "classes_"):
        right, count = over_processes([float((predicted == y).sum()), float(len(y))]).sum(0)
        return finite(right / count)
    off = float(((predicted - y) ** 2).sum())
    sums = over_processes([off, float((y**2).sum()), float(y.sum()), float(len(y))]).sum(0)
    off, squares, total, count = map(float, sums)
    spread = squares - total**2 / count
    return finite(1 - off / spread) if spread > 0 else None


def score_if_known(
    estimator: Any, preprocessing: TablePreprocessor | None, table: Table, inputs: Any
) -> float | None:
    """The score where the table to predict has the answers, all of them."""
    if preprocessing is None or preprocessing.target.name not in table.names or len(inputs) < 2:
        return None
    try:
        y = preprocessing.target.encode(table.column(preprocessing.target.name))
        return score(estimator, inputs, y)
    except (ValueError, TypeError):  # answers of another kind, or with gaps, are no answers
        return None


def finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def score_text(task: str, value: float | None) -> str:
    name = "accuracy" if task == "classification" else "R2"
    return f"{name} {'unknown' if value is None else f'{value:.4f}'}"
