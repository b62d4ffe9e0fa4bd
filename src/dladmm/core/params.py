"""The network's weights, and its output."""

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
    a = x
    for l, layer in enumerate(problem.layers):
        z = layer.apply(params.W[l], a) + params.b[l]
        a = problem.activations[l](z) if l < problem.n_layers - 1 else z
    return z
