"""Each block update minimises what its docstring says, against NumPy from scratch."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tolerances import EXACT_STEP, FLOAT32_STEP, ROUNDING

import dladmm.core.relaxed.weight_updates
import dladmm.engine.walks
from dladmm.core.relaxed.updates import (
    Backtracking,
    ClosedForm,
    Phi,
    residual,
    update_a,
    update_b,
    update_z,
    update_z_measured,
    update_zL,
)
from dladmm.core.relaxed.weight_updates import unit_parts, update_W, update_W_twice
from dladmm.engine.walks import Samples
from dladmm.terms.activations import activations
from dladmm.terms.layers import Dense
from dladmm.terms.losses import losses
from dladmm.terms.regularizers import L2, regularizers

CLOSED = ClosedForm()
ROWS_OR_ALL = {"per-row": ClosedForm(), "scalar": ClosedForm(scalar=True)}
RULES = {**ROWS_OR_ALL, "backtracking": Backtracking(start=1e-3)}

# argmin_W 1/2 (W - V)^2 + step Omega(W) for the registry's default strengths.
PROX = {
    "none": lambda V, step: V,
    "l2": lambda V, step: V / (1 + 1e-4 * step),
    "l1": lambda V, step: V - np.clip(V, -1e-4 * step, 1e-4 * step),
    "elastic_net": lambda V, step: (V - np.clip(V, -1e-4 * step, 1e-4 * step)) / (1 + 1e-4 * step),
    "group_lasso": lambda V, step: (
        V * np.maximum(1 - 1e-4 * step / np.linalg.norm(V, axis=1, keepdims=True), 0)
    ),
    "box": lambda V, step: np.minimum(np.maximum(V, -1.0), 1.0),
    "non_negative": lambda V, step: np.where(V > 0, V, 0.0),
}
RIDGE = {"none": 0.0, "l2": 1e-4}

each_regularizer = pytest.mark.parametrize("name", list(regularizers))
each_ridge = pytest.mark.parametrize("name", list(RIDGE))
each_rule = pytest.mark.parametrize("rule", list(RULES))
each_growth = pytest.mark.parametrize("growth", [1 + 1e-2, 1 + 1e-3, 1 + 1e-4])
each_shape = pytest.mark.parametrize("samples", [30, 5], ids=["tall", "flat"])


class Case(NamedTuple):
    """One layer with its target t = z + u/rho, at c = 1e-4 where Omega and phi compete."""

    layer: Dense
    a: np.ndarray
    W: np.ndarray
    b: np.ndarray
    t: np.ndarray
    f_z: np.ndarray
    weights: np.ndarray
    c: float = 1e-4
    nu: float = 3e-4

    @property
    def p(self):
        return self.a @ self.W.T

    def phi(self, W):
        """c/2 sum_i omega_i (a_i W_j + b_j - t_ij)^2 for each row j."""
        return self.c / 2 * (self.weights[:, None] * (self.a @ W.T + self.b - self.t) ** 2).sum(0)

    def gradient(self, W):
        return self.c * (self.weights[:, None] * (self.a @ W.T + self.b - self.t)).T @ self.a

    def phi_a(self, a):
        """c/2 |W a_i + b - t_i|^2 + nu/2 |a_i - f(z_i)|^2 for each sample i."""
        fit = self.c / 2 * ((a @ self.W.T + self.b - self.t) ** 2).sum(1)
        return fit + self.nu / 2 * ((a - self.f_z) ** 2).sum(1)

    def gradient_a(self, a):
        return self.c * (a @ self.W.T + self.b - self.t) @ self.W + self.nu * (a - self.f_z)


def make_case(rng, samples=30, n_in=7, n_out=5, weights=None):
    return Case(
        layer=Dense((n_in,), n_out),
        a=rng.normal(size=(samples, n_in)),
        W=rng.uniform(0, 1, (n_out, n_in)) * rng.integers(0, 2, (n_out, n_in)),
        b=rng.normal(size=n_out),
        t=rng.normal(size=(samples, n_out)),
        f_z=rng.normal(size=(samples, n_in)),
        weights=rng.uniform(0.2, 2, samples) if weights is None else weights,
    )


step_W = jax.jit(update_W, static_argnums=(0, 1))
step_W_twice = jax.jit(update_W_twice, static_argnums=(0, 1))
step_a = jax.jit(update_a, static_argnums=(0, 1))


def phi_of(case):
    """The layer's part of phi: t is half z, half dual."""
    values = (case.W, case.p, case.b, case.t / 2, case.t / 2, case.c)
    return Phi(case.layer, *(jnp.asarray(v) for v in values))


