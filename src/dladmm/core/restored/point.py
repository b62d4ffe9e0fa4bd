"""A restored point: the forward pass, and the backward sweep of residual targets."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dladmm.core.params import Params, forward_pass
from dladmm.core.problem import Problem
from dladmm.engine.arrays import Array, xp
from dladmm.engine.sums import added, masked
from dladmm.terms.activations import Activation

SHARE = 0.1  # of the size of z, by which a closed target moves a
STEEPEST = 1e3  # what f is steeper than that is taken for as steep


def residual_target(f: Activation, z: Array, g: Array) -> Array:
    """The residual target r of a layer with pre-activations z from the gradient g at a = f(z)."""
    if f.uses_slope:
        return f.times_slope(z, g)
    size = _rms(z) * SHARE if f.continuous else xp.ones_like(_rms(z))  # a level is a step of 1
    return closed_target(f, z, g, size)


def closed_target(f: Activation, z: Array, g: Array, s: Array | float) -> Array:
    """The target of the paper's own updates, through which no derivative of f carries a gradient.

    a goes to a+ = f(z) - s g/rms(g), a gradient step with nu = rms(g)/s for each sample; z to
    z+ = argmin (z+ - z)^2 + (f(z+) - a+)^2, globally, which also clips units and revives them; and

        r = nu (z - z+) (f(z) - a+)/(f(z+) - a+).

    The quotient is what z+ has left of the way that a goes, 1 + f'^2 for small s: 2 for an active
    ReLU, so that r tends to f'(z) g as s does to 0. Where f jumps it is taken as 1.
    """
    tiny = np.finfo(z.dtype).tiny ** 0.5
    s = xp.maximum(s, np.finfo(z.dtype).eps)
    nu = xp.maximum(_rms(g), tiny) / s
    way = g / nu
    target = f(z) - way
    new = f.argmin_z(z, target)
    moved = z - new
    if not f.continuous:
        return nu * moved
    reached = f(new)
    # f(z+) is between a+ and f(z) where f grows with z.
    ratio = f.for_each_z(_quotient(way, reached - target, 1), z)
    # At most twice what f's rise over z's way says: both numbers of the quotient may be rounding.
    slope = xp.abs(_quotient(f.for_each_z(f(z) - reached, z), moved, 0))
    most = 2 * (1 + xp.clip(slope, 1, STEEPEST) ** 2)
    return nu * moved * xp.clip(ratio, 1, most)


def _quotient(v: Array, by: Array, otherwise: float) -> Array:
    """v/by, and where that is v/0 a number."""
    return xp.where(by == 0, otherwise, v / xp.where(by == 0, 1, by))


def _rms(v: Array) -> Array:
    """The root mean square of each sample, shaped to broadcast."""
    return xp.sqrt(xp.mean(v * v, axis=tuple(range(1, v.ndim)), keepdims=True))


class Point(NamedTuple):
    """A restored point: the inputs of every layer, its residual targets r_l, z_L, and the losses
    R(z_L; y), one for each sample."""

    inputs: tuple[Any, ...]
    targets: tuple[Array, ...]
    output: Array
    losses: Array


def restore(problem: Problem, params: Params, x: Array, y: Array) -> Point:
    """The forward pass, and the backward sweep from u = -grad R(z_L)."""
    inputs, z = forward_pass(problem, params, x)
    losses, top = problem.loss.value_and_gradient(z[-1], y)
    targets = backward_sweep(problem, params, problem.masks(x), z, top)
    return Point(tuple(inputs), targets, z[-1], losses)


def backward_sweep(
    problem: Problem,
    params: Params,
    masks: Sequence[Array | None],
    z: Sequence[Array],
    top: Array,
) -> tuple[Array, ...]:
    """The residual targets r_l of every layer, `top` being that of the last; zero where a mask is,
    which is before a sequence, so that none is missing in what is pulled back further."""
    last = problem.n_layers - 1
    targets: dict[int, Array] = {last: top}
    for l in range(last - 1, -1, -1):
        layer: Any = problem.layers[l]
        f = problem.activations[l]
        g = added(
            problem.layers[k].pullback(params.W[k], targets[k], places)
            for k, places in problem.readers[l]
            if k != l
        )
        if problem.is_recurrent(l):
            r = layer.run_back(params.W[l], z[l], g, partial(residual_target, f))
            targets[l] = masked(r, masks[l])
        else:
            targets[l] = residual_target(f, z[l], g)
    return tuple(targets[l] for l in range(last + 1))
