"""Runs that meet non-finite values: what they do about it and how they end."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import small
from tolerances import EXACT_STEP

from dladmm import Options, Status, solve
from dladmm.core import methods
from dladmm.core.relaxed import layer_programs, method
from dladmm.core.relaxed.method import DLADMM
from dladmm.core.relaxed.schedules import Multiply
from dladmm.core.relaxed.sweep import dladmm_sweep


def fragile(breaks):
    """Algorithm 1, but every number is NaN where breaks(rho, nu) is true."""

    def sweep(problem, options, data, state, rho, nu):
        new, record = dladmm_sweep(problem, options, data, state, rho, nu)
        spoil = jnp.where(breaks(rho, nu), jnp.nan, 0.0).astype(rho.dtype)
        new, parts = jax.tree.map(lambda v: v + spoil, (new, record.lagrangian))
        return new, record._replace(lagrangian=parts)

    return sweep


FRAGILE = {
    "always_breaks": lambda rho, nu: rho > 0,
    "breaks_below_rho_50": lambda rho, nu: rho < 50,
    "breaks_above_nu_5": lambda rho, nu: nu > 5,
    "breaks_above_nu_5_below_rho_50": lambda rho, nu: (nu > 5) & (rho < 50),
}


@pytest.fixture(autouse=True)
def fragile_methods(monkeypatch):
    for name, breaks in FRAGILE.items():
        kind = type(name, (DLADMM,), {"name": name, "sweep": fragile(breaks)})
        monkeypatch.setattr(method, name, kind, raising=False)
        monkeypatch.setitem(methods.METHODS, name, methods.Kind(methods._relaxed(name)))


RULE = "closed-form"  # its loss rises before it breaks down, in what follows


def run(method, callback=None, **options):
    problem, x, y = small()
    settings = {"method": method, "rho": 1.0, "max_iter": 30, "tol": None, "dtype": "float64"}
    settings["step_rule"] = RULE
    return solve(problem, x, y, options=Options(**settings | options), callback=callback)


def all_finite(tree):
    return all(np.isfinite(v).all() for v in jax.tree.leaves(tree))


def test_a_run_that_breaks_at_small_rho_goes_on_with_a_larger_one():
    result = run("breaks_below_rho_50")
    assert result.status == Status.MAX_ITER
    assert set(result.history["rho"]) == {100.0}
    assert all_finite((result.params, result.state))
    assert np.isfinite(result.history["lagrangian"]).all()
    assert result.history["restarted"] == [1.0] + [0.0] * (result.n_iter - 1)


def test_a_run_that_breaks_midway_restarts_from_its_last_good_network():
    seen = {}

    def remember(progress):
        seen[progress.iteration] = jax.tree.map(np.array, progress.params)

    growing = Multiply(1.0, every=5)
    result = run(
        "breaks_above_nu_5_below_rho_50", remember, rho=10.0, nu_schedule=growing, max_iter=20
    )
    history = result.history
    assert history["restarted"].index(1.0) == 5
    assert sum(history["restarted"]) == 1
    assert history["rho"] == [10.0] * 5 + [100.0] * (result.n_iter - 5)
    # The restarted iteration is one sweep from the feasible state of network 5.
    problem, x, y = small()
    begun = {"method": "dladmm", "step_rule": RULE, "rho": 100.0, "nu": history["nu"][5]}
    options = Options(**begun, max_iter=1, dtype="float64")
    again = solve(problem, x, y, params=seen[5], options=options)
    for one, two in zip(jax.tree.leaves(again.params), jax.tree.leaves(seen[6]), strict=True):
        np.testing.assert_allclose(one, two, rtol=EXACT_STEP)


def test_the_certificate_does_not_count_a_restart_as_a_rise():
    growing = Multiply(1.0, every=15)
    result = run("breaks_above_nu_5_below_rho_50", rho=2.5, nu_schedule=growing)
    assert sum(result.history["restarted"]) == 1
    assert result.certificate.rises == 0


def test_a_run_that_always_breaks_is_diverged_and_keeps_a_finite_network():
    result = run("always_breaks")
    assert result.status == Status.DIVERGED
    assert result.certificate.status == "diverged"
    assert all_finite((result.params, result.best_params, result.state))
    assert "non-finite" in result.message
    assert "rho=" in result.message
    assert result.n_iter == 0
    assert "diverged" in result.certificate.summary()


@pytest.mark.parametrize("max_iter", [1, 3, 5])
def test_a_short_run_that_never_was_finite_is_diverged_too(max_iter):
    result = run("always_breaks", max_iter=max_iter)
    assert result.n_iter == 0
    assert result.status == Status.DIVERGED


def test_the_number_of_recoveries_is_bounded():
    assert run("breaks_below_rho_50", max_recoveries=2).status == Status.MAX_ITER
    assert run("breaks_below_rho_50", max_recoveries=1).status == Status.DIVERGED


def test_the_raised_rho_has_a_limit():
    result = run("always_breaks", rho=1e7, max_recoveries=3)
    assert result.status == Status.DIVERGED
    assert "rho=1e+08" in result.message
    assert math.isnan(result.certificate.c_k)


def test_a_diverged_run_returns_the_best_network_recorded():
    recorded = {}

    def remember(progress):
        recorded[progress.row["train_loss"]] = jax.tree.map(np.array, progress.params)

    growing = Multiply(1.0, every=10)
    result = run(
        "breaks_above_nu_5", remember, rho=1e-4, nu_schedule=growing, evaluate_every=1, max_iter=40
    )
    assert result.status == Status.DIVERGED
    assert result.n_iter == 10
    best = recorded[min(recorded)]
    assert min(recorded) < list(recorded)[-1]
    for one, two in zip(jax.tree.leaves(result.params), jax.tree.leaves(best), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("least", [50, math.inf])
def test_a_run_in_groups_of_layers_recovers_too(monkeypatch, least):
    """It does not launch an iteration before it has read the records of the last one."""
    recorded = layer_programs.recorded

    def spoilt(*given):
        record, rho = recorded(*given), given[-2]
        value = jnp.where(rho < least, jnp.nan, record.lagrangian.value)
        return record._replace(lagrangian=record.lagrangian._replace(value=value))

    monkeypatch.setattr(layer_programs, "recorded", spoilt)
    jax.clear_caches()  # programs do not know that what they were made of has changed
    result = run("dladmm", layer_devices=1)
    jax.clear_caches()
    if math.isinf(least):
        assert result.status == Status.DIVERGED
        return
    assert result.status == Status.MAX_ITER
    assert result.certificate.rho == 100  # from 1, tenfold twice
    assert len(result.history["lagrangian"]) == 28  # two of 30 were dropped
    assert all_finite(result.params)
