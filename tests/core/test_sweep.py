"""One iteration of each method against the paper's formulas in plain NumPy, and whole runs
against themselves: compiled or not, one seed or another, one precision or the other."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import SWEEPS, biggest_difference, relu, scattered, small, start, sweep
from tolerances import DRIFT_SAVED, EXACT_STEP, FLOAT32_DRIFT, LEAST_SQUARES, ROUNDING

from dladmm import Options, solve
from dladmm.core.data import make_data
from dladmm.core.relaxed.step_rules import STEP_RULES, SweepOptions
from dladmm.terms.regularizers import L2

HOW = SweepOptions(STEP_RULES["closed-form"], "newton")
SIZES = (4, 5, 6, 3)
RHO, NU = 2.5, 0.7


def relu_argmin(m, a):
    """The better of min(m, 0) and max((m + a)/2, 0), elementwise."""
    cost = lambda z: (z - m) ** 2 + (relu(z) - a) ** 2  # noqa: E731
    low, high = np.minimum(m, 0), np.maximum((m + a) / 2, 0)
    return np.where(cost(high) < cost(low), high, low)


class Algorithm1:
    """Algorithm 1 for ReLU and squared error, step by step; samples are rows, layers from 1."""

    def __init__(self, x, y, state, rho, nu):
        self.x, self.y, self.rho, self.nu = x, y, rho, nu
        self.W, self.b, self.z = ([None, *map(np.array, v)] for v in (state.W, state.b, state.z))
        self.a = [x, *map(np.array, state.a)]
        self.u, self.L = np.array(state.u), len(state.W)
        self.moved, self.theta, self.tau = 0.0, [], []

    def c(self, l):
        return self.rho if l == self.L else self.nu

    def r(self, l):
        r = self.a[l - 1] @ self.W[l].T + self.b[l] - self.z[l]
        return r - self.u / self.rho if l == self.L else r

    def move(self, name, l, new, counts=True):
        block = getattr(self, name)
        self.moved += ((new - block[l]) ** 2).sum() if counts else 0.0
        block[l] = new

    def step_a(self, l):
        g = self.c(l + 1) * self.r(l + 1) @ self.W[l + 1] + self.nu * (self.a[l] - relu(self.z[l]))
        bent = self.c(l + 1) * ((g @ self.W[l + 1].T) ** 2).sum(1) + self.nu * (g**2).sum(1)
        tau = bent / (g**2).sum(1)
        self.tau.append(tau.min())
        self.move("a", l, self.a[l] - g / tau[:, None])

    def step_z(self, l):
        m = self.a[l - 1] @ self.W[l].T + self.b[l]
        if l < self.L:
            self.move("z", l, relu_argmin(m, self.a[l]), counts=False)
        else:
            self.move("z", l, (self.y - self.u + self.rho * m) / (1 + self.rho))

    def step_b(self, l):
        self.move("b", l, self.b[l] - self.r(l).mean(0))

    def step_W(self, l):
        G = self.c(l) * self.r(l).T @ self.a[l - 1]
        theta = self.c(l) * ((self.a[l - 1] @ G.T) ** 2).sum(0) / (G**2).sum(1)
        self.theta.append(theta.min())
        self.move("W", l, self.W[l] - G / theta[:, None])

    def iterate(self):
        for l in range(self.L, 0, -1):
            if l < self.L:
                self.step_a(l)
            self.step_z(l)
            self.step_b(l)
            self.step_W(l)
        for l in range(1, self.L + 1):
            self.step_W(l)
            self.step_b(l)
            self.step_z(l)
            if l < self.L:
                self.step_a(l)
        self.u = self.u + self.rho * (self.z[-1] - self.a[-1] @ self.W[-1].T - self.b[-1])


def as_tuple(state):
    return (*state.W, *state.b, *state.z, *state.a, state.u)


@pytest.mark.parametrize(
    ("n_in", "blocks"), [(4, 1), (50, 1), (4, 5)], ids=["with_gram", "without_gram", "in_blocks"]
)
def test_dladmm_sweep_is_algorithm_1_in_plain_numpy(n_in, blocks):
    problem, x, y = small(n=40, sizes=(n_in, *SIZES[1:]))
    data, state = scattered(problem, x, y)
    assert (data.gram is not None) == (n_in < 40)
    data = make_data(problem, data.x, data.y, None, blocks)
    by_hand = Algorithm1(x, y, state, RHO, NU)
    by_hand.iterate()
    new, record = sweep("dladmm", problem, HOW, data, state, jnp.asarray(RHO), jnp.asarray(NU))
    expected = (*by_hand.W[1:], *by_hand.b[1:], *by_hand.z[1:], *by_hand.a[1:], by_hand.u)
    assert biggest_difference(expected, as_tuple(new)) <= EXACT_STEP
    products = [a @ W.T for a, W in zip(by_hand.a, by_hand.W[1:], strict=True)]
    assert biggest_difference(products, new.p) <= EXACT_STEP
    for name, value in (
        ("moved", by_hand.moved),
        ("theta", min(by_hand.theta)),
        ("tau", min(by_hand.tau)),
        ("zl_change", np.linalg.norm(by_hand.z[-1] - state.z[-1])),
    ):
        np.testing.assert_allclose(getattr(record, name), value, rtol=EXACT_STEP, err_msg=name)


def test_another_order_of_updates_is_told_apart_from_algorithm_1():
    problem, x, y = small(n=40, sizes=SIZES)
    data, state = scattered(problem, x, y)
    by_hand = Algorithm1(x, y, state, RHO, NU)
    by_hand.step_W(by_hand.L)
    by_hand.iterate()
    new, _ = sweep("dladmm", problem, HOW, data, state, jnp.asarray(RHO), jnp.asarray(NU))
    assert biggest_difference(by_hand.W[1:], new.W) > 1e3 * EXACT_STEP


# The baseline of Taylor et al. (2016).


def taylor(x, y, omega, state, beta):
    """One iteration, penalties beta |.|^2 without the 1/2; W and b as one least-squares fit."""
    W, b, z = (list(map(np.array, v)) for v in (state.W, state.b, state.z))
    a, u, root = [x, *map(np.array, state.a)], np.array(state.u), np.sqrt(omega)[:, None]
    for l in range(len(W)):
        design = np.column_stack([a[l], np.ones(len(x))])
        fit = np.linalg.lstsq(root * design, root * z[l], rcond=None)[0]
        W[l], b[l] = fit[:-1].T, fit[-1]
        m = a[l] @ W[l].T + b[l]
        if l + 1 < len(W):
            V = W[l + 1]
            system = np.vstack([V, np.eye(V.shape[1])])
            wanted = np.hstack([z[l + 1] - b[l + 1], relu(z[l])])
            a[l + 1] = np.linalg.lstsq(system, wanted.T, rcond=None)[0].T
            z[l] = relu_argmin(m, a[l + 1])
        else:
            z[l] = (y - u + 2 * beta * m) / (1 + 2 * beta)
            u = u + beta * (z[l] - m)
    return (*W, *b, *z, *a[1:], u)


@pytest.mark.parametrize("weighted", [False, True])
def test_admm_sweep_is_the_baseline_in_plain_numpy(weighted):
    problem, x, y = small(n=40, sizes=SIZES)
    omega = np.random.default_rng(8).uniform(0.2, 3, len(x)) if weighted else np.ones(len(x))
    data, state = scattered(problem, x, y, omega if weighted else None)
    expected = taylor(x, y, omega, state, beta=1.3)
    new, record = sweep("admm", problem, HOW, data, state, jnp.asarray(1.3), jnp.asarray(NU))
    assert biggest_difference(expected, as_tuple(new)) <= LEAST_SQUARES
    assert biggest_difference(
        taylor(x, y, omega + data.x[:, 0] ** 2, state, 1.3), as_tuple(new)
    ) > (1e3 * LEAST_SQUARES)
    # The recorded L_rho has both penalties 2 beta.
    r = new.z[-1] - new.p[-1] - new.b[-1]
    gaps = sum(
        ((z - p - b) ** 2).sum(1) + ((a - relu(z)) ** 2).sum(1)
        for z, p, b, a in zip(new.z, new.p, new.b, new.a, strict=False)
    )
    per_sample = ((new.z[-1] - y) ** 2).sum(1) / 2 + 1.3 * gaps
    per_sample += (new.u * r).sum(1) + 1.3 * (r**2).sum(1)
    np.testing.assert_allclose(record.lagrangian.value, (omega * per_sample).sum(), rtol=ROUNDING)


def test_admm_takes_the_l2_strength_of_each_layer_into_its_least_squares():
    problem, x, y = small(n=40, regularizer=L2(0.5))
    strength, beta = 0.5, 1e-3
    data, state = scattered(problem, x, y)
    new, _ = sweep("admm", problem, HOW, data, state, jnp.asarray(beta), jnp.asarray(NU))
    W, b = np.asarray(new.W[0]), np.asarray(new.b[0])
    r = x @ W.T + b - np.asarray(state.z[0])
    # The gradient of beta |x W^T + b - z|^2 + strength/2 |W|^2 vanishes, that of the fit does not.
    fit = 2 * beta * r.T @ x
    assert np.abs(fit + strength * W).max() <= LEAST_SQUARES * np.abs(fit).max()
    assert np.abs(fit).max() > 1e3 * LEAST_SQUARES * strength


# Whole runs.


@pytest.mark.parametrize("method", SWEEPS)
def test_a_compiled_sweep_equals_an_uncompiled_one(method):
    problem, x, y = small()
    data, state = start(problem, x, y)
    rho, nu = jnp.asarray(2.5), jnp.asarray(1.0)
    compiled = uncompiled = state
    for _ in range(3):
        compiled, record = sweep(method, problem, HOW, data, compiled, rho, nu)
        uncompiled, plain = SWEEPS[method](problem, HOW, data, uncompiled, rho, nu)
    assert biggest_difference(uncompiled, compiled) <= ROUNDING
    np.testing.assert_allclose(record.lagrangian.value, plain.lagrangian.value, rtol=ROUNDING)
    assert biggest_difference(uncompiled, state) > 1e3 * ROUNDING


def test_equal_seeds_give_equal_bits_and_different_seeds_do_not():
    problem, x, y = small()
    runs = [
        solve(
            problem,
            x,
            y,
            options=Options(method="dladmm", rho=2.0, max_iter=20, dtype="float64", seed=seed),
        )
        for seed in (7, 7, 8)
    ]
    bits = [[v.tobytes() for v in jax.tree.leaves(run.params)] for run in runs]
    assert bits[0] == bits[1]
    assert bits[0] != bits[2]
    assert runs[0].history["lagrangian"] == runs[1].history["lagrangian"]


def drift(problem, x, state):
    """|p - A(W, a)| / |p|, the worst of all layers, products recomputed in float64."""
    exact = [np.float64(v) for v in (np.float32(x), *state.a)]
    return max(
        np.linalg.norm(np.float64(p) - a @ np.float64(W).T) / np.linalg.norm(p)
        for p, a, W in zip(state.p, exact, state.W, strict=True)
    )


@pytest.mark.float32
def test_running_products_do_not_drift_in_float32_and_refreshing_them_helps():
    problem, x, y = small("log_loss", 60, (6, 8, 3))
    long = Options(
        method="dladmm",
        step_rule="closed-form",  # over-relaxation computes them anew where it goes further
        rho=2.0,
        max_iter=1000,
        tol=None,
        evaluate_every=1000,
        dtype="float32",
    )
    often, never = (
        [
            drift(problem, x, solve(problem, x, y, options=replace(long, **how)).state)
            for how in ({"refresh_every": every, "seed": seed} for seed in range(3))
        ]
        for every in (100, 2000)
    )
    assert max(often) <= FLOAT32_DRIFT
    assert np.linalg.norm(often) * DRIFT_SAVED < np.linalg.norm(never)


@pytest.mark.float32
def test_the_drift_check_can_fail():
    problem, x, y = small("log_loss", 60, (6, 8, 3))
    data, state = start(problem, x, y)
    assert drift(problem, x, state) <= FLOAT32_DRIFT
    wrong = jax.tree.map(lambda v: 1.01 * v, state.p)
    broken = type(state)(state.W, state.b, state.z, state.a, wrong, state.u)
    assert drift(problem, data.x, broken) > 10 * FLOAT32_DRIFT
