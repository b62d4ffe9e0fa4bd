"""The classifier: the parameters of MLPClassifier where the idea is the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.utils import compute_sample_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_sample_weight

from dladmm.engine.processes import refused_together
from dladmm.estimators.base import DLADMMBase
from dladmm.estimators.labels import (
    check_known,
    checked_labels,
    class_weights,
    classes_of,
    targets,
)
from dladmm.terms.losses import loss_of_labels, losses


def _links_to_probabilities(estimator: DLADMMClassifier) -> bool:
    loss = losses.get(estimator.loss)
    if loss.classifies and type(loss).predict is not type(losses.get("hinge")).predict:
        return True
    raise AttributeError(f"predict_proba is not available with loss={estimator.loss!r}")


@dataclass(eq=False, repr=False, kw_only=True)
class DLADMMClassifier(ClassifierMixin, DLADMMBase):
    """A neural network classifier trained without a learning rate.

    Swap it for `MLPClassifier`; there is no learning rate to pick. y is one class per row, or a
    matrix of 0 and 1 with a column for each label, dense or sparse: each label then has a loss of
    its own, "log_loss" meaning a binary log-loss, and accuracy is that of whole rows.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int or Layer
        Units of the hidden layers, each fully connected unless it is a layer itself.
    activation : str, Activation, callable or a list with one per hidden layer
        Among others "relu", "tanh", "sign", "step", "quantized_relu"; any smooth function.
    network : Network or None
        In place of hidden layers and activation: convolution, recurrence, skips. X then has samples
        of its shape, rows of all their numbers, or is a list of sequences.
    method : "restored", "dladmm" or "admm"
        Restored sweeps minimise the training loss itself; "dladmm" is the paper's method, "admm"
        the one it is compared with.
    loss : "log_loss", "binary_log_loss", "hinge" or a Loss
        For a matrix of labels the first two are the same.
    alpha : "evidence" or float
        l2 strength, used unless `regularizer` is given. "evidence" finds it during the fit where
        that is known how (restored sweeps, a loss without kinks, continuous activations), and is
        1e-4 elsewhere; a number is on the scale of MLPClassifier's.
    regularizer : None, str, Regularizer or a list with one per layer
        For example L1(1e-3) for exact zeros, "non_negative" for signs.
    class_weight : dict, "balanced" or None
        For a matrix of labels a list with a dict for each, or "balanced"; a row has the product of
        its labels' weights, as in scikit-learn's `compute_sample_weight`.
    rho, nu : float
        Penalties per sample, of the paper's method and the baseline; rho=None is 0.1 for classes,
        3H for numbers. The theorems ask for rho > 2H, which is 1 with log_loss.
    rho_schedule, nu_schedule : "constant", "paper" or "adaptive"
        How the penalties change from iteration to iteration.
    step_rule : "over-relaxed", "matrix", "closed-form" or "backtracking"
        Of the paper's method: theta and tau as matrices, over-relaxed or not, or as the paper's
        vectors and numbers.
    zl_solver : "newton", "fista" or "authors"
        Of the paper's method: how z_L is solved for.
    targets : "first-order" or "closed"
        What restored sweeps move a layer towards: by the derivative of its activation, or by the
        paper's z update, so that no gradient passes through a derivative.
    init : "auto", "scaled", "he" or "paper"
        Where the weights start: "scaled" by He's variances and the size of the inputs, "he" by
        He's variances, "paper" as the authors' code has them; "auto" is the method's own choice.
    batch_size : None, int or "auto"
        Rows of a mini-batch of restored sweeps; None takes all rows at once, "auto" an eighth of
        them, and at most 512 where no layer is wider than 1,024. X may then be memory-mapped.
    max_iter : int
        The most iterations, or epochs with a batch_size.
    tol : float or None
        The fit ends when the training loss, or with early_stopping the held-out score, has not
        gained tol for n_iter_no_change iterations; None makes all max_iter iterations.
    n_iter_no_change : int
        How many iterations `tol` waits for.
    random_state : int, RandomState or None
        For the weights to start from, the order of mini-batches and the rows held out.
    warm_start : bool
        Whether another call of `fit` goes on from the network of the last one.
    early_stopping : bool
        Whether to hold out rows whose score decides when to end and which network is kept.
    validation_fraction : float
        The part of the rows that early_stopping holds out.
    stop_at_noise : bool
        Where alpha is not found by the evidence, restored sweeps also end when the gradient is no
        larger than its own sampling noise, the sign that only noise is left to fit; this needs no
        held-out rows.
    dtype : "auto", "float32" or "float64"
        "auto" is float64 up to 10,000 entries of X, where it costs little, else float32.
    devices : None, int, list of JAX devices or a mesh with the one axis "data"
        What the samples are spread over. In several processes each passes its own rows, and all
        get the same model.
    layer_devices : None or int
        For method="dladmm": how many groups the layers are cut into, each on devices of its own,
        that work at the same time.
    layer_messages : "exact", "bfloat16" or "8bit"
        What neighbouring groups tell each other: values, or how they change in fewer bits.
    engine : "auto", "numpy" or "jax"
        NumPy begins at once, JAX compiles first and is faster from then on; "auto" takes the one
        that should be done sooner.
    checkpoints : None, a folder or Checkpoints
        Where `fit` keeps its run, to go on with it after an interruption.
    callbacks : None, callable or a list of them
        Called with a Progress after each iteration, for example TensorBoard("runs"); one that
        returns True ends the fit.
    verbose : bool
        Whether to show a progress bar.

    Attributes
    ----------
    coefs_, intercepts_ : list of array
        Weights, inputs times outputs, and biases of each layer, in the units of X and y.
    layers_ : tuple of Layer
        The layers the network has.
    history_ : dict of list
        One value per iteration under each name; NaN where a quantity is sampled.
    certificate_ : Certificate
        What the run proves about itself.
    status_, message_ : str
        Why the fit ended (tol, noise, max_iter, interrupted, ...), and in words.
    n_iter_, loss_curve_, loss_ : int, list, float
        As in MLPClassifier.
    validation_scores_, best_validation_score_ : list, float
        Of the rows held out, or given to `fit` to score on: accuracy, or minus the loss.
    classes_ : array
        The classes in order; the numbers of the labels if `multilabel_`.
    multilabel_ : bool
        Whether rows have several labels.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dladmm import DLADMMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DLADMMClassifier((20,), random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    loss: Any = "log_loss"
    class_weight: Any = None
    multilabel_ = False  # of models fitted before there was a choice

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, validation: Any = None) -> Self:
        """Train on all rows; Ctrl-C keeps the best network so far.

        Parameters
        ----------
        X : array or sparse matrix, rows times columns
            The rows to train on; memory-mapped ones are not copied with a batch_size.
        y : array
            The class of each row, or a matrix of 0 and 1 with a column for each label.
        sample_weight : array or None
            How much each row counts; 2 is a duplicate row, 0 an absent one.
        validation : tuple or None
            X and y of rows that are not trained on: their score is in the progress bar and in
            `validation_scores_`. With early_stopping they decide when to end, in place of rows
            held out.

        Returns
        -------
        self
            The fitted estimator.
        """
        reset = not (self.warm_start and hasattr(self, "classes_"))
        X, y = self._validated_classes(X, y, reset)
        if reset:
            self._learn_classes(y, None)
        Y, weights = self._encoded(X, y, sample_weight)

        def prepared(X: Any, y: Any) -> tuple[Any, np.ndarray, np.ndarray | None]:
            X, y = self._validated_classes(X, y, reset=False)
            return X, *self._encoded(X, y, None)

        held_out = self._checked_validation(validation, prepared)
        self._fit(X, Y, weights, strata=None if self.multilabel_ else y, validation=held_out)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """One pass over these rows, by mini-batches.

        Parameters
        ----------
        X : array or sparse matrix, rows times columns
            The rows to train on; memory-mapped ones are not copied with a batch_size.
        y : array
            The class of each row, or a matrix of 0 and 1 with a column for each label.
        classes : array or None
            All classes, in the first call; those of its y by default. The labels of a matrix are
            its columns, 0, 1, 2, ..., whether this says so or not.
        sample_weight : array or None
            How much each row counts; 2 is a duplicate row, 0 an absent one.

        Returns
        -------
        self
            The fitted estimator.
        """
        first = not hasattr(self, "coefs_")
        X, y = self._validated_classes(X, y, first)
        if first:
            self._learn_classes(y, classes)
        Y, weights = self._encoded(X, y, sample_weight)
        self._pass(X, Y, weights, first)
        return self

    def _validated_classes(self, X: Any, y: Any, reset: bool) -> tuple[Any, np.ndarray]:
        """X, and y as a vector of classes or a dense matrix of labels."""
        X, y = self._validated(X, y, reset=reset, multi_output=True)
        if reset:
            self.y_is_sparse_ = sparse.issparse(y)
        y = y.toarray() if sparse.issparse(y) else y
        with refused_together():
            return X, checked_labels(y)

    def _learn_classes(self, y: np.ndarray, classes: Any) -> None:
        """Whether rows have a class or labels, and which there are."""
        self.multilabel_, self.classes_ = y.ndim == 2, classes_of(y, classes)

    def _loss(self) -> Any:
        return loss_of_labels(losses.get(self.loss)) if self.multilabel_ else self.loss

    def _encoded(
        self, X: Any, y: np.ndarray, sample_weight: Any
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Targets as the loss wants them, and sample times class weights."""
        with refused_together():
            check_known(y, self.classes_, self.multilabel_)
        loss = losses.get(self.loss)
        if not loss.classifies:
            raise ValueError(f"loss={self.loss!r} is for regression; expected one for classes")
        if loss.multilabel and not self.multilabel_:
            raise ValueError(
                f"loss={self.loss!r} is for rows of several labels; expected a y with a column of 0"
                " and 1 for each label, or another loss"
            )
        Y = targets(y, self.classes_, self.multilabel_, loss)
        if sample_weight is None and self.class_weight is None:
            return Y, None
        with refused_together():
            weights = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        if self.class_weight is not None:
            each = class_weights(self.class_weight, y, self.classes_, self.multilabel_)
            weights = weights * compute_sample_weight(each, y)
        return Y, weights

    def predict(self, X: Any) -> Any:
        """The most probable class of each row.

        Parameters
        ----------
        X : array or sparse matrix, rows times columns
            The rows to predict.

        Returns
        -------
        array
            Classes; of labels a matrix of 0 and 1, with 1 where a label is more probable than
            not, sparse if the y of the fit was.
        """
        z, _ = self._output(X)
        if self.multilabel_:
            labels = (z > 0).astype(int)
            return sparse.csr_matrix(labels) if self.y_is_sparse_ else labels
        codes = np.argmax(z, axis=1) if z.shape[1] > 1 else (z[:, 0] > 0).astype(int)
        return self.classes_[codes]

    def decision_function(self, X: Any) -> np.ndarray:
        """The network's outputs before they become probabilities.

        Parameters
        ----------
        X : array or sparse matrix, rows times columns
            The rows to predict.

        Returns
        -------
        array
            One value for each class or label; for two classes one value, positive for the second.
        """
        z, _ = self._output(X)
        if len(self.classes_) > 2 or self.multilabel_:
            return z
        return z[:, 1] - z[:, 0] if z.shape[1] == 2 else z[:, 0]

    @available_if(_links_to_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class.

        Parameters
        ----------
        X : array or sparse matrix, rows times columns
            The rows to predict.

        Returns
        -------
        array
            A column for each class, in the order of `classes_`; those of labels are independent
            and do not add up to one.
        """
        _, p = self._output(X)
        if self.multilabel_:
            return p
        if p.shape[1] == 1:
            return np.hstack([1 - p, p])
        return p / p.sum(axis=1, keepdims=True)

    @available_if(_links_to_probabilities)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """The logarithm of the probability of each class or label.

        Parameters
        ----------
        X : array or sparse matrix, rows times columns
            The rows to predict.

        Returns
        -------
        array
            A column for each class, in the order of `classes_`.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))
