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

    Swap it for `MLPRegressor`; there is no learning rate to pick. y may have several columns.

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
    loss : "squared_error", "huber", "absolute_error", "quantile", "poisson" or a Loss
        A quantile other than the median is Quantile(0.9); "poisson" is for counts.
    alpha : "evidence" or float
        l2 strength, used unless `regularizer` is given. "evidence" finds it during the fit where
        that is known how (restored sweeps, a loss without kinks, continuous activations), and is
        1e-4 elsewhere; a number is on the scale of MLPRegressor's.
    regularizer : None, str, Regularizer or a list with one per layer
        For example L1(1e-3) for exact zeros, "non_negative" for signs.
    rho, nu : float
        Penalties per sample, of the paper's method and the baseline; rho=None is 0.1 for classes,
        3H for numbers. The theorems ask for rho > 2H, which is 1 with log_loss.
    rho_schedule, nu_schedule : "constant", "paper" or "adaptive"
        How the penalties change from iteration to iteration.
    step_rule : "closed-form", "matrix" or "backtracking"
        Of the paper's method: how theta and tau are found.
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
        As in MLPRegressor.
    validation_scores_, best_validation_score_ : list, float
        Of the rows held out, or given to `fit` to score on: accuracy, or minus the loss.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from dladmm import DLADMMRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = DLADMMRegressor((20,), random_state=0).fit(X, y)
    >>> value, deviation = model.predict(X[:2], return_std=True)
    >>> value.shape, deviation.shape
    ((2,), (2,))
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, validation: Any = None) -> Self:
        """Train on all rows; Ctrl-C keeps the best network so far.

        Parameters
        ----------
        X : array or sparse matrix, rows times columns
            The rows to train on; memory-mapped ones are not copied with a batch_size.
        y : array
            The numbers to predict, in one column or several.
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
        reset = not (self.warm_start and hasattr(self, "coefs_"))
        X, Y, weights = self._prepared(X, y, sample_weight, reset)
        is_vector = self.y_is_vector_  # whatever the y of `validation` is
        held_out = self._checked_validation(
            validation, lambda X, y: self._prepared(X, y, None, reset=False)
        )
        self.y_is_vector_: bool = is_vector
        self._fit(X, Y, weights, strata=None, validation=held_out)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """One pass over these rows, by mini-batches.

        Parameters
        ----------
        X : array or sparse matrix, rows times columns
            The rows to train on; memory-mapped ones are not copied with a batch_size.
        y : array
            The numbers to predict, in one column or several.
        sample_weight : array or None
            How much each row counts; 2 is a duplicate row, 0 an absent one.

        Returns
        -------
        self
            The fitted estimator.
        """
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
        """The predicted values, and on demand how far off they may be.

        Parameters
        ----------
        X : array or sparse matrix, rows times columns
            The rows to predict.
        return_std : bool
            Whether to return the standard deviation of what would be observed there too, noise
            included, in the unit of y.

        Returns
        -------
        array, or two
            Values, shaped like the y of the fit; with return_std also their standard deviations.
        """
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
