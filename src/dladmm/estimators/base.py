"""What both estimators share: the fit, its records, and the network's output."""

import dataclasses
import math
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from dladmm.callbacks.tracking import joined
from dladmm.core.choice import chosen_engine
from dladmm.core.memory import check_fits
from dladmm.core.options import (
    precision,
)
from dladmm.core.params import Params
from dladmm.core.predict import predict_output
from dladmm.core.problem import Problem
from dladmm.core.restored.mini_batch import Stream
from dladmm.core.results import Result, Status
from dladmm.core.solve import solve
from dladmm.core.validation import checked_method
from dladmm.engine import trees
from dladmm.engine.devices import Engine
from dladmm.engine.processes import over_processes, process_index, refused_together
from dladmm.estimators.parameters import Parameters
from dladmm.estimators.posterior import posterior
from dladmm.estimators.samples import as_rows
from dladmm.estimators.units import Units, is_on_disk
from dladmm.network import Network

if TYPE_CHECKING:
    from dladmm.io.checkpoints import Checkpoints

HeldOutRows = tuple[Any, np.ndarray, np.ndarray | None]  # rows, targets, weights


class DLADMMBase(Parameters):
    """What both estimators share: the fit, its records, and the network's output."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _drawn_seed(self) -> int:
        """A seed, by `random_state`; ValueError that names it where there is none."""
        try:
            return int(check_random_state(self.random_state).randint(2**31 - 1))
        except ValueError:
            raise ValueError(
                f"random_state={self.random_state!r} is not valid; expected None, a RandomState or"
                " a whole number from 0 to 2**32 - 1"
            ) from None

    def _train(
        self,
        X: Any,
        Y: np.ndarray,
        sample_weight: np.ndarray | None,
        *,
        max_iter: int,
        params: Params | None,
        validation: HeldOutRows | None = None,
        stream: Stream | None = None,
        checkpoints: "Checkpoints | None" = None,
        units: Units | None = None,
        is_whole: bool = True,
        **more: Any,
    ) -> tuple[Result, Units]:
        """One call of `solve`, and the fitted attributes from its result; in these units, or in
        those of the rows. is_whole: whether those are all there are."""
        problem = self._problem(X.shape[1], Y.shape[1], is_whole, **more)
        drawn = self._drawn_seed()
        seed = int(over_processes(np.int32(drawn))[0])  # all processes start from one network
        n_samples = int(over_processes(np.int32(X.shape[0])).sum())
        dtype = precision(self.dtype, n_samples * X.shape[1])
        options = self._options(seed, max_iter, dtype, **more)
        method = checked_method(problem, options)
        engine = chosen_engine(method, options, X.shape[0])
        options = dataclasses.replace(options, engine=engine.name)
        with refused_together():
            # The rows in units of their own; those on disk are not copied.
            copied = 0 if is_on_disk(X) else math.prod(X.shape) * np.dtype(dtype).itemsize
            check_fits(problem, X.shape[0], options, copied)
        X = densified(X, dtype)
        if units is None:
            units = self._units_of(problem, X, Y, sample_weight)
        if validation is not None:
            x_held, y_held, weights_held = validation
            x_held = units.inputs(densified(x_held, dtype), dtype)
            x_held = x_held.reshape(len(x_held), *problem.in_shape)
            validation = (x_held, units.targets(y_held), weights_held)
        problem = dataclasses.replace(problem, loss=units.loss)
        X = units.inputs(X, dtype).reshape(len(X), *problem.in_shape)
        own_callbacks = [] if self.callbacks is None else [joined(self.callbacks)]
        with self._progress(max_iter, engine) as bar:
            result = solve(
                problem,
                X,
                units.targets(Y),
                sample_weight=sample_weight,
                validation=validation,
                validation_decides=self.early_stopping,
                options=options,
                params=None if params is None else units.network_to_train(problem, params),
                stream=stream,
                callback=joined([bar, *own_callbacks] if bar else own_callbacks or None),
                checkpoints=checkpoints,
            )
        own = float(X.shape[0] if sample_weight is None else sample_weight.sum())
        self._keep(problem, result, units, mass=float(over_processes(own).sum()))
        return result, units

    def _progress(self, max_iter: int, engine: Engine) -> AbstractContextManager[Any]:
        """A bar that is a callback, or None where nobody looks."""
        if not self.verbose or process_index() > 0:
            return nullcontext()
        from dladmm.callbacks.progress import ProgressBar  # rich takes longer than a small fit

        return ProgressBar(type(self).__name__, max_iter, compiles=engine.is_jax)

    def _keep(self, problem: Problem, result: Result, units: Units, mass: float) -> None:
        scores = result.history.get("validation_score", [])
        scored = self.early_stopping and any(map(math.isfinite, scores))
        trained = result.best_params if scored else result.params
        network = units.network_of_user(problem, trained)
        self.layers_ = problem.layers
        self.coefs_ = [W.T.copy() for W in network.W]
        self.intercepts_ = [b.copy() for b in network.b]
        self.n_layers_ = len(self.coefs_) + 1
        self.n_outputs_ = self.intercepts_[-1].size
        found = None if scored else posterior(problem, result, units, mass)
        self.covariance_: np.ndarray | None
        self.noise_variance_: np.ndarray | None
        self.covariance_, self.noise_variance_ = found or (None, None)
        self.history_ = result.history
        if scores:
            # The iteration under way when the fit was ended is not scored.
            unscored = math.isnan(scores[-1]) and math.isfinite(result.history["train_loss"][-1])
            self.validation_scores_ = scores[:-1] if unscored else scores
            known = (v for v in scores if math.isfinite(v))
            self.best_validation_score_ = max(known, default=-math.inf)
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
        units = None if first else getattr(self, "_units", None)
        if not self._method(X.shape[1], Y.shape[1]).streams:
            _, self._units = self._train(
                X, Y, sample_weight, max_iter=1, params=params, units=units
            )
            return
        result, self._units = self._train(
            X,
            Y,
            sample_weight,
            max_iter=1,
            params=params,
            stream=None if first else getattr(self, "_stream", None),
            units=units,
            is_whole=False,
            batch_size=self.batch_size or PARTIAL_BATCH,
        )
        self._stream = trees.map(np.asarray, result.state)

    def _checked_validation(
        self, validation: Any, prepared: Callable[[Any, Any], HeldOutRows]
    ) -> HeldOutRows | None:
        """The rows of `fit` to score on, prepared; a ValueError says that it is about them."""
        if validation is None:
            return None
        if not isinstance(validation, tuple | list) or len(validation) != 2:
            raise ValueError("validation is not valid; expected a pair (X, y)")
        try:
            return prepared(*validation)
        except ValueError as error:
            raise ValueError(f"validation: {error}") from None

    def _fit(
        self,
        X: Any,
        Y: np.ndarray,
        sample_weight: np.ndarray | None,
        strata: Any,
        validation: HeldOutRows | None,
    ) -> None:
        for gathered in ("_stream", "_units"):  # by calls of partial_fit
            self.__dict__.pop(gathered, None)
        if self.early_stopping and validation is None:
            X, Y, sample_weight, validation = self._split(X, Y, sample_weight, strata)
        warm = self.warm_start and hasattr(self, "coefs_")
        result, _ = self._train(
            X,
            Y,
            sample_weight,
            max_iter=self.max_iter,
            params=self._params(X.shape[1], Y.shape[1]) if warm else None,
            validation=validation,
            checkpoints=self._checkpoints(),
        )
        more = {
            Status.MAX_ITER: "; raise max_iter, or tol to stop earlier",
            Status.DIVERGED: "",
            Status.MEMORY: "",
        }
        if result.status in more:
            warnings.warn(
                f"{type(self).__name__}: {result.message}{more[result.status]}",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _checkpoints(self) -> "Checkpoints | None":
        where = self.checkpoints
        if where is None:
            return None
        if not isinstance(self.random_state, int | np.integer):
            raise ValueError(
                f"random_state={self.random_state!r} does not fit checkpoints, which only a run"
                " from the same seed can go on with; expected an integer"
            )
        from dladmm.io.checkpoints import Checkpoints  # most fits keep none

        return where if isinstance(where, Checkpoints) else Checkpoints(where)

    def _split(
        self, X: Any, Y: np.ndarray, sample_weight: np.ndarray | None, strata: Any
    ) -> tuple[Any, np.ndarray, np.ndarray | None, HeldOutRows]:
        share = self.validation_fraction
        if not isinstance(share, Real) or not 0 < share < 1:
            raise ValueError(
                f"validation_fraction={self.validation_fraction!r} is not valid;"
                " expected a number between 0 and 1"
            )
        with refused_together():
            from sklearn.model_selection import train_test_split  # it takes a while to load

            seed = self._drawn_seed()
            try:
                chosen = train_test_split(
                    np.arange(X.shape[0]),
                    test_size=self.validation_fraction,
                    random_state=seed,
                    stratify=strata,
                )
            except ValueError as error:  # too few rows, in all or of a class
                raise ValueError(
                    f"early_stopping cannot hold out validation_fraction={self.validation_fraction}"
                    f" of {X.shape[0]} rows: {error}"
                ) from None
        train, held = (
            (X[rows], Y[rows], None if sample_weight is None else sample_weight[rows])
            for rows in chosen
        )
        return *train, held

    def _params(self, n_features: int, n_outputs: int) -> Params:
        """The fitted network; ValueError where data to go on with has another shape."""
        problem = self._problem_of(self.layers_)
        shape = math.prod(problem.in_shape), math.prod(problem.out_shape)
        if shape != (n_features, n_outputs):
            raise ValueError(
                f"X and y have {n_features} features and {n_outputs} outputs; expected"
                f" {shape[0]} and {shape[1]}, as in the fit this one continues"
            )
        return Params(tuple(W.T for W in self.coefs_), tuple(self.intercepts_))

    def _output(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """(z_L, what it stands for) for validated rows, sparse ones densified by blocks."""
        X = self._checked_rows(X)
        problem = self._problem_of(self.layers_)
        return predict_output(problem, self._params(X.shape[1], self.n_outputs_), X)

    def _checked_rows(self, X: Any) -> Any:
        """Rows to predict, dense or CSR."""
        check_is_fitted(self)
        X = as_rows(self.network, X)
        return validate_data(
            self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=False
        )

    def _validated(self, X: Any, y: Any, reset: bool, **check: Any) -> tuple[Any, Any]:
        with refused_together():
            if isinstance(self.hidden_layer_sizes, Network):
                raise ValueError("hidden_layer_sizes is a Network; expected it as network=...")
            X = as_rows(self.network, X)
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
