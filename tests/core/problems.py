"""Small problems for the tests of whole runs, and formulas of the paper in plain NumPy."""

from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np

from dladmm import Options, Params, Problem, solve
from dladmm.core.data import make_data
from dladmm.core.initial import initial_params
from dladmm.core.relaxed.admm import admm_sweep
from dladmm.core.relaxed.state import State, state_from_params
from dladmm.core.relaxed.step_rules import STEP_RULES, SweepOptions
from dladmm.core.relaxed.sweep import dladmm_sweep

SWEEPS = {"dladmm": dladmm_sweep, "admm": admm_sweep}
RHO = {"log_loss": 1.2, "squared_error": 2.5}  # both above 2H


def inputs(n=60, n_in=6, seed=0):
    return np.random.default_rng(seed).normal(size=(n, n_in))


def targets(loss, x, n_out=3, seed=1):
    """One-hot rows for log_loss, smooth values for squared_error; not linear in x."""
    rng = np.random.default_rng(seed)
    values = np.sin(x @ rng.normal(size=(x.shape[1], n_out)))
    return np.eye(n_out)[np.argmax(values, axis=1)] if loss == "log_loss" else values


def small(loss="squared_error", n=40, sizes=(4, 5, 3), **terms):
    """A problem with one hidden layer unless `sizes` says more, and its data."""
    x = inputs(n, sizes[0])
    return Problem.dense(sizes, loss=loss, **terms), x, targets(loss, x, sizes[-1])


@lru_cache
def solved(loss="squared_error", activation="relu", sizes=(6, 8, 3), **options):
    """A float64 run of the vector rule on 60 samples with rho > 2H and u from Lemma 2, unless
    options differ."""
    problem, x, y = small(loss, 60, sizes, activation=activation)
    settings = {
        "method": "dladmm",
        "step_rule": "closed-form",
        "rho": RHO[loss],
        "max_iter": 200,
        "tol": None,
        "dual_start": "gradient",
    }
    return solve(problem, x, y, options=Options(**settings | {"dtype": "float64"} | options))


def teacher(activation="tanh", sizes=(4, 6, 2), n=80):
    """A network and the data it generated: its own parameters have no error."""
    rng = np.random.default_rng(5)
    problem = Problem.dense(sizes, activation, "squared_error")
    W = tuple(rng.normal(size=layer.weight_shape) / 2 for layer in problem.layers)
    b = tuple(rng.normal(size=layer.bias_shape) / 4 for layer in problem.layers)
    x = inputs(n, sizes[0])
    params = Params(W, b)
    return problem, params, x, network(params, x, {"tanh": np.tanh, "relu": relu}[activation])


@partial(jax.jit, static_argnums=(0, 1, 2))
def sweep(method, problem, options, data, state, rho, nu):
    return SWEEPS[method](problem, options, data, state, rho, nu)


def start(problem, x, y, weights=None, seed=0, dual_from_gradient=True):
    """Data and the feasible first state of a run."""
    x, y, weights = (None if v is None else jnp.asarray(v) for v in (x, y, weights))
    data = make_data(problem, x, y, weights)
    params = initial_params(problem, "he", seed, x.dtype)
    return data, state_from_params(problem, params, data, dual_from_gradient)


def scattered(problem, x, y, weights=None, seed=3):
    """Data and a state in which nothing is feasible or optimal, its products up to date."""
    rng = np.random.default_rng(seed)
    data, state = start(problem, x, y, weights, seed)
    W, b, z, a, u = jax.tree.map(
        lambda v: v + rng.normal(size=v.shape) / 2, (state.W, state.b, state.z, state.a, state.u)
    )
    p = tuple(v @ M.T for v, M in zip((data.x, *a), W, strict=True))
    return data, State(W, b, z, a, p, u)


def trajectory(problem, x, y, rho, nu, n_iter, *, method="dladmm", zl_solver="newton", **options):
    """The states and records of n_iter sweeps, by the sweep alone: no loop, no recovery."""
    data, state = start(problem, x, y, **options)
    how = SweepOptions(STEP_RULES["closed-form"], zl_solver)
    for _ in range(n_iter):
        state, record = sweep(method, problem, how, data, state, jnp.asarray(rho), jnp.asarray(nu))
        yield state, record


def relu(z):
    return np.maximum(z, 0)


def network(params, x, f):
    """The output of a network whose hidden layers all have the activation f."""
    a = x
    for W, b in zip(params.W, params.b, strict=True):
        z = np.asarray(a) @ np.asarray(W).T + np.asarray(b)
        a = f(z)
    return z


def loss_gradient(loss, z, y):
    """dR/dz for each sample."""
    if loss == "squared_error":
        return z - y
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True) - y


def loss_value(loss, z, y):
    """R for each sample."""
    if loss == "squared_error":
        return 0.5 * ((z - y) ** 2).sum(axis=1)
    top = z.max(axis=1)
    return top + np.log(np.exp(z - top[:, None]).sum(axis=1)) - (y * z).sum(axis=1)


def biggest_difference(one, two):
    """max |one - two| over two pytrees, relative to the largest entry of `one`."""
    pairs = list(zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True))
    scale = max(np.abs(v).max() for v, _ in pairs)
    return max(np.abs(np.asarray(v) - np.asarray(w)).max() for v, w in pairs) / scale
