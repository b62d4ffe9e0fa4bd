"""What both estimators share: the fit, when it ends, and the network's output."""

from __future__ import annotations

import math
import warnings
from typing import Any, Self

import jax
import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from dladmm.core.certificate import Certificate
from dladmm.core.options import Options, Result, Status
from dladmm.core.predict import predict_output
from dladmm.core.problem import Problem
from dladmm.core.sharding import over_processes, refused_together
from dladmm.core.solve import solve
from dladmm.core.state import Params
from dladmm.core.stream import Stream
from dladmm.core.validation import check_options
from dladmm.io.checkpoints import Checkpoints
from dladmm.memory import advice
from dladmm.report.progress import ProgressBar
from dladmm.terms.loss import Loss
from dladmm.terms.losses import losses
from dladmm.terms.regularizers import L2
from dladmm.watch import HeldOut, Watch

# The real loss costs one forward pass, an eighth of an iteration: every fifth keeps it at 2 %.
EVALUATE_EVERY = 5


def default_rho(loss: Loss) -> float:
    """3H for numbers, inside the theorems' rho > 2H; 0.1 for classes; 1 where there is no H.

    At 0.1 a classifier's own loss falls faster than at 3H (digits, 200 iterations: about half the
    loss), but it is outside the theorems; the certificate counts the rises of L_rho, if any.
    """
    if loss.classifies:
        return 0.1
    return 3 * loss.lipschitz if math.isfinite(loss.lipschitz) else 1.0