def of_samples(case, blocks=1):
    return Samples(jnp.asarray(case.weights), blocks)


def take_b_step(case, samples=None):
    return np.asarray(update_b(phi_of(case), samples or of_samples(case)))


def take_W_step(case, name, rule=CLOSED, blocks=1):
    regularizer = regularizers.get(name) if isinstance(name, str) else name
    a, samples = jnp.asarray(case.a), of_samples(case, blocks)
    W, p, record = step_W(regularizer, rule, phi_of(case), a, samples)
    return np.asarray(W), np.asarray(p), record


def take_a_step(case, rule=CLOSED, blocks=1):
    """With the identity between a and z, so that f(z) = z is data of its own."""
    a, f_z, nu = (jnp.asarray(v) for v in (case.a, case.f_z, case.nu))
    identity, samples = activations.get("identity"), of_samples(case, blocks)
    a, (p,), record = step_a(rule, identity, a, f_z, [phi_of(case)], nu, samples)
    return np.asarray(a), np.asarray(p), record


def majoriser(case, W, theta):
    """P_j(W; theta_j) = phi_j(W_0) + <G_j, D_j> + theta_j/2 |D_j|^2 for each row j."""
    D = W - case.W
    linear = (case.gradient(case.W) * D).sum(1)
    return case.phi(case.W) + linear + theta / 2 * (D**2).sum(1)


def majoriser_a(case, a, tau):
    D = a - case.a
    return case.phi_a(case.a) + (case.gradient_a(case.a) * D).sum(1) + tau / 2 * (D**2).sum(1)


def candidate(case, name, theta):
    """argmin_W P(W; theta) + Omega(W), theta one value per row."""
    theta = theta[:, None]
    return PROX[name](case.W - case.gradient(case.W) / theta, 1 / theta)


def smallest_theta(case, name):
    """The Rayleigh quotient, doubled per row until phi(W+) <= P(W+; theta)."""
    along = case.gradient(case.W) + RIDGE.get(name, 0) * case.W
    image = (case.weights[:, None] * (case.a @ along.T) ** 2).sum(0)
    theta = case.c * image / (along**2).sum(1)
    for _ in range(60):
        W = candidate(case, name, theta)
        accepted = case.phi(W) <= majoriser(case, W, theta) * (1 + ROUNDING)
        theta = np.where(accepted, theta, 2 * theta)
    return theta


def test_update_b_is_the_weighted_least_squares_solution(rng):
    case = make_case(rng)
    root = np.sqrt(case.weights)[:, None]
    exact = np.linalg.lstsq(root, root * (case.t - case.p), rcond=None)[0][0]
    np.testing.assert_allclose(take_b_step(case), exact, rtol=EXACT_STEP)
    unweighted = take_b_step(case, Samples(None))
    assert np.abs(unweighted - exact).max() > 1e-3
    np.testing.assert_allclose(unweighted, (case.t - case.p).mean(0), rtol=EXACT_STEP)


def test_residual_subtracts_the_scaled_dual_only_where_there_is_one(rng):
    p, b, z, u = (jnp.asarray(v) for v in rng.normal(size=(4, 3)))
    np.testing.assert_allclose(residual(p, b, z, None), p + b - z, rtol=ROUNDING)
    np.testing.assert_allclose(residual(p, b, z, u), p + b - z - u, rtol=ROUNDING)


