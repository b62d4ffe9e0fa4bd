"""The evidence against marginal likelihoods that are known exactly, and what a run makes of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from tolerances import EVIDENCE, EXACT_STEP, FLOAT32_EVIDENCE, ROUNDING

from dladmm import Checkpoints, Options, Problem, solve
from dladmm.core.data import make_data
from dladmm.core.params import Params, forward
from dladmm.core.restored import evidence
from dladmm.core.restored.evidence import Weighing, curvature, effective_parameters, found
from dladmm.terms.losses import losses
from dladmm.terms.regularizers import L2, Evidence

BENDS = ["squared_error", "log_loss", "binary_log_loss", "multilabel_log_loss", "poisson"]


def linear_data(n=40, d=6):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(n, d)) * np.geomspace(0.3, 3, d)
    return x, x @ rng.normal(size=d) * 0.3 + 2 + rng.normal(size=n)


def ridge(x, y, alpha):
    """The exact minimiser of 1/2 |x w + b - y|^2 + alpha/2 |w|^2."""
    centred = x - x.mean(0)
    w = np.linalg.solve(centred.T @ centred + alpha * np.eye(x.shape[1]), centred.T @ y)
    return w, y.mean() - x.mean(0) @ w


def log_marginal_likelihood(log_alpha, log_noise, x, y):
    """log p(y) of y = b + x w + noise, w ~ N(0, noise/alpha), b with a flat prior: the density of
    y's part beside the constant, by its covariance matrix."""
    n = len(y)
    beside = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, 1:]
    noise, alpha = jnp.exp(log_noise), jnp.exp(log_alpha)
    covariance = noise * (jnp.eye(n - 1) + beside.T @ x @ x.T @ beside / alpha)
    z = beside.T @ y
    return -jnp.linalg.slogdet(covariance)[1] / 2 - z @ jnp.linalg.solve(covariance, z) / 2


def test_a_linear_model_gets_the_strength_of_the_largest_marginal_likelihood():
    x, y = linear_data()
    slope = jax.grad(lambda v: log_marginal_likelihood(v[0], v[1], x, y))
    exact = scipy.optimize.root(lambda v: np.asarray(slope(v)), np.zeros(2), tol=1e-12)
    assert np.abs(slope(exact.x)).max() < 1e-10
    problem = Problem.dense((6, 1), loss="squared_error", regularizer=Evidence())
    data = make_data(problem, jnp.asarray(x), jnp.asarray(y[:, None]), None)
    at = Weighing(jnp.ones(1), *jnp.ones(3))
    for _ in range(200):
        w, b = ridge(x, y, float(at.strengths[0]))
        risk = jnp.sum((x @ w + b - y) ** 2) / 2
        at = found(problem, data, Params((w[None],), (np.array([b]),)), risk, at)
    got = np.array([np.log(at.strengths[0]), np.log(at.noise)])
    np.testing.assert_allclose(got, exact.x, atol=EVIDENCE)
    # A control: half a percent off, the likelihood's slope is seen.
    assert np.abs(slope(exact.x + 0.005)).max() > 1e3 * np.abs(slope(jnp.asarray(got))).max()


def last_layer(name, weights):
    """A network whose first layer is held still by an infinite strength, and its exact gamma."""
    rng = np.random.default_rng(5)
    outputs = 3 if losses.get(name).classifies else 2
    n, x = 30, rng.normal(size=(30, 4))
    y = np.eye(outputs)[rng.integers(outputs, size=n)]
    y = y if losses.get(name).classifies else rng.poisson(1.0, (n, outputs)) * 1.0
    problem = Problem.dense((4, 5, outputs), "tanh", name, Evidence())
    W = tuple(rng.normal(size=layer.weight_shape) / 2 for layer in problem.layers)
    params = Params(W, tuple(np.zeros(layer.bias_shape) for layer in problem.layers))
    alpha = 0.7

    def risk(v):
        changed = Params((W[0], v[:-outputs].reshape(W[1].shape)), (params.b[0], v[-outputs:]))
        return weights @ problem.loss.value(forward(problem, changed, x), jnp.asarray(y))

    H = np.asarray(jax.hessian(risk)(jnp.concatenate([W[1].ravel(), params.b[1]])))
    in_w, in_b, mixed = H[:-outputs, :-outputs], H[-outputs:, -outputs:], H[:-outputs, -outputs:]
    beside = in_w - mixed @ np.linalg.pinv(in_b) @ mixed.T
    exact = np.trace(np.linalg.solve(beside + alpha * np.eye(len(beside)), beside))
    strengths = jnp.array([1e30, alpha])
    G, B = curvature(problem, params, x, jnp.asarray(y), jnp.asarray(weights), strengths)
    return G, B, exact, np.linalg.matrix_rank(in_b)


