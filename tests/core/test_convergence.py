"""What the paper proves about Algorithm 1, observed on whole runs in float64."""

import jax
import numpy as np
import pytest
from problems import (
    RHO,
    inputs,
    loss_gradient,
    network,
    relu,
    small,
    solved,
    teacher,
    trajectory,
)
from tolerances import (
    FISTA_GRADIENT,
    FIXED_POINT,
    LAGRANGIAN_RISE,
    LEMMA2,
    PRINTED_CONSTANT_MARGIN,
    TENFOLD,
)

from dladmm import Options, Problem, solve
from dladmm.core.relaxed.theory import descent_constant
from dladmm.terms.activations import activations

LOSSES = list(RHO)
H = {"log_loss": 0.5, "squared_error": 1.0}


def drops(result):
    """L_k - L_{k+1}, and the size of L, for k = 1, 2, ..."""
    L = np.array(result.history["lagrangian"])
    return L[:-1] - L[1:], np.maximum(np.abs(L[:-1]), np.abs(L[1:]))


def descent_excess(result, constant):
    """(L_k - L_{k+1} - C moved) / |L| for each iteration, with C = constant(theta, tau)."""
    drop, size = drops(result)
    h = result.history
    C = [constant(theta, tau) for theta, tau in zip(h["theta"], h["tau"], strict=True)]
    return (drop - np.array(C[1:]) * np.array(h["moved"][1:])) / size


# Lemma 2: grad R(z_L) + u = 0 after each dual update.


@pytest.mark.parametrize("loss", LOSSES)
def test_newton_meets_lemma_2_after_every_dual_update(loss):
    problem, x, y = small(loss)
    worst = 0.0
    for state, record in trajectory(problem, x, y, RHO[loss], 1.0, 60):
        violation = np.abs(loss_gradient(loss, np.asarray(state.z[-1]), y) + state.u).max()
        worst = max(worst, violation, float(record.lemma2))
    assert worst <= LEMMA2


@pytest.mark.parametrize("loss", LOSSES)
def test_fista_meets_lemma_2_up_to_its_stated_tolerance(loss):
    problem, x, y = small(loss)
    worst = 0.0
    for state, _ in trajectory(problem, x, y, RHO[loss], 1.0, 60, zl_solver="fista"):
        violation = loss_gradient(loss, np.asarray(state.z[-1]), y) + state.u
        worst = max(worst, np.linalg.norm(violation, axis=1).max())
    assert worst <= FISTA_GRADIENT * (H[loss] + RHO[loss])


def test_a_perturbed_output_violates_lemma_2():
    problem, x, y = small("log_loss")
    *_, (state, _) = trajectory(problem, x, y, RHO["log_loss"], 1.0, 5)
    perturbed = np.asarray(state.z[-1]) + 1e-3 * inputs(*y.shape)
    violation = np.linalg.norm(loss_gradient("log_loss", perturbed, y) + state.u, axis=1).max()
    assert violation > 10 * FISTA_GRADIENT * (0.5 + RHO["log_loss"])
    assert violation > LEMMA2


# Property 2: L_rho falls, and by how much at least.

EVERY_ACTIVATION = [("squared_error", name, (6, 8, 3)) for name in activations]
DEEPER = ("log_loss", "relu", (6, 8, 8, 3))


@pytest.mark.parametrize(("loss", "activation", "sizes"), [*EVERY_ACTIVATION, DEEPER])
def test_the_lagrangian_never_rises_and_falls_sufficiently(loss, activation, sizes):
    result = solved(loss, activation, sizes)
    drop, size = drops(result)
    assert result.n_iter == 200
    assert (drop >= -LAGRANGIAN_RISE * size).all()
    excess = descent_excess(
        result, lambda theta, tau: descent_constant(RHO[loss], 1.0, H[loss], theta, tau)
    )
    assert (excess >= -LAGRANGIAN_RISE).all()
    assert result.certificate.rises == 0
    assert result.certificate.sufficient_descent is True