@pytest.mark.parametrize("solver", ["newton", "fista"])
def test_update_zL_takes_the_prox_at_p_plus_b(solver, rng):
    p, b, u = rng.normal(size=(20, 3)), rng.normal(size=3), rng.uniform(-0.5, 0.5, (20, 3))
    y, rho = np.eye(3)[rng.integers(3, size=20)], 2.0
    phi = Phi(None, None, *map(jnp.asarray, (p, b, 0 * p)), None, jnp.asarray(rho))
    given = (losses.get("log_loss"), solver, phi, jnp.asarray(u), jnp.asarray(y))
    z, used = update_zL(*given, Samples(None, blocks=4))
    assert int(used) == int(update_zL(*given, Samples(None))[1])
    softmax = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    slack = EXACT_STEP if solver == "newton" else 1e-6 * (0.5 + rho)
    slope = softmax - y + u + rho * (z - p - b)
    assert np.linalg.norm(slope, axis=1).max() <= slack
    assert np.linalg.norm(slope - rho * b, axis=1).max() > 0.1


def test_update_z_is_the_argmin_at_p_plus_b(rng):
    p, b, a = rng.normal(size=(20, 3)), rng.normal(size=3), rng.normal(size=(20, 3))

    def by_relu(m):
        off, on = np.minimum(m, 0), np.maximum((m + a) / 2, 0)
        return np.where((on - m) ** 2 + (on - a) ** 2 < (off - m) ** 2 + a**2, on, off)

    old = rng.normal(size=p.shape)
    weights = rng.uniform(0, 2, 20)
    arrays = tuple(jnp.asarray(v) for v in (old, p, b, a))
    z = np.asarray(update_z(activations.get("relu"), *arrays))
    samples = Samples(jnp.asarray(weights), blocks=4)
    measured, moved = update_z_measured(activations.get("relu"), *arrays, samples)
    np.testing.assert_array_equal(measured, z)
    np.testing.assert_allclose(z, by_relu(p + b), rtol=ROUNDING)
    np.testing.assert_allclose(moved, (weights[:, None] * (z - old) ** 2).sum(), rtol=ROUNDING)
    assert np.abs(z - by_relu(p)).max() > 0.1


@each_shape
@each_regularizer
def test_update_W_takes_the_first_accepted_theta_per_row(name, samples, rng):
    case = make_case(rng, samples)
    theta = smallest_theta(case, name)
    W, _, record = take_W_step(case, name)
    np.testing.assert_allclose(W, candidate(case, name, theta), rtol=EXACT_STEP, atol=EXACT_STEP)
    assert (case.phi(W) <= majoriser(case, W, theta) * (1 + EXACT_STEP)).all()
    moved = ((W - case.W) ** 2).sum(1)
    np.testing.assert_allclose(record.moved, moved.sum(), rtol=EXACT_STEP)
    np.testing.assert_allclose(record.curvature, theta[moved > 0].min(), rtol=EXACT_STEP)
    assert int(record.exhausted) == 0
    assert np.abs(candidate(case, name, 1.01 * theta) - W).max() > 1e-6


@each_shape
@each_ridge
def test_theta_is_the_smallest_accepted_one_where_omega_is_a_ridge(name, samples, rng):
    case = make_case(rng, samples)
    W, _, _ = take_W_step(case, name)
    G = case.gradient(case.W) + RIDGE[name] * case.W
    # D = -G/(theta + lambda) tells which theta was taken.
    theta = np.linalg.norm(G, axis=1) / np.linalg.norm(W - case.W, axis=1) - RIDGE[name]
    np.testing.assert_allclose(case.phi(W), majoriser(case, W, theta), rtol=EXACT_STEP)
    shorter = candidate(case, name, 0.99 * theta)
    assert (case.phi(shorter) > majoriser(case, shorter, 0.99 * theta)).all()


