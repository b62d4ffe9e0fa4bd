"""Every method and schedule against a recount of its certificate that shares no code with it."""

import itertools

import numpy as np
import pytest
from recount import LIPSCHITZ, differences, recounted

from dladmm import Network, Options, Problem, solve
from dladmm.core.initial import initial_params
from dladmm.core.relaxed.schedules import Multiply
from dladmm.network import Dense, Residual
from dladmm.terms.regularizers import Evidence

RHO = ("constant", "paper", "adaptive", Multiply(1.0, 1.5, 3))
NU = ("constant", "paper", "adaptive", Multiply(1.0, 0.7, 2))
LOSSES = ("squared_error", "log_loss")
SKIP = Network((4,), [Residual([Dense(6), "relu", Dense(4)]), "relu", Dense(3)])
RISING = {"method": "dladmm", "rho": 1e-3, "dual_start": "zero"}
CASES = [
    *({"method": "dladmm", "rho_schedule": r, "nu_schedule": n} for r in RHO for n in NU),
    *({"method": "admm", "rho_schedule": r, "nu_schedule": r} for r in RHO),
    *(
        {"method": "dladmm", "step_rule": rule}
        for rule in ("backtracking", "matrix", "closed-form")
    ),
    RISING,
    {"method": "restored"},
    {"method": "restored", "regularizer": Evidence()},
    {"method": "restored", "targets": "closed"},
    {"method": "restored", "targets": "closed", "batch_size": 16},
    *({"method": method, "network": SKIP} for method in ("dladmm", "restored")),
    {"method": "restored", "batch_size": 16},
]


def rows(loss):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(60, 4))
    y = np.eye(3)[rng.integers(3, size=60)] if loss == "log_loss" else rng.normal(size=(60, 3))
    return x, y, rng.uniform(0.1, 3, 60)


def run(case, loss, dtype="float64", engine="numpy"):
    x, y, weights = rows(loss)
    case = {"rho": 2.5, "max_iter": 30, "tol": None, "evaluate_every": 3} | case
    problem = problem_of(case.pop("network", None), loss, case.pop("regularizer", "none"))
    options = Options(**case, dtype=dtype, engine=engine)
    params = initial_params(problem, "he", 0, np.dtype(dtype))
    return solve(problem, x, y, sample_weight=weights, options=options, params=params)


def problem_of(network, loss, regularizer="none"):
    if network is None:
        return Problem.dense((4, 6, 3), "relu", loss, regularizer)
    return Problem.of_network(network, loss, regularizer)


def first_objective(loss, network=None):
    """Of the first network: its loss alone, since the start is feasible and Omega is 0."""
    x, y, weights = rows(loss)
    layers, biases = initial_params(problem_of(network, loss), "he", 0, np.dtype("float64"))
    *hidden, (W, c) = zip(layers, biases, strict=True)
    a = x
    for V, b in hidden:
        a = np.maximum(a @ V.T + b + (x if network and a is not x else 0), 0)  # SKIP adds x
    z = a @ W.T + c
    if loss == "log_loss":
        return weights @ (np.log(np.exp(z).sum(1)) - (y * z).sum(1))
    return weights @ (0.5 * ((z - y) ** 2).sum(1))


def counted_again(result, case, loss, dtype="float64"):
    return recounted(
        result.history,
        method=case["method"],
        dtype=dtype,
        start=np.nan if case.get("batch_size") else first_objective(loss, case.get("network")),
        mass=float(rows(loss)[2].sum()),
        H=LIPSCHITZ[loss],
    )


@pytest.mark.parametrize(("case", "loss"), list(itertools.product(CASES, LOSSES)), ids=str)
def test_a_recount_agrees_exactly(case, loss):
    result = run(case, loss)
    assert differences(result.certificate, counted_again(result, case, loss)) == {}
    assert result.n_iter == 30


@pytest.mark.parametrize("case", [CASES[10], CASES[-3]], ids=str)
def test_a_recount_agrees_with_jax_and_in_float32_too(case):
    result = run(case, "squared_error", "float32", "jax")
    again = counted_again(result, case, "squared_error", "float32")
    assert differences(result.certificate, again) == {}


def test_the_recount_sees_what_is_wrong():
    result = run(CASES[0], "squared_error")
    result.history["lagrangian"][7] *= 1.5
    wrong = differences(result.certificate, counted_again(result, CASES[0], "squared_error"))
    assert {"rises", "first_rise", "largest_rise"} <= set(wrong)
    assert run(RISING, "squared_error").certificate.rises > 0  # rises were among what agreed
