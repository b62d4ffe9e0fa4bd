"""The classes or labels of a fit: which there are, as targets of a loss, and what each row weighs.

Rows have one class each (y is a vector) or several labels (y is a matrix of 0 and 1). Where there
are several processes all of them agree.
"""

import json
from typing import Any

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from dladmm.engine.processes import over_processes, process_count, texts_of_processes
from dladmm.terms.losses import Loss


def checked_labels(y: np.ndarray) -> np.ndarray:
    """y as a vector of classes, or as it is, a matrix of labels; ValueError for anything else."""
    if y.ndim == 1 or y.shape[1] == 1:
        y = column_or_1d(y, warn=True)
    check_classification_targets(y)
    if y.ndim == 2 and not (y.dtype.kind in "biuf" and np.isin(y, (0, 1)).all()):
        raise ValueError(
            f"y has {y.shape[1]} columns with values other than 0 and 1; expected one"
            " column of classes, or a column of 0 and 1 for each label"
        )
    return y


def classes_of(y: np.ndarray, classes: Any) -> np.ndarray:
    """The classes in order, or the numbers of the labels; `classes` are what the caller says."""
    columns = over_processes(np.int32(1 if y.ndim == 1 else y.shape[1]))
    if (columns != columns[0]).any():
        raise ValueError(
            f"y has {columns.min()} to {columns.max()} columns; expected the same number in"
            " every process"
        )
    if y.ndim == 1:
        return _of_processes(np.unique(y if classes is None else classes))
    known = np.arange(y.shape[1])
    if classes is not None and not np.array_equal(np.unique(classes), known):
        raise ValueError(
            f"classes={classes!r} does not fit y, a matrix of {len(known)} labels;"
            f" expected the numbers of its columns, 0 to {len(known) - 1}"
        )
    return known


def _of_processes(own: np.ndarray) -> np.ndarray:
    """The classes that any process has rows of."""
    if process_count() == 1:
        return own
    return np.unique(
        [name for text in texts_of_processes(json.dumps(own.tolist())) for name in json.loads(text)]
    )


def check_known(y: np.ndarray, classes: np.ndarray, multilabel: bool) -> None:
    """ValueError for classes or labels other than those of the fit this one continues."""
    if len(classes) < 2:
        raise ValueError(f"y has one class only, {classes[0]!r}; expected at least two")
    if multilabel or y.ndim == 2:
        expected = len(classes) if multilabel else 1
        columns = 1 if y.ndim == 1 else y.shape[1]
        if columns != expected:
            raise ValueError(
                f"y has {columns} columns; expected {expected}, as in the fit this one continues"
            )
        return
    unknown = np.setdiff1d(y, classes)
    if unknown.size:
        raise ValueError(f"y has the class {unknown.tolist()[0]!r}; expected one of {classes}")


def targets(y: np.ndarray, classes: np.ndarray, multilabel: bool, loss: Loss) -> np.ndarray:
    """y as the loss wants it: a column for each class or label, one for two classes in some."""
    if multilabel:
        return y.astype(np.float64)
    one_hot = np.eye(len(classes))[np.searchsorted(classes, y)]
    return one_hot[:, 1:] if loss.one_vs_rest and len(classes) == 2 else one_hot


def class_weights(given: Any, y: np.ndarray, classes: np.ndarray, multilabel: bool) -> Any:
    """`class_weight` as given, "balanced" by the rows of all processes if there are several."""
    n = len(classes)
    if given != "balanced":
        if multilabel and not (isinstance(given, list) and len(given) == n):
            raise ValueError(
                f"class_weight={given!r} does not fit y of {n} labels; expected 'balanced' or a"
                f" list of {n} dictionaries, one for each label"
            )
        return given
    if process_count() == 1:
        return given
    if multilabel:
        return [balanced_over_processes([0, 1], column) for column in y.T]
    return balanced_over_processes(classes.tolist(), y)


def balanced_over_processes(classes: list[Any], y: np.ndarray) -> dict[Any, float]:
    """The weights that "balanced" stands for, by the rows of all processes."""
    codes = np.searchsorted(classes, y)
    counts = over_processes(np.bincount(codes, minlength=len(classes))).sum(0)
    weights = counts.sum() / (np.count_nonzero(counts) * np.maximum(counts, 1))
    return dict(zip(classes, weights.tolist(), strict=True))
