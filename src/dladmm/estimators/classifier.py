"""The classifier: the parameters of MLPClassifier where the idea is the same."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Self

import jax
import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import compute_sample_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from dladmm.core.engine.devices import over_processes, refused_together, texts_of_processes
from dladmm.estimators.base import DLADMMBase
from dladmm.terms.losses import losses


def _links_to_probabilities(estimator: DLADMMClassifier) -> bool:
    loss = losses.get(estimator.loss)
    if loss.classifies and type(loss).predict is not type(losses.get("hinge")).predict:
        return True
    raise AttributeError(f"predict_proba is not available with loss={estimator.loss!r}")


def _classes_of_processes(own: np.ndarray) -> np.ndarray:
    """The classes that any process has rows of."""
    if jax.process_count() == 1:
        return own
    return np.unique(
        [name for text in texts_of_processes(json.dumps(own.tolist())) for name in json.loads(text)]
    )


@dataclass(eq=False, repr=False, kw_only=True)
class DLADMMClassifier(ClassifierMixin, DLADMMBase):
    """A neural network classifier trained by alternating minimisation.

    Swap it for `MLPClassifier`; there is no learning rate to pick.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int or Layer
        Units of the hidden layers, each fully connected unless it is a layer itself.
    activation : str, Activation, callable or a list with one per hidden layer
        Among others "relu", "tanh", "sign", "step", "quantized_relu"; any smooth function.
    method : "restored", "dladmm" or "admm"
        Restored sweeps minimise the training loss itself; "dladmm" is the paper's method.
    loss : "log_loss", "binary_log_loss", "hinge" or a Loss
    alpha : float
        l2 strength, on the scale of MLPClassifier's; used unless `regularizer` is given.
    regularizer : None, str, Regularizer or a list with one per layer
        For example L1(1e-3) for exact zeros, "non_negative" for signs.
    class_weight : dict, "balanced" or None
    rho, nu : float
        Penalties per sample, of the paper's method and the baseline; rho=None is 0.1 for classes,
        3H for numbers. The theorems ask for rho > 2H, which is 1 with log_loss.
    rho_schedule, nu_schedule : "constant", "paper" or "adaptive"
    step_rule : "closed-form" or "backtracking";  zl_solver : "newton", "fista", "authors"
    init : "auto", "scaled", "he" or "paper"
        Where the weights start; "auto" is the method's own choice.
    batch_size : None or int
        Rows of a mini-batch of restored sweeps; None takes all rows at once.
    max_iter, tol, n_iter_no_change : the fit ends when the training loss, or with early_stopping
        the held-out accuracy, has not gained tol for n_iter_no_change iterations; tol=None makes
        all max_iter iterations.
    stop_at_noise : bool
        Restored sweeps also end when the gradient is no larger than its own sampling noise, the
        sign that only noise is left to fit; this needs no held-out rows.
    early_stopping, validation_fraction, warm_start, random_state, verbose : as in MLPClassifier
    dtype : "auto", "float32" or "float64"
        "auto" is float64 up to 20,000 entries of X, where it costs nothing, else float32.
    devices : None, int, list of JAX devices or a mesh with the one axis "data"
        What the samples are spread over. In several processes each passes its own rows, and all
        get the same model.
    checkpoints : None, a folder or Checkpoints
        Where `fit` keeps its run, to go on with it after an interruption.

    Attributes
    ----------
    coefs_, intercepts_, classes_, n_iter_, loss_curve_, history_, certificate_, layers_
    status_, message_ : why the fit ended (tol, noise, max_iter, interrupted), and in words
    """

    loss: Any = "log_loss"
    class_weight: Any = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on all rows; Ctrl-C keeps the best network so far."""
        reset = not (self.warm_start and hasattr(self, "classes_"))
        X, y = self._validated_classes(X, y, reset)
        if reset:
            self.classes_ = _classes_of_processes(np.unique(y))
        Y, weights = self._encoded(X, y, sample_weight)
        self._fit(X, Y, weights, strata=y)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """One pass over these rows; `classes` names all classes in the first call."""
        first = not hasattr(self, "coefs_")
        X, y = self._validated_classes(X, y, first)
        if first:
            self.classes_ = _classes_of_processes(np.unique(y if classes is None else classes))
        Y, weights = self._encoded(X, y, sample_weight)
        self._pass(X, Y, weights, first)
        return self

    def _validated_classes(self, X: Any, y: Any, reset: bool) -> tuple[Any, np.ndarray]:
        X, y = self._validated(X, y, reset=reset)
        with refused_together():
            check_classification_targets(y)
        return X, y

    def _encoded(
        self, X: Any, y: np.ndarray, sample_weight: Any
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Targets as the loss wants them, and sample times class weights."""
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class only, {self.classes_[0]!r}; expected at least two")
        unknown = np.setdiff1d(y, self.classes_)
        with refused_together():
            if unknown.size:
                raise ValueError(f"y has the class {unknown[0]!r}; expected one of {self.classes_}")
        loss = losses.get(self.loss)
        if not loss.classifies:
            raise ValueError(f"loss={self.loss!r} is for regression; expected one for classes")
        codes = np.searchsorted(self.classes_, y)
        one_hot = np.eye(len(self.classes_))[codes]
        Y = one_hot[:, 1:] if loss.one_vs_rest and len(self.classes_) == 2 else one_hot
        if sample_weight is None and self.class_weight is None:
            return Y, None
        with refused_together():
            weights = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        if self.class_weight is not None:
            weights = weights * compute_sample_weight(self._class_weight(codes), y)
        return Y, weights

    def _class_weight(self, codes: np.ndarray) -> Any:
        """`class_weight`, "balanced" by the rows of all processes if there are several."""
        if self.class_weight != "balanced" or jax.process_count() == 1:
            return self.class_weight
        counts = over_processes(np.bincount(codes, minlength=len(self.classes_))).sum(0)
        balanced = counts.sum() / (len(counts) * np.maximum(counts, 1))
        return dict(zip(self.classes_.tolist(), balanced.tolist(), strict=True))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row."""
        z, _ = self._output(X)
        codes = np.argmax(z, axis=1) if z.shape[1] > 1 else (z[:, 0] > 0).astype(int)
        return self.classes_[codes]

    def decision_function(self, X: Any) -> np.ndarray:
        """The network's outputs; for two classes one value, positive for the second class."""
        z, _ = self._output(X)
        if len(self.classes_) > 2:
            return z
        return z[:, 1] - z[:, 0] if z.shape[1] == 2 else z[:, 0]

    @available_if(_links_to_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, in the order of `classes_`."""
        _, p = self._output(X)
        if p.shape[1] == 1:
            return np.hstack([1 - p, p])
        return p / p.sum(axis=1, keepdims=True)

    @available_if(_links_to_probabilities)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """The logarithm of the probability of each class."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))
