"""Restored sweeps against jax.grad, per-sample NumPy sums, and the safeguard taken away."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import inputs, network, relu, small, targets, teacher
from tolerances import EXACT_STEP, INNER_PROX, ROUNDING, WEIGHTED_RUN

from dladmm import Options, Params, Problem, Status, forward, solve
from dladmm.core.data import Data, make_data
from dladmm.core.initial import initial_params
from dladmm.core.restored import full_batch as restored
from dladmm.core.restored.measure import measure, probe_every, signal_to_noise
from dladmm.core.restored.metric import prox_in_metric
from dladmm.engine.walks import Samples, probe
from dladmm.terms.regularizers import L1, L2, Box

SIZES = (4, 6, 5, 3)


def begun(loss="squared_error", activation="relu", weights=None, n=40, **terms):
    """A problem, its data and a random network."""
    x = inputs(n, SIZES[0])
    problem = Problem.dense(SIZES, activation, loss, **terms)
    y = targets("log_loss" if problem.loss.classifies else "squared_error", x, SIZES[-1])
    weights = None if weights is None else jnp.asarray(weights)
    data = make_data(problem, jnp.asarray(x), jnp.asarray(y), weights, with_gram=False)
    params = initial_params(problem, "he", 1, jnp.float64)
    shifted = tuple(b + 0.1 * (i + 1) for i, b in enumerate(params.b))
    return problem, data, Params(params.W, shifted)


def objective(problem, data, params):
    """F by a plain forward pass."""
    values = problem.loss.value(forward(problem, params, data.x), data.y)
    loss = jnp.sum(values if data.weights is None else data.weights * values)
    return loss + sum(t.value(W) for t, W in zip(problem.regularizers, params.W, strict=True))


def run(
    loss="squared_error", n=40, callback=None, activation="relu", regularizer="none", **options
):
    problem, x, y = small(loss, n, (4, 5, 3), activation=activation, regularizer=regularizer)
    settings = {"method": "restored", "max_iter": 40, "tol": None, "dtype": "float64"} | options
    return solve(problem, x, y, options=Options(**settings), callback=callback)


# The sums of a restored point.

WEIGHTS = np.random.default_rng(2).uniform(0, 2, 40)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize("activation", ["relu", "tanh", "leaky_relu", "softplus", "hard_tanh"])
@pytest.mark.parametrize("loss", ["log_loss", "huber"])
def test_the_first_order_targets_give_the_gradient(loss, activation, weights):
    problem, data, params = begun(loss, activation, weights)
    measured = measure(problem, data, params)
    gradient = jax.grad(lambda p: objective(problem, data, p))(params)
    assert measured.objective == pytest.approx(
        float(objective(problem, data, params)), rel=ROUNDING
    )
    for sums, G, g in zip(measured.layers, gradient.W, gradient.b, strict=True):
        scale = np.abs(G).max()
        np.testing.assert_allclose(sums.gradient[:, :-1], G, rtol=0, atol=EXACT_STEP * scale)
        np.testing.assert_allclose(sums.gradient[:, -1], g, rtol=0, atol=EXACT_STEP * scale)


def per_sample(problem, data, params):
    """Inputs [a, 1] and residual targets r of every sample and layer; r by jax.grad at shifts."""
    n = data.x.shape[0]

    def inputs_and_output(shifts):
        a, inputs = data.x, []
        for l, shift in enumerate(shifts):
            inputs.append(jnp.hstack([a, jnp.ones((n, 1))]))
            a = z = a @ params.W[l].T + params.b[l] + shift
            if l < problem.n_layers - 1:
                a = problem.activations[l](z)
        return inputs, z

    none = [jnp.zeros((n, layer.units)) for layer in problem.layers]
    loss = lambda shifts: jnp.sum(problem.loss.value(inputs_and_output(shifts)[1], data.y))  # noqa: E731
    r = jax.grad(loss)(none)
    return [np.asarray(A) for A in inputs_and_output(none)[0]], [np.asarray(v) for v in r]


def test_second_moments_and_squares_are_sums_over_samples():
    problem, data, params = begun("log_loss", "tanh", WEIGHTS)
    measured = measure(problem, data, params)
    omega = WEIGHTS
    for sums, A, r in zip(measured.layers, *per_sample(problem, data, params), strict=True):
        np.testing.assert_allclose(sums.inputs, (omega[:, None] * A).T @ A, rtol=EXACT_STEP)
        np.testing.assert_allclose(
            sums.outputs, (omega[:, None] * r).T @ r, rtol=EXACT_STEP, atol=EXACT_STEP
        )
        each = np.einsum("ij,ik->ijk", r, A)
        expected = np.einsum("i,ijk->jk", omega, each**2)
        np.testing.assert_allclose(sums.squares, expected, rtol=EXACT_STEP, atol=EXACT_STEP)


def test_blocks_of_samples_change_nothing_but_the_order_of_sums():
    problem, data, params = begun("log_loss", "tanh", WEIGHTS)
    whole = measure(problem, data, params)
    blocks = measure(problem, Data(data.x, data.y, Samples(jnp.asarray(WEIGHTS), 5), None), params)
    for one, two in zip(jax.tree.leaves(whole), jax.tree.leaves(blocks), strict=True):
        np.testing.assert_allclose(one, two, rtol=EXACT_STEP, atol=EXACT_STEP)


def test_moments_come_from_a_part_of_many_samples_and_stand_for_all():
    problem = Problem.dense((2, 3, 2), loss="squared_error")
    assert set(probe_every(problem, 40)) == {1}
    assert set(probe_every(problem, 1000)) == {41}  # 8 samples per unit
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(4000, 2)), rng.normal(size=(4000, 2))
    data = make_data(problem, jnp.asarray(x), jnp.asarray(y), None, 2, with_gram=False)
    measured = measure(problem, data, initial_params(problem, "he", 0, jnp.float64))
    assert measured.layers[0].inputs[-1, -1] == pytest.approx(4000, rel=ROUNDING)


@pytest.mark.parametrize("weighted", [False, True])
def test_which_samples_are_taken_does_not_depend_on_the_blocks(weighted):
    weights = jnp.arange(1.0, 61.0) if weighted else None
    taken = {}
    for rows in (60, 20, 12, 5):
        taken[rows] = []
        for start in range(0, 60, rows):
            places = jnp.arange(start, start + rows)
            own = None if weights is None else weights[start : start + rows]
            chosen, few = probe(places, own, 7, jnp.float64)
            taken[rows] += [
                (int(places[i]), float(w)) for i, w in zip(chosen, few, strict=True) if w
            ]
    expected = [(k, k + 1.0 if weighted else 1.0) for k in range(0, 60, 7)]
    assert all(found == expected for found in taken.values())
    assert probe(jnp.arange(5), None, 1, jnp.float64) == (None, None)


# The step.


def test_the_step_minimises_its_quadratic_model():
    problem, data, params = begun("log_loss", "tanh")
    sums = measure(problem, data, params).layers[1]
    m = restored.metric(sums, sums.gradient, jnp.asarray(1.7))
    K, S = np.asarray(sums.inputs), np.asarray(sums.outputs)
    inner = K + restored.DELTA * np.mean(np.diag(K)) * np.eye(len(K))
    outer = S / np.mean(np.diag(S)) + restored.EPSILON * np.eye(len(S))
    outer *= 1.7 / (1 + restored.EPSILON)
    slope = np.asarray(sums.gradient) + outer @ np.asarray(m.direction) @ inner
    assert np.abs(slope).max() <= EXACT_STEP * np.abs(sums.gradient).max()


@pytest.mark.parametrize("term", [L1(0.5), Box(-0.3, 0.2)], ids=str)
def test_the_prox_in_the_metric_lowers_its_model_towards_the_minimum(term):
    problem, data, params = begun("squared_error", "tanh")
    sums = measure(problem, data, params).layers[1]
    m = restored.metric(sums, sums.gradient, jnp.asarray(1.0))
    layer, t = problem.layers[1], jnp.asarray(2.0)
    V = layer.to_matrix(term.prox(params.W[1], 0.0), params.b[1])
    G = sums.gradient

    def model(new):
        D = new - V
        quadratic = jnp.sum((m.outputs @ D @ m.inputs) * D) / (2 * t)
        return float(jnp.sum(G * D) + quadratic + term.value(new[:, :-1]))

    few = model(prox_in_metric(layer, term, V, G, m, t))
    # The oracle: plain proximal gradient steps in NumPy, very many of them.
    bound = np.linalg.norm(m.inputs, 2) * np.linalg.norm(m.outputs, 2) / float(t)
    best = np.asarray(V)
    for _ in range(20_000):
        slope = G + m.outputs @ (best - V) @ m.inputs / t
        moved = np.asarray(best - slope / bound)
        best = np.hstack([np.asarray(term.prox(moved[:, :-1], 1 / bound)), moved[:, -1:]])
    assert few < model(V)
    assert few - model(best) <= INNER_PROX * (model(V) - model(best))


def test_a_step_far_too_long_is_shortened_until_the_loss_falls():
    problem, data, params = begun("log_loss", "relu")
    state = restored.begin(problem, data, params)
    far = state._replace(step=jnp.asarray(1e6))
    new, record = restored.restored_sweep(problem, data, far)
    assert record.accepted
    assert record.trials > 3
    assert objective(problem, data, new.params) < objective(problem, data, params)
    assert new.step < 1e6


def test_a_network_without_error_stays_where_it_is():
    problem, params, x, _ = teacher("relu")
    # Of eighths: no product or sum is rounded, so the error is zero on any processor.
    params, x = jax.tree.map(lambda v: np.round(8 * v) / 8, (params, x))
    y = network(params, x, relu)
    data = make_data(problem, jnp.asarray(x), jnp.asarray(y), None, with_gram=False)
    state = restored.begin(problem, data, jax.tree.map(jnp.asarray, params))
    new, record = restored.restored_sweep(problem, data, state)
    assert not record.accepted
    assert all(
        np.array_equal(a, b)
        for a, b in zip(jax.tree.leaves(new.params), jax.tree.leaves(params), strict=True)
    )
    assert float(record.gradient) == 0


# Whole runs.

MONOTONE = [
    ("log_loss", "relu", "none"),
    ("log_loss", "sign", L2(0.1)),
    ("hinge", "leaky_relu", "none"),
    ("squared_error", "tanh", L1(0.5)),
    ("absolute_error", "step", "none"),
    ("huber", "softplus", Box(-0.4, 0.3)),
    ("squared_error", "quantized_relu", "non_negative"),
]


@pytest.mark.parametrize(("loss", "activation", "regularizer"), MONOTONE, ids=str)
def test_the_true_loss_never_rises(loss, activation, regularizer):
    values = []
    problem, x, y = small("log_loss" if loss in ("log_loss", "hinge") else "squared_error")
    problem = Problem.dense((4, 5, 3), activation, loss, regularizer)
    data = make_data(problem, jnp.asarray(x), jnp.asarray(y), None, with_gram=False)
    result = solve(
        problem, x, y,
        options=Options(method="restored", max_iter=25, tol=None, dtype="float64"),
        callback=lambda p: values.append(float(objective(problem, data, p.params))) and None,
    )  # fmt: skip
    recorded = result.history["lagrangian"]
    for course in (values, recorded):
        assert all(after <= before for before, after in pairwise(course))
    np.testing.assert_allclose(values, recorded, rtol=EXACT_STEP)
    assert values[-1] < values[0]
    assert result.certificate.rises == 0
    assert 0 < result.certificate.accepted <= 1


def test_without_the_safeguard_it_rises(monkeypatch):
    monkeypatch.setattr(restored, "accepts", lambda rise, promised: jnp.isfinite(rise))
    jax.clear_caches()
    history = run("log_loss", max_iter=60).history["lagrangian"]
    jax.clear_caches()
    assert any(after > before for before, after in pairwise(history))


def test_it_goes_below_what_the_papers_method_reaches_in_as_many_iterations():
    paper = run("log_loss", method="dladmm", rho=1.2, init="he", evaluate_every=1)
    ours = run("log_loss", init="he")
    assert ours.history["train_loss"][-1] < 0.5 * paper.history["train_loss"][-1]


def test_l1_gives_exact_zeros_and_a_box_holds():
    sparse, boxed = run(regularizer=L1(3.0)), run(regularizer=Box(-0.25, 0.4))
    assert sum(int((W == 0).sum()) for W in sparse.params.W) >= 5
    assert min(W.min() for W in boxed.params.W) == -0.25
    assert max(W.max() for W in boxed.params.W) <= 0.4
    assert not any((W == 0).any() for W in run().params.W)


def test_weights_are_repetitions():
    problem, x, y = small("log_loss")
    weights = np.random.default_rng(4).integers(0, 3, len(x))
    options = Options(method="restored", max_iter=15, tol=None, dtype="float64", seed=2)
    one = solve(problem, x, y, sample_weight=weights, options=options)
    rows = np.repeat(np.arange(len(x)), weights)
    two = solve(problem, x[rows], y[rows], options=options)
    for name in ("train_loss", "signal", "gradient"):
        np.testing.assert_allclose(one.history[name], two.history[name], rtol=WEIGHTED_RUN)


def test_the_unit_of_the_targets_does_not_matter():
    problem, x, y = small()
    options = Options(method="restored", max_iter=15, tol=None, dtype="float64")
    one = solve(problem, x, y, options=options).history["train_loss"]
    two = solve(problem, x, 1000 * y + 7, options=options).history["train_loss"]
    np.testing.assert_allclose(np.array(two) / 1e6, one, rtol=WEIGHTED_RUN)


def test_a_run_converges_and_says_so():
    still = {"residual_tol": 1e-6, "patience": 3}
    result = run("squared_error", activation="tanh", regularizer=L2(3.0), max_iter=3000, **still)
    assert result.status == Status.TOL
    assert "true loss rose" in result.certificate.summary()
    first = result.history["gradient"][0]
    assert result.certificate.subgradient_norm < 1e-3 * first


def test_records_belong_to_the_network_returned():
    _, x, y = small()
    result = run()
    error = ((network(result.params, x, relu) - y) ** 2).sum(1).mean() / 2
    assert result.history["train_loss"][-1] == pytest.approx(error, rel=ROUNDING)
    assert set(result.history["residual"]) == {0.0}
    assert np.abs(result.history["gap"]).max() <= ROUNDING * result.history["train_loss"][0]


def test_an_infinite_start_is_reported_not_followed():
    problem, x, y = small("squared_error")
    huge = initial_params(problem, "he", 0, jnp.float64)
    huge = Params(tuple(1e200 * W for W in huge.W), huge.b)
    options = Options(method="restored", max_iter=5, dtype="float64")
    result = solve(problem, x, y, options=options, params=huge)
    assert result.status == Status.DIVERGED
    assert "not finite at the start" in result.message


# Signal and noise.


def test_the_signal_is_the_mean_squared_gradient_over_its_sampling_variance():
    problem, data, params = begun("log_loss", "tanh")
    measured = measure(problem, data, params)
    n, ratios = len(data.x), []
    for A, r in zip(*per_sample(problem, data, params), strict=True):
        each = np.einsum("ij,ik->ijk", r, A)
        ratios.append((n * each.mean(0) ** 2 / each.var(0)).ravel())
    expected = np.concatenate(ratios).mean()
    assert signal_to_noise(measured, data) == pytest.approx(expected, rel=EXACT_STEP)


@pytest.mark.parametrize(("learnable", "low", "high"), [(False, 0.7, 1.4), (True, 5.0, np.inf)])
def test_the_signal_of_noise_is_about_one(learnable, low, high):
    problem = Problem.dense((3, 4, 1), "tanh", "squared_error")
    params = initial_params(problem, "he", 0, jnp.float64)
    params = Params((params.W[0], 0.01 * params.W[1]), params.b)  # predicts about nothing
    rng, signals = np.random.default_rng(1), []
    for _ in range(60):
        x = rng.normal(size=(500, 3))
        y = np.sin(x[:, :1]) if learnable else rng.normal(size=(500, 1))
        data = make_data(problem, jnp.asarray(x), jnp.asarray(y), None, with_gram=False)
        signals.append(signal_to_noise(measure(problem, data, params), data))
    assert low < np.mean(signals) < high


def test_a_common_factor_of_small_weights_is_not_fewer_samples():
    problem, data, params = begun("log_loss", "tanh")
    signals = []
    for factor in (1.0, 1e-3):
        weighted = Data(data.x, data.y, Samples(jnp.full(40, factor)), None)
        measured = measure(problem, weighted, params)
        signals.append(float(signal_to_noise(measured, weighted)))
    assert signals[1] == pytest.approx(signals[0], rel=WEIGHTED_RUN)
