"""Wrong input is refused with a ValueError that names the argument and says what was expected."""

import pickle
import re
from dataclasses import dataclass, replace

import numpy as np
import pytest
from problems import small

from dladmm import Options, Params, Problem, solve
from dladmm.core.relaxed.step_rules import Backtracking
from dladmm.core.validation import checked_method
from dladmm.terms.activations import Activation
from dladmm.terms.layers import Dense
from dladmm.terms.losses.base import Loss
from dladmm.terms.regularizers import L1, L2, Box

NAN, INF = float("nan"), float("inf")


def refused(argument, call):
    with pytest.raises(ValueError, match="expected") as refusal:
        call()
    # The name stands by itself: "rho" is not "rho_schedule".
    assert re.search(rf"(?<![\w]){argument}(?![\w])", str(refusal.value)), str(refusal.value)


def spoiled(array, value):
    array = array.copy()
    array[1, 0] = value
    return array


_, X, Y = small("log_loss", 10)
_, _, VALUES = small("squared_error", 10)
ONE_COLUMN = Y[:, :1]
FITTING = Problem.dense((4, 5, 3))


@pytest.mark.parametrize(
    ("argument", "x", "y"),
    [
        ("x", np.empty((0, 4)), np.empty((0, 3))),
        ("x", [], Y),
        ("x", spoiled(X, NAN), Y),
        ("x", spoiled(X, INF), Y),
        ("x", spoiled(X, -INF), Y),
        ("x", X[:, :3], Y),
        ("x", X[:, 0], Y),
        ("x", X[None], Y),
        ("x", [["a"] * 4] * 10, Y),
        ("x", None, Y),
        ("y", X, Y[:-1]),
        ("y", X, Y[:, :2]),
        ("y", X, spoiled(Y, NAN)),
        ("y", X, spoiled(Y, INF)),
        ("y", X, [["a"] * 3] * 10),
        ("y", X, VALUES),
        ("y", X, 2 * Y),
        ("y", X, np.zeros_like(Y)),
        ("y", X, np.argmax(Y, axis=1)),
    ],
)
def test_data_that_cannot_be_trained_on_is_refused(argument, x, y):
    problem, *_ = small("log_loss", 10)
    refused(argument, lambda: solve(problem, x, y))


def test_a_problem_under_other_regularizers_is_the_one_made_so():
    problem, terms = Problem.dense((4, 5, 3), regularizer=L2(1.0)), (L1(0.5), L2(2.0))
    assert problem.out_shapes == ((5,), (3,))  # known already, and the other's too
    other, made = problem.with_regularizers(terms), replace(problem, regularizers=terms)
    assert (other, hash(other)) == (made, hash(made))
    assert pickle.loads(pickle.dumps(other)) == made != problem
    assert other.needs_jax == made.needs_jax
    refused("regularizers", lambda: problem.with_regularizers(terms[:1]))


def test_a_single_column_does_not_fit_the_cross_entropy_of_classes():
    problem = Problem.dense((4, 5, 1), loss="log_loss")
    refused("y", lambda: solve(problem, X, ONE_COLUMN))


@pytest.mark.parametrize(
    "weights",
    [
        np.ones(9),
        np.ones((10, 1)),
        -np.ones(10),
        np.zeros(10),
        np.full(10, NAN),
        np.full(10, INF),
        1.0,
        ["a"] * 10,
    ],
)
def test_bad_sample_weights_are_refused(weights):
    problem, *_ = small("log_loss", 10)
    refused("sample_weight", lambda: solve(problem, X, Y, sample_weight=weights))


BAD_OPTIONS = [
    *[(name, value) for name in ("rho", "nu") for value in (0, 0.0, -1.0, NAN, INF, -INF, "1")],
    *[
        (name, "nonsense")
        for name in (
            "method",
            "rho_schedule",
            "nu_schedule",
            "step_rule",
            "zl_solver",
            "init",
            "dual_start",
            "dtype",
            "max_iter",
            "tol",
            "patience",
            "evaluate_every",
            "refresh_every",
            "max_recoveries",
            "seed",
        )
    ],
    *[(name, None) for name in ("method", "step_rule", "dtype", "max_iter")],
    ("residual_tol", -1.0),
    ("dtype", "float16"),
    ("max_iter", 0),
    ("max_iter", 2.5),
    ("max_iter", True),
    ("patience", 0),
    ("evaluate_every", 0),
    ("refresh_every", 0),
    ("max_recoveries", -1),
    ("seed", -1),
    ("tol", -1e-3),
    ("tol", NAN),
]


@pytest.mark.parametrize(("argument", "value"), BAD_OPTIONS)
def test_options_unknown_or_out_of_range_are_refused(argument, value):
    problem, *_ = small("log_loss", 10)
    refused(argument, lambda: solve(problem, X, Y, options=Options(**{argument: value})))


