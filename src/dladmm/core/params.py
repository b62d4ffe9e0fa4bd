"""The network's weights, and its output."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from dladmm.core.problem import Problem
from dladmm.engine.arrays import Array


class Params(NamedTuple):
    """The network itself, as JAX or NumPy arrays.

    Attributes
    ----------
    W : tuple of array
        The weights of each layer, outputs times inputs.
    b : tuple of array
        The biases of each layer.
    """

    W: tuple[Any, ...]
    b: tuple[Any, ...]


class Passed(NamedTuple):
    """A layer after the forward pass has gone through it: p = A(W, inputs), z = p + b, a = f(z)."""

    inputs: Any
    p: Array
    z: Array
    a: Array


def pass_layer(problem: Problem, params: Params, l: int, x: Array, a: Sequence[Array]) -> Passed:
    """Layer l, from x and what the layers before it have passed on; the last has no a."""
    layer: Any = problem.layers[l]
    W, b = params.W[l], params.b[l]
    if problem.is_recurrent(l):
        inputs = problem.inputs_of(l, x, [*a, None])
        p, z, own = layer.run(W, b, inputs, problem.activations[l])
        return Passed(problem.inputs_of(l, x, [*a, own]), p, z, own)
    inputs = problem.inputs_of(l, x, a)
    p = layer.apply(W, inputs)
    z = p + b
    return Passed(inputs, p, z, problem.activations[l](z) if l < problem.n_layers - 1 else z)


def forward_pass(problem: Problem, params: Params, x: Array) -> tuple[list[Any], list[Array]]:
    """The inputs and the pre-activations z_l of every layer."""
    inputs: list[Any] = []
    z: list[Array] = []
    a: list[Array] = []
    for l in range(problem.n_layers):
        passed = pass_layer(problem, params, l, x, a)
        inputs.append(passed.inputs)
        z.append(passed.z)
        a.append(passed.a)
    return inputs, z


def forward(problem: Problem, params: Params, x: Array) -> Array:
    """The network's output z_L for inputs x.

    Parameters
    ----------
    problem : Problem
        The layers and the activations between them.
    params : Params
        Their weights.
    x : array
        Inputs, a row for each sample.

    Returns
    -------
    array
        z_L, a row for each sample, before any link such as the softmax.
    """
    a: list[Any] = []
    for l in range(problem.n_layers):
        a.append(pass_layer(problem, params, l, x, a).a)
        for k in range(l):
            if problem.last_reader[k] <= l:
                a[k] = None  # its memory is free again
    return a[-1]
