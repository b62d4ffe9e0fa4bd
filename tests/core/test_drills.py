"""Settings that no theory covers: whatever they do to a run, it returns a finite network and says
what happened, or is refused in a sentence."""

import math

import numpy as np
import pytest
from recount import differences, recounted

from dladmm import Options, Problem, Status, solve
from dladmm.core.predict import predict_output
from dladmm.terms.activations import activations
from dladmm.terms.registry import needs_jax

DRILLS = 200
METHODS = (
    {"method": "dladmm"},
    {"method": "dladmm", "step_rule": "backtracking", "rho_schedule": "adaptive"},
    {"method": "dladmm", "nu_schedule": "adaptive", "dual_start": "zero"},
    {"method": "admm"},
    {"method": "restored"},
    {"method": "restored", "batch_size": 8},
)


def drill(seed):
    """A random setting, as (problem, x, y, options)."""
    rng = np.random.default_rng(seed)
    power = lambda most: 10.0 ** rng.uniform(-most, most)  # noqa: E731
    depth = int(rng.integers(1, 31))
    sizes = (3, *rng.integers(1, 5, depth - 1).tolist(), 2)
    loss = str(rng.choice(["squared_error", "log_loss", "huber"]))
    x = rng.normal(size=(20, 3)) * power(rng.choice([1, 12, 30]))
    y = rng.normal(size=(20, 2)) * power(rng.choice([1, 12]))
    if loss == "log_loss":
        y = np.eye(2)[rng.integers(2, size=20)]
    names = [name for name in activations if not needs_jax(activations.build(name))]
    options = Options(
        **METHODS[int(rng.integers(len(METHODS)))],
        rho=power(8),
        nu=power(8),
        max_iter=5,
        dtype=str(rng.choice(["float32", "float64"])),
        engine="numpy",
        seed=seed,
    )
    return Problem.dense(sizes, str(rng.choice(names)), loss), x, y, options


def check(seed):
    """Why a drill ended; AssertionError where it ended badly."""
    problem, x, y, options = drill(seed)
    result = solve(problem, x, y, options=options)
    assert all(np.isfinite(v).all() for v in (*result.params.W, *result.params.b))
    predicted = predict_output(problem, result.params, x.astype(options.dtype))[0]
    assert np.isfinite(predicted).all() or result.status is Status.DIVERGED
    assert result.status in list(Status)
    assert result.message
    assert not math.isnan(result.certificate.largest_rise)
    again = recounted(
        result.history,
        method=options.method,
        dtype=options.dtype,
        start=math.nan,  # its first iteration is not compared here
        mass=20.0,
        H=problem.loss.lipschitz,
    )
    again = {name: again[name] for name in ("n_iter", "rho", "nu", "residual", "gap", "least_C2")}
    assert differences(result.certificate, again) == {}
    return result.status


@pytest.mark.slow
def test_no_drill_returns_what_is_not_a_number():
    ended = [check(seed) for seed in range(DRILLS)]
    assert {Status.DIVERGED, Status.MAX_ITER} <= set(ended)  # some went wrong, and some did not


def test_a_few_drills():
    assert all(check(seed) in list(Status) for seed in range(10))
