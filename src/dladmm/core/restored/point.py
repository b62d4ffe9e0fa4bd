"""A restored point: the forward pass, and the backward sweep of residual targets."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dladmm.core.params import Params
from dladmm.core.problem import Problem
from dladmm.engine.arrays import Array, xp
from dladmm.terms.activations import Activation


def residual_target(f: Activation, z: Array, g: Array) -> Array:
    """The residual target r of a layer with pre-activations z from the gradient g at a = f(z).

    First-order: f'(z) o g. Closed, for a discontinuous f: z - z+ with z+ the paper's update
    towards a - g/nu, where nu is the root mean square of the sample's g; r is scaled back by nu.
    """
    if f.continuous:
        return f.times_slope(z, g)
    tiny = np.finfo(z.dtype).tiny
    nu = xp.sqrt(xp.mean(g * g, axis=tuple(range(1, g.ndim)), keepdims=True))
    target = f(z) - g / xp.maximum(nu, tiny)
    return nu * (z - f.argmin_z(z, target))


class Point(NamedTuple):
    """A restored point: the inputs a_{l-1} of every layer, its residual targets r_l, and z_L."""

    inputs: tuple[Array, ...]
    targets: tuple[Array, ...]
    output: Array


def restore(problem: Problem, params: Params, x: Array, y: Array) -> Point:
    """The forward pass, and the backward sweep from u = -grad R(z_L)."""
    inputs, z = forward_pass(problem, params, x)
    targets = backward_sweep(problem, params, z, problem.loss.gradient(z[-1], y))
    return Point(tuple(inputs), targets, z[-1])


def forward_pass(problem: Problem, params: Params, x: Array) -> tuple[list[Array], list[Array]]:
    """The inputs a_{l-1} and the pre-activations z_l of every layer."""
    inputs, z = [x], []
    for l, layer in enumerate(problem.layers):
        z.append(layer.apply(params.W[l], inputs[l]) + params.b[l])
        if l < problem.n_layers - 1:
            inputs.append(problem.activations[l](z[l]))
    return inputs, z


def backward_sweep(
    problem: Problem, params: Params, z: Sequence[Array], top: Array
) -> tuple[Array, ...]:
    """The residual targets r_l of every layer, `top` being that of the last."""
    targets = [top]
    for l in range(problem.n_layers - 1, 0, -1):
        g = problem.layers[l].adjoint_a(params.W[l], targets[-1])
        targets.append(residual_target(problem.activations[l - 1], z[l - 1], g))
    return tuple(targets[::-1])
