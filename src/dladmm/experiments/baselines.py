"""Gradient methods to compare with, from the same initial weights and on the same gradient.

Each trainer is an iterator of networks: every `next` makes one iteration (full batch) or a part of
an epoch (mini-batches) and returns when it is computed, so that whoever times it times just that.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dladmm.core.data import Arrays, Data, padded_data
from dladmm.core.evaluate import Evaluation, hits, regularization
from dladmm.core.method import Start
from dladmm.core.params import Params
from dladmm.core.problem import Problem
from dladmm.core.restored.batches import Batches
from dladmm.core.restored.method import FullBatch, iterate_restored
from dladmm.core.restored.mini_batch import begin as mini_batch_state
from dladmm.core.restored.mini_batch import steps
from dladmm.core.restored.point import restore
from dladmm.engine.arrays import load_jax
from dladmm.engine.loops import over
from dladmm.engine.sums import total
from dladmm.engine.walks import Folded

load_jax()  # which knows our trees from here on


try:
    import optax
except ImportError as error:  # the extra is optional
    raise ImportError("optax is not installed; pip install 'dladmm[compare]'") from error

OPTIMISERS: dict[str, Callable[[Any], Any]] = {
    "sgd": optax.sgd,
    "momentum": partial(optax.sgd, momentum=0.9),
    "nesterov": partial(optax.sgd, momentum=0.9, nesterov=True),
    # optax starts its sum of squares at 0.1, far above those of a full batch: that would be SGD.
    "adagrad": partial(optax.adagrad, initial_accumulator_value=0.0),
    "adadelta": optax.adadelta,
    "rmsprop": optax.rmsprop,
    "adam": optax.adam,
    "amsgrad": optax.amsgrad,
    # Its line search finds the rate; twenty evaluations, its default, are for the last digits.
    "lbfgs": lambda rate: optax.lbfgs(
        linesearch=optax.scale_by_zoom_linesearch(8, initial_guess_strategy="one")
    ),
}


class Made(NamedTuple):
    """What a `next` made: the network, what the step knows of the one it began from, and the
    seconds it took where its trainer has a clock of its own."""

    params: Params
    before: Evaluation | None = None
    seconds: float | None = None


Trainer = Iterator[Made]


def loss_and_gradient(
    problem: Problem, data: Data, params: Params
) -> tuple[Array, Params, Evaluation]:
    """F over the sum of weights, its gradient, and the evaluation that comes with it, by blocks."""

    def body(weights: Array | None, _: Any, read: Any) -> tuple[Any, Folded]:
        x, y = read
        point = restore(problem, params, x, y)
        layers = zip(problem.layers, point.targets, point.inputs, strict=True)
        gradients = [layer.gradient_matrix(r, a, weights) for layer, r, a in layers]
        risk = total(point.losses, weights)
        return (), Folded(sum=(risk, total(hits(problem, point.output, y), weights), gradients))

    risk, right, gradients = data.samples.walk(body, (), (data.x, data.y))[1].sum
    count = data.samples.mass(data.x)
    W, b = [], []
    blocks = zip(problem.layers, problem.regularizers, params.W, gradients, strict=True)
    for layer, term, V, G in blocks:
        G_W, G_b = layer.from_matrix(G)
        W.append(term.subgradient(V, G_W) / count)
        b.append(G_b / count)
    value = (risk + regularization(problem, params.W)) / count
    return value, Params(tuple(W), tuple(b)), Evaluation(risk / count, right / count)


def _step(
    name: str, problem: Problem, data: Data, rate: Array, params: Params, memory: Any
) -> tuple[Params, Any, Evaluation]:
    """One step of an optax optimiser on the mean loss over `data`."""
    value, gradient, before = loss_and_gradient(problem, data, params)
    extra: dict[str, Any] = {}
    if name == "lbfgs":
        function = _differentiable(problem, data)
        extra = {"value": value, "grad": gradient, "value_fn": function}
    update, memory = OPTIMISERS[name](rate).update(gradient, memory, params, **extra)
    return optax.apply_updates(params, update), memory, before


def _differentiable(problem: Problem, data: Data) -> Any:
    """F with its own gradient, for a line search that differentiates what it is given."""
    function = jax.custom_vjp(lambda p: loss_and_gradient(problem, data, p)[0])
    function.defvjp(
        lambda p: loss_and_gradient(problem, data, p)[:2],
        lambda gradient, out: (jax.tree.map(lambda g: out * g, gradient),),
    )
    return function


gradient_step = partial(jax.jit, static_argnames=("name", "problem"), donate_argnames="memory")(
    _step
)


@partial(jax.jit, static_argnames=("name", "problem"), donate_argnames="memory")
def gradient_batches(
    name: str, problem: Problem, group: Data, count: Array, rate: Array, params: Params, memory: Any
) -> tuple[tuple[Params, Any], Array]:
    """`gradient_step` on each of the first `count` batches of a group."""

    def step(state: tuple[Params, Any], batch: Data) -> tuple[Params, Any]:
        return _step(name, problem, batch, rate, *state)[:2]

    return over(count, step, (params, memory), group), count + 0


@partial(jax.jit, static_argnames=("name", "problem"), donate_argnames="memory")
def gradient_steps(
    name: str, problem: Problem, data: Data, rates: Array, params: Params, memory: Any
) -> tuple[Params, Any, Evaluation]:
    """`gradient_step` of many runs at once: rates, networks and memories have a leading axis."""
    return jax.vmap(partial(_step, name, problem, data))(rates, params, memory)


@partial(jax.jit, static_argnames="name")
def beginning(name: str, params: Params) -> Any:
    """An optimiser's memory before its first step; compiled, so that no two arrays are one."""
    return OPTIMISERS[name](1.0).init(params)


