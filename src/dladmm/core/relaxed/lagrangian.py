"""L_rho, the residuals, and what a certificate needs of them: the only copy.

L_rho = R(z_L; y) + sum_l Omega_l(W_l)
      + nu/2 sum_{l<L} (|z_l - p_l - b_l|^2 + |a_l - f_l(z_l)|^2)
      + <u, r> + rho/2 |r|^2,                      r = z_L - p_L - b_L        (eq. 1)
"""

from typing import Any, NamedTuple

import numpy as np

from dladmm.core.data import Data
from dladmm.core.evaluate import regularization
from dladmm.core.problem import Problem
from dladmm.core.relaxed.state import State
from dladmm.core.relaxed.updates import residual
from dladmm.engine.arrays import Array, xp
from dladmm.engine.programs import compiled
from dladmm.engine.sums import added, masked, squared_norm, total
from dladmm.engine.walks import Folded


class Lagrangian(NamedTuple):
    """L_rho and its parts; gaps are norms, all sums are over weighted samples."""

    value: Array
    risk: Array
    regularization: Array
    residual: Array
    linear_gap: tuple[Array, ...]
    activation_gap: tuple[Array, ...]


class Sums(NamedTuple):
    """The sums that L_rho is made of; those of groups of layers add up to those of the network."""

    risk: Array
    penalty: Array
    square: Array
    dual: Array
    linear: tuple[Array, ...]
    activation: tuple[Array, ...]


def lagrangian(problem: Problem, data: Data, state: State, rho: Array, nu: Array) -> Lagrangian:
    """L_rho at this state, from the running products: no matrix product."""
    return from_sums(lagrangian_sums(problem, data, state), rho, nu)


def lagrangian_sums(problem: Problem, data: Data, state: State) -> Sums:
    """Its sums over the layers that are here, zero for all others."""

    # Over whole arrays: each sum is one kernel that reads them once and stores nothing.
    total = data.samples.total
    penalty = regularization(problem, state.W)
    zero = np.zeros((), penalty.dtype)
    linear, activation = [], []
    for l, f in enumerate(problem.activations):
        p, b, z, a = state.p[l], state.b[l], state.z[l], state.a[l]
        linear.append(zero if p is None else total(residual(p, b, z, None) ** 2))
        activation.append(zero if a is None or z is None else total((a - f(z)) ** 2))
    if state.u is None:
        return Sums(zero, penalty, zero, zero, tuple(linear), tuple(activation))
    r = -residual(state.p[-1], state.b[-1], state.z[-1], None)
    risk = total(problem.loss.value(state.z[-1], data.y))
    square, dual = total(r * r), total(state.u * r)
    return Sums(risk, penalty, square, dual, tuple(linear), tuple(activation))


def from_sums(sums: Sums, rho: Array, nu: Array) -> Lagrangian:
    """L_rho and its parts."""
    risk, penalty, square, dual, linear, activation = sums
    relaxed = nu / 2 * sum(linear + activation, np.zeros((), risk.dtype))
    return Lagrangian(
        risk + penalty + relaxed + dual + rho / 2 * square,
        risk,
        penalty,
        xp.sqrt(square),
        tuple(xp.sqrt(v) for v in linear),
        tuple(xp.sqrt(v) for v in activation),
    )


def penalised(parts: Lagrangian, rho: Array, nu: Array) -> Array:
    """L_rho without <u, r>: never below the smallest risk, whatever rho is."""
    gaps = sum((gap**2 for gap in parts.linear_gap + parts.activation_gap), np.zeros(()))
    return parts.risk + parts.regularization + nu / 2 * gaps + rho / 2 * parts.residual**2


def lemma2_violation(problem: Problem, data: Data, state: State) -> Array:
    """max |grad R(z_L) + u|: zero after each dual update if z_L was solved exactly (Lemma 2)."""
    violation = problem.loss.stationarity(state.z[-1], data.y, state.u)
    if data.weights is not None:
        violation = xp.where(data.weights[:, None] > 0, violation, 0)
    return data.samples.most(xp.max(violation))


@compiled("problem")
def subgradient_norm(problem: Problem, data: Data, state: State, rho: Array, nu: Array) -> Array:
    """The norm of the smallest subgradient of L_rho over all blocks, u included.

    At a kink of f the smallest element between (a minimum) or at (a maximum) the one-sided
    derivatives is taken. z_l is left out where f_l jumps, since L_rho has no subgradient there, and
    where f_l pools: its argmin_z leaves several z of a window at the maximum.
    """
    last = problem.n_layers - 1

    def body(weights: Array | None, _: Any, read: Any) -> tuple[Any, Folded]:
        """Squares over (z, a, u), and the gradients in each W and b, of one block of samples."""
        x, y, z, a, p, u = read
        masks = problem.masks(x)
        squares: list[Array] = []
        gradients: list[Any] = []
        c = [*[nu] * last, rho]
        r = [residual(p[l], state.b[l], z[l], None) for l in range(last + 1)]
        squares.append(total(r[last] ** 2, weights))
        r[last] = r[last] - u / rho
        for l in range(last, -1, -1):
            layer = problem.layers[l]
            if l == last:
                slope = problem.loss.stationarity(z[l], y, -rho * r[l])
                squares.append(total(slope**2, weights))
            else:
                f = problem.activations[l]
                mismatch = nu * (a[l] - f(z[l]))
                back = added(
                    c[k] * problem.layers[k].pullback(state.W[k], r[k], places)
                    for k, places in problem.readers[l]
                )
                squares.append(total(masked(back + mismatch, masks[l]) ** 2, weights))
                if f.continuous and not f.pools:
                    left, right = (-nu * r[l] - mismatch * slope for slope in f.slopes(z[l]))
                    inner = (left <= 0) & (right >= 0)
                    least = xp.where(inner, 0, xp.minimum(xp.abs(left), xp.abs(right)))
                    squares.append(total(least**2, weights))
            inputs = problem.inputs_of(l, x, a)
            G, g = layer.from_matrix(layer.gradient_matrix(r[l], inputs, weights))
            gradients.append((c[l] * G, c[l] * g))
        return (), Folded(sum=(sum(squares), gradients))

    read = (data.x, data.y, state.z, state.a, state.p, state.u)
    square, gradients = data.samples.walk(body, (), read)[1].sum
    for (G, g), W, term in zip(gradients[::-1], state.W, problem.regularizers, strict=True):
        square = square + squared_norm(term.subgradient(W, G)) + squared_norm(g)
    return xp.sqrt(square)
