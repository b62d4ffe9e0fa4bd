"""Wrong input is refused here, at the boundary, in one sentence: what, its value, what instead."""

from numbers import Real
from typing import Any

import numpy as np

from dladmm.core.data import Arrays
from dladmm.core.initial import INITIALIZERS
from dladmm.core.method import Method
from dladmm.core.methods import METHODS, method_for
from dladmm.core.options import Options
from dladmm.core.params import Params
from dladmm.core.problem import Problem
from dladmm.core.relaxed.layer_messages import MESSAGES
from dladmm.core.relaxed.schedules import make_schedule
from dladmm.core.relaxed.step_rules import STEP_RULES, StepRule
from dladmm.core.relaxed.zl_solvers import zl_solvers
from dladmm.terms.regularizers import Evidence

DTYPES = ("auto", "float32", "float64")
ENGINES = ("auto", "numpy", "jax")
TARGETS = ("first-order", "closed")
DUAL_STARTS = ("auto", "gradient", "zero")


def _one_of(name: str, value: Any, allowed: Any) -> None:
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name}={value!r} is unknown; expected one of {', '.join(allowed)}")


def check_integer(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}={value!r} is not valid; expected an integer >= {least}")


def check_not_negative(name: str, value: Any) -> None:
    if not isinstance(value, Real) or not 0 <= float(value) < float("inf"):
        raise ValueError(f"{name}={value!r} is not valid; expected a number >= 0")


def checked_method(problem: Problem, options: Options) -> Method:
    """The method of these options; ValueError for an option that is unknown, out of range, or does
    not fit the problem."""
    _one_of("method", options.method, METHODS)
    _one_of("zl_solver", options.zl_solver, zl_solvers)
    _one_of("targets", options.targets, TARGETS)
    _one_of("init", options.init, ("auto", *INITIALIZERS))
    _one_of("dual_start", options.dual_start, DUAL_STARTS)
    _one_of("dtype", options.dtype, DTYPES)
    _one_of("engine", options.engine, ENGINES)
    _one_of("layer_messages", options.layer_messages, MESSAGES)
    if options.layer_devices is not None:
        check_integer("layer_devices", options.layer_devices, 1)
    if options.batch_size not in (None, "auto"):
        check_integer("batch_size", options.batch_size, 1)
    if not isinstance(options.step_rule, StepRule):
        _one_of("step_rule", options.step_rule, STEP_RULES)
    for name, least in (
        ("max_iter", 1),
        ("patience", 1),
        ("evaluate_every", 1),
        ("refresh_every", 1),
        ("max_recoveries", 0),
        ("seed", 0),
    ):
        check_integer(name, getattr(options, name), least)
    if options.tol is not None:
        check_not_negative("tol", options.tol)
    check_not_negative("residual_tol", options.residual_tol)
    make_schedule("rho", options.rho_schedule, 1.0 if options.rho is None else options.rho)
    make_schedule("nu", options.nu_schedule, options.nu)
    method = method_for(problem, options)
    method.requires()
    if any(isinstance(term, Evidence) for term in problem.regularizers) and not (
        method.can_reweigh and method.reweighs
    ):
        raise ValueError(
            "regularizer=Evidence() does not fit this run; expected it for all layers, with"
            " method='restored', a loss without kinks and continuous activations"
        )
    return method


def check_inputs(problem: Problem, x: Any, y: Any, sample_weight: Any, dtype: str) -> Arrays:
    """x, y and weights as arrays of this dtype; ValueError for anything that cannot be trained."""
    y = _numeric("y", y, dtype)
    if y.ndim == 1:
        y = y[:, None]
    x = _numeric("x", x, dtype)
    for name, array, shape in (("x", x, problem.in_shape), ("y", y, problem.out_shape)):
        _check_shape(name, array, shape)
        _check_finite(name, array)
    if x.shape[0] == 0:
        raise ValueError(f"x of shape {x.shape} is empty; expected at least one sample")
    if y.shape[0] != x.shape[0]:
        raise ValueError(f"y has {y.shape[0]} rows; expected {x.shape[0]}, one for each row of x")
    _check_marks(problem, x)
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


def _check_shape(name: str, array: np.ndarray, shape: tuple[int, ...]) -> None:
    """Samples first, then the shape that the network has for one of them."""
    if array.shape[1:] == shape and array.ndim:
        return
    if array.ndim == 2 and len(shape) == 1:
        raise ValueError(
            f"{name} has {array.shape[1]} columns; expected {shape[0]}, as the network has"
        )
    expected = "a matrix, samples as rows" if len(shape) == 1 else f"(n, {str(shape)[1:]}"
    raise ValueError(f"{name} has shape {array.shape}; expected {expected}")


def _check_marks(problem: Problem, x: np.ndarray) -> None:
    """Where a network masks its inputs: that they say so as it expects."""
    mask = problem.layers[0].mask(x)
    if mask is None:
        return
    ends_late = np.diff(mask, axis=1, append=1).min(axis=(1, 2)) >= 0
    is_empty_before = ~np.any((x != 0) & (mask == 0), axis=(1, 2))
    bad = len(x) - int((ends_late & is_empty_before & (mask[:, -1, 0] == 1)).sum())
    if bad:
        raise ValueError(
            f"x has {bad} samples whose last channel does not mark a sequence; expected 0 before"
            " it, where all channels are 0, and 1 from its first step to the last step of all"
        )


def _check_finite(name: str, array: np.ndarray) -> None:
    # By blocks of rows: a mask of all entries would be a quarter of the data.
    blocks = range(0, len(array), 4096)
    bad = sum(int((~np.isfinite(array[start : start + 4096])).sum()) for start in blocks)
    if bad:
        raise ValueError(f"{name} has {bad} NaN or infinite entries; expected finite numbers")
