"""Further along a sweep: the point ahead by its definition, the safeguard, and Property 2."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from problems import RHO, biggest_difference, small, solved
from test_convergence import DEEPER, EVERY_ACTIVATION, H, descent_excess, drops
from tolerances import EXACT_STEP, LAGRANGIAN_RISE, LEMMA2

from dladmm import Options, Problem, solve
from dladmm.core.data import make_data
from dladmm.core.initial import initial_params
from dladmm.core.relaxed import over_relaxation
from dladmm.core.relaxed.lagrangian import Sums, from_sums, lagrangian
from dladmm.core.relaxed.state import state_from_params
from dladmm.core.relaxed.step_rules import Matrix, SweepOptions
from dladmm.core.relaxed.sweep import dladmm_sweep
from dladmm.core.relaxed.theory import descent_constant


def swept(reach):
    """A state after three sweeps, and a fourth with this reach: before, after, ahead, L_rho."""
    problem, x, y = small("squared_error", 40, (6, 8, 3))
    data = make_data(problem, jnp.asarray(x), jnp.asarray(y), None)
    state = state_from_params(
        problem, initial_params(problem, "he", 0, np.dtype(float)), data, True
    )
    penalties = (jnp.asarray(2.5), jnp.asarray(1.0))

    def one(state, reach):
        how = SweepOptions(Matrix(reach=reach), "newton")
        return dladmm_sweep(problem, how, data, state, *penalties)[0]

    for _ in range(3):
        state = one(state, 1.0)
    values = lambda state: float(lagrangian(problem, data, state, *penalties).value)  # noqa: E731
    return x, y, state, one(state, 1.0), one(state, reach), values


def test_the_point_ahead_is_on_the_line_and_whole():
    x, y, before, after, ahead, value = swept(2.0)
    for kind in ("W", "b", "z", "a"):
        for old, end, far in zip(*(getattr(s, kind) for s in (before, after, ahead)), strict=True):
            np.testing.assert_allclose(far, 2 * end - old, rtol=0, atol=EXACT_STEP)
    for p, W, a in zip(ahead.p, ahead.W, (x, *ahead.a), strict=True):
        np.testing.assert_allclose(p, a @ W.T, rtol=0, atol=EXACT_STEP)
    np.testing.assert_allclose(ahead.u, y - ahead.z[-1], rtol=0, atol=EXACT_STEP)  # -grad R
    assert value(ahead) < value(after)


def test_where_it_is_no_lower_the_sweeps_own_end_stays():
    _, _, _, after, ahead, _ = swept(1e3)
    assert biggest_difference(after, ahead) == 0
    _, _, _, after, ahead, _ = swept(2.0)  # the control
    assert biggest_difference(after, ahead) > 0


def parts_at(z, rho):
    """L_rho of one sample of class 0 whose output is right by far, p = (10, -10), and whose z is
    not, with u = -grad R(z)."""
    loss, y, p = Problem.dense((1, 2), loss="log_loss").loss, np.array([[1.0, 0.0]]), (10.0, -10.0)
    r = np.array([z]) - np.array([p])
    u = -loss.gradient(np.array([z]), y)
    risk, square, dual = float(loss.value(np.array([z]), y)[0]), (r * r).sum(), (u * r).sum()
    return from_sums(Sums(*map(np.float64, (risk, 0, square, dual)), (), ()), rho, 1.0)


def test_far_below_2H_a_falling_dual_term_is_no_gain():
    """z may go to the wrong class, and its tangent there is far below zero where p is."""
    right, wrong = ((10.0, -10.0), (-10.0, 10.0))
    for rho in (1e-6, 1.0):
        assert not over_relaxation.is_lower(parts_at(wrong, rho), parts_at(right, rho), rho, 1.0)
    # A control: L_rho alone would take it, unless rho is above 2H.
    assert parts_at(wrong, 1e-6).value < parts_at(right, 1e-6).value
    assert parts_at(wrong, 1.0).value > parts_at(right, 1.0).value
    nearer = parts_at((9.0, -9.0), 1e-6)
    assert over_relaxation.is_lower(parts_at(right, 1e-6), nearer, 1e-6, 1.0)


@pytest.mark.parametrize(("loss", "activation", "sizes"), [*EVERY_ACTIVATION, DEEPER])
def test_the_lagrangian_never_rises_and_falls_sufficiently(loss, activation, sizes):
    result = solved(loss, activation, sizes, step_rule="over-relaxed")
    drop, size = drops(result)
    assert result.n_iter == 200
    assert (drop >= -LAGRANGIAN_RISE * size).all()
    excess = descent_excess(
        result, lambda theta, tau: descent_constant(RHO[loss], 1.0, H[loss], theta, tau)
    )
    assert (excess >= -LAGRANGIAN_RISE).all()
    certificate = result.certificate
    assert (certificate.rises, certificate.sufficient_descent) == (0, True)
    assert max(result.history["lemma2"]) <= LEMMA2
    assert "matrices" in certificate.theorems["Steps"]
    assert "2 times a sweep's step" in certificate.theorems["Steps"]


def run(**options):
    problem, x, y = small("squared_error", 60, (6, 8, 3), regularizer=options.pop("term", "none"))
    base = Options(method="dladmm", rho=2.5, max_iter=40, tol=None, dtype="float64", engine="numpy")
    return solve(problem, x, y, options=replace(base, **options))


def test_without_the_safeguard_the_lagrangian_rises(monkeypatch):
    rule = Matrix(reach=6.0)
    assert run(step_rule=rule).certificate.rises == 0
    monkeypatch.setattr(over_relaxation, "is_lower", lambda *given: np.True_)
    assert run(step_rule=rule, max_recoveries=0).certificate.rises > 0


def test_zeros_and_constraints_are_not_left():
    for term in ("l1", "box"):
        further, plain = (run(step_rule=rule, term=term) for rule in ("over-relaxed", "matrix"))
        assert biggest_difference(further.params, plain.params) == 0
        assert "times a sweep's step" not in further.certificate.theorems["Steps"]
    further, plain = (run(step_rule=rule, term="l2") for rule in ("over-relaxed", "matrix"))
    assert biggest_difference(further.params, plain.params) > 0  # the control


@pytest.mark.parametrize("loss", RHO)
def test_the_network_ends_with_a_lower_loss_than_without(loss):
    further, plain = (
        solved(loss, "relu", (6, 8, 8, 3), step_rule=rule).history["train_loss"][-1]
        for rule in ("over-relaxed", "matrix")
    )
    assert further < plain


def test_a_reach_below_the_sweeps_own_end_is_refused():
    for reach in (0.5, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"reach=.* is not valid; expected"):
            Matrix(reach=reach)