class DLADMMBase(BaseEstimator):
    """What both estimators share: the fit, its records, and the network's output."""

    coefs_: list[np.ndarray]
    intercepts_: list[np.ndarray]
    history_: dict[str, list[float]]
    certificate_: Certificate
    n_iter_: int
    n_features_in_: int

    def __init__(
        self,
        hidden_layer_sizes: Any = (100,),
        activation: Any = "relu",
        *,
        method: str = "restored",
        loss: Any = "squared_error",
        alpha: float = 1e-4,
        regularizer: Any = None,
        rho: float | None = None,
        nu: float = 1.0,
        rho_schedule: Any = "constant",
        nu_schedule: Any = "constant",
        step_rule: Any = "closed-form",
        zl_solver: str = "newton",
        init: str = "auto",
        batch_size: int | None = None,
        max_iter: int = 200,
        tol: float = 1e-3,
        random_state: Any = None,
        warm_start: bool = False,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        stop_at_noise: bool = True,
        dtype: str = "auto",
        devices: Any = None,
        checkpoints: Any = None,
        verbose: bool = False,
    ):
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.method = method
        self.loss = loss
        self.alpha = alpha
        self.regularizer = regularizer
        self.rho = rho
        self.nu = nu
        self.rho_schedule = rho_schedule
        self.nu_schedule = nu_schedule
        self.step_rule = step_rule
        self.zl_solver = zl_solver
        self.init = init
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.warm_start = warm_start
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.stop_at_noise = stop_at_noise
        self.dtype = dtype
        self.devices = devices
        self.checkpoints = checkpoints
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def save(self, path: Any) -> None:
        """Write this model to one safetensors file, whole or not at all."""
        from dladmm.io.model_file import save_model  # which imports the estimators

        save_model(path, self)

    @classmethod
    def load(cls, path: Any) -> Self:
        """The model in a file; ModelFileError if it is damaged, foreign, newer or another kind."""
        from dladmm.io.model_file import load_estimator

        return load_estimator(path, cls)

    def to_torch(self, dtype: Any = None) -> Any:
        """An nn.Sequential that returns what predict_proba, or predict, returns."""
        from dladmm.io.export import to_torch

        return to_torch(self, dtype)

    def to_onnx(self, path: Any, preprocessing: Any = None, *, dtype: str = "float64") -> list[str]:
        """Write an ONNX file; returns what ONNX cannot do, in sentences."""
        from dladmm.io.export import to_onnx

        return to_onnx(self, path, preprocessing, dtype=dtype)

    def _problem(self, n_features: int, n_outputs: int) -> Problem:
        hidden = np.atleast_1d(np.asarray(self.hidden_layer_sizes, dtype=object)).tolist()
        regularizer = L2(self.alpha) if self.regularizer is None else self.regularizer
        sizes = (n_features, *hidden, n_outputs)
        return Problem.dense(sizes, self.activation, self.loss, regularizer)

    def _options(self, seed: int, max_iter: int, dtype: str, **more: Any) -> Options:
        rho = default_rho(losses.get(self.loss)) if self.rho is None else self.rho
        return Options(
            method=self.method,
            rho=rho,
            nu=self.nu,
            rho_schedule=self.rho_schedule,
            nu_schedule=self.nu_schedule,
            step_rule=self.step_rule,
            zl_solver=self.zl_solver,
            init=self.init,
            **({"batch_size": self.batch_size} | more),
            max_iter=max_iter,
            tol=0.0,
            evaluate_every=EVALUATE_EVERY,
            seed=seed,
            dtype=dtype,
            devices=self.devices,
        )

    def _train(
        self,
        X: Any,
        Y: np.ndarray,
        sample_weight: np.ndarray | None,
        *,
        max_iter: int,
        params: Params | None,
        held_out: HeldOut | None = None,
        stream: Stream | None = None,
        checkpoints: Checkpoints | None = None,
        **more: Any,
    ) -> Result:
        """One call of `solve`, its callback watching for the end, and the fitted attributes."""
        problem = self._problem(X.shape[1], Y.shape[1])
        drawn = check_random_state(self.random_state).randint(2**31 - 1)
        seed = int(over_processes(np.int32(drawn))[0])  # all processes start from one network
        n_samples = int(over_processes(np.int32(X.shape[0])).sum())
        dtype = precision(self.dtype, n_samples, X.shape[1])
        options = self._options(seed, max_iter, dtype, **more)
        check_options(problem, options)
        too_large = advice(problem, X.shape[0], options)
        if too_large:
            warnings.warn(too_large, stacklevel=4)
        silent = not self.verbose or jax.process_index() > 0
        if held_out is not None:
            held_out = (densified(held_out[0], dtype), *held_out[1:])
        with ProgressBar(type(self).__name__, max_iter, disable=silent) as bar:
            watch = Watch(
                problem,
                held_out,
                dtype,
                bar,
                tol=self.tol,
                patience=self.n_iter_no_change,
                stop_at_noise=self.stop_at_noise,
            )
            result = solve(
                problem,
                densified(X, dtype),
                Y,
                sample_weight=sample_weight,
                options=options,
                params=params,
                stream=stream,
                callback=watch,
                checkpoints=checkpoints,
            )
        self._keep(result, watch)
        return result

    def _keep(self, result: Result, watch: Watch) -> None:
        network = watch.best_params or result.params
        self.coefs_ = [np.asarray(W).T.copy() for W in network.W]
        self.intercepts_ = [np.asarray(b).copy() for b in network.b]
        self.n_layers_ = len(self.coefs_) + 1
        self.n_outputs_ = self.intercepts_[-1].size
        self.history_ = result.history
        if watch.scores:
            # The iteration under way when the watch said stop was not scored.
            scores = watch.scores + [math.nan] * (result.n_iter - len(watch.scores))
            self.history_ = {**self.history_, "validation_score": scores}
            self.validation_scores_ = watch.scores
            self.best_validation_score_ = watch.best_score
        self.loss_curve_ = [v for v in result.history.get("train_loss", []) if math.isfinite(v)]
        self.loss_ = self.loss_curve_[-1] if self.loss_curve_ else math.nan
        self.certificate_ = result.certificate
        self.status_ = str(result.status)
        self.message_ = result.message
        self.n_iter_ = result.n_iter
        self.resumed_from_ = result.resumed_from

    def _pass(self, X: Any, Y: np.ndarray, sample_weight: np.ndarray | None, first: bool) -> None:
        """One iteration on these rows; restored sweeps go over them in mini-batches, whose moments
        and step carry over to the next call."""
        params = None if first else self._params(X.shape[1], Y.shape[1])
        if self.method != "restored":
            self._train(X, Y, sample_weight, max_iter=1, params=params)
            return
        result = self._train(
            X,
            Y,
            sample_weight,
            max_iter=1,
            params=params,
            stream=None if first else getattr(self, "_stream", None),
            batch_size=self.batch_size or PARTIAL_BATCH,
            batch_decay=False,
        )
        self._stream = jax.tree.map(np.asarray, result.state)

    def _fit(self, X: Any, Y: np.ndarray, sample_weight: np.ndarray | None, strata: Any) -> None:
        if hasattr(self, "_stream"):
            del self._stream  # what calls of partial_fit have gathered
        held_out = None
        if self.early_stopping:
            X, Y, sample_weight, held_out = self._split(X, Y, sample_weight, strata)
        warm = self.warm_start and hasattr(self, "coefs_")
        result = self._train(
            X,
            Y,
            sample_weight,
            max_iter=self.max_iter,
            params=self._params(X.shape[1], Y.shape[1]) if warm else None,
            held_out=held_out,
            checkpoints=self._checkpoints(),
        )
        if result.status == Status.MAX_ITER:
            warnings.warn(
                f"{type(self).__name__} made max_iter={self.max_iter} iterations and the loss is"
                " still falling; raise max_iter, or tol to stop earlier",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _checkpoints(self) -> Checkpoints | None:
        where = self.checkpoints
        if where is None:
            return None
        if not isinstance(self.random_state, int | np.integer):
            raise ValueError(
                f"random_state={self.random_state!r} does not fit checkpoints, which only a run"
                " from the same seed can go on with; expected an integer"
            )
        return where if isinstance(where, Checkpoints) else Checkpoints(where)

    def _split(
        self, X: Any, Y: np.ndarray, sample_weight: np.ndarray | None, strata: Any
    ) -> tuple[Any, np.ndarray, np.ndarray | None, HeldOut]:
        if not 0 < self.validation_fraction < 1:
            raise ValueError(
                f"validation_fraction={self.validation_fraction!r} is not valid;"
                " expected a number between 0 and 1"
            )
        with refused_together():
            chosen = train_test_split(
                np.arange(X.shape[0]),
                test_size=self.validation_fraction,
                random_state=check_random_state(self.random_state).randint(2**31 - 1),
                stratify=strata,
            )
        train, held = (
            (X[rows], Y[rows], None if sample_weight is None else sample_weight[rows])
            for rows in chosen
        )
        return *train, held

    def _params(self, n_features: int, n_outputs: int) -> Params:
        """The fitted network; ValueError where data to go on with has another shape."""
        shape = (self.coefs_[0].shape[0], self.coefs_[-1].shape[1])
        if shape != (n_features, n_outputs):
            raise ValueError(
                f"X and y have {n_features} features and {n_outputs} outputs; expected"
                f" {shape[0]} and {shape[1]}, as in the fit this one continues"
            )
        return Params(tuple(W.T for W in self.coefs_), tuple(self.intercepts_))

    def _output(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """(z_L, what it stands for) for validated rows, sparse ones densified by blocks."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=False)
        n_features, n_outputs = self.coefs_[0].shape[0], self.coefs_[-1].shape[1]
        problem = self._problem(n_features, n_outputs)
        return predict_output(problem, self._params(n_features, n_outputs), X)

    def _validated(self, X: Any, y: Any, reset: bool, **check: Any) -> tuple[Any, Any]:
        with refused_together():
            return validate_data(
                self,
                X,
                y,
                accept_sparse="csr",
                dtype=(np.float64, np.float32),
                reset=reset,
                **check,
            )


# Rows of a mini-batch of partial_fit unless batch_size says more, as in MLPClassifier.
PARTIAL_BATCH = 200

# "auto" takes float64 up to this many entries of X: weights equal repeated rows to the last digits.
FLOAT64_UP_TO = 20_000


def precision(dtype: str, n_samples: int, n_features: int) -> str:
    """What "auto" means for this many samples; any other dtype is itself."""
    if dtype != "auto":
        return dtype
    return "float64" if n_samples * n_features <= FLOAT64_UP_TO else "float32"


def densified(X: Any, dtype: str) -> np.ndarray:
    """A dense copy of a sparse matrix, filled by blocks of rows; its size is N n itemsize bytes."""
    if not sparse.issparse(X):
        return np.asarray(X)
    dense = np.empty(X.shape, dtype=dtype)
    size = dense.nbytes / 2**30
    if size > 1:
        warnings.warn(f"a sparse X is trained as a dense one of {size:.1f} GiB", stacklevel=4)
    for start in range(0, X.shape[0], 4096):
        dense[start : start + 4096] = X[start : start + 4096].toarray()
    return dense