@pytest.mark.parametrize("term", [L1(0.1), Box(-1.0, 1.0), "elastic_net", "non_negative"])
def test_admm_refuses_a_regularizer_it_cannot_solve(term):
    problem, *_ = small("log_loss", 10, regularizer=term)
    refused("method", lambda: solve(problem, X, Y, options=Options(method="admm")))


@pytest.mark.parametrize(
    ("argument", "build"),
    [
        ("layers", lambda: parts(layers=(Dense((3,), 4), Dense((5,), 2)))),
        ("layers", lambda: parts(layers=(), activations=(), regularizers=())),
        ("activations", lambda: parts(activations=())),
        ("activation", lambda: Problem.dense((4, 5, 5, 3), ["relu"])),
        ("activation", lambda: Problem.dense((4, 5, 3), ["relu", "relu"])),
        ("regularizers", lambda: parts(regularizers=())),
        ("regularizer", lambda: Problem.dense((4, 5, 3), regularizer=["l2"])),
        ("sizes", lambda: Problem.dense(())),
        ("sizes", lambda: Problem.dense((4,))),
        ("sizes", lambda: Problem.dense((4, 0, 3))),
        ("sizes", lambda: Problem.dense((4, -5, 3))),
        ("sizes", lambda: Problem.dense((4, 2.5, 3))),
        ("sizes", lambda: Problem.dense((4, NAN, 3))),
        ("sizes", lambda: Problem.dense((4, "five", 3))),
        ("activation", lambda: Problem.dense((4, 5, 3), "nonsense")),
        ("activation", lambda: Problem.dense((4, 5, 3), 3.0)),
        ("loss", lambda: Problem.dense((4, 5, 3), loss="nonsense")),
        ("regularizer", lambda: Problem.dense((4, 5, 3), regularizer="nonsense")),
        ("strength", lambda: L2(-1.0)),
        ("strength", lambda: L2(NAN)),
        ("l1", lambda: L1(-1.0)),
        ("l1", lambda: L1(INF)),
        ("low", lambda: Box(1.0, -1.0)),
        ("start", lambda: Backtracking(start=0.0)),
        ("growth", lambda: Backtracking(growth=1.0)),
    ],
)
def test_a_network_that_does_not_fit_together_is_refused(argument, build):
    refused(argument, build)


def parts(
    layers=FITTING.layers, activations=FITTING.activations, regularizers=FITTING.regularizers
):
    return Problem(layers, activations, FITTING.loss, regularizers)


def test_parts_that_fit_are_accepted():
    assert parts(layers=(Dense((4,), 5), Dense((5,), 3))) == FITTING


def test_params_of_another_network_are_refused():
    problem, *_ = small("log_loss", 10)
    other = Params((np.zeros((5, 3)), np.zeros((3, 5))), (np.zeros(5), np.zeros(3)))
    refused("params", lambda: solve(problem, X, Y, params=other))


def test_params_that_are_not_finite_are_refused():
    problem, *_ = small("log_loss", 10)
    other = Params((np.full((5, 4), NAN), np.zeros((3, 5))), (np.zeros(5), np.zeros(3)))
    refused("params", lambda: solve(problem, X, Y, params=other))


def test_one_dimensional_targets_are_one_column():
    problem = Problem.dense((4, 5, 1), loss="squared_error")
    column, flat = (
        solve(problem, X, y, options=Options(max_iter=1)) for y in (VALUES[:, :1], VALUES[:, 0])
    )
    assert column.history["lagrangian"] == flat.history["lagrangian"]


@pytest.mark.parametrize("solver", ["fista", "authors"])
def test_gradient_steps_on_z_L_need_a_loss_with_a_lipschitz_gradient(solver):
    options, hinge = (
        Options(method="dladmm", zl_solver=solver),
        Problem.dense((4, 5, 3), loss="hinge"),
    )
    refused("zl_solver", lambda: checked_method(hinge, options))
    checked_method(hinge, Options(method="dladmm", zl_solver="newton"))
    checked_method(FITTING, options)


def test_restored_sweeps_refuse_what_has_no_gradient_and_name_the_method_that_needs_none():
    @dataclass(frozen=True)
    class ProxOnly(Loss):
        """A loss with a prox alone."""

    @dataclass(frozen=True)
    class NoSlopes(Activation):
        """An activation with argmin_z alone."""

        def argmin_z(self, m, a):
            return m

    options = Options(method="restored")
    for problem, what in (
        (Problem.dense((2, 3, 1), loss=ProxOnly()), "gradient of the loss, which ProxOnly"),
        (Problem.dense((2, 3, 1), NoSlopes(), "huber"), "slopes of activation 1, which NoSlopes"),
    ):
        with pytest.raises(ValueError, match=f"{what} does not define; expected method='dladmm'"):
            checked_method(problem, options)
        checked_method(problem, Options(method="dladmm"))
