"""What both estimators share: the fit, its records, and the network's output."""

import dataclasses
import math
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass
from html import escape
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from dladmm._version import __version__
from dladmm.callbacks.tracking import joined
from dladmm.core.choice import chosen_engine
from dladmm.core.memory import check_fits
from dladmm.core.method import Method
from dladmm.core.options import (
    ACTIVATION,
    ALPHA,
    DEFAULTS,
    FIXED_ALPHA,
    HIDDEN,
    Options,
    precision,
)
from dladmm.core.params import Params
from dladmm.core.predict import predict_output
from dladmm.core.problem import Problem, chain, sizes_of
from dladmm.core.restored.mini_batch import Stream
from dladmm.core.results import Result, Status
from dladmm.core.solve import solve
from dladmm.core.validation import checked_method
from dladmm.engine import trees
from dladmm.engine.devices import Engine
from dladmm.engine.processes import over_processes, process_index, refused_together
from dladmm.estimators.posterior import posterior
from dladmm.estimators.samples import as_rows
from dladmm.estimators.units import Units, as_they_are, is_on_disk, learned
from dladmm.network import Network
from dladmm.network.graph import INPUT
from dladmm.report.network import network_svg
from dladmm.terms.activations import activations
from dladmm.terms.layers import Dense, Joined, Layer
from dladmm.terms.losses import losses
from dladmm.terms.regularizers import L2, Evidence, Regularizer

if TYPE_CHECKING:
    from dladmm.io.checkpoints import Checkpoints

HeldOutRows = tuple[Any, np.ndarray, np.ndarray | None]  # rows, targets, weights


