"""One iteration of each method: Algorithm 1 of the paper, and the baseline's order beside it.

Both take and return a State and tell what they did in a Record of scalars. Everything that is a
sum over samples goes through `terms.layers`, so a sharded run calls these very functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.linalg import cho_factor, cho_solve

from dladmm.core.blocks import Blocks
from dladmm.core.lagrangian import Lagrangian, lagrangian, lemma2_violation, relative_change
from dladmm.core.problem import Problem
from dladmm.core.samples import Samples
from dladmm.core.state import Data, State
from dladmm.core.step_rules import StepRule
from dladmm.core.updates import update_z, update_zL
from dladmm.terms.layers import weighted


@dataclass(frozen=True)
class SweepOptions:
    """How the subproblems are solved."""

    step_rule: StepRule
    zl_solver: str


class Record(NamedTuple):
    """What one iteration tells; scalars only, so that a single small transfer brings all of it.

    `moved` is the sum in c_k (Theorem 3), `bound` the sum that bounds the subgradient (Property
    3), theta and tau their least values, `change` the relative change of (W, b), `zl_change`
    the norm of z_L's change. Quantities a method does not have are NaN.
    """

    lagrangian: Lagrangian
    lemma2: Array
    moved: Array
    bound: Array
    theta: Array
    tau: Array
    change: Array
    zl_change: Array
    zl_iterations: Array
    trials: Array
    exhausted: Array


def dladmm_sweep(
    problem: Problem, options: SweepOptions, data: Data, state: State, rho: Array, nu: Array
) -> tuple[State, Record]:
    """Algorithm 1: every block backward from layer L to 1, then forward from 1 to L, then u."""
    blocks = Blocks(problem, options.step_rule, options.zl_solver, data, state, rho, nu)
    last = problem.n_layers - 1

    for l in range(last, -1, -1):
        if l < last:
            blocks.step_a(l)
        blocks.step_z(l)
        blocks.step_b(l)
        blocks.step_W(l)

    blocks.turn()

    for l in range(last + 1):
        blocks.step_W(l)
        blocks.step_b(l)
        blocks.step_z(l)
        if l < last:
            blocks.step_a(l)

    new = blocks.step_u()
    return new, Record(
        lagrangian=lagrangian(problem, data, new, rho, nu),
        lemma2=lemma2_violation(problem, data, new),
        moved=blocks.moved(),
        bound=blocks.subgradient_bound(new),
        theta=blocks.least_curvature("W"),
        tau=blocks.least_curvature("a"),
        change=relative_change(new, state),
        zl_change=jnp.sqrt(data.samples.total((new.z[-1] - state.z[-1]) ** 2)),
        zl_iterations=blocks.zl_iterations,
        trials=blocks.trials(),
        exhausted=blocks.exhausted(),
    )


def admm_sweep(
    problem: Problem, options: SweepOptions, data: Data, state: State, rho: Array, nu: Array
) -> tuple[State, Record]:
    """Taylor et al. (2016): one forward pass, W_l -> a_l -> z_l by least squares, then the dual.

    They write penalties without the 1/2: with beta = gamma = rho, L_rho here is that of penalties
    2 beta, and the dual step is beta. Weights and bias are one least-squares problem, with the
    layer's own l2 strength and a ridge at rounding level. `nu` is not used.
    """
    beta, last = rho, problem.n_layers - 1
    W, b, z, a, p = (list(v) for v in (state.W, state.b, state.z, state.a, state.p))
    for l, layer in enumerate(problem.layers):
        a_prev = data.x if l == 0 else a[l - 1]
        ridge = (problem.regularizers[l].quadratic or 0) / (2 * beta)
        W[l], b[l] = least_squares(a_prev, z[l], data.samples, ridge)
        p[l] = layer.apply(W[l], a_prev)
        if l < last:
            f = problem.activations[l]
            V, target = W[l + 1], z[l + 1] - b[l + 1]
            # The minimiser of beta |target - a V^T|^2 + beta |a - f(z)|^2, one factor for all.
            factor = cho_factor(V.T @ V + jnp.eye(V.shape[1], dtype=V.dtype))
            a[l] = cho_solve(factor, (target @ V + f(z[l])).T).T
            z[l] = update_z(f, z[l], p[l], b[l], a[l])
        else:
            given = (p[l], b[l], z[l], state.u, data.y, 2 * beta, data.samples)
            z[l], used = update_zL(problem.loss, options.zl_solver, *given)
    u = state.u + beta * (z[-1] - p[-1] - b[-1])
    new = State(tuple(W), tuple(b), tuple(z), tuple(a), tuple(p), u)
    nan, none = jnp.full((), jnp.nan, u.dtype), jnp.zeros((), jnp.int32)
    return new, Record(
        lagrangian=lagrangian(problem, data, new, 2 * beta, 2 * beta),
        lemma2=lemma2_violation(problem, data, new),
        moved=nan,
        bound=nan,
        theta=nan,
        tau=nan,
        change=relative_change(new, state),
        zl_change=jnp.sqrt(data.samples.total((new.z[-1] - state.z[-1]) ** 2)),
        zl_iterations=used,
        trials=none,
        exhausted=none,
    )


def least_squares(
    a: Array, z: Array, samples: Samples, ridge: Array | float
) -> tuple[Array, Array]:
    """argmin_{W,b} sum_i omega_i |z_i - W a_i - b|^2 + ridge |W|^2, by the normal equations.

    The samples are centred first, which takes b out; sqrt(eps) of the mean diagonal is added to
    the Gram matrix, so that constant or repeated inputs have a solution too.
    """
    count, weights = samples.mass(a), samples.weights
    a_mean = samples.sum(jnp.sum(weighted(a, weights), 0)) / count
    z_mean = samples.sum(jnp.sum(weighted(z, weights), 0)) / count
    centred = a - a_mean
    K = samples.sum(weighted(centred, weights).T @ centred)
    eps = np.finfo(a.dtype).eps ** 0.5
    shift = ridge + eps * jnp.mean(jnp.diag(K)) + np.finfo(a.dtype).tiny
    factor = cho_factor(K + shift * jnp.eye(K.shape[0], dtype=K.dtype))
    W = cho_solve(factor, samples.sum(weighted(centred, weights).T @ (z - z_mean))).T
    return W, z_mean - W @ a_mean


Sweep = Callable[[Problem, SweepOptions, Data, State, Array, Array], tuple[State, Record]]
SWEEPS: dict[str, Sweep] = {"dladmm": dladmm_sweep, "admm": admm_sweep}
