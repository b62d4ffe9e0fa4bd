"""The network's weights, and its output."""

from dataclasses import dataclass
from typing import Any

import jax
from jax import Array

from dladmm.core.problem import Problem


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Params:
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
