"""Every method on every kind of network: gradients, descent, Property 2, both engines, devices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agreement import apart, check_agreement
from small_networks import CNN, NETWORKS, RECURRENT, RESIDUAL, samples_of
from tolerances import EXACT_STEP, FLOAT32_ENGINES, LAGRANGIAN_RISE

from dladmm import Checkpoints, Options, Params, Problem, solve
from dladmm.core.initial import initial_params
from dladmm.core.params import forward
from dladmm.core.relaxed import matrix_steps, updates
from dladmm.core.relaxed.zl_solvers import zl_solvers
from dladmm.core.restored.point import restore
from dladmm.network import Conv1D, Dense, MaxPool, Network
from dladmm.terms.layers import Joined, Layer, layers

N = 30
each_network = pytest.mark.parametrize("name", NETWORKS)
LOCAL = {"dtype": "float64", "engine": "numpy", "tol": None}


def drawn(network, seed=0, n=N):
    rng = np.random.default_rng(seed)
    return samples_of(network, rng, n), np.eye(3)[rng.integers(0, 3, n)]


def network_and_gradient(name):
    """Params as JAX arrays, the gradient of restored sweeps, and that of jax.grad."""
    problem = Problem.of_network(NETWORKS[name])
    x, y = drawn(NETWORKS[name])
    start = initial_params(problem, "paper", 0, np.dtype(np.float64))  # no ties of zeros
    params = Params(*(tuple(map(jnp.asarray, part)) for part in start))
    point = restore(problem, params, jnp.asarray(x), jnp.asarray(y))
    pairs = zip(problem.layers, point.targets, point.inputs, strict=True)
    found = [layer.from_matrix(layer.gradient_matrix(r, a, None)) for layer, r, a in pairs]
    value = lambda p: jnp.sum(problem.loss.value(forward(problem, p, jnp.asarray(x)), y))  # noqa: E731
    blocks = zip(problem.layers, *jax.grad(value)(params), strict=True)
    expected = [layer.from_matrix(layer.to_matrix(G, g)) for layer, G, g in blocks]
    return problem, start, found, expected


@each_network
def test_gradients_of_restored_sweeps_are_those_of_jax(name):
    problem, start, found, expected = network_and_gradient(name)
    size = max(float(jnp.abs(v).max()) for v in jax.tree.leaves(expected))
    for one, two in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert float(jnp.abs(one - two).max()) <= EXACT_STEP * size
    x, y = drawn(NETWORKS[name])
    point = restore(problem, start, x, y)  # of NumPy
    blocks = zip(problem.layers, point.targets, point.inputs, expected, strict=True)
    for layer, r, a, (G, _) in blocks:
        assert np.abs(layer.adjoint_W(r, a, None) - G).max() <= EXACT_STEP * size


def test_a_recurrence_that_forgets_its_later_steps_has_another_gradient(monkeypatch):
    def without_time(self, W, z, g, target):
        return target(z, g)

    monkeypatch.setattr(Joined, "run_back", without_time)
    _, _, found, expected = network_and_gradient("recurrent")
    assert float(jnp.abs(found[0][0] - expected[0][0]).max()) > 1e-3


# dlADMM.


def relaxed_run(network, rule, n_iter=200):
    problem = Problem.of_network(network)
    x, y = drawn(network)
    options = Options(method="dladmm", rho=1.5, nu=1.0, step_rule=rule, max_iter=n_iter, **LOCAL)
    return solve(problem, x, y, options=options)


def largest_rise(result):
    values = np.array(result.history["lagrangian"])
    return float(np.max(np.diff(values) / np.abs(values[:-1])))


@pytest.mark.parametrize("rule", ["closed-form", "matrix", "over-relaxed"])
@pytest.mark.parametrize(
    "name", ["cnn", "pooled", "grouped", "residual", "recurrent", "masked", "skips"]
)
def test_dladmm_descends_in_every_iteration(name, rule):
    result = relaxed_run(NETWORKS[name], rule)
    assert result.n_iter == 200
    assert largest_rise(result) <= LAGRANGIAN_RISE
    certificate = result.certificate
    assert certificate.rho_exceeds_2H
    assert certificate.rises == 0
    assert certificate.sufficient_descent  # Property 2
    assert certificate.least_C2 > 0
    assert certificate.lemma2_violation <= 1e-8


@pytest.mark.parametrize("network", [RECURRENT, RESIDUAL])
def test_a_step_that_forgets_a_reader_does_not_descend(network, monkeypatch):
    """A control: a tau of one reader alone, without the next step in time or the skip."""
    monkeypatch.setattr(updates, "added", lambda parts: list(parts)[-1] * 0.1)
    assert largest_rise(relaxed_run(network, "closed-form", 50)) > 1e-3


@pytest.mark.parametrize("name", ["cnn", "residual", "recurrent"])
def test_a_theta_below_K_breaks_property_2(name, monkeypatch):
    """A control: steps thirty times as long are those of a theta of (K + d I)/30."""
    honest = matrix_steps._length

    def too_long(*given):
        t, record = honest(*given)
        return 30 * t, record._replace(moved=900 * record.moved)

    monkeypatch.setattr(matrix_steps, "_length", too_long)
    certificate = relaxed_run(NETWORKS[name], "matrix", 30).certificate
    assert certificate.rho_exceeds_2H
    assert certificate.sufficient_descent is False


@pytest.mark.parametrize("name", ["cnn", "residual", "recurrent"])
def test_an_output_beside_its_argmin_violates_lemma_2(name, monkeypatch):
    """A control: z_L a thousandth of itself away from where Newton has put it."""
    solver = zl_solvers["newton"]

    def beside(*given):
        z, used = solver(*given)
        return 1.001 * z, used

    monkeypatch.setitem(zl_solvers, "newton", beside)
    assert relaxed_run(NETWORKS[name], "matrix", 10).certificate.lemma2_violation > 1e-5


@pytest.mark.parametrize("name", ["cnn", "residual", "recurrent", "masked"])
def test_running_products_are_those_of_the_state(name):
    """p is changed along with W and a, never computed anew within a sweep."""
    problem = Problem.of_network(NETWORKS[name])
    result = relaxed_run(NETWORKS[name], "closed-form", 10)
    x, _ = drawn(NETWORKS[name])
    state = result.state
    for l, layer in enumerate(problem.layers):
        p = layer.apply(state.W[l], problem.inputs_of(l, x, state.a))
        np.testing.assert_allclose(state.p[l], p, atol=1e-10)


# Restored sweeps.


@each_network
def test_restored_sweeps_never_raise_the_loss(name):
    network = NETWORKS[name]
    x, y = drawn(network)
    result = solve(Problem.of_network(network), x, y, options=Options(max_iter=15, **LOCAL))
    losses = np.array(result.history["lagrangian"])
    assert (np.diff(losses) <= 0).all()
    assert losses[-1] < 0.97 * losses[0]
    assert result.certificate.rises == 0


@pytest.mark.parametrize("name", ["cnn", "grouped", "residual", "recurrent", "masked"])
def test_mini_batches_learn(name):
    network = NETWORKS[name]
    x, y = drawn(network)
    options = Options(batch_size=8, max_iter=20, **LOCAL)
    losses = solve(Problem.of_network(network), x, y, options=options).history["train_loss"]
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize("name", ["cnn", "pooled", "grouped", "residual", "skips"])
def test_closed_targets_need_no_derivative(name):
    network = NETWORKS[name]
    x, y = drawn(network)
    options = Options(targets="closed", max_iter=15, **LOCAL)
    result = solve(Problem.of_network(network), x, y, options=options)
    losses = np.array(result.history["lagrangian"])
    assert (np.diff(losses) <= 0).all()
    assert losses[-1] < 0.99 * losses[0]


AGREEING = ["cnn", "pooled", "grouped", "residual", "recurrent", "masked"]


def by_engine(engine, name, dtype, **how):
    network = NETWORKS[name]
    x, y = drawn(network)
    how = LOCAL | {"rho": 1.5, "max_iter": 20, "engine": engine, "dtype": dtype} | how
    return solve(Problem.of_network(network), x, y, options=Options(**how))


@pytest.mark.parametrize("method", ["restored", "dladmm"])
@pytest.mark.parametrize("dtype", ["float64", pytest.param("float32", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", AGREEING)
def test_both_engines_agree(name, dtype, method):
    runs = [by_engine(engine, name, dtype, method=method) for engine in ("numpy", "jax")]
    check_agreement(*runs, dtype)


def kinds(layer):
    """The class of a layer, and those of the layers it is made of."""
    yield type(layer)
    for value in vars(layer).values():
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, Layer):
                yield from kinds(one)


def test_every_layer_of_the_library_is_in_a_network_whose_engines_agree():
    graphs = [NETWORKS[name].graph for name in AGREEING]
    found = {kind for graph in graphs for layer in graph.layers for kind in kinds(layer)}
    known = {type(layers.get(name)) for name in layers}
    assert {kind for kind in known if kind.__module__.startswith("dladmm.")} - found == set()


def test_engines_that_differ_are_told_apart():
    one = by_engine("numpy", "cnn", "float64")
    assert apart(one, by_engine("jax", "cnn", "float64", seed=1)) > FLOAT32_ENGINES


def test_rows_by_blocks_give_the_same_run(monkeypatch):
    """As a large run takes them: 30 rows in 5 blocks."""
    whole = relaxed_run(CNN, "closed-form", 10).history["lagrangian"]
    monkeypatch.setattr("dladmm.engine.walks.BLOCK_ROWS", 6)
    blocks = relaxed_run(CNN, "closed-form", 10).history["lagrangian"]
    np.testing.assert_allclose(blocks, whole, rtol=1e-9)


@pytest.mark.parametrize("method", ["restored", "dladmm"])
def test_a_checkpoint_of_a_graph_goes_on_with_the_same_bits(method, tmp_path):
    x, y = drawn(RESIDUAL)

    def run(n_iter, **more):
        options = Options(method=method, rho=1.5, max_iter=n_iter, **LOCAL)
        return solve(Problem.of_network(RESIDUAL), x, y, options=options, **more)

    run(6, checkpoints=Checkpoints(tmp_path, every=4))
    resumed = run(8, checkpoints=Checkpoints(tmp_path, every=4, resume=True))
    whole = run(8)
    assert resumed.resumed_from == 4
    for one, two in zip(resumed.params.W, whole.params.W, strict=True):
        np.testing.assert_array_equal(one, two)


def test_methods_refuse_what_they_cannot_have():
    x, y = drawn(CNN)
    with pytest.raises(ValueError, match="method='admm' solves a by least squares"):
        solve(Problem.of_network(CNN), x, y, options=Options(method="admm"))
    curved = NETWORKS["sequence"]
    x, y = drawn(curved)
    network = Network((9, 2), [Conv1D(4, 3), "tanh", MaxPool(2), Dense(3)])
    for options in (Options(method="dladmm"), Options(targets="closed")):
        with pytest.raises(
            ValueError, match=r"max pooling after .* has no argmin_z in closed form"
        ):
            solve(Problem.of_network(network), x, y, options=options)
