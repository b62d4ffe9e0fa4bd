"""The parameters of both estimators, and the problem and the options that they stand for."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from dladmm.core.method import Method
from dladmm.core.options import ACTIVATION, ALPHA, DEFAULTS, FIXED_ALPHA, HIDDEN, Options
from dladmm.core.problem import Problem, chain
from dladmm.core.validation import check_integer, checked_method
from dladmm.engine.processes import over_processes
from dladmm.estimators.exporting import Exporting
from dladmm.estimators.units import Units, as_they_are, is_on_disk, learned, of_marked_steps
from dladmm.network import Network
from dladmm.network.graph import INPUT
from dladmm.terms.layers import Dense, Joined, Layer, Masked
from dladmm.terms.regularizers import L2, Evidence, Regularizer


def _is_strength(value: Any) -> bool:
    """Whether this is a finite number >= 0."""
    return isinstance(value, Real) and 0 <= float(value) < math.inf


# Parameters are fields: scikit-learn reads them off the __init__ that @dataclass writes.
@dataclass(eq=False, repr=False)
class Parameters(Exporting):
    """The parameters of both estimators."""

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
    layer_devices: int | None = DEFAULTS.layer_devices
    layer_messages: str = DEFAULTS.layer_messages
    engine: str = DEFAULTS.engine
    checkpoints: Any = None
    callbacks: Any = None
    verbose: bool = False

    def _problem(
        self, n_features: int, n_outputs: int, is_whole: bool = True, **more: Any
    ) -> Problem:
        """What to train: `more` are options that this fit has of its own. is_whole: whether the
        rows are all there are, which is what the evidence is about."""
        problem = self._problem_of(self._layers(n_features, n_outputs))
        if self.regularizer is None and self.alpha == "evidence" and is_whole:
            options = self._options(0, 1, "auto", **more)
            if checked_method(problem, options).can_reweigh:
                return problem.with_regularizers((Evidence(),) * problem.n_layers)
        return problem

    def _problem_of(self, layers: Sequence[Layer]) -> Problem:
        if self.alpha != "evidence" and not _is_strength(self.alpha):
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
        marked = isinstance(problem.layers[0], Masked)
        units = learned(X, Y, weights, problem.loss, by_column, not (marked or any(skips)))
        if marked and not is_on_disk(X):
            scale = of_marked_steps(X, weights, problem.in_shape)
            return dataclasses.replace(units, x_scale=scale)
        return units

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
        check_integer("n_iter_no_change", self.n_iter_no_change, 1)  # patience, for `solve`
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
            layer_devices=self.layer_devices,
            layer_messages=self.layer_messages,
            engine=self.engine,
        )