@each_regularizer
def test_the_new_W_minimises_the_majoriser_plus_omega(name, omega_of_rows, rng):
    case = make_case(rng)
    W, _, _ = take_W_step(case, name)
    theta = smallest_theta(case, name)

    def objective(W):
        return majoriser(case, W, theta) + omega_of_rows[name](W)

    lowest = objective(W)
    assert np.isfinite(lowest).all()
    for scale in (1e-4, 1e-2, 1.0):
        for _ in range(50):
            W_near = W + scale * rng.normal(size=W.shape) * (rng.random(W.shape) < 0.3)
            assert (objective(W_near) >= lowest * (1 - ROUNDING)).all()
    assert (objective(case.W) > lowest * (1 + EXACT_STEP)).all()


@each_rule
@each_regularizer
def test_p_follows_the_new_W(name, rule, rng):
    case = make_case(rng)
    W, p, _ = take_W_step(case, name, RULES[rule])
    np.testing.assert_allclose(p, case.a @ W.T, rtol=ROUNDING, atol=ROUNDING)
    assert np.abs(p - case.p).max() > 1e-3


@each_rule
@each_regularizer
def test_no_W_step_raises_phi_plus_omega(name, rule, omega_of_rows, rng):
    case = make_case(rng)
    W, _, _ = take_W_step(case, name, RULES[rule])
    before, after = (case.phi(V).sum() + omega_of_rows[name](V).sum() for V in (case.W, W))
    assert after < before


def test_tau_is_the_smallest_accepted_one_per_sample(rng):
    case = make_case(rng)
    a, p, record = take_a_step(case)
    g = case.gradient_a(case.a)
    tau = np.linalg.norm(g, axis=1) / np.linalg.norm(a - case.a, axis=1)
    # The minimiser of the majoriser is the step -g/tau itself.
    np.testing.assert_allclose(a, case.a - g / tau[:, None], rtol=EXACT_STEP, atol=EXACT_STEP)
    np.testing.assert_allclose(case.phi_a(a), majoriser_a(case, a, tau), rtol=EXACT_STEP)
    shorter = case.a - g / (0.99 * tau[:, None])
    assert (case.phi_a(shorter) > majoriser_a(case, shorter, 0.99 * tau)).all()
    np.testing.assert_allclose(p, a @ case.W.T, rtol=ROUNDING, atol=ROUNDING)
    np.testing.assert_allclose(record.curvature, tau.min(), rtol=EXACT_STEP)
    moved = (case.weights * ((a - case.a) ** 2).sum(1)).sum()
    np.testing.assert_allclose(record.moved, moved, rtol=EXACT_STEP)


@pytest.mark.parametrize("rule", ["scalar", "backtracking"])
def test_a_scalar_tau_majorises_all_samples_together(rule, rng):
    case = make_case(rng)
    a, p, record = take_a_step(case, RULES[rule])
    tau, g = float(record.curvature), case.gradient_a(case.a)
    np.testing.assert_allclose(a, case.a - g / tau, rtol=EXACT_STEP, atol=EXACT_STEP)
    np.testing.assert_allclose(p, a @ case.W.T, rtol=ROUNDING, atol=ROUNDING)
    total = lambda v: (case.weights * v).sum()  # noqa: E731
    assert total(case.phi_a(a)) <= total(majoriser_a(case, a, tau)) * (1 + ROUNDING)


@each_growth
@each_ridge
def test_scalar_theta_is_the_limit_of_backtracking_from_below(name, growth, rng):
    case = make_case(rng)
    W, _, closed = take_W_step(case, name, ROWS_OR_ALL["scalar"])
    start = 0.9 * float(closed.curvature)
    W_search, _, search = take_W_step(case, name, Backtracking(start, growth, 2000))
    ratio = float(search.curvature / closed.curvature)
    assert 1 - ROUNDING <= ratio <= growth * (1 + ROUNDING)
    assert int(search.trials) >= 1
    step = np.abs(W - case.W).max()
    assert np.abs(W_search - W).max() <= (growth - 1) * step * (1 + EXACT_STEP)


