"""Scores of a trained estimator, on the rows of this process or of all. Nothing here prints."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dladmm.data.columns import Table
from dladmm.data.preprocessing import TablePreprocessor
from dladmm.engine.processes import over_processes

if TYPE_CHECKING:
    from dladmm.data.target import Target

LEAST_PROBABILITY = 1e-15  # the log-loss of what was held impossible is finite


def scored(
    estimator: Any,
    target: Target,
    X: np.ndarray,
    y: np.ndarray,
    known: np.ndarray,
    pooled: bool = False,
) -> dict[str, Any]:
    """Figures on these rows, beside those of who knows the targets `known` only.

    Of classes: accuracy and log-loss, beside the accuracy of the most frequent class and the
    log-loss of the classes' shares. Of numbers: R2, which compares with the mean already, and the
    mean absolute error in the target's unit, beside that of the mean of `known`.
    `pooled`: every process has rows, and the figures are those of all of them.
    """
    if target.task == "classification":
        return _of_classes(estimator, X, y, known, pooled)
    return _of_numbers(estimator, target.scale, X, y, known, pooled)


def _total(sums: np.ndarray, pooled: bool) -> Any:
    return over_processes(sums).sum(0) if pooled else sums


def _of_classes(
    estimator: Any, X: Any, y: np.ndarray, known: np.ndarray, pooled: bool
) -> dict[str, Any]:
    classes, counts = np.unique(known, return_counts=True)
    most = classes[np.argmax(counts)]
    sums = np.zeros(5)
    gives_shares = hasattr(estimator, "predict_proba")
    if len(y):
        wanted = [estimator.predict(X) == y, y == most]
        if gives_shares:
            P = estimator.predict_proba(X)
            wanted.append(-np.log(_of_own_class(P, estimator.classes_, y)))
        else:
            wanted.append(np.zeros(len(y)))
        shares = np.tile(counts / counts.sum(), (len(y), 1))
        wanted.append(-np.log(_of_own_class(shares, classes, y)))
        sums = np.array([len(y), *(float(np.sum(part)) for part in wanted)])
    count, right, right_most, log_loss, log_loss_shares = _total(sums, pooled)
    figures: dict[str, Any] = {
        "rows": int(count),
        "accuracy": finite(right / count),
        "accuracy_of_most_frequent_class": finite(right_most / count),
        "most_frequent_class": most.item() if hasattr(most, "item") else most,
    }
    if gives_shares:
        figures["log_loss"] = finite(log_loss / count)
        figures["log_loss_of_class_shares"] = finite(log_loss_shares / count)
    return figures


def _of_own_class(shares: np.ndarray, classes: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The probability each row had for its own class."""
    own = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    found = np.where(classes[own] == y, np.asarray(shares)[np.arange(len(y)), own], 0)
    return np.maximum(found, LEAST_PROBABILITY)


def _of_numbers(
    estimator: Any, scale: float, X: Any, y: np.ndarray, known: np.ndarray, pooled: bool
) -> dict[str, Any]:
    sums = np.zeros(6)
    if len(y):
        off = np.asarray(estimator.predict(X), dtype=np.float64) - y
        mean = float(known.mean())
        parts = (off**2, np.abs(off), y, y**2, np.abs(y - mean))
        sums = np.array([len(y), *(float(part.sum()) for part in parts)])
    count, squares, absolute, total, total_squares, absolute_mean = _total(sums, pooled)
    spread = total_squares - total**2 / count
    return {
        "rows": int(count),
        "r2": finite(1 - squares / spread) if count > 1 and spread > 0 else None,
        "mean_absolute_error": finite(scale * absolute / count),
        "mean_absolute_error_of_mean": finite(scale * absolute_mean / count),
    }


def scored_if_known(
    estimator: Any, preprocessing: TablePreprocessor | None, table: Table, inputs: np.ndarray
) -> dict[str, Any] | None:
    """Figures of the rows to predict that have the answer, if there are such."""
    if preprocessing is None or preprocessing.target.name not in table.names:
        return None
    target, column = preprocessing.target, table.column(preprocessing.target.name)
    try:
        answered = target.answered(column)
        y = target.encode(replace(column, values=column.values[answered]))
        return scored(estimator, target, inputs[answered], y, y) if len(y) > 1 else None
    except (ValueError, TypeError):  # answers of another kind are no answers
        return None


def main_score(figures: Mapping[str, Any] | None) -> float | None:
    """Accuracy or R2."""
    return None if figures is None else figures.get("accuracy", figures.get("r2"))


def finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def score_text(figures: Mapping[str, Any], on: str = "") -> str:
    name = "accuracy" if "accuracy" in figures else "R2"
    value = main_score(figures)
    return f"{name}{on} {'unknown' if value is None else f'{value:.4f}'}"


def comparison(figures: Mapping[str, Any], unit: str = "") -> list[str]:
    """Each figure beside what needs no network."""
    unit = f" {unit}" if unit else ""
    if "accuracy" in figures:
        texts = [
            f"{score_text(figures)}; always {figures['most_frequent_class']!r}:"
            f" {figures['accuracy_of_most_frequent_class']:.4f}"
        ]
        if figures.get("log_loss") is not None:
            shares = figures["log_loss_of_class_shares"]
            texts.append(f"log-loss {figures['log_loss']:.4f}; the classes' shares: {shares:.4f}")
        return texts
    texts = [score_text(figures)]
    if figures["mean_absolute_error"] is not None:
        mean = figures["mean_absolute_error_of_mean"]
        texts.append(
            f"mean absolute error {figures['mean_absolute_error']:.5g}{unit};"
            f" the mean: {mean:.5g}{unit}"
        )
    return texts
