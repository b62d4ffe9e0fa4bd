"""Restored sweeps over mini-batches: one step by hand, the guard, and what is read of the data."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import inputs, small, targets
from tolerances import EXACT_STEP, ROUNDING

from dladmm import Options, Problem, solve
from dladmm.core.data import Data
from dladmm.core.initial import initial_params
from dladmm.core.restored import mini_batch
from dladmm.core.restored.batches import Batches, auto_size
from dladmm.engine.devices import JAX, NUMPY
from dladmm.engine.walks import Samples
from dladmm.terms.regularizers import L1, L2, Box

SIZES = (4, 5, 3)


def batch_of(x, y, weights):
    return Data(jnp.asarray(x), jnp.asarray(y), Samples(jnp.asarray(weights)), None)


def batches(n=10, size=4, weights=None, seed=0):
    x = np.arange(n, dtype=float)[:, None]
    return Batches(x, 2 * x, weights, size, seed)


def run(loss="log_loss", n=200, activation="relu", regularizer="none", resumed=None, **options):
    problem, x, y = small(loss, n, SIZES, activation=activation, regularizer=regularizer)
    settings = {"method": "restored", "batch_size": 32, "max_iter": 15, "tol": None}
    chosen = Options(**settings | {"dtype": "float64"} | options)
    return solve(problem, x, y, options=chosen, stream=resumed)


# Batches.


def shown(source, parts=1):
    """x, y and weights of every batch of an epoch, as a step is handed them, part by part."""

    def step(state, group, count):
        arrays = (group.x, group.y, group.weights)
        return [*state, *([np.array(v[k]) for v in arrays] for k in range(count))], count

    return list(source.stepped(step, [], parts))


def test_an_epoch_shows_every_row_once_and_fills_up_with_weight_zero():
    (seen,) = shown(batches())
    assert [x.shape for x, _, _ in seen] == [(4, 1)] * 3
    rows = [x[i, 0] for x, _, w in seen for i in range(4) if w[i]]
    assert sorted(rows) == list(range(10))
    assert sum(w.sum() for _, _, w in seen) == 10
    assert all((y == 2 * x).all() for x, y, _ in seen)


@pytest.mark.parametrize("engine", [JAX, NUMPY])
def test_groups_and_parts_of_an_epoch_change_nothing(engine):
    x = np.arange(1000.0).reshape(100, 10)
    (whole,) = shown(Batches(x, x, None, 4, 0, engine=engine))
    assert len(whole) == 25
    for parts, ends in ((1, [25]), (2, [12, 25]), (8, [3, 6, 9, 12, 15, 18, 21, 25])):
        for size in (1, 2, 8):
            source = Batches(x, x, None, 4, 0, engine=engine)
            source.group = size
            seen = shown(source, parts)
            assert [len(part) for part in seen] == ends
            assert source.seen == 25
            for one, two in zip(seen[-1], whole, strict=True):
                assert all(map(np.array_equal, one, two))


def test_rows_wait_until_the_program_before_has_read_its_own():
    """Two groups take turns in two places: the third is gathered once the first is done."""
    x = np.arange(400.0).reshape(200, 2)
    source, read = Batches(x, x, None, 4, 0, engine=NUMPY), []

    class Done:
        def __init__(self, group):
            self.group, self.then = group, np.array(group.x)

    def wait_for(done):
        if done is not None:
            np.testing.assert_array_equal(done.group.x, done.then)
            read.append(done)

    object.__setattr__(source, "engine", SimpleNamespace(
        devices=1, mesh=None, wait_for=wait_for, lend_batches=NUMPY.lend_batches
    ))  # fmt: skip
    list(source.stepped(lambda state, group, count: (state, Done(group)), None))
    assert len(read) == 5  # of seven groups, two are still to be waited for
    assert not np.array_equal(read[0].group.x, read[0].then)  # control: its place was taken


def test_rows_of_the_next_part_are_gathered_before_a_look():
    """Whoever looks waits for the last step: the next rows are on their way then."""
    x = np.arange(400.0).reshape(100, 4)
    source, gathered, stepped = Batches(x, x, None, 4, 0, engine=NUMPY), [], []

    def lend_batches(v, rows, **filling):
        gathered.append(v)
        return NUMPY.lend_batches(v, rows, **filling)

    object.__setattr__(source, "engine", SimpleNamespace(
        devices=1, mesh=None, wait_for=lambda done: None, lend_batches=lend_batches
    ))  # fmt: skip
    looks = []
    for _ in source.stepped(lambda state, group, count: (state, stepped.append(count)), None, 2):
        looks.append((len(gathered) // 3, len(stepped)))  # of each group x, y and weights
    assert looks == [(3, 2), (4, 4)]  # 12 batches in groups of eight, and 13


def test_the_order_changes_from_epoch_to_epoch_and_follows_the_seed():
    source = batches()
    one, two = ([x.tolist() for x, _, _ in shown(source)[0]] for _ in range(2))
    assert one != two
    assert one == [x.tolist() for x, _, _ in shown(batches())[0]]
    assert one != [x.tolist() for x, _, _ in shown(batches(seed=1))[0]]


def test_weights_go_with_their_rows():
    weights = np.arange(10, dtype=float)
    for x, _, w in shown(batches(weights=weights))[0]:
        assert all(w[i] in (0, x[i, 0]) for i in range(4))


def test_memory_mapped_rows_are_read_a_batch_at_a_time(tmp_path):
    problem, x, y = small("log_loss", 200, SIZES)
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    options = Options(method="restored", batch_size=32, max_iter=3, tol=None, dtype="float64")
    one, two = (solve(problem, v, y, options=options).params for v in (x, mapped))
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        np.testing.assert_array_equal(a, b)
    source = Batches(mapped, y, None, 32, 0)
    assert isinstance(source.x, np.memmap)
    (first, _, _), *_ = shown(source)[0]
    assert first.shape == (32, 4)


# One step.


def test_a_step_is_the_gradient_in_the_metric_of_the_batch():
    x = inputs(30, SIZES[0])
    y = targets("log_loss", x, SIZES[-1])
    problem = Problem.dense(SIZES, "tanh", "log_loss", L2(0.7))
    params = initial_params(problem, "he", 0, jnp.float64)
    weights, mass = np.ones(30), 300.0
    state = mini_batch.begin(problem, params)
    state = state._replace(scale=jnp.asarray(1e-3))
    one = jnp.asarray(1.0)
    new = mini_batch.batch_step(problem, state, batch_of(x, y, weights), one, jnp.asarray(mass))
    step = float(new.totals.step)

    def mean_loss(W, b):
        z = jnp.tanh(x @ W[0].T + b[0]) @ W[1].T + b[1]
        penalty = 0.35 / mass * sum(jnp.sum(v**2) for v in W)
        return jnp.mean(jax.nn.logsumexp(z, 1) - jnp.sum(y * z, 1)) + penalty

    G, g = jax.grad(mean_loss, argnums=(0, 1))(params.W, params.b)
    A = np.hstack([np.tanh(x @ params.W[0].T + params.b[0]), np.ones((30, 1))])
    r = jax.nn.softmax(A[:, :-1] @ params.W[1].T + params.b[1]) - y
    K, S = A.T @ A / 30, np.asarray(r.T @ r) / 30
    K += mini_batch.DELTA * np.mean(np.diag(K)) * np.eye(len(K))
    S = (S / np.mean(np.diag(S)) + mini_batch.EPSILON * np.eye(3)) / (1 + mini_batch.EPSILON)
    joint = np.hstack([G[1], g[1][:, None]])
    expected = -step * np.linalg.solve(S, joint) @ np.linalg.inv(K)
    moved = np.hstack([new.params.W[1] - params.W[1], (new.params.b[1] - params.b[1])[:, None]])
    assert np.abs(moved - expected).max() <= EXACT_STEP * np.abs(expected).max() * 100


def test_the_cap_bounds_the_step_in_the_norm_of_the_metric():
    problem, x, y = small("log_loss", 30, SIZES)
    params = initial_params(problem, "he", 0, jnp.float64)
    ones = np.ones(30)
    mass = jnp.asarray(30.0)
    lengths = []
    for share in (1.0, 0.25):
        state = mini_batch.begin(problem, params)
        data, part = batch_of(x, y, ones), jnp.asarray(share)
        new = mini_batch.batch_step(problem, state, data, part, mass)
        square = 0.0
        for l, layer in enumerate(problem.layers):
            moved = layer.to_matrix(new.params.W[l] - params.W[l], new.params.b[l] - params.b[l])
            K = matrix(new.moments.inputs[l])
            K += mini_batch.DELTA * np.mean(np.diag(K)) * np.eye(len(K))
            S = matrix(new.moments.outputs[l])
            S = S / np.mean(np.diag(S)) + mini_batch.EPSILON * np.eye(len(S))
            S *= float(new.moments.gains[l]) / (1 + mini_batch.EPSILON)
            square += float(np.sum((S @ moved @ K) * moved))
        lengths.append(np.sqrt(square))
    assert lengths[0] == pytest.approx(mini_batch.RADIUS, rel=ROUNDING)
    assert lengths[1] == pytest.approx(mini_batch.RADIUS / 4, rel=ROUNDING)


def test_the_step_is_halved_after_ten_epochs_or_a_hundred_batches_and_never_vanishes():
    few, many = batches(n=10, size=4), batches(n=300, size=4)  # 3 and 75 batches an epoch
    shares = {
        k: tuple(
            float(mini_batch.share(np.asarray(k), np.asarray(float(v.slow)))) for v in (few, many)
        )
        for k in (0, 100, 750, 10**9)
    }
    assert shares[0] == (1, 1)
    assert (shares[100][0], shares[750][1]) == (0.5, 0.5)
    assert shares[750][0] < 0.2 < shares[100][1]
    assert shares[10**9] == (1 / 11, 1 / (1 + 1000 / 750))


def matrix(spectrum):
    """The moments that a spectrum stands for."""
    U, values, rest = (np.asarray(v) for v in spectrum)
    return U * values @ U.T + rest * (np.eye(len(U)) - U @ U.T)


# The average.


def test_the_network_is_an_average_of_the_last_ninth_of_the_iterates():
    problem, x, y = small("log_loss", 96, SIZES)
    source = Batches(x, y, None, 32, 0)
    state = mini_batch.begin(problem, initial_params(problem, "he", 0, jnp.float64))
    iterates = []
    for _ in range(20):
        for state in mini_batch.steps(problem, source, state, source.per_epoch):  # noqa: B020
            iterates.append(np.asarray(state.params.W[0]))
    # The same in closed form: V_j has the weight (j + 1) (j + 2) ... (j + 8).
    weights = np.array([np.prod(j + np.arange(1.0, 9.0)) for j in range(60)])
    expected = np.tensordot(weights / weights.sum(), np.array(iterates), 1)
    np.testing.assert_allclose(state.average.W[0], expected, rtol=0, atol=ROUNDING)
    assert np.abs(iterates[-1] - expected).max() > 1e3 * ROUNDING
    late = mini_batch.averaged(
        problem,
        jax.tree.map(jnp.zeros_like, state.params),
        jax.tree.map(jnp.ones_like, state.params),
        jnp.asarray(10**9, jnp.int32),
    )
    assert float(late.W[0][0, 0]) == pytest.approx(1 / 1000)  # a stream without an end forgets


def test_what_is_returned_and_scored_is_the_average():
    ended = run(max_iter=3)
    for W, Z, V in zip(ended.params.W, ended.state.average.W, ended.state.params.W, strict=True):
        np.testing.assert_array_equal(W, Z)
        assert np.abs(W - V).max() > 0


@pytest.mark.parametrize(
    ("rows", "width", "size"),
    [(60_000, 784, 512), (60_000, 4000, 1024), (1_600, 100, 128), (100, 100, 128), (3, 2, 128)],
)
def test_the_size_of_a_batch_follows_from_rows_and_width(rows, width, size):
    assert auto_size(rows, width) == size


def test_auto_is_the_size_it_stands_for():
    named, asked = run(batch_size="auto", max_iter=1), run(batch_size=128, max_iter=1)
    np.testing.assert_array_equal(named.params.W[0], asked.params.W[0])
    assert int(named.state.seen) == 2


# The guard.


def test_a_blow_up_brings_the_last_good_network_back_with_half_the_step():
    problem, _, _ = small("log_loss", 30, SIZES)
    params = initial_params(problem, "he", 0, jnp.float64)
    state = mini_batch.begin(problem, params)
    state = state._replace(
        kept_loss=jnp.asarray(0.5), first_loss=jnp.asarray(1.0),
        params=jax.tree.map(lambda v: v + 9.0, state.params),
        average=jax.tree.map(lambda v: v + 7.0, state.params),
        recent=(jnp.asarray(60.0), jnp.asarray(30.0)),
    )  # fmt: skip
    calm = state._replace(recent=(jnp.asarray(20.0), jnp.asarray(30.0)))
    calm, state = (jax.tree.map(np.asarray, s) for s in (calm, state))
    back = mini_batch.looked_back(state, 30.0)
    assert float(back.scale) == 0.5
    np.testing.assert_array_equal(back.params.W[0], params.W[0])
    np.testing.assert_array_equal(back.average.W[0], params.W[0])
    onward = mini_batch.looked_back(calm, 30.0)
    early = mini_batch.looked_back(state, 31.0)  # it may be one batch with an outlier
    assert float(early.scale) == 1.0
    assert float(early.recent[0]) == 60.0
    np.testing.assert_array_equal(early.params.W[0], params.W[0] + 9.0)
    assert float(onward.scale) == 1.0
    np.testing.assert_array_equal(onward.params.W[0], params.W[0] + 9.0)
    np.testing.assert_array_equal(onward.kept.W[0], params.W[0] + 7.0)


def test_the_longest_step_changes_all_layers_by_half_of_themselves(rng):
    V = [rng.normal(size=(3, 4)), np.zeros((2, 3)), rng.normal(size=(2, 2))]
    D = [rng.normal(size=v.shape) for v in V]
    s = mini_batch.longest_step(np.float64(1e-9), V, D)
    pairs = [(v, s * d) for v, d in zip(V, D, strict=True) if v.any()]
    changes = [np.linalg.norm(d) / np.linalg.norm(v) for v, d in pairs]
    assert sum(changes) == pytest.approx(0.5, rel=ROUNDING)
    assert mini_batch.longest_step(np.float64(1e6), V, D) == pytest.approx(1.4e-3, rel=ROUNDING)
    assert mini_batch.longest_step(np.float64(0), V, [0 * d for d in D]) == 20


def test_a_step_that_blows_up_is_survived(monkeypatch):
    monkeypatch.setattr(mini_batch, "longest_step", lambda *given: 1e9)
    history = run(max_iter=60, regularizer=L2(1e-3), engine="numpy").history
    assert history["scale"][-1] < 1e-3
    assert np.isfinite(history["train_loss"][-1])
    assert history["train_loss"][-1] < 10 * history["train_loss"][0] + 10


# Whole runs.


@pytest.mark.parametrize(
    ("loss", "activation", "share"),
    [("log_loss", "relu", 0.5), ("log_loss", "sign", 0.7), ("squared_error", "tanh", 0.5)],
)
def test_the_loss_falls_a_lot(loss, activation, share):
    history = run(loss, activation=activation, max_iter=30).history
    assert history["train_loss"][-1] < share * history["train_loss"][0]


def test_zeros_and_constraints_are_exact():
    sparse = run("squared_error", regularizer=L1(5.0)).params
    boxed = run("squared_error", regularizer=Box(-0.2, 0.3)).params
    assert sum(int((W == 0).sum()) for W in sparse.W) >= 3
    assert min(W.min() for W in boxed.W) >= -0.2
    assert max(W.max() for W in boxed.W) <= 0.3


def test_a_stream_goes_on_where_it_ended():
    first = run(max_iter=1)
    assert int(first.state.seen) == 7  # 200 rows in batches of 32
    second = run(max_iter=1, resumed=first.state)
    assert int(second.state.seen) == 14
    assert second.history["train_loss"][0] < first.history["train_loss"][0]
    assert np.isfinite(jax.tree.leaves(first.state)[0]).all()  # not donated


def test_the_relaxed_methods_refuse_batches():
    with pytest.raises(ValueError, match="works on all samples at once"):
        run(method="dladmm")