@pytest.mark.parametrize("name", BENDS)
def test_a_last_layer_has_the_effective_parameters_of_its_exact_hessian(name):
    G, B, exact, rank = last_layer(name, np.random.default_rng(0).uniform(0.5, 2, 30))
    gamma, free = effective_parameters(G, B)
    assert float(gamma) == pytest.approx(exact, rel=EVIDENCE)
    assert float(free) == pytest.approx(rank, rel=ROUNDING)
    assert float(effective_parameters(G, 0 * B)[0]) > exact * 1.001  # a control: biases matter


@pytest.mark.parametrize("name", list(losses))
def test_roots_of_the_curvature_give_the_hessian(name):
    loss, rng = losses.get(name), np.random.default_rng(1)
    z = jnp.asarray(rng.normal(size=(7, 3)))
    y = jnp.asarray(np.eye(3)[rng.integers(3, size=7)])
    roots = loss.curvature_roots(z, y)
    assert (roots is not None) == (name in BENDS)
    if roots is not None:
        hessian = jax.vmap(jax.hessian(lambda z, y: loss.value(z[None], y[None])[0]))(z, y)
        np.testing.assert_allclose(
            jnp.einsum("nki,nkj->nij", roots, roots), hessian, atol=EXACT_STEP
        )
        assert np.abs(hessian).max() > 0.1


def test_two_classes_need_one_root():
    loss, z = losses.get("log_loss"), jnp.asarray([[0.3, -1.0], [2.0, 2.5]])
    roots = loss.curvature_roots(z, z)
    assert roots.shape == (2, 1, 2)
    hessian = jax.vmap(jax.hessian(lambda z: jax.nn.logsumexp(z)))(z)
    np.testing.assert_allclose(jnp.einsum("nki,nkj->nij", roots, roots), hessian, atol=EXACT_STEP)


def classes(n=150, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4))
    labels = (x[:, 0] * x[:, 1] > 0).astype(int) + (x[:, 2] > 1)
    return x, np.eye(3)[labels]


NETWORK = Problem.dense((4, 12, 3), "tanh", "log_loss", Evidence())


def run(problem=NETWORK, data=None, weights=None, checkpoints=None, **options):
    x, y = classes() if data is None else data
    options = {"dtype": "float64", "max_iter": 30, "tol": None} | options
    return solve(
        problem, x, y, sample_weight=weights, options=Options(**options), checkpoints=checkpoints
    )


def test_a_weight_of_two_is_a_row_given_twice():
    x, y = classes(60)
    twice = run(data=(np.repeat(x, 2, axis=0), np.repeat(y, 2, axis=0)), init="he")
    weighted = run(data=(x, y), weights=np.full(60, 2.0), init="he")
    for name in ("effective_parameters", "alpha", "train_loss"):
        np.testing.assert_allclose(twice.history[name], weighted.history[name], rtol=1e-7)
    alone = run(data=(x, y), init="he")
    assert abs(alone.history["alpha"][-1] / twice.history["alpha"][-1] - 1) > 0.01  # a control


def test_weights_that_add_up_to_one_are_not_one_row():
    alone, shares = run(), run(weights=np.full(150, 1 / 150))
    for name in ("effective_parameters", "noise", "train_loss"):
        np.testing.assert_allclose(shares.history[name], alone.history[name], rtol=1e-6)
    np.testing.assert_allclose(150 * np.array(shares.history["alpha"]), alone.history["alpha"])


def test_a_run_counts_rises_at_constant_strengths_only():
    result = run()
    alpha, F = (np.array(result.history[name]) for name in ("alpha", "lagrangian"))
    assert result.certificate.rises == 0
    assert "Strength of l2" in result.certificate.summary()
    held = np.flatnonzero(np.diff(alpha) == 0)
    assert 5 < len(held) < len(alpha) - 5  # the strengths changed, and were held
    assert (np.diff(F)[held] < 0).all()


def test_it_goes_on_to_the_same_bits(tmp_path):
    first = run(max_iter=7, checkpoints=Checkpoints(tmp_path, every=3))
    resumed = run(checkpoints=Checkpoints(tmp_path, every=100, resume=True))
    assert resumed.resumed_from == 6 < first.n_iter
    alone = run()
    assert resumed.history["alpha"] == alone.history["alpha"]
    for one, other in zip(resumed.params.W, alone.params.W, strict=True):
        np.testing.assert_array_equal(one, other)