@each_growth
def test_scalar_tau_is_the_limit_of_backtracking_from_below(growth, rng):
    case = make_case(rng)
    a, _, closed = take_a_step(case, ROWS_OR_ALL["scalar"])
    start = 0.9 * float(closed.curvature)
    a_search, _, search = take_a_step(case, Backtracking(start, growth, 2000))
    ratio = float(search.curvature / closed.curvature)
    assert 1 - ROUNDING <= ratio <= growth * (1 + ROUNDING)
    step = np.abs(a - case.a).max()
    assert np.abs(a_search - a).max() <= (growth - 1) * step * (1 + EXACT_STEP)


def test_backtracking_from_above_keeps_its_start(rng):
    case = make_case(rng)
    _, _, record = take_W_step(case, "none", Backtracking(start=1e3))
    assert float(record.curvature) == pytest.approx(1e3, rel=ROUNDING)
    assert int(record.trials) == 0


@each_regularizer
def test_exhausted_backtracking_leaves_W_in_place_and_says_so(name, rng):
    case = make_case(rng)
    enough = Backtracking(start=1e-9, growth=2.0, max_trials=60)
    too_few = Backtracking(start=1e-9, growth=2.0, max_trials=3)
    W, p, record = take_W_step(case, name, too_few)
    assert np.array_equal(W, case.W)
    assert np.array_equal(p, case.p)
    assert (int(record.exhausted), int(record.trials), float(record.moved)) == (1, 3, 0.0)
    W, _, record = take_W_step(case, name, enough)
    assert int(record.exhausted) == 0
    assert not np.array_equal(W, case.W)


def test_exhausted_backtracking_leaves_a_in_place_and_says_so(rng):
    case = make_case(rng)
    a, p, record = take_a_step(case, Backtracking(start=1e-9, growth=2.0, max_trials=3))
    assert np.array_equal(a, case.a)
    assert np.array_equal(p, case.p)
    assert (int(record.exhausted), int(record.trials), float(record.moved)) == (1, 3, 0.0)
    a, _, record = take_a_step(case, Backtracking(start=1e-9, growth=2.0, max_trials=60))
    assert int(record.exhausted) == 0
    assert not np.array_equal(a, case.a)


@pytest.mark.parametrize(("field", "bad"), [("start", 0.0), ("start", -1.0), ("growth", 1.0)])
def test_backtracking_that_cannot_end_is_refused(field, bad):
    with pytest.raises(ValueError, match=f"{field}={bad!r} is not valid; expected"):
        Backtracking(**{field: bad})


@each_rule
@each_regularizer
def test_update_W_twice_is_two_updates(name, rule, rng):
    case, rule = make_case(rng), RULES[rule]
    W1, _, first = take_W_step(case, name, rule)
    W2, p2, second = take_W_step(case._replace(W=W1), name, rule)
    K = jnp.asarray((case.weights[:, None] * case.a).T @ case.a)
    how = (regularizers.get(name), rule)
    W, p, records = step_W_twice(*how, phi_of(case), jnp.asarray(case.a), of_samples(case), K)
    np.testing.assert_allclose(W, W2, rtol=EXACT_STEP, atol=EXACT_STEP)
    np.testing.assert_allclose(p, p2, rtol=EXACT_STEP, atol=EXACT_STEP)
    for got, expected in zip(records, (first, second), strict=True):
        np.testing.assert_allclose(got, expected, rtol=EXACT_STEP)
    assert np.abs(W2 - W1).max() > 1e-6


@each_rule
@each_regularizer
def test_zero_gradients_give_no_W_step_and_no_nan(name, rule, rng):
    case = make_case(rng)
    case = case._replace(W=0 * case.W, t=np.tile(case.b, (len(case.a), 1)))
    W, p, record = take_W_step(case, name, RULES[rule])
    assert np.array_equal(W, case.W)
    assert np.array_equal(p, case.p)
    assert (float(record.moved), int(record.exhausted)) == (0.0, 0)


