"""L_rho, its smallest subgradient, and the network's own loss, each written again from scratch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import loss_gradient, loss_value, network, relu, scattered, small, solved
from tolerances import DIFFERENCE_STEP, ONE_SIDED_SLOPE, ROUNDING, RUNNING_PRODUCTS

from dladmm import Params, Problem
from dladmm.core.data import make_data
from dladmm.core.evaluate import evaluate, relative_change
from dladmm.core.relaxed.lagrangian import lagrangian, lemma2_violation, subgradient_norm
from dladmm.core.relaxed.state import State

SIZES = (4, 5, 6, 3)
RHO, NU, STRENGTH = 2.5, 0.7, 1e-4


def eq1(loss, f, x, y, omega, state, strength=0.0, rho=RHO, nu=NU):
    """Equation 1 of the paper, sample by sample; the products are computed here, not read."""
    W, b, z, a = (list(map(np.asarray, v)) for v in (state.W, state.b, state.z, state.a))
    total = strength / 2 * sum((M**2).sum() for M in W)
    for i in range(len(x)):
        inner = [x[i], *(v[i] for v in a)]
        gaps = [z[l][i] - W[l] @ inner[l] - b[l] for l in range(len(W))]
        value = loss_value(loss, z[-1][i : i + 1], y[i : i + 1])[0]
        for l in range(len(W) - 1):
            value += nu / 2 * (gaps[l] @ gaps[l])
            value += nu / 2 * ((a[l][i] - f(z[l][i])) ** 2).sum()
        value += np.asarray(state.u)[i] @ gaps[-1] + rho / 2 * (gaps[-1] @ gaps[-1])
        total += omega[i] * value
    return total


@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
@pytest.mark.parametrize(("activation", "f"), [("tanh", np.tanh), ("relu", relu)])
def test_lagrangian_is_equation_1(loss, activation, f):
    problem, x, y = small(loss, 15, SIZES, activation=activation, regularizer="l2")
    omega = np.random.default_rng(4).uniform(0, 3, len(x))
    for weights in (None, omega):
        data, state = scattered(problem, x, y, weights)
        found = lagrangian(problem, data, state, RHO, NU)
        each = np.ones(len(x)) if weights is None else weights
        expected = eq1(loss, f, x, y, each, state, STRENGTH)
        np.testing.assert_allclose(found.value, expected, rtol=ROUNDING)
        wrong = eq1(loss, f, x, y, each, state, STRENGTH, rho=RHO + 1e-6)
        assert abs(wrong - expected) > 1e3 * ROUNDING * expected


def test_the_parts_of_the_lagrangian_are_its_gaps_and_terms():
    problem, x, y = small("squared_error", 15, SIZES, regularizer="l2")
    data, state = scattered(problem, x, y)
    found = lagrangian(problem, data, state, RHO, NU)
    risk = loss_value("squared_error", state.z[-1], y).sum()
    np.testing.assert_allclose(found.risk, risk, rtol=ROUNDING)
    regularization = sum(STRENGTH / 2 * (W**2).sum() for W in state.W)
    np.testing.assert_allclose(found.regularization, regularization, rtol=ROUNDING)
    inner = (x, *state.a)
    gaps = [state.z[l] - inner[l] @ state.W[l].T - state.b[l] for l in range(3)]
    linear = [np.linalg.norm(gap) for gap in gaps]
    np.testing.assert_allclose((*found.linear_gap, found.residual), linear, rtol=ROUNDING)
    activation = [np.linalg.norm(a - relu(z)) for a, z in zip(state.a, state.z, strict=False)]
    np.testing.assert_allclose(found.activation_gap, activation, rtol=ROUNDING)


def test_the_recorded_lagrangian_is_equation_1_of_the_final_state():
    result = solved()
    problem, x, y = small("squared_error", 60, (6, 8, 3))
    expected = eq1("squared_error", relu, x, y, np.ones(60), result.state, rho=2.5, nu=1.0)
    np.testing.assert_allclose(result.history["lagrangian"][-1], expected, rtol=RUNNING_PRODUCTS)
    assert problem.n_layers == len(result.state.W)


def test_lemma2_violation_is_the_largest_entry_of_gradient_plus_dual():
    problem, x, y = small("log_loss", 15)
    weights = np.ones(15)
    weights[3] = 0
    data, state = scattered(problem, x, y, weights)
    violation = np.abs(loss_gradient("log_loss", np.asarray(state.z[-1]), y) + state.u)
    kept = np.delete(np.asarray(violation), 3, axis=0)
    np.testing.assert_allclose(lemma2_violation(problem, data, state), kept.max(), rtol=ROUNDING)


# The smallest subgradient.


def smooth_lagrangian(blocks, x, y, f):
    """L_rho for squared error and l2 as a differentiable function of (W, b, z, a, u)."""
    W, b, z, a, u = blocks
    inner = (x, *a)
    gaps = [z[l] - jnp.einsum("ni,oi->no", inner[l], W[l]) - b[l] for l in range(len(W))]
    value = jnp.sum((z[-1] - y) ** 2) / 2 + STRENGTH / 2 * sum(jnp.vdot(M, M) for M in W)
    for l in range(len(W) - 1):
        value += NU / 2 * (jnp.sum(gaps[l] ** 2) + jnp.sum((a[l] - f(z[l])) ** 2))
    return value + jnp.vdot(u, gaps[-1]) + RHO / 2 * jnp.sum(gaps[-1] ** 2)


def blocks_of(state):
    return state.W, state.b, state.z, state.a, state.u


def norm(tree):
    return float(jnp.sqrt(sum(jnp.sum(v**2) for v in jax.tree.leaves(tree))))


@pytest.mark.parametrize(("activation", "f"), [("tanh", jnp.tanh), ("identity", lambda z: z)])
def test_subgradient_norm_is_that_of_the_gradient_where_all_is_smooth(activation, f):
    problem, x, y = small("squared_error", 15, SIZES, activation=activation, regularizer="l2")
    data, state = scattered(problem, x, y)
    gradient = jax.grad(smooth_lagrangian)(blocks_of(state), x, y, f)
    found = subgradient_norm(problem, data, state, jnp.asarray(RHO), jnp.asarray(NU))
    np.testing.assert_allclose(found, norm(gradient), rtol=ROUNDING)
    assert abs(norm(gradient[:-1]) - norm(gradient)) > 1e3 * ROUNDING


def test_the_subgradient_counts_a_weight_as_so_many_rows():
    problem, x, y = small("squared_error", 15, activation="tanh")
    weights = np.ones(15)
    weights[2], weights[5] = 2, 0
    rows = [*range(15), 2]
    rows.remove(5)
    data, state = scattered(problem, x, y, weights)
    split = make_data(problem, jnp.asarray(x[rows]), jnp.asarray(y[rows]), None)
    z, a, p = (tuple(v[np.array(rows)] for v in block) for block in (state.z, state.a, state.p))
    same = State(state.W, state.b, z, a, p, state.u[np.array(rows)])
    rho, nu = jnp.asarray(RHO), jnp.asarray(NU)
    one = subgradient_norm(problem, data, state, rho, nu)
    np.testing.assert_allclose(one, subgradient_norm(problem, split, same, rho, nu), rtol=ROUNDING)


@pytest.mark.parametrize(
    ("m", "a", "case"),
    [
        (1.0, -2.0, "a minimum at the kink"),
        (-1.0, 0.3, "slopes of one sign, the right one smaller"),
        (1.0, 0.5, "slopes of one sign, the left one smaller"),
        (-0.5, 1.5, "a maximum at the kink"),
    ],
)
def test_at_a_kink_the_smallest_one_sided_derivative_counts(m, a, case):
    """One sample, sizes 1-1-1, ReLU at z = 0: L_rho(z) = nu/2 ((z - m)^2 + (a - max(z, 0))^2)."""
    problem = Problem.dense((1, 1, 1), "relu", "squared_error")
    one = lambda v: jnp.full((1, 1), v)  # noqa: E731
    W, b = (one(0.5), one(-0.8)), (jnp.asarray([m - 0.5]), jnp.asarray([0.2]))
    z, hidden, u = (one(0.0), one(0.4)), (one(a),), one(0.3)
    x, y = one(1.0), one(-0.6)
    state = State(W, b, z, hidden, (x @ W[0].T, hidden[0] @ W[1].T), u)

    def of_z(v):
        return NU / 2 * ((v - m) ** 2 + (a - max(v, 0.0)) ** 2)

    left = (of_z(0.0) - of_z(-DIFFERENCE_STEP)) / DIFFERENCE_STEP
    right = (of_z(DIFFERENCE_STEP) - of_z(0.0)) / DIFFERENCE_STEP
    least = 0.0 if left <= 0 <= right else min(abs(left), abs(right))

    def others(blocks):
        W, b, zL, hidden, u = blocks
        full = (W, b, (z[0], zL), hidden, u)
        ridge = STRENGTH / 2 * sum(jnp.vdot(M, M) for M in W)
        return smooth_lagrangian(full, x, y, lambda v: jnp.maximum(v, 0)) - ridge

    gradient = jax.grad(others)((W, b, z[1], hidden, u))
    data = make_data(problem, x, y, None)
    found = float(subgradient_norm(problem, data, state, jnp.asarray(RHO), jnp.asarray(NU)))
    assert abs(found - np.hypot(norm(gradient), least)) <= ONE_SIDED_SLOPE, case


# The network itself.


@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
def test_evaluate_is_a_forward_pass(loss):
    problem, x, y = small(loss, 25, SIZES, activation="tanh")
    omega = np.random.default_rng(4).uniform(0, 3, len(x))
    for weights in (None, omega):
        data, state = scattered(problem, x, y, weights)
        out = network(Params(state.W, state.b), x, np.tanh)
        found = evaluate(problem, state.params, data.x, data.y, data.samples)
        each = np.ones(len(x)) if weights is None else omega
        expected = np.average(loss_value(loss, out, y), weights=each)
        np.testing.assert_allclose(found.loss, expected, rtol=ROUNDING)
        hits = np.average(out.argmax(1) == y.argmax(1), weights=each)
        accuracy = hits if loss == "log_loss" else np.nan
        np.testing.assert_allclose(found.accuracy, accuracy, rtol=ROUNDING)


def test_the_feed_forward_gap_is_the_real_loss_minus_the_relaxed_one():
    result = solved()
    _, x, y = small("squared_error", 60, (6, 8, 3))
    real = loss_value("squared_error", network(result.params, x, relu), y).mean()
    relaxed = loss_value("squared_error", np.asarray(result.state.z[-1]), y).mean()
    np.testing.assert_allclose(result.history["train_loss"][-1], real, rtol=ROUNDING)
    np.testing.assert_allclose(result.history["gap"][-1], real - relaxed, rtol=RUNNING_PRODUCTS)
    np.testing.assert_allclose(result.certificate.gap, real - relaxed, rtol=RUNNING_PRODUCTS)
    assert real - relaxed > 0


def test_relative_change_compares_weights_and_biases():
    problem, x, y = small("squared_error", 15)
    (_, one), (_, two) = (scattered(problem, x, y, seed=seed) for seed in (3, 4))
    flat = [np.concatenate([np.ravel(v) for v in jax.tree.leaves(s.params)]) for s in (one, two)]
    expected = np.linalg.norm(flat[0] - flat[1]) / np.linalg.norm(flat[0])
    np.testing.assert_allclose(relative_change(one, two), expected, rtol=ROUNDING)
