"""Matrices for theta and tau, against their definitions, and Property 2 on whole runs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import RHO, biggest_difference, small, solved
from test_convergence import DEEPER, EVERY_ACTIVATION, H, descent_excess, drops
from test_updates import make_case, of_samples, phi_of, take_W_step
from tolerances import EXACT_STEP, LAGRANGIAN_RISE, ROUNDING, WEIGHTED_RUN

from dladmm import Checkpoints, Options, solve
from dladmm.core.relaxed import matrix_steps
from dladmm.core.relaxed.step_rules import ClosedForm, Matrix
from dladmm.core.relaxed.theory import descent_constant
from dladmm.engine.walks import Samples
from dladmm.terms.activations import activations
from dladmm.terms.regularizers import L2, Regularizer, regularizers

DELTA = 0.3
RULE = Matrix(DELTA)
QUADRATIC = {"none": Regularizer(), "l2": L2(1e-3)}
OTHERS = [name for name in regularizers if regularizers.get(name).quadratic is None]
each_blocks = pytest.mark.parametrize("blocks", [1, 5])

step_W = jax.jit(matrix_steps.update_W, static_argnums=(0, 1))
step_W_twice = jax.jit(matrix_steps.update_W_twice, static_argnums=(0, 1))


def gram(case):
    return case.a.T @ (case.weights[:, None] * case.a)


def theta(case, delta=DELTA):
    K = gram(case)
    return case.c * (K + delta * np.trace(K) / len(K) * np.eye(len(K)))


def take_step(case, regularizer, rule=RULE, blocks=1):
    given = (phi_of(case), jnp.asarray(case.a), of_samples(case, blocks))
    W, p, record = step_W(regularizer, rule, *given)
    return np.asarray(W), np.asarray(p), record


# One step.


@each_blocks
@pytest.mark.parametrize("name", QUADRATIC)
def test_W_minimises_the_majoriser_and_omega(name, blocks, rng):
    case, term = make_case(rng), QUADRATIC[name]
    W, p, record = take_step(case, term, blocks=blocks)
    D, strength = W - case.W, float(term.quadratic)

    def slope(theta):
        return case.gradient(case.W) + D @ theta + strength * W

    size = np.abs(case.gradient(case.W)).max()
    assert np.abs(slope(theta(case))).max() <= EXACT_STEP * size
    assert np.abs(slope(1.01 * theta(case))).max() > 1e-3 * size
    np.testing.assert_allclose(p, case.a @ W.T, rtol=EXACT_STEP, atol=EXACT_STEP)
    least = np.linalg.eigvalsh(theta(case))[0]
    K = gram(case)
    assert 0 < float(record.curvature) <= least
    np.testing.assert_allclose(record.curvature, case.c * DELTA * np.trace(K) / len(K))
    np.testing.assert_allclose(record.moved, (D**2).sum(), rtol=EXACT_STEP)


@pytest.mark.parametrize("name", QUADRATIC)
def test_where_K_is_a_multiple_of_the_identity_the_vector_rule_is_the_limit(name, rng):
    case = make_case(rng, weights=np.ones(30))
    case = case._replace(a=3 * np.linalg.qr(case.a)[0])
    W = take_W_step(case, QUADRATIC[name], ClosedForm())[0]
    moved = np.abs(W - case.W).max()
    for delta in (1e-3, 1e-6, 1e-9):
        found = take_step(case, QUADRATIC[name], Matrix(delta))[0]
        assert np.abs(found - W).max() <= 1.01 * delta * moved + ROUNDING
    assert np.abs(take_step(case, QUADRATIC[name], Matrix(1.0))[0] - W).max() > 0.1 * moved


@pytest.mark.parametrize("name", QUADRATIC)
def test_an_estimated_K_majorises_along_every_row(name, rng, monkeypatch):
    case, term = make_case(rng, samples=64, n_in=4), QUADRATIC[name]
    case = case._replace(a=np.where(np.arange(64)[:, None] % 2, 5, 1) * case.a)  # 0, 2, ... small
    monkeypatch.setattr(matrix_steps, "SAMPLES_PER_INPUT", 8)
    W, p, _ = take_step(case, Regularizer() if name == "none" else L2(1e-3 + 1e-9))
    few = slice(None, None, 2)
    weights = case.weights[few] * case.weights.sum() / case.weights[few].sum()
    K = case.a[few].T @ (weights[:, None] * case.a[few])
    estimate = case.c * (K + DELTA * np.trace(K) / 4 * np.eye(4))
    strength = float(term.quadratic)
    whole = -(case.gradient(case.W) + strength * case.W) @ np.linalg.inv(
        estimate + strength * np.eye(4)
    )
    t = (W - case.W) / whole
    np.testing.assert_allclose(t, t[:, :1] * np.ones(4), rtol=1e-4)  # along each row
    assert (t < 0.9).all()
    np.testing.assert_allclose(p, case.a @ W.T, rtol=EXACT_STEP, atol=EXACT_STEP)

    def excess(D, t):
        """phi minus its majoriser, for each row."""
        bent = np.einsum("ij,jk,ik->i", D, (estimate + strength * np.eye(4)), D) / t
        linear = (case.gradient(case.W) * D).sum(1)
        bent = bent - strength * (D**2).sum(1)
        return case.phi(case.W + D) - (case.phi(case.W) + linear + bent / 2)

    scale = case.phi(case.W)
    assert (excess(W - case.W, t[:, 0]) <= 1e-6 * scale).all()
    assert (excess(whole, np.ones(len(W))) > 1e-2 * scale).any()  # control: the step as it was


@pytest.mark.parametrize("name", OTHERS)
def test_a_prox_in_the_metric_lowers_phi_and_omega_enough(name, omega, rng):
    if name not in omega:
        pytest.skip("a term that the run replaces")
    case, term = make_case(rng), regularizers.get(name)
    W, p, record = take_step(case, term)
    D = W - case.W
    objective = lambda V: case.phi(V).sum() + omega[name](V).sum()  # noqa: E731
    bent = np.einsum("ij,jk,ik->", D, theta(case), D)
    fall = objective(case.W) - objective(W)
    assert fall >= (1 - 2 * matrix_steps.INNER_ERROR) / 2 * bent > 0
    assert int(record.exhausted) == 0
    np.testing.assert_allclose(p, case.a @ W.T, rtol=EXACT_STEP, atol=EXACT_STEP)

    def model(V):
        D = V - case.W
        bent = np.einsum("ij,jk,ik->", D, theta(case), D)
        return (case.gradient(case.W) * D).sum() + bent / 2 + omega[name](V).sum()

    best, bound = case.W, np.linalg.eigvalsh(theta(case))[-1]
    for _ in range(3000):
        slope = case.gradient(case.W) + (best - case.W) @ theta(case)
        best = np.asarray(term.prox(best - slope / bound, 1 / bound))
    gain = model(case.W) - model(best)
    assert model(W) - model(best) <= 0.02 * gain
    assert model((W + case.W) / 2) - model(best) > 0.1 * gain  # control: half of the step


def test_two_steps_on_the_first_layer_are_two_single_steps(rng):
    case = make_case(rng)
    for term in (*QUADRATIC.values(), regularizers.get("l1")):
        W1, p1, one = take_step(case, term)
        W2, p2, two = take_step(case._replace(W=W1), term)
        given = (phi_of(case), jnp.asarray(case.a), of_samples(case), jnp.asarray(gram(case)))
        W, p, (backward, forward) = step_W_twice(term, RULE, *given)
        assert biggest_difference((W2, p2), (W, p)) <= EXACT_STEP
        assert biggest_difference((W1, p1), (W, p)) > 1e3 * EXACT_STEP
        np.testing.assert_allclose((one.moved, two.moved), (backward.moved, forward.moved))


@each_blocks
@pytest.mark.parametrize("n_out", [5, 12], ids=["fewer", "more"])
def test_a_goes_to_its_exact_minimiser(n_out, blocks, rng):
    case = make_case(rng, n_out=n_out)
    nu = jnp.asarray(case.nu)
    given = ([phi_of(case)], nu, of_samples(case, blocks))
    a, (p,), record = matrix_steps.update_a(
        activations.get("identity"), jnp.asarray(case.a), jnp.asarray(case.f_z), *given
    )
    size = np.abs(case.gradient_a(case.a)).max()
    assert np.abs(case.gradient_a(np.asarray(a))).max() <= EXACT_STEP * size
    assert np.abs(case.gradient_a(np.asarray((a + case.a) / 2))).max() > 0.1 * size
    np.testing.assert_allclose(p, a @ case.W.T, rtol=EXACT_STEP, atol=EXACT_STEP)
    moved = (case.weights[:, None] * (a - case.a) ** 2).sum()
    np.testing.assert_allclose(record.moved, moved, rtol=EXACT_STEP)
    hessian = case.c * case.W.T @ case.W + case.nu * np.eye(7)
    assert float(record.curvature) <= np.linalg.eigvalsh(hessian)[0] * (1 + ROUNDING)


# delta from the run.


def found_delta(target, a, weights):
    G = (weights[:, None] * -target).T @ a
    K = a.T @ (weights[:, None] * a)
    energy = (weights[:, None] * target**2).sum()
    layer = make_case(np.random.default_rng(0), n_in=a.shape[1], n_out=target.shape[1]).layer
    d = matrix_steps.damping(Matrix(), layer, *map(jnp.asarray, (K, G, energy, weights.sum())))
    return float(d) * len(K) / np.trace(K)


def test_delta_is_one_for_noise_and_large_for_what_can_be_learned(rng):
    a, weights = rng.normal(size=(2000, 20)), np.ones(2000)
    noise, signal = rng.normal(size=(2000, 30)), a @ rng.normal(size=(20, 30))
    assert found_delta(noise, a, weights) == pytest.approx(1, rel=0.1)
    assert found_delta(signal, a, weights) == matrix_steps.MOST_DELTA
    # By least squares from scratch, and in any unit of either side.
    both = noise + signal / 40
    left = both - a @ np.linalg.lstsq(a, both, rcond=None)[0]
    explained = 1 - (left**2).sum() / (both**2).sum()
    assert found_delta(both, a, weights) == pytest.approx(explained * 2000 / 20, rel=2e-3)
    assert found_delta(both, a, weights) > 1.5
    assert found_delta(1e3 * both, 1e-2 * a, weights) == pytest.approx(
        found_delta(both, a, weights), rel=1e-9
    )


# Property 2 on whole runs.


@pytest.mark.parametrize(("loss", "activation", "sizes"), [*EVERY_ACTIVATION, DEEPER])
def test_the_lagrangian_never_rises_and_falls_sufficiently(loss, activation, sizes):
    result = solved(loss, activation, sizes, step_rule="matrix")
    drop, size = drops(result)
    assert result.n_iter == 200
    assert (drop >= -LAGRANGIAN_RISE * size).all()
    excess = descent_excess(
        result, lambda theta, tau: descent_constant(RHO[loss], 1.0, H[loss], theta, tau)
    )
    assert (excess >= -LAGRANGIAN_RISE).all()
    assert result.certificate.rises == 0
    assert result.certificate.sufficient_descent is True
    assert "matrices" in result.certificate.theorems["Steps"]


@pytest.mark.parametrize("regularizer", ["l1", "box", "l2"])
def test_regularised_runs_fall_sufficiently_too(regularizer):
    problem, x, y = small("log_loss", 60, (6, 8, 8, 3), regularizer=regularizer)
    options = Options(
        method="dladmm", step_rule="matrix", rho=1.2, max_iter=60, tol=None, dtype="float64"
    )
    certificate = solve(problem, x, y, options=options).certificate
    assert (certificate.rises, certificate.sufficient_descent) == (0, True)


def test_a_theta_below_K_breaks_it(monkeypatch):
    """Steps three times as long are those of a theta of (K + d I)/3."""
    honest = matrix_steps._length

    def too_long(*given):
        t, record = honest(*given)
        return 3 * t, record._replace(moved=9 * record.moved)

    monkeypatch.setattr(matrix_steps, "_length", too_long)
    problem, x, y = small("squared_error", 60, (6, 8, 3))
    options = Options(
        method="dladmm",
        step_rule=RULE,
        rho=2.5,
        max_iter=30,
        tol=None,
        dtype="float64",
        engine="numpy",
        max_recoveries=0,
    )
    certificate = solve(problem, x, y, options=options).certificate
    assert certificate.rises > 0
    assert certificate.sufficient_descent is False


@pytest.mark.parametrize("loss", RHO)
def test_the_network_ends_with_a_lower_loss_than_by_the_vector_rule(loss):
    matrix, vector = (
        solved(loss, "relu", (6, 8, 8, 3), step_rule=rule).history["train_loss"][-1]
        for rule in ("matrix", "closed-form")
    )
    assert matrix < 0.9 * vector


def test_weight_2_is_a_duplicate_row():
    problem, x, y = small()
    options = Options(
        method="dladmm", step_rule="matrix", rho=2.5, max_iter=30, tol=None, dtype="float64"
    )
    weights = np.ones(len(x))
    twice = solve(problem, np.vstack([x, x[7]]), np.vstack([y, y[7]]), options=options)
    for value, same in ((2.0, True), (3.0, False)):
        weights[7] = value
        found = solve(problem, x, y, sample_weight=weights, options=options)
        apart = biggest_difference(twice.params, found.params)
        assert bool(apart <= WEIGHTED_RUN) is same


@pytest.mark.parametrize("rule", ["matrix", "over-relaxed"])
def test_a_run_goes_on_from_a_checkpoint_to_the_same_bits(rule, tmp_path):
    problem, x, y = small()
    whole, *parts = (
        Options(method="dladmm", step_rule=rule, rho=2.5, max_iter=n, tol=None, seed=1)
        for n in (12, 6, 12)
    )
    alone = solve(problem, x, y, options=whole)
    for options in parts:
        kept = Checkpoints(tmp_path / "run", every=5, resume=True)
        result = solve(problem, x, y, options=options, checkpoints=kept)
    assert result.resumed_from == 5
    for found, expected in zip(result.params.W, alone.params.W, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_weight_of_zero_is_not_probed(rng):
    case = make_case(rng, samples=40)
    weights = case.weights * (np.arange(40) < 30)
    all_rows = matrix_steps.moments(case.layer, case.a, Samples(weights), exactly=True)
    np.testing.assert_allclose(all_rows, case.a[:30].T @ (weights[:30, None] * case.a[:30]))


def test_a_delta_that_is_no_number_above_zero_is_refused():
    for delta in (0.0, -1.0, float("inf")):
        with pytest.raises(ValueError, match=r"delta=.* is not valid; expected"):
            Matrix(delta)