@each_rule
def test_zero_gradients_give_no_a_step_and_no_nan(rule, rng):
    case = make_case(rng)
    case = case._replace(t=case.p + case.b, f_z=case.a)
    a, p, record = take_a_step(case, RULES[rule])
    assert np.array_equal(a, case.a)
    assert np.array_equal(p, case.p)
    assert (float(record.moved), int(record.exhausted)) == (0.0, 0)
    assert float(record.curvature) > 0


@each_rule
@pytest.mark.parametrize("name", ["l1", "l2", "elastic_net", "group_lasso"])
def test_omega_still_shrinks_W_where_phi_has_zero_gradient(name, rule, omega_of_rows, rng):
    case = make_case(rng)
    case = case._replace(t=case.p + case.b)
    W, p, record = take_W_step(case, name, RULES[rule])
    before, after = (case.phi(V).sum() + omega_of_rows[name](V).sum() for V in (case.W, W))
    assert int(record.exhausted) == 0
    assert after < before
    np.testing.assert_allclose(p, case.a @ W.T, rtol=ROUNDING, atol=ROUNDING)


@each_rule
@each_regularizer
def test_inputs_that_are_zero_give_no_nan(name, rule, rng):
    case = make_case(rng)
    case = case._replace(a=0 * case.a)
    W, p, record = take_W_step(case, name, RULES[rule])
    assert np.isfinite(W).all()
    assert np.array_equal(p, case.p)
    assert int(record.exhausted) == 0


def tiny_residuals(rng):
    """W = a = 0 in turn, so that a step of size 1e-12 is not lost against them."""
    case = make_case(rng)
    on_W = case._replace(W=0 * case.W, b=0 * case.b, t=1e-12 * case.t, c=1e-6, nu=1e-6)
    on_a = on_W._replace(W=case.W, a=0 * case.a, f_z=1e-12 * case.f_z)
    return on_W, on_a


def in_float32(case):
    return Case(*(v.astype(np.float32) if isinstance(v, np.ndarray) else v for v in case))


@pytest.mark.float32
@pytest.mark.parametrize("rule", list(ROWS_OR_ALL))
@each_regularizer
def test_a_tiny_W_step_in_float32_is_the_float64_step(name, rule, rng):
    on_W, _ = tiny_residuals(rng)
    W, p, record = take_W_step(in_float32(on_W), name, RULES[rule])
    assert W.dtype == p.dtype == np.float32
    assert np.isfinite(W).all()
    assert np.isfinite(p).all()
    with jax.enable_x64(True):
        exact, _, exact_record = take_W_step(on_W, name, RULES[rule])
    assert int(record.exhausted) == int(exact_record.exhausted) == 0
    assert np.linalg.norm(W - exact) <= FLOAT32_STEP * np.linalg.norm(exact)
    # A strength/c of 100 holds every entry at zero against gradients of 1e-11.
    assert (np.linalg.norm(exact) > 1e-13) == (name not in ("l1", "elastic_net", "group_lasso"))


@pytest.mark.float32
@pytest.mark.parametrize("rule", list(ROWS_OR_ALL))
def test_a_tiny_a_step_in_float32_is_the_float64_step(rule, rng):
    _, on_a = tiny_residuals(rng)
    a, p, _ = take_a_step(in_float32(on_a), RULES[rule])
    assert a.dtype == p.dtype == np.float32
    with jax.enable_x64(True):
        exact, _, _ = take_a_step(on_a, RULES[rule])
    assert np.linalg.norm(exact) > 1e-13
    assert np.linalg.norm(a - exact) <= FLOAT32_STEP * np.linalg.norm(exact)


def weighted_and_repeated(rng):
    """The same data twice: by weights 0, 1, 2, and by rows left out or repeated."""
    weights = np.tile([0.0, 1.0, 2.0], 10)
    case = make_case(rng, weights=weights)
    rows = np.repeat(np.arange(30), weights.astype(int))
    repeated = case._replace(
        a=case.a[rows], t=case.t[rows], f_z=case.f_z[rows], weights=np.ones(len(rows))
    )
    return case, repeated, rows


def assert_same_record(one, two):
    for field in one._fields:
        np.testing.assert_allclose(
            getattr(one, field), getattr(two, field), rtol=ROUNDING, err_msg=field
        )