def test_rows_that_stand_for_all_give_nearly_the_same_strength(monkeypatch):
    data, found = classes(600), []
    for columns in (1800, 600):  # all, and those of every third sample
        monkeypatch.setitem(evidence.COLUMNS, "classes", columns)
        jax.clear_caches()  # a compiled program remembers the number
        found.append(run(data=data).history["effective_parameters"][-1])
    jax.clear_caches()
    ratio = found[1] / found[0]
    assert ratio != 1
    assert 0.8 < ratio < 1.25


@pytest.mark.float32
def test_float32_finds_the_strength_of_float64():
    """G is ill-conditioned where a weak prior meets large inputs."""
    x, y = classes(300)
    strengths = (1e-4, 1e-4)
    network = run(data=(x, y), max_iter=3).params
    found = []
    for dtype in (jnp.float32, jnp.float64):
        with jax.enable_x64(dtype == jnp.float64):
            params = jax.tree.map(lambda v, t=dtype: jnp.asarray(v, t), network)
            data = make_data(NETWORK, jnp.asarray(30 * x, dtype), jnp.asarray(y, dtype), None)
            at = Weighing(*(jnp.asarray(v, dtype) for v in (strengths, 1.0, 1.0, 1.0)))
            found.append(evidence.weigh(NETWORK, data, params, jnp.ones((), dtype), at))
    assert found[0].gamma.dtype == jnp.float32
    for one, two in zip(*found, strict=True):
        np.testing.assert_allclose(one, two, rtol=FLOAT32_EVIDENCE)


def test_noise_is_not_learned_and_a_clean_target_is():
    rng = np.random.default_rng(0)
    x, new = rng.normal(size=(2, 200, 8))
    problem = Problem.dense((8, 30, 1), "relu", "squared_error", Evidence())

    def held_out_r2(y, y_new, problem, seed=0):
        result = run(problem, (x, y[:, None]), max_iter=120, seed=seed)
        off = np.asarray(forward(problem, result.params, new))[:, 0] - y_new
        return 1 - np.mean(off**2) / np.var(y_new), result.history["noise"][-1]

    noise, noise_new = rng.normal(size=(2, 200))
    free = Problem.dense((8, 30, 1), "relu", "squared_error", L2(1e-4))
    assert held_out_r2(noise, noise_new, problem)[0] > -0.1
    assert held_out_r2(noise, noise_new, free)[0] < -0.5  # a control: without it noise is learned
    clean, sigma = (lambda v: v[:, 0] + np.sin(2 * v[:, 1])), 0.3
    fits, controls = (
        [held_out_r2(clean(x) + sigma * noise, clean(new), one, seed) for seed in range(5)]
        for one in (problem, free)
    )
    score, found_noise = np.mean(fits, axis=0)
    assert score > 0.75
    assert score > np.mean(controls, axis=0)[0] + 0.1
    # The noise is not taken for signal, nor, over several starts, a third of the target for noise.
    assert 0.5 * sigma**2 < found_noise < np.var(clean(x)) / 3


@pytest.mark.parametrize(
    ("problem", "options"),
    [
        (NETWORK, {"method": "dladmm"}),
        (Problem.dense((4, 12, 3), "tanh", "hinge", Evidence()), {}),
        (Problem.dense((4, 12, 3), "sign", "log_loss", Evidence()), {}),
        (Problem.dense((4, 12, 3), "tanh", "log_loss", [Evidence(), L2(1.0)]), {}),
    ],
)
def test_where_it_does_not_apply_it_is_refused_by_name(problem, options):
    with pytest.raises(ValueError, match=r"regularizer=Evidence\(\) does not fit"):
        run(problem, **options)


def test_rare_inputs_do_not_blow_up_the_noise_criterion():
    """A column that few rows have, and every fifth, of which the moments are made, next to nothing
    of: its gradient is not one without noise."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(400, 8))
    x[:, 3:] = 0
    x[::5, 3:] = 1e-6
    for column in range(3, 8):
        x[1 + 5 * rng.choice(80, 3, replace=False), column] = 1
    y = x[:, :1] + 3 * x[:, 3:].sum(1, keepdims=True) + rng.normal(size=(400, 1))
    problem = Problem.dense((8, 10, 1), "relu", "squared_error", L2(1e-4))
    result = run(problem, (x, y), max_iter=20)
    assert np.max(result.history["signal"]) < len(x)
