"""The baseline: the ADMM of Taylor et al. (2016), in the variables of L_rho."""

import numpy as np

from dladmm.core.data import Data
from dladmm.core.evaluate import relative_change
from dladmm.core.problem import Problem
from dladmm.core.relaxed.lagrangian import lagrangian, lemma2_violation
from dladmm.core.relaxed.state import State
from dladmm.core.relaxed.step_rules import SweepOptions
from dladmm.core.relaxed.sweep import Record
from dladmm.core.relaxed.updates import Phi, update_z, update_zL
from dladmm.engine.arrays import Array, xp
from dladmm.engine.linalg import factored, identity, solve_factored
from dladmm.engine.sums import flat_rows, weighted
from dladmm.engine.walks import Samples
from dladmm.terms.layers import Layer


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
        a_prev = problem.inputs_of(l, data.x, a)
        ridge = (problem.regularizers[l].quadratic or 0) / (2 * beta)
        W[l], b[l] = least_squares(layer, a_prev, z[l], data.samples, ridge)
        p[l] = layer.apply(W[l], a_prev)
        if l < last:
            f, above = problem.activations[l], problem.layers[l + 1]
            V, target = W[l + 1], z[l + 1] - b[l + 1]
            # The minimiser of beta |target - A(V, a)|^2 + beta |a - f(z)|^2, one factor for all.
            K = above.input_gram(V)
            right = above.adjoint_a(V, target) + f(z[l])
            flat = right.reshape(right.shape[0], -1)
            solved = solve_factored(factored(K + identity(K)), flat.T).T
            a[l] = solved.reshape(right.shape)
            z[l] = update_z(f, z[l], p[l], b[l], a[l])
        else:
            phi = Phi(layer, W[l], p[l], b[l], z[l], None, 2 * beta)
            given = (phi, state.u, data.y, data.samples)
            z[l], used = update_zL(problem.loss, options.zl_solver, *given)
    u = state.u + beta * (z[-1] - p[-1] - b[-1])
    new = State(tuple(W), tuple(b), tuple(z), tuple(a), tuple(p), u)
    nan, none = np.full((), np.nan, u.dtype), np.zeros((), np.int32)
    return new, Record(
        lagrangian=lagrangian(problem, data, new, 2 * beta, 2 * beta),
        lemma2=lemma2_violation(problem, data, new),
        moved=nan,
        bound=nan,
        theta=nan,
        tau=nan,
        change=relative_change(new, state),
        zl_change=xp.sqrt(data.samples.total((new.z[-1] - state.z[-1]) ** 2)),
        zl_iterations=used,
        trials=none,
        exhausted=none,
    )


def least_squares(
    layer: Layer, a: Array, z: Array, samples: Samples, ridge: Array | float
) -> tuple[Array, Array]:
    """argmin_{W,b} sum_i omega_i |z_i - A(W, a_i) - b|^2 + ridge |W|^2, by the normal equations.

    The rows are centred first, which takes b out; sqrt(eps) of the mean diagonal is added to the
    Gram matrix, so that constant or repeated inputs have a solution too.
    """
    count, weights, rows = layer.unit_count(samples.mass(a)), samples.weights, layer.expand(a)
    row_mean = samples.sum(layer.unit_sum(rows, weights)) / count
    z_mean = samples.sum(layer.unit_sum(z, weights)) / count
    centred = rows - row_mean
    K = samples.sum(layer.unit_gram(centred, weights))
    eps = np.finfo(a.dtype).eps ** 0.5
    shift = ridge + eps * xp.mean(xp.diag(K)) + np.finfo(a.dtype).tiny
    right = samples.sum(flat_rows(weighted(centred, weights)).T @ flat_rows(z - z_mean))
    W = solve_factored(factored(K + shift * identity(K)), right).T
    return W, z_mean - W @ row_mean