def test_b_weights_are_repetitions(rng):
    case, repeated, _ = weighted_and_repeated(rng)
    np.testing.assert_allclose(take_b_step(case), take_b_step(repeated), rtol=ROUNDING)
    assert np.abs(take_b_step(case, Samples(None)) - take_b_step(repeated)).max() > 1e-3


@each_rule
@each_regularizer
def test_W_weights_are_repetitions(name, rule, rng):
    case, repeated, rows = weighted_and_repeated(rng)
    W, p, record = take_W_step(case, name, RULES[rule])
    W_repeated, p_repeated, record_repeated = take_W_step(repeated, name, RULES[rule])
    np.testing.assert_allclose(W, W_repeated, rtol=ROUNDING, atol=ROUNDING)
    np.testing.assert_allclose(p[rows], p_repeated, rtol=ROUNDING, atol=ROUNDING)
    assert_same_record(record, record_repeated)
    ignored, _, _ = take_W_step(case._replace(weights=np.ones(30)), name, RULES[rule])
    assert np.abs(ignored - W_repeated).max() > 1e-3


@each_rule
def test_a_weights_are_repetitions(rule, rng):
    case, repeated, rows = weighted_and_repeated(rng)
    # Absent samples get the flattest tau there is, nu: g in the null space of W.
    absent = (case.weights == 0)[:, None]
    flat = case.a - np.linalg.svd(case.W)[2][-1]
    case = case._replace(
        t=np.where(absent, case.p + case.b, case.t), f_z=np.where(absent, flat, case.f_z)
    )
    a, p, record = take_a_step(case, RULES[rule])
    a_repeated, p_repeated, record_repeated = take_a_step(repeated, RULES[rule])
    np.testing.assert_allclose(a[rows], a_repeated, rtol=ROUNDING, atol=ROUNDING)
    np.testing.assert_allclose(p[rows], p_repeated, rtol=ROUNDING, atol=ROUNDING)
    assert_same_record(record, record_repeated)


@pytest.fixture
def settings(monkeypatch):
    """Sets constants of the walks; programs compiled with other ones are dropped."""

    def change(**constants):
        for name, value in constants.items():
            module = dladmm.engine.walks if name == "CACHED" else dladmm.core.relaxed.weight_updates
            monkeypatch.setattr(module, name, value)
        jax.clear_caches()

    yield change
    jax.clear_caches()


def assert_same_step(one, two):
    np.testing.assert_allclose(one[0], two[0], rtol=ROUNDING, atol=ROUNDING)
    np.testing.assert_allclose(one[1], two[1], rtol=ROUNDING, atol=ROUNDING)
    assert_same_record(one[2], two[2])


@each_rule
def test_blocks_of_samples_change_nothing(rule, rng, settings):
    settings(CACHED=0)  # nothing is small enough to be one block
    case = make_case(rng)
    for take in (
        lambda blocks: take_W_step(case, "l2", RULES[rule], blocks),
        lambda blocks: take_W_step(case, "l1", RULES[rule], blocks),
        lambda blocks: take_a_step(case, RULES[rule], blocks),
    ):
        assert_same_step(take(3), take(1))


@pytest.mark.parametrize("cached", [0, 10**6])
@pytest.mark.parametrize("parts", [2, 3, 5])
def test_parts_of_a_layers_units_change_nothing(parts, cached, rng, settings):
    case = make_case(rng)
    whole = take_W_step(case, "l2", blocks=3)
    settings(PARTS=parts, LEAST_UNITS=1, CACHED=cached)
    assert unit_parts(case.layer, CLOSED) == parts
    assert_same_step(take_W_step(case, "l2", blocks=3), whole)


def test_a_stronger_ridge_gives_a_shorter_W(rng):
    case = make_case(rng)
    norms = [np.linalg.norm(take_W_step(case, L2(s))[0]) for s in (0.0, 1e-3, 1e-1)]
    assert norms[0] > norms[1] > norms[2]
