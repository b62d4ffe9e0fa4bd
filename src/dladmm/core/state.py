"""The variables of the algorithm, as immutable pytrees, and where they start."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.sharding import Mesh

from dladmm.core.problem import Problem
from dladmm.core.samples import Folded, Samples
from dladmm.core.sharding import EVERYWHERE, ROWS, spread


@partial(jax.tree_util.register_dataclass, data_fields=["W", "b"], meta_fields=[])
@dataclass(frozen=True)
class Params:
    """The network itself, as JAX or NumPy arrays."""

    W: tuple[Any, ...]
    b: tuple[Any, ...]


Rows = tuple[tuple[Array, ...], tuple[Array, ...], tuple[Array, ...], Array]  # z, a, p, u


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["W", "b", "z", "a", "p", "u"],
    meta_fields=[],
)
@dataclass(frozen=True)
class State:
    """All variables of L_rho, and the running products p_l = A_l(W_l, a_{l-1}).

    `a` holds a_1..a_{L-1}; `p` is kept so that no product is computed only to evaluate something.
    """

    W: tuple[Array, ...]
    b: tuple[Array, ...]
    z: tuple[Array, ...]
    a: tuple[Array, ...]
    p: tuple[Array, ...]
    u: Array

    @property
    def params(self) -> Params:
        return Params(self.W, self.b)

    @property
    def rows(self) -> Rows:
        """What has one row per sample."""
        return self.z, self.a, self.p, self.u


def state_of(rows: Rows, params: Params) -> State:
    """The state of these rows and this network."""
    z, a, p, u = rows
    return State(params.W, params.b, z, a, p, u)


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["x", "y", "samples", "gram"],
    meta_fields=[],
)
@dataclass(frozen=True)
class Data:
    """Inputs, targets, samples (weights and blocks), and the constant Gram matrix of the inputs.

    `gram` is None where it would cost more than it saves.
    """

    x: Array
    y: Array
    samples: Samples
    gram: Array | None

    @property
    def weights(self) -> Array | None:
        return self.samples.weights


# Where each part lives on a mesh, for `spread`.
DATA: Any = Data(ROWS, ROWS, ROWS, EVERYWHERE)  # type: ignore[arg-type]
STATE: Any = State(EVERYWHERE, EVERYWHERE, ROWS, ROWS, ROWS, ROWS)  # type: ignore[arg-type]


def kept(state: Any) -> tuple[Any, Any]:
    """(what has one row per sample, the rest) of any method's state."""
    if isinstance(state, State):
        return state.rows, state.params
    return (), state


def revived(state: Any, by_sample: Any, rest: Any) -> Any:
    """The inverse of `kept`."""
    return state_of(by_sample, rest) if isinstance(state, State) else rest


def make_data(
    problem: Problem,
    x: Array,
    y: Array,
    weights: Array | None,
    blocks: int = 1,
    with_gram: bool = True,
    mesh: Mesh | None = None,
    count: int | None = None,
) -> Data:
    """The data of a run, the rows of each device a multiple of `blocks`, `count` without padding.

    x^T x pays off as long as there are more samples than inputs.
    """
    data = Data(x, y, Samples(weights, blocks, mesh, count), None)
    pays_off = with_gram and x.shape[0] >= problem.layers[0].fan_in
    return replace(data, gram=_gram(problem, data)) if pays_off else data


@partial(jax.jit, static_argnames="problem")
def _gram(problem: Problem, data: Data) -> Array:
    layer = problem.layers[0]
    body = lambda weights, _, x: ((), Folded(sum=layer.gram(x, weights)))  # noqa: E731

    def own(data: Data) -> Array:
        # Without weights x is multiplied where it lies; blocks of it would be copied.
        samples = replace(data.samples, blocks=1) if data.weights is None else data.samples
        return samples.walk(body, (), data.x)[1].sum

    return spread(data.samples, own, (DATA,), EVERYWHERE)(data)


def forward(problem: Problem, params: Params, x: Array) -> Array:
    """The network's output z_L for inputs x."""
    a = x
    for l, layer in enumerate(problem.layers):
        z = layer.apply(params.W[l], a) + params.b[l]
        a = problem.activations[l](z) if l < problem.n_layers - 1 else z
    return z


@partial(jax.jit, static_argnames=("problem", "dual_from_gradient", "authors_output"))
def state_from_params(
    problem: Problem,
    params: Params,
    data: Data,
    dual_from_gradient: bool,
    authors_output: bool = False,
) -> State:
    """The feasible state of a forward pass, with u = -grad R(z_L) (Lemma 2) or u = 0.

    `authors_output` starts z_L at the loss's own point (+-1 for classes) instead of the output.
    """

    def own(params: Params, data: Data) -> State:
        z: list[Array] = []
        a: list[Array] = []
        p: list[Array] = []
        for l, layer in enumerate(problem.layers):
            p.append(layer.apply(params.W[l], a[-1] if a else data.x))
            z.append(p[-1] + params.b[l])
            if l < problem.n_layers - 1:
                a.append(problem.activations[l](z[-1]))
        if authors_output:
            z[-1] = problem.loss.initial_output(data.y)
        u = -problem.loss.gradient(z[-1], data.y) if dual_from_gradient else jnp.zeros_like(z[-1])
        return State(params.W, params.b, tuple(z), tuple(a), tuple(p), u)

    return spread(data.samples, own, (EVERYWHERE, DATA), STATE)(params, data)


# Unused arguments are kept: the old p gives its memory to the new one, though nobody reads it.
@partial(jax.jit, static_argnames="problem", donate_argnames="rows", keep_unused=True)
def refreshed(problem: Problem, data: Data, rows: Rows, params: Params) -> Rows:
    """The same rows with p recomputed from W and a: running products drift in float32."""

    def own(data: Data, rows: Rows, params: Params) -> Rows:
        z, a, _, u = rows
        layers = zip(problem.layers, params.W, (data.x, *a), strict=True)
        return z, a, tuple(layer.apply(W, inputs) for layer, W, inputs in layers), u

    return spread(data.samples, own, (DATA, ROWS, EVERYWHERE), ROWS)(data, rows, params)
