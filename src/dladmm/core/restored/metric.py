"""The matrix metric of a layer's step in restored sweeps: K~ on its inputs, S~ on its outputs.

    K~ = K + delta mean(diag(K)) I,   S~ = gain (S/mean(diag(S)) + epsilon I)/(1 + epsilon),

with the second moments K of [a, 1] and S of the residual targets r.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dladmm.core.data import Data
from dladmm.core.problem import Problem
from dladmm.engine.arrays import Array, xp
from dladmm.engine.linalg import plus_identity
from dladmm.engine.loops import repeat
from dladmm.terms.layers import Layer
from dladmm.terms.regularizers import Regularizer

INNER_STEPS = 30  # of the prox in the matrix metric


class Metric(NamedTuple):
    """K~ and S~ of one layer, the direction D = -S~^-1 (G + dOmega) K~^-1 of a quadratic Omega, and
    the slope <G + dOmega, D> of F along it."""

    inputs: Array
    outputs: Array
    direction: Array
    slope: Array


def damped_inputs(K: Array, delta: float) -> Array:
    """K~ = K + delta mean(diag(K)) I."""
    return plus_identity(K, delta * mean_diagonal(K))


def damped_outputs(S: Array, epsilon: float, gain: Array) -> Array:
    """S~ = gain (S/mean(diag(S)) + epsilon I)/(1 + epsilon)."""
    return gain * plus_identity(S / mean_diagonal(S), epsilon) / (1 + epsilon)


def mean_diagonal(M: Array) -> Array:
    """The mean of the diagonal, never zero."""
    return xp.maximum(M.trace() / M.shape[0], np.finfo(M.dtype).tiny)


def positions_of(problem: Problem, data: Data) -> list[Any]:
    """How many positions of a sample count at each layer, on average."""
    samples, masks = data.samples, problem.masks(data.x)
    return [
        layer.positions if mask is None else samples.total(mask) / samples.mass(data.x)
        for layer, mask in zip(problem.layers, masks, strict=True)
    ]


def layer_gains(positions: Sequence[Any], squares: Sequence[Array]) -> Array:
    """|r_l|^2 / |r_L|^2 of each layer, from |r_l|^2; 1 where nothing arrives.

    A layer with T positions has T r and T a in the gradient of one sample, and both moments add
    them up: where they do not depend on each other the curvature is 1/T of the product of the two
    sums (Grosse and Martens, 2016).
    """
    sizes = xp.stack([s / count for count, s in zip(positions, squares, strict=True)])
    gains = sizes / xp.maximum(sizes[-1], np.finfo(sizes.dtype).tiny)
    return xp.where(gains > 0, gains, 1)


def with_quadratic(layer: Layer, term: Regularizer, G: Array, V: Array) -> Array:
    """The gradient in V = [W b] of the loss, G, and of lambda/2 |W|^2."""
    strength = term.quadratic
    if strength is None or (isinstance(strength, float | int) and strength == 0):
        return G
    (G_W, G_b), (W, _) = layer.from_matrix(G), layer.from_matrix(V)
    return layer.to_matrix(G_W + strength * W, G_b)


def prox_of_weights(layer: Layer, term: Regularizer, V: Array, step: Array) -> Array:
    """argmin_V' 1/2 |V' - V|^2 + step Omega(W'), V = [W b]: b stays as it is."""
    W, b = layer.from_matrix(V)
    return layer.to_matrix(term.prox(W, step), b)


def prox_in_metric(
    layer: Layer, term: Regularizer, V: Array, G: Array, m: Metric, t: Array
) -> Array:
    """argmin_V' <G, V' - V> + 1/(2t) <S~ (V' - V) K~, V' - V> + Omega(W'), V = [W b], by FISTA.

    A few steps from V: the last one is a prox, so zeros and constraints are exact. The largest
    eigenvalue of a symmetric matrix is at most its largest row sum. A step of 0 leaves V as it is.
    """
    moves = t > 0
    t = xp.where(moves, t, 1)
    bound = xp.max(xp.sum(xp.abs(m.inputs), 1)) * xp.max(xp.sum(xp.abs(m.outputs), 1)) / t

    def advance(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        best, ahead, momentum = carry
        slope = G + m.outputs @ (ahead - V) @ m.inputs / t
        new = prox_of_weights(layer, term, ahead - slope / bound, 1 / bound)
        following = (1 + xp.sqrt(1 + 4 * momentum**2)) / 2
        return new, new + (momentum - 1) / following * (new - best), following

    start = (V, V, np.ones((), V.dtype))
    return xp.where(moves, repeat(INNER_STEPS, advance, start)[0], V)