def full_batch(
    problem: Problem, arrays: Arrays, params: Params, seed: int, *, name: str, rate: float
) -> Trainer:
    """An optax optimiser on all samples at once."""
    yield from _full_batch(gradient_step, beginning, problem, arrays, params, rate, name)


def full_batches(
    problem: Problem, arrays: Arrays, starts: Sequence[Params], rates: Sequence[float], name: str
) -> Trainer:
    """`full_batch` of several starts and rates, pair by pair, as one vectorised program."""
    params = jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts)
    begin = lambda name, params: jax.vmap(partial(beginning, name))(params)  # noqa: E731
    yield from _full_batch(gradient_steps, begin, problem, arrays, params, rates, name)


def _full_batch(
    step: Any, begin: Any, problem: Problem, arrays: Arrays, params: Params, rates: Any, name: str
) -> Trainer:
    data = padded_data(problem, arrays, with_gram=False)
    memory, sizes = begin(name, params), jnp.asarray(rates, arrays[0].dtype)
    while True:
        params, memory, before = jax.block_until_ready(
            step(name, problem, data, sizes, params, memory)
        )
        yield Made(params, before)


def restored(problem: Problem, arrays: Arrays, params: Params, seed: int) -> Trainer:
    """Restored sweeps on all samples at once."""
    data = FullBatch(problem).prepare(arrays)
    state = FullBatch(problem).begin(data, params, Start())
    count = data.samples.mass(data.x)
    while True:
        before = Evaluation(state.measured.risk / count, state.measured.hits / count)
        state, network, _ = jax.block_until_ready(iterate_restored(problem, data, state))
        yield Made(network, before)


def mini_batch(
    problem: Problem,
    arrays: Arrays,
    params: Params,
    seed: int,
    *,
    name: str,
    rate: float,
    size: int,
    per_epoch: int,
) -> Trainer:
    """An optax optimiser on mini-batches; a network every 1/per_epoch of an epoch."""
    batches, rate_of = Batches(*arrays, size, seed), jnp.asarray(rate, arrays[0].dtype)

    def step(state: Any, group: Data, count: Array) -> tuple[Any, Array]:
        return gradient_batches(name, problem, group, count, rate_of, *state)

    state = params, beginning(name, params)
    while True:
        for state in batches.stepped(step, state, per_epoch):  # noqa: B020
            yield Made(jax.block_until_ready(state[0]))


def restored_batches(
    problem: Problem, arrays: Arrays, params: Params, seed: int, *, size: int, per_epoch: int
) -> Trainer:
    """Restored sweeps over mini-batches; a network every 1/per_epoch of an epoch."""
    batches = Batches(*arrays, size, seed)
    state = mini_batch_state(problem, params)
    while True:
        for state in steps(problem, batches, state, per_epoch):  # noqa: B020
            yield Made(jax.block_until_ready(jax.tree.map(jnp.copy, state.average)))


def scikit_learn(problem: Problem, arrays: Arrays, params: Params, seed: int) -> Trainer:
    """MLPClassifier or MLPRegressor with its defaults (Adam, 1e-3, batches of 200), an epoch at a
    time."""
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    hidden, (x, y, _) = tuple(layer.units for layer in problem.layers[:-1]), arrays
    if problem.loss.classifies:
        model = MLPClassifier(hidden_layer_sizes=hidden, random_state=seed)
        learn = partial(model.partial_fit, x, y.argmax(1), classes=np.arange(y.shape[1]))
    else:
        model = MLPRegressor(hidden_layer_sizes=hidden, random_state=seed)
        learn = partial(model.partial_fit, x, y[:, 0] if y.shape[1] == 1 else y)
    while True:
        learn()
        # Copies: the next call changes the model's own arrays in place.
        W = tuple(W.T.copy() for W in model.coefs_)
        yield Made(Params(W, tuple(map(np.copy, model.intercepts_))))


def is_due(k: int, count: int, per_epoch: int) -> bool:
    """Whether one of `per_epoch` equal parts of `count` batches ends with batch k."""
    return k * per_epoch // count > (k - 1) * per_epoch // count
