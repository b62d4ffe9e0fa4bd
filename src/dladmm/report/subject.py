"""What a page is about, in one place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from dladmm.report.page import Table

MOST_ROWS = 20_000  # more of them change no figure a reader could tell


def chosen(count: int) -> np.ndarray:
    """Every k-th row where there are more than a page needs."""
    return np.arange(0, count, max(1, -(-count // MOST_ROWS)))


@dataclass
class Subject:
    """What a page is about: a fitted estimator, rows it was not trained on, and their targets.

    `model` is the one whose curves and certificate are shown, where that is another one. `groups`
    are columns by name with their inputs; `cells` a row's columns as text; `decode` turns targets
    and predictions into the reader's unit, of which `scale` is the size.
    """

    estimator: Any
    X: np.ndarray
    y: np.ndarray
    groups: Sequence[tuple[str, Sequence[int]]]
    known: np.ndarray
    rows: np.ndarray  # their numbers, as the reader counts
    model: Any = None
    title: str = ""
    target: str = "y"
    unit: str = ""
    decode: Callable[[np.ndarray], np.ndarray] = lambda values: values
    scale: float = 1.0
    cells: Callable[[int, str], str] | None = None
    image_shape: tuple[int, int] | None = None
    columns: Table | None = None
    remarks: Sequence[str] = ()
    notes: Sequence[str] = ()
    seed: Any = None
    predicted: np.ndarray = field(init=False)
    shares: np.ndarray | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.predicted = self.decode(self.predict(self.X))
        if self.classifies and hasattr(self.estimator, "predict_proba"):
            self.shares = self.estimator.predict_proba(self.named(self.X))

    def named(self, X: np.ndarray) -> Any:
        """Rows under the names they had in the fit, if they had any."""
        names = getattr(self.estimator, "feature_names_in_", None)
        if names is None:
            return X
        import pandas as pd

        return pd.DataFrame(X, columns=names)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """As the estimator has it, dense."""
        found = self.estimator.predict(self.named(X))
        return found.toarray() if sparse.issparse(found) else found

    @property
    def classifies(self) -> bool:
        return hasattr(self.estimator, "classes_")

    @property
    def shown_model(self) -> Any:
        return self.estimator if self.model is None else self.model
