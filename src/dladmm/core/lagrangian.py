"""L_rho, the residuals, and what a certificate needs of them: the only copy.

    L_rho = R(z_L; y) + sum_l Omega_l(W_l)
          + nu/2 sum_{l<L} (|z_l - p_l - b_l|^2 + |a_l - f_l(z_l)|^2)
          + <u, r> + rho/2 |r|^2,                      r = z_L - p_L - b_L        (eq. 1)
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from dladmm.core.problem import Problem
from dladmm.core.state import Data, Params, State, forward
from dladmm.core.updates import residual
from dladmm.terms.layers import mass, sample_squares, total


class Lagrangian(NamedTuple):
    """L_rho and its parts; gaps are norms, all sums are over weighted samples."""

    value: Array
    risk: Array
    regularization: Array
    residual: Array
    linear_gap: tuple[Array, ...]
    activation_gap: tuple[Array, ...]


def lagrangian(
    problem: Problem, data: Data, state: State, rho: Array, nu: Array
) -> Lagrangian:
    """L_rho at this state, from the running products: no matrix product."""
    weights = data.weights
    risk = total(problem.loss.value(state.z[-1], data.y), weights)
    regularization = sum(
        (term.value(W) for term, W in zip(problem.regularizers, state.W, strict=True)),
        start=jnp.zeros((), risk.dtype),
    )
    r = -residual(state.p[-1], state.b[-1], state.z[-1], None)
    squared_residual = total(sample_squares(r), weights)
    linear, activation = [], []
    for l, f in enumerate(problem.activations):
        gap = residual(state.p[l], state.b[l], state.z[l], None)
        linear.append(total(gap * gap, weights))
        activation.append(total((state.a[l] - f(state.z[l])) ** 2, weights))
    value = (
        risk
        + regularization
        + nu / 2 * sum(linear + activation, start=jnp.zeros((), risk.dtype))
        + total(state.u * r, weights)
        + rho / 2 * squared_residual
    )
    return Lagrangian(
        value,
        risk,
        regularization,
        jnp.sqrt(squared_residual),
        tuple(jnp.sqrt(v) for v in linear),
        tuple(jnp.sqrt(v) for v in activation),
    )


def lemma2_violation(problem: Problem, data: Data, state: State) -> Array:
    """max |grad R(z_L) + u|: zero after each dual update if z_L was solved exactly (Lemma 2)."""
    violation = jnp.abs(problem.loss.gradient(state.z[-1], data.y) + state.u)
    if data.weights is not None:
        violation = jnp.where(data.weights[:, None] > 0, violation, 0)
    return jnp.max(violation)


class Evaluation(NamedTuple):
    """The network itself on some data: mean loss per sample and, for classes, accuracy."""

    loss: Array
    accuracy: Array


@partial(jax.jit, static_argnames="problem")
def evaluate(
    problem: Problem, params: Params, x: Array, y: Array, weights: Array | None
) -> Evaluation:
    """One forward pass. Means are weighted; accuracy is NaN where the loss does not classify."""
    z = forward(problem, params, x)
    count = mass(x.shape[0], weights, z.dtype)
    loss = total(problem.loss.value(z, y), weights) / count
    if not problem.loss.classifies:
        return Evaluation(loss, jnp.full((), jnp.nan, z.dtype))
    hits = (jnp.argmax(z, -1) == jnp.argmax(y, -1)).astype(z.dtype)
    return Evaluation(loss, total(hits, weights) / count)


@partial(jax.jit, static_argnames="problem")
def subgradient_norm(
    problem: Problem, data: Data, state: State, rho: Array, nu: Array
) -> Array:
    """The norm of the smallest subgradient of L_rho over all blocks, u included.

    At a kink of f the smallest element between (a minimum) or at (a maximum) the one-sided
    derivatives is taken. z_l with a discontinuous f_l is left out: L_rho has no subgradient there.
    """
    weights, last = data.weights, problem.n_layers - 1
    inputs = (data.x, *state.a)
    squares: list[Array] = []
    back: Array | None = None  # c r W of the layer above, its part of the a-gradient
    for l in range(last, -1, -1):
        layer, c = problem.layers[l], rho if l == last else nu
        z, p, b, W = state.z[l], state.p[l], state.b[l], state.W[l]
        r = residual(p, b, z, state.u / rho if l == last else None)
        if l == last:
            squares += [
                total(sample_squares(problem.loss.gradient(z, data.y) - c * r), weights),
                total(sample_squares(residual(p, b, z, None)), weights),
            ]
        else:
            f = problem.activations[l]
            mismatch = nu * (state.a[l] - f(z))
            squares.append(total(sample_squares(back + mismatch), weights))
            if f.continuous:
                left, right = (-c * r - mismatch * slope for slope in f.slopes(z))
                inner = (left <= 0) & (right >= 0)
                least = jnp.where(inner, 0, jnp.minimum(jnp.abs(left), jnp.abs(right)))
                squares.append(total(sample_squares(least), weights))
        G = c * layer.adjoint_W(r, inputs[l], weights)
        squares.append(jnp.sum(problem.regularizers[l].subgradient(W, G) ** 2))
        count = mass(r.shape[0], weights, r.dtype)
        squares.append(jnp.sum((c * count * layer.unit_mean(r, weights)) ** 2))
        back = c * layer.adjoint_a(W, r)
    return jnp.sqrt(sum(squares, start=jnp.zeros((), rho.dtype)))


def relative_change(new: State, old: State) -> Array:
    """|(W, b)+ - (W, b)| / |(W, b)+|, over all layers."""
    pairs = [*zip(new.W, old.W, strict=True), *zip(new.b, old.b, strict=True)]
    change = jnp.sum(jnp.stack([jnp.sum((one - two) ** 2) for one, two in pairs]))
    size = jnp.sum(jnp.stack([jnp.sum(one**2) for one, _ in pairs]))
    return jnp.sqrt(change / jnp.maximum(size, jnp.finfo(size.dtype).tiny))