def test_the_lagrangian_does_rise_where_rho_is_tiny_beside_nu():
    result = solved(rho=1e-6, nu=1.0, dual_start="zero")
    drop, size = drops(result)
    rises = int((drop < -LAGRANGIAN_RISE * size).sum())
    assert rises > 0
    assert result.certificate.rises >= rises


def single_layer_run():
    """One weight, centred inputs of size 0.1: theta is the least constant by far."""
    x = 0.1 * inputs(12, 1)
    x -= x.mean()
    y = 10 * x + inputs(12, 1, seed=2)
    y -= y.mean()
    problem = Problem.dense((1, 1), loss="squared_error")
    options = Options(
        method="dladmm",
        step_rule="closed-form",
        rho=5.0,
        nu=1e3,
        max_iter=30,
        tol=None,
        dtype="float64",
        dual_start="gradient",
    )
    return solve(problem, x, y, options=options)


def test_the_printed_constant_of_property_2_is_violated_and_its_correction_is_not():
    rho, nu = 5.0, 1e3
    result = single_layer_run()

    def printed(theta, tau):
        return min(nu / 2, rho / 2 - 1 / 2 - 1 / rho, theta, tau)

    assert all(theta == printed(theta, np.inf) for theta in result.history["theta"])
    assert descent_excess(result, printed).min() < -PRINTED_CONSTANT_MARGIN
    corrected = descent_excess(
        result, lambda theta, tau: descent_constant(rho, nu, 1.0, theta, tau)
    )
    assert corrected.min() >= -LAGRANGIAN_RISE


# Theorem 3: c_k falls faster than 1/k.


@pytest.mark.parametrize(("loss", "activation", "sizes"), [*EVERY_ACTIVATION[:3], DEEPER])
def test_k_times_c_k_falls_from_iteration_20_to_200(loss, activation, sizes):
    history = solved(loss, activation, sizes).history
    c = np.minimum.accumulate(history["moved"])
    assert 200 * c[199] < 20 * c[19]
    np.testing.assert_array_equal(history["c_k"], c)
    np.testing.assert_array_equal(history["k_c_k"], np.arange(1, 201) * c)


# A network that generated the data is where the run should stay, and where it should return.


@pytest.mark.parametrize("rule", ["matrix", "closed-form"])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_the_network_that_generated_the_data_is_a_fixed_point(activation, rule):
    problem, params, x, y = teacher(activation)
    options = Options(
        method="dladmm", step_rule=rule, rho=2.5, max_iter=20, tol=None, dtype="float64"
    )
    result = solve(problem, x, y, params=params, options=options)
    for found, true in zip(jax.tree.leaves(result.params), jax.tree.leaves(params), strict=True):
        np.testing.assert_allclose(found, true, rtol=0, atol=FIXED_POINT)
    assert max(np.abs(result.history["lagrangian"])) <= FIXED_POINT


def test_another_network_is_not_a_fixed_point():
    problem, params, x, y = teacher()
    other = jax.tree.map(lambda v: 1.05 * v, params)
    options = Options(method="dladmm", rho=2.5, max_iter=20, tol=None, dtype="float64")
    result = solve(problem, x, y, params=other, options=options)
    moved = [
        np.abs(found - begun).max()
        for found, begun in zip(jax.tree.leaves(result.params), jax.tree.leaves(other), strict=True)
    ]
    assert min(moved) > 1e3 * FIXED_POINT


@pytest.mark.parametrize("rule", ["matrix", "closed-form"])
@pytest.mark.parametrize(("activation", "f"), [("tanh", np.tanh), ("relu", relu)])
def test_the_error_of_a_perturbed_network_falls_at_least_tenfold(activation, f, rule):
    problem, params, x, y = teacher(activation)
    rng = np.random.default_rng(6)
    begun = jax.tree.map(lambda v: v * (1 + 0.05 * rng.choice([-1, 1], size=v.shape)), params)
    options = Options(
        method="dladmm",
        step_rule=rule,
        rho=2.5,
        max_iter=1000,
        tol=None,
        evaluate_every=1000,
        dtype="float64",
    )
    result = solve(problem, x, y, params=begun, options=options)
    before, after = (((network(p, x, f) - y) ** 2).mean() for p in (begun, result.params))
    assert after * TENFOLD <= before