# The parameters are fields: scikit-learn reads them off the __init__ that @dataclass writes.
@dataclass(eq=False, repr=False)
class DLADMMBase(BaseEstimator):
    """What both estimators share: their parameters, the fit, its records, the network's output."""

    hidden_layer_sizes: Any = HIDDEN
    activation: Any = ACTIVATION
    _: KW_ONLY
    network: Network | None = None
    method: str = DEFAULTS.method
    loss: Any = "squared_error"
    alpha: Any = ALPHA
    regularizer: Any = None
    rho: float | None = DEFAULTS.rho
    nu: float = DEFAULTS.nu
    rho_schedule: Any = DEFAULTS.rho_schedule
    nu_schedule: Any = DEFAULTS.nu_schedule
    step_rule: Any = DEFAULTS.step_rule
    zl_solver: str = DEFAULTS.zl_solver
    targets: str = DEFAULTS.targets
    init: str = DEFAULTS.init
    batch_size: int | str | None = DEFAULTS.batch_size
    max_iter: int = DEFAULTS.max_iter
    tol: float | None = DEFAULTS.tol
    random_state: Any = None
    warm_start: bool = False
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = DEFAULTS.patience
    stop_at_noise: bool = DEFAULTS.stop_at_noise
    dtype: str = DEFAULTS.dtype
    devices: Any = None
    engine: str = DEFAULTS.engine
    checkpoints: Any = None
    callbacks: Any = None
    verbose: bool = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _repr_html_inner(self) -> str:
        """scikit-learn's page of the parameters, and of a fitted network its layers below."""
        return str(super()._repr_html_inner()) + self._drawn_network()

    def _repr_mimebundle_(self, **given: Any) -> Any:
        bundle = super()._repr_mimebundle_(**given)
        if "text/html" in bundle:
            bundle["text/html"] += self._drawn_network()
        return bundle

    def _drawn_network(self) -> str:
        """The network and how its fit ended; nothing before a fit."""
        if not hasattr(self, "coefs_"):
            return ""
        problem = self._problem_of(self.layers_)
        names = [activations.name_of(one) or type(one).__name__ for one in problem.activations]
        loss = losses.name_of(problem.loss) or type(problem.loss).__name__
        drawing = network_svg(sizes_of(self.layers_), names, loss)
        ended = f"{self.n_iter_} iterations, loss {self.loss_:.4g}: {self.message_}"
        return f'<div style="margin-top:.5em">{drawing}<div>{escape(ended)}</div></div>'

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_dladmm_version": __version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """From a pickle, which is of one version only; one of another is used with a warning."""
        written = state.get("_dladmm_version", "0.1 or 0.2.0.dev0")
        if written != __version__:
            warnings.warn(
                f"this {type(self).__name__} was pickled by dladmm {written}, and this is dladmm"
                f" {__version__}: it may fail or predict otherwise; `save` and `load` keep models"
                " for later versions",
                stacklevel=2,
            )
        super().__setstate__({k: v for k, v in state.items() if k != "_dladmm_version"})

    def save(self, path: Any) -> None:
        """Write this model to one safetensors file, whole or not at all.

        Parameters
        ----------
        path : str or path
            Where to write it; an older file there is replaced at the end.
        """
        from dladmm.estimators.model_files import save_model  # which imports the estimators

        save_model(path, self)

    @classmethod
    def load(cls, path: Any) -> Self:
        """The model in a file; ModelFileError if it is damaged, foreign, newer or another kind.

        Parameters
        ----------
        path : str or path
            A file that `save` or `dladmm fit` wrote.

        Returns
        -------
        estimator
            The fitted estimator.
        """
        from dladmm.estimators.model_files import load_estimator

        return load_estimator(path, cls)

    def to_torch(self, dtype: Any = None) -> Any:
        """The network as a PyTorch module; needs the extra `torch`.

        Parameters
        ----------
        dtype : torch.dtype or None
            Of its weights; theirs by default.

        Returns
        -------
        torch.nn.Sequential
            It returns what predict_proba, or predict, returns.
        """
        from dladmm.export.torch_modules import to_torch  # PyTorch is an extra

        return to_torch(self, dtype)

    def to_onnx(self, path: Any, preprocessing: Any = None, *, dtype: str = "float64") -> list[str]:
        """Write the network as an ONNX file; needs the extra `onnx`.

        Parameters
        ----------
        path : str or path
            Where to write it.
        preprocessing : mapping or None
            What the command line learned about a table: the file then takes its raw columns.
        dtype : "float64" or "float32"
            What the file computes in.

        Returns
        -------
        list of str
            What ONNX cannot do, in sentences.
        """
        from dladmm.export.onnx import to_onnx  # onnx is an extra

        return to_onnx(self, path, preprocessing, dtype=dtype)

    def report(
        self,
        X: Any,
        y: Any,
        *,
        names: Sequence[str] | None = None,
        image_shape: tuple[int, int] | None = None,
        title: str = "",
    ) -> Any:
        """A page about this network on rows it was not trained on; needs the extra `compare`.

        Scores beside a baseline, curves, confusion matrix or residuals, calibration, importance of
        the columns, the worst mistakes, and the certificate in plain words.

        Parameters
        ----------
        X : array or sparse matrix, rows times columns
            Rows that were not trained on.
        y : array
            What is to be predicted there.
        names : sequence of str or None
            Of the columns; those of a frame by default.
        image_shape : tuple or None
            Height and width, where a row is a grey picture: the worst mistakes are then shown.
        title : str
            Of the page.

        Returns
        -------
        Report
            `html` is the page, `save(path)` writes it; a notebook shows it.
        """
        from dladmm.report.model_report import report  # plotly is an extra

        check_is_fitted(self)
        X = as_rows(self.network, X)
        return report(self, X, y, names=names, image_shape=image_shape, title=title)

    def _problem(
        self, n_features: int, n_outputs: int, is_whole: bool = True, **more: Any
    ) -> Problem:
        """What to train: `more` are options that this fit has of its own. is_whole: whether the
        rows are all there are, which is what the evidence is about."""
        problem = self._problem_of(self._layers(n_features, n_outputs))
        if self.regularizer is None and self.alpha == "evidence" and is_whole:
            options = self._options(0, 1, "auto", **more)
            if checked_method(problem, options).can_reweigh:
                terms = (Evidence(),) * problem.n_layers
                return dataclasses.replace(problem, regularizers=terms)
        return problem

    def _problem_of(self, layers: Sequence[Layer]) -> Problem:
        if self.alpha != "evidence" and not isinstance(self.alpha, Real):
            raise ValueError(
                f"alpha={self.alpha!r} is not valid; expected 'evidence' or a number >= 0"
            )
        fixed = FIXED_ALPHA if self.alpha == "evidence" else self.alpha
        regularizer = L2(fixed) if self.regularizer is None else self.regularizer
        if self.network is not None:
            return Problem.of_network(self.network, self._loss(), regularizer)
        return Problem.of_layers(layers, self.activation, self._loss(), regularizer)

    def _loss(self) -> Any:
        """The loss to train with, which y has a say in too."""
        return self.loss

    def _units_of(self, problem: Problem, X: Any, Y: np.ndarray, weights: Any) -> Units:
        """The units to train in; as they are where a regulariser means its numbers literally."""
        terms = problem.regularizers
        literal = not all(term.any_unit or type(term) is Regularizer for term in terms)
        massless = weights is not None and not over_processes(float(weights.sum())).sum() > 0
        if literal or massless:
            return as_they_are(problem.loss)
        by_column = problem.is_chain and type(problem.layers[0]) is Dense
        skips = (
            isinstance(layer, Joined) and layer.skips(k)
            for layer, sources in zip(problem.layers, problem.sources, strict=True)
            for k, source in enumerate(sources)
            if source == INPUT
        )
        return learned(X, Y, weights, problem.loss, by_column, not any(skips))

    def _layers(self, n_features: int, n_outputs: int) -> tuple[Layer, ...]:
        """The hidden layers, numbers being dense ones, and a dense layer for the outputs; those of
        the network where there is one."""
        if self.network is not None:
            return self._layers_of_network(self.network, n_features, n_outputs)
        hidden = np.atleast_1d(np.asarray(self.hidden_layer_sizes, dtype=object)).tolist()
        for size in hidden:
            if not isinstance(size, Layer) and not (isinstance(size, Integral) and int(size) > 0):
                raise ValueError(
                    f"hidden_layer_sizes={self.hidden_layer_sizes!r} is not valid;"
                    " expected positive integers, or layers"
                )
        return chain((n_features,), [*hidden, n_outputs])

    def _layers_of_network(
        self, network: Network, n_features: int, n_outputs: int
    ) -> tuple[Layer, ...]:
        if math.prod(network.in_shape) != n_features:
            raise ValueError(
                f"X has {n_features} numbers for each sample; expected"
                f" {math.prod(network.in_shape)}, since network.in_shape={network.in_shape}"
            )
        if network.out_shape != (n_outputs,):
            raise ValueError(
                f"network has outputs of shape {network.out_shape}; expected ({n_outputs},) for"
                f" this y: let it end with Dense({n_outputs})"
            )
        return network.graph.layers

    def _method(self, n_features: int, n_outputs: int) -> Method:
        return checked_method(self._problem(n_features, n_outputs), self._options(0, 1, "auto"))

    def _options(self, seed: int, max_iter: int, dtype: str, **more: Any) -> Options:
        return Options(
            method=self.method,
            rho=self.rho,
            nu=self.nu,
            rho_schedule=self.rho_schedule,
            nu_schedule=self.nu_schedule,
            step_rule=self.step_rule,
            zl_solver=self.zl_solver,
            targets=self.targets,
            init=self.init,
            **({"batch_size": self.batch_size} | more),
            max_iter=max_iter,
            tol=self.tol,
            patience=self.n_iter_no_change,
            stop_at_noise=self.stop_at_noise,
            seed=seed,
            dtype=dtype,
            devices=self.devices,
            engine=self.engine,
        )

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
        drawn = check_random_state(self.random_state).randint(2**31 - 1)
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

            try:
                chosen = train_test_split(
                    np.arange(X.shape[0]),
                    test_size=self.validation_fraction,
                    random_state=check_random_state(self.random_state).randint(2**31 - 1),
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
