"""The baselines against optimisers written out by hand, and the trainers as iterators."""

from itertools import islice

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.neural_network import MLPRegressor
from tolerances import EXACT_STEP, FLOAT32_STEP

from dladmm import Params, Problem, forward
from dladmm.core.evaluate import evaluate
from dladmm.core.initial import initial_params
from dladmm.experiments import baselines
from dladmm.terms.regularizers import L2

N = 50


def course(dtype=np.float64, regularizer="none"):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 4)).astype(dtype)
    y = np.eye(3, dtype=dtype)[rng.integers(0, 3, N)]
    problem = Problem.dense((4, 6, 3), "tanh", "log_loss", regularizer)
    return problem, (x, y, None), initial_params(problem, "he", 0, jnp.dtype(dtype))


def mean_objective(problem, arrays, params):
    x, y, _ = arrays
    value = jnp.sum(problem.loss.value(forward(problem, params, x), y))
    return (
        value + sum(t.value(W) for t, W in zip(problem.regularizers, params.W, strict=True))
    ) / N


def test_full_batch_sgd_is_the_gradient_times_the_rate():
    problem, arrays, params = course(regularizer=L2(0.3))
    gradient = jax.grad(lambda p: mean_objective(problem, arrays, p))(params)
    new = next(baselines.full_batch(problem, arrays, params, 0, name="sgd", rate=0.1)).params
    for one, old, g in zip(*(jax.tree.leaves(t) for t in (new, params, gradient)), strict=True):
        np.testing.assert_allclose(one, old - 0.1 * g, rtol=EXACT_STEP, atol=EXACT_STEP)


def test_adam_is_adam():
    problem, arrays, params = course()
    trainer = baselines.full_batch(problem, arrays, params, 0, name="adam", rate=0.01)
    got = list(islice(trainer, 3))[-1].params
    m = v = jax.tree.map(jnp.zeros_like, params)
    for k in range(1, 4):
        g = jax.grad(lambda p: mean_objective(problem, arrays, p))(params)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        first, second = 1 - 0.9**k, 1 - 0.999**k

        def step(p, m, v, first=first, second=second):
            return p - 0.01 * (m / first) / (jnp.sqrt(v / second) + 1e-8)

        params = jax.tree.map(step, params, m, v)
    for one, two in zip(jax.tree.leaves(got), jax.tree.leaves(params), strict=True):
        np.testing.assert_allclose(one, two, rtol=EXACT_STEP, atol=EXACT_STEP)


@pytest.mark.parametrize("name", sorted(baselines.OPTIMISERS))
def test_every_optimiser_lowers_the_loss(name):
    problem, arrays, params = course()
    rate = 1.0 if name == "adadelta" else 0.02
    start = mean_objective(problem, arrays, params)
    trainer = baselines.full_batch(problem, arrays, params, 0, name=name, rate=rate)
    last = list(islice(trainer, 15))[-1].params
    assert mean_objective(problem, arrays, last) < start


@pytest.mark.float32
def test_trainers_yield_as_often_as_asked():
    assert [k for k in range(1, 11) if baselines.is_due(k, 10, 4)] == [3, 5, 8, 10]
    assert [k for k in range(1, 4) if baselines.is_due(k, 3, 1)] == [3]
    problem, arrays, params = course(np.float32)
    settings = {"size": 16, "per_epoch": 2}
    for trainer in (
        baselines.restored_batches(problem, arrays, params, 0, **settings),
        baselines.restored(problem, arrays, params, 0),
        baselines.scikit_learn(problem, arrays, params, 0),
        baselines.scikit_learn(*numbers(), 0),
    ):
        networks = [made.params for made in islice(trainer, 3)]
        assert all(isinstance(n, Params) for n in networks)
        assert len({float(network.W[0][0, 0]) for network in networks}) == 3


def numbers():
    """A regression with one output."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(N, 4)).astype(np.float32)
    y = (x[:, :1] - x[:, 1:2] ** 2).astype(np.float32)
    problem = Problem.dense((4, 6, 1), "relu", "squared_error")
    return problem, (x, y, None), initial_params(problem, "he", 0, jnp.dtype(np.float32))


@pytest.mark.float32
def test_scikit_learns_network_is_read_as_it_predicts():
    problem, arrays, params = numbers()
    network = next(baselines.scikit_learn(problem, arrays, params, 3)).params
    model = MLPRegressor(hidden_layer_sizes=(6,), random_state=3).partial_fit(
        arrays[0], arrays[1][:, 0]
    )
    ours = np.asarray(forward(problem, network, arrays[0]))[:, 0]
    np.testing.assert_allclose(ours, model.predict(arrays[0]), rtol=FLOAT32_STEP, atol=1e-5)


@pytest.mark.parametrize("name", ["adam", "adagrad", "lbfgs"])
def test_many_runs_as_one_program_are_the_runs_one_by_one(name):
    problem, arrays, params = course()
    other = initial_params(problem, "he", 1, jnp.dtype(np.float64))
    pairs = [(params, 0.01), (params, 0.03), (other, 0.01)]
    together = baselines.full_batches(problem, arrays, *zip(*pairs, strict=True), name)
    made = list(islice(together, 4))
    for k, (start, rate) in enumerate(pairs):
        alone = baselines.full_batch(problem, arrays, start, 0, name=name, rate=rate)
        for mine, single in zip(made, alone, strict=False):
            assert mine.before.loss[k] == pytest.approx(float(single.before.loss), rel=1e-9)
            pairs_of = zip(*map(jax.tree.leaves, (mine.params, single.params)), strict=True)
            for a, b in pairs_of:
                np.testing.assert_allclose(a[k], b, rtol=1e-7, atol=1e-9)


def test_a_step_tells_of_the_network_it_began_from():
    problem, arrays, params = course(regularizer=L2(0.3))
    made = next(baselines.full_batch(problem, arrays, params, 0, name="sgd", rate=0.1))
    x, y, _ = arrays
    expected = evaluate(problem, params, x, y)
    assert float(made.before.loss) == pytest.approx(float(expected.loss), rel=1e-12)
    assert float(made.before.accuracy) == pytest.approx(float(expected.accuracy), rel=1e-12)
