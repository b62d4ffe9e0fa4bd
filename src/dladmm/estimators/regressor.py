"""The regressor: the parameters of MLPRegressor where the idea is the same."""

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import _check_sample_weight

from dladmm.core.engine.devices import refused_together
from dladmm.estimators.base import DLADMMBase
from dladmm.terms.losses import losses


class DLADMMRegressor(RegressorMixin, DLADMMBase):
    """A neural network regressor trained by alternating minimisation.

    As `DLADMMClassifier`, with loss "squared_error", "huber", "absolute_error", "quantile",
    "poisson" or a Loss such as Quantile(0.9); y may have several columns.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on all rows; Ctrl-C keeps the best network so far."""
        reset = not (self.warm_start and hasattr(self, "coefs_"))
        X, Y, weights = self._prepared(X, y, sample_weight, reset)
        self._fit(X, Y, weights, strata=None)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """One pass over these rows."""
        first = not hasattr(self, "coefs_")
        X, Y, weights = self._prepared(X, y, sample_weight, first)
        self._pass(X, Y, weights, first)
        return self

    def _prepared(
        self, X: Any, y: Any, sample_weight: Any, reset: bool
    ) -> tuple[Any, np.ndarray, np.ndarray | None]:
        if losses.get(self.loss).classifies:
            raise ValueError(f"loss={self.loss!r} is for classes; expected one for regression")
        X, y = self._validated(X, y, reset=reset, multi_output=True, y_numeric=True)
        self.y_is_vector_ = y.ndim == 1
        weights = None
        if sample_weight is not None:
            with refused_together():
                weights = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        return X, np.asarray(y, dtype=np.float64).reshape(X.shape[0], -1), weights

    def predict(self, X: Any) -> np.ndarray:
        """The predicted values, shaped like the y of the fit."""
        _, value = self._output(X)
        return value[:, 0] if self.y_is_vector_ else value
