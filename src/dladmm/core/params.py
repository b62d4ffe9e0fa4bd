"""The network's weights, and its output."""

from typing import Any, NamedTuple

from dladmm.core.problem import Problem
from dladmm.engine.arrays import Array


class Params(NamedTuple):
    """The network itself, as JAX or NumPy arrays."""

    W: tuple[Any, ...]
    b: tuple[Any, ...]


def forward(problem: Problem, params: Params, x: Array) -> Array:
    """The network's output z_L for inputs x."""
    a = x
    for l, layer in enumerate(problem.layers):
        z = layer.apply(params.W[l], a) + params.b[l]
        a = problem.activations[l](z) if l < problem.n_layers - 1 else z
    return z
