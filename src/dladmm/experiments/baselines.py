"""Gradient methods to compare with, from the same initial weights and on the same gradient.

Each trainer is an iterator of networks: every `next` makes one iteration (full batch) or a part of
an epoch (mini-batches) and returns when it is computed, so that whoever times it times just that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dladmm.core import stream
from dladmm.core.methods import Arrays, FullBatch, Start, iterate_restored, padded_data
from dladmm.core.problem import Problem
from dladmm.core.restored import loss_and_gradient
from dladmm.core.samples import Samples
from dladmm.core.state import Data, Params
from dladmm.core.stream import Batches

try:
    import optax
except ImportError as error:  # the extra is optional
    raise ImportError("optax is not installed; pip install 'dladmm[bench]'") from error

OPTIMISERS: dict[str, Callable[[float], Any]] = {
    "sgd": optax.sgd,
    "momentum": partial(optax.sgd, momentum=0.9),
    "nesterov": partial(optax.sgd, momentum=0.9, nesterov=True),
    "adagrad": optax.adagrad,
    "adadelta": optax.adadelta,
    "rmsprop": optax.rmsprop,
    "adam": optax.adam,
    "amsgrad": optax.amsgrad,
    "lbfgs": lambda rate: optax.lbfgs(),  # its line search finds the rate
}

Trainer = Iterator[Params]


@lru_cache
def _optimiser(name: str, rate: float) -> Any:
    return OPTIMISERS[name](rate)


@partial(jax.jit, static_argnames=("name", "rate", "problem"), donate_argnames="memory")
def gradient_step(
    name: str, rate: float, problem: Problem, data: Data, params: Params, memory: Any
) -> tuple[Params, Any]:
    """One step of an optax optimiser on the mean loss over `data`."""
    optimiser = _optimiser(name, rate)
    value, gradient = loss_and_gradient(problem, data, params)
    extra: dict[str, Any] = {}
    if name == "lbfgs":
        value_only = lambda p: loss_and_gradient(problem, data, p)[0]  # noqa: E731
        extra = {
            "value": value,
            "grad": gradient,
            "value_fn": _differentiable(problem, data, value_only),
        }
    update, memory = optimiser.update(gradient, memory, params, **extra)
    return optax.apply_updates(params, update), memory


def _differentiable(problem: Problem, data: Data, value: Any) -> Any:
    """F with its own gradient, for a line search that differentiates what it is given."""
    function = jax.custom_vjp(value)
    function.defvjp(
        lambda p: loss_and_gradient(problem, data, p),
        lambda gradient, out: (jax.tree.map(lambda g: out * g, gradient),),
    )
    return function


def full_batch(
    problem: Problem, arrays: Arrays, params: Params, seed: int, *, name: str, rate: float
) -> Trainer:
    """An optax optimiser on all samples at once."""
    data = padded_data(problem, arrays, with_gram=False)
    memory = jax.jit(_optimiser(name, rate).init)(params)  # compiled: no two arrays are one
    while True:
        params, memory = jax.block_until_ready(
            gradient_step(name, rate, problem, data, params, memory)
        )
        yield params


def restored(problem: Problem, arrays: Arrays, params: Params, seed: int) -> Trainer:
    """Restored sweeps on all samples at once."""
    data = FullBatch().prepare(problem, arrays)
    state = FullBatch().begin(problem, data, params, Start())
    while True:
        state, network, _ = jax.block_until_ready(iterate_restored(problem, data, state))
        yield network


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
    batches = Batches(*arrays, size, seed)
    memory = jax.jit(_optimiser(name, rate).init)(params)  # compiled: no two arrays are one
    while True:
        for k, (x, y, weights) in enumerate(batches.epoch(), 1):
            data = Data(jnp.asarray(x), jnp.asarray(y), Samples(jnp.asarray(weights)), None)
            params, memory = gradient_step(name, rate, problem, data, params, memory)
            if _is_due(k, batches.per_epoch, per_epoch):
                yield jax.block_until_ready(params)


def restored_batches(
    problem: Problem, arrays: Arrays, params: Params, seed: int, *, size: int, per_epoch: int
) -> Trainer:
    """Restored sweeps over mini-batches; a network every 1/per_epoch of an epoch."""
    batches = Batches(*arrays, size, seed)
    state = stream.begin(problem, params)
    while True:
        for k, state in enumerate(stream.steps(problem, batches, state), 1):  # noqa: B020
            if _is_due(k, batches.per_epoch, per_epoch):
                yield jax.block_until_ready(jax.tree.map(jnp.copy, state.params))


def torch_adam(
    problem: Problem,
    arrays: Arrays,
    params: Params,
    seed: int,
    *,
    rate: float,
    size: int,
    per_epoch: int,
) -> Trainer:
    """PyTorch's Adam on mini-batches of the same network."""
    import torch

    from dladmm.torch import activation_module

    modules: list[torch.nn.Module] = []
    linears: list[torch.nn.Linear] = []
    for l, layer in enumerate(problem.layers):
        linear = torch.nn.Linear(layer.n_in, layer.n_out)
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(np.array(params.W[l])))
            linear.bias.copy_(torch.from_numpy(np.array(params.b[l])))
        linears.append(linear)
        modules.append(linear)
        if l < problem.n_layers - 1:
            modules.append(activation_module(problem.activations[l]))
    network = torch.nn.Sequential(*modules)
    optimiser = torch.optim.Adam(network.parameters(), lr=rate)
    loss = torch.nn.CrossEntropyLoss()
    x, labels = torch.from_numpy(arrays[0]), torch.from_numpy(arrays[1].argmax(1))
    random = torch.Generator().manual_seed(seed)
    count = -(-len(x) // size)
    while True:
        order = torch.randperm(len(x), generator=random)
        for k in range(1, count + 1):
            rows = order[(k - 1) * size : k * size]
            optimiser.zero_grad(set_to_none=True)
            loss(network(x[rows]), labels[rows]).backward()
            optimiser.step()
            if _is_due(k, count, per_epoch):
                W = tuple(layer.weight.detach().numpy().copy() for layer in linears)
                yield Params(W, tuple(layer.bias.detach().numpy().copy() for layer in linears))


def scikit_learn(problem: Problem, arrays: Arrays, params: Params, seed: int) -> Trainer:
    """MLPClassifier with its defaults (Adam, 1e-3, batches of 200), an epoch at a time."""
    from sklearn.neural_network import MLPClassifier

    hidden = tuple(layer.n_out for layer in problem.layers[:-1])
    model = MLPClassifier(hidden, random_state=seed)
    labels = arrays[1].argmax(1)
    while True:
        model.partial_fit(arrays[0], labels, classes=np.arange(arrays[1].shape[1]))
        # Copies: the next call changes the model's own arrays in place.
        yield Params(
            tuple(W.T.copy() for W in model.coefs_), tuple(map(np.copy, model.intercepts_))
        )


def _is_due(k: int, count: int, per_epoch: int) -> bool:
    """Whether one of `per_epoch` equal parts of `count` batches ends with batch k."""
    return k * per_epoch // count > (k - 1) * per_epoch // count
