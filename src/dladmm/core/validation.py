"""Wrong input is refused here, at the boundary, in one sentence: what, its value, what instead."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from dladmm.core.initial import INITIALIZERS
from dladmm.core.methods import method_names
from dladmm.core.problem import Problem
from dladmm.core.schedules import make_schedule
from dladmm.core.state import Params
from dladmm.core.step_rules import STEP_RULES, Backtracking, ClosedForm
from dladmm.terms.activations import Activation
from dladmm.terms.loss import Loss
from dladmm.terms.zl_solvers import zl_solvers

if TYPE_CHECKING:
    from dladmm.core.options import Options

DTYPES = ("float32", "float64")
DUAL_STARTS = ("auto", "gradient", "zero")


def _one_of(name: str, value: Any, allowed: Any) -> None:
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name}={value!r} is unknown; expected one of {', '.join(allowed)}")


def _integer(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}={value!r} is not valid; expected an integer >= {least}")


def check_options(problem: Problem, options: Options) -> None:
    """ValueError for an option that is unknown, out of range, or does not fit the problem."""
    _one_of("method", options.method, method_names())
    _one_of("zl_solver", options.zl_solver, zl_solvers)
    _one_of("init", options.init, ("auto", *INITIALIZERS))
    _one_of("dual_start", options.dual_start, DUAL_STARTS)
    _one_of("dtype", options.dtype, DTYPES)
    if options.batch_size is not None:
        _integer("batch_size", options.batch_size, 1)
        if options.method != "restored":
            raise ValueError(
                f"batch_size={options.batch_size!r} does not fit method={options.method!r}, which"
                " works on all samples at once; expected None, or method='restored'"
            )
    if not isinstance(options.step_rule, ClosedForm | Backtracking):
        _one_of("step_rule", options.step_rule, STEP_RULES)
    for name, least in (
        ("max_iter", 1),
        ("patience", 1),
        ("evaluate_every", 1),
        ("refresh_every", 1),
        ("max_recoveries", 0),
        ("seed", 0),
    ):
        _integer(name, getattr(options, name), least)
    if not isinstance(options.tol, Real) or not 0 <= options.tol < float("inf"):
        raise ValueError(f"tol={options.tol!r} is not valid; expected a number >= 0")
    make_schedule("rho", options.rho_schedule, options.rho)
    make_schedule("nu", options.nu_schedule, options.nu)
    if options.zl_solver != "newton" and not np.isfinite(problem.loss.lipschitz):
        raise ValueError(
            f"zl_solver={options.zl_solver!r} needs a loss with a Lipschitz gradient, which"
            f" {type(problem.loss).__name__} has not; expected zl_solver='newton'"
        )
    if options.method == "restored":
        _check_restorable(problem)
    for l, regularizer in enumerate(problem.regularizers, 1):
        if options.method == "admm" and regularizer.quadratic is None:
            raise ValueError(
                f"method='admm' solves W by least squares and cannot take the"
                f" {type(regularizer).__name__} regularizer of layer {l}; expected none or l2,"
                " or method='dladmm'"
            )


def _check_restorable(problem: Problem) -> None:
    """Restored sweeps need what the relaxed methods do not: gradients."""
    if type(problem.loss).gradient is Loss.gradient:
        raise ValueError(
            f"method='restored' needs the gradient of the loss, which {type(problem.loss).__name__}"
            " does not define; expected method='dladmm'"
        )
    for l, f in enumerate(problem.activations, 1):
        if f.continuous and type(f).slopes is Activation.slopes:
            raise ValueError(
                f"method='restored' needs the slopes of activation {l}, which {type(f).__name__}"
                " does not define; expected method='dladmm'"
            )


def check_inputs(
    problem: Problem, x: Any, y: Any, sample_weight: Any, dtype: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """x, y and weights as arrays of this dtype; ValueError for anything that cannot be trained."""
    x, y = _matrix("x", x, dtype), _matrix("y", y, dtype)
    if x.shape[0] == 0:
        raise ValueError(f"x of shape {x.shape} is empty; expected at least one sample")
    if y.shape[0] != x.shape[0]:
        raise ValueError(f"y has {y.shape[0]} rows; expected {x.shape[0]}, one for each row of x")
    for name, array, expected in (
        ("x", x, problem.layers[0].n_in),
        ("y", y, problem.layers[-1].n_out),
    ):
        if array.shape[1] != expected:
            raise ValueError(
                f"{name} has {array.shape[1]} columns; expected {expected}, as the network has"
            )
    problem.loss.check_targets(y)
    if sample_weight is None:
        return x, y, None
    weights = _numeric("sample_weight", sample_weight, dtype)
    if weights.shape != (x.shape[0],):
        raise ValueError(
            f"sample_weight has shape {weights.shape}; expected ({x.shape[0]},), one per row of x"
        )
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise ValueError(
            "sample_weight has a negative, NaN or infinite entry or no positive one;"
            " expected finite numbers >= 0 with a positive sum"
        )
    return x, y, weights


def check_params(problem: Problem, params: Params) -> None:
    """ValueError if these weights are not those of the problem's network."""
    for name, given, expected in (
        ("W", params.W, [layer.weight_shape for layer in problem.layers]),
        ("b", params.b, [layer.bias_shape for layer in problem.layers]),
    ):
        shapes = [np.shape(v) for v in given]
        if shapes != expected:
            raise ValueError(f"params.{name} has shapes {shapes}; expected {expected}")
        if not all(np.isfinite(v).all() for v in given):
            raise ValueError(f"params.{name} has NaN or infinite entries; expected finite numbers")


def _numeric(name: str, value: Any, dtype: str) -> np.ndarray:
    try:
        return np.asarray(value, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} is not numeric ({error}); expected numbers") from None


def _matrix(name: str, value: Any, dtype: str) -> np.ndarray:
    array = _numeric(name, value, dtype)
    if array.ndim == 1 and name == "y":
        array = array[:, None]
    if array.ndim != 2:
        raise ValueError(f"{name} has shape {array.shape}; expected a matrix, samples as rows")
    # By blocks of rows: a mask of all entries would be a quarter of the data.
    blocks = range(0, len(array), 4096)
    bad = sum(int((~np.isfinite(array[start : start + 4096])).sum()) for start in blocks)
    if bad:
        raise ValueError(f"{name} has {bad} NaN or infinite entries; expected finite numbers")
    return array
