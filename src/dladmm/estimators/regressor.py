"""The regressor: the parameters of MLPRegressor where the idea is the same."""

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from dladmm.core.predict import predict_leverage
from dladmm.engine.processes import refused_together
from dladmm.estimators.base import DLADMMBase
from dladmm.terms.losses import losses


class DLADMMRegressor(RegressorMixin, DLADMMBase):
    """A neural network regressor trained without a learning rate.

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

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The predicted values, shaped like the y of the fit; with `return_std` also the standard
        deviation of what would be observed there, noise included, in the unit of y."""
        if not return_std:
            _, value = self._output(X)
            return value[:, 0] if self.y_is_vector_ else value
        check_is_fitted(self)
        if self.covariance_ is None:
            raise ValueError(
                "return_std=True needs the noise that alpha='evidence' finds; expected a fit that"
                " ended by itself, with method='restored' over all rows, loss='squared_error' and"
                " no early_stopping"
            )
        value, X = self.predict(X), self._checked_rows(X)
        params = self._params(X.shape[1], self.n_outputs_)
        leverage = predict_leverage(self._problem_of(self.layers_), params, X, self.covariance_)
        std = np.sqrt(self.noise_variance_ * (1 + leverage[:, None]))
        return value, std[:, 0] if self.y_is_vector_ else std
