"""The network's output for new inputs, in float64, by blocks of rows.

A prediction does not depend on the batch it is in beyond rounding far below float32's. NumPy
computes it, unless a term of the network needs JAX; rows are then padded to a few sizes, one
program for each.
"""

from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from dladmm.core.params import Params, forward, forward_pass
from dladmm.core.problem import Problem
from dladmm.engine import trees
from dladmm.engine.arrays import Array, xp
from dladmm.engine.devices import Engine
from dladmm.engine.programs import compiled
from dladmm.engine.sums import flat_rows

BLOCKS = (8, 128, 2048)  # rows that are computed at once


@compiled("problem")
def _output(problem: Problem, params: Params, x: Array) -> tuple[Array, Array]:
    z = forward(problem, params, x)
    return z, problem.loss.predict(z)


@compiled("problem")
def _leverage(problem: Problem, params: Params, x: Array, covariance: Array) -> tuple[Array]:
    """v^T C v of each sample, v the row [a, 1] that its last layer sees."""
    layer, a = problem.layers[-1], forward_pass(problem, params, x)[0][-1]
    rows = flat_rows(layer.expand(a))
    v = layer.to_matrix(rows, xp.ones_like(rows[:, 0]))
    return (xp.sum(v @ covariance * v, axis=1, keepdims=True),)


def predict_output(problem: Problem, params: Params, x: Any) -> tuple[np.ndarray, np.ndarray]:
    """(z_L, what it stands for) as float64, by blocks of rows; x is dense, or a CSR matrix."""
    z, value = _by_blocks(_output, problem, params, x, 2, problem.out_shape)
    return z, value


def predict_leverage(
    problem: Problem, params: Params, x: Any, covariance: np.ndarray
) -> np.ndarray:
    """How far the weights of the last layer, uncertain by `covariance`, move each output."""
    function = partial(_leverage, covariance=np.asarray(covariance, np.float64))
    return _by_blocks(function, problem, params, x, 1, (1,))[0][:, 0]


def _by_blocks(
    function: Any, problem: Problem, params: Params, x: Any, count: int, shape: tuple[int, ...]
) -> np.ndarray:
    """So many results of this shape for each row."""
    n, engine = x.shape[0], Engine(problem.needs_jax, one_thread=True)
    outputs = np.empty((count, n, *shape))
    size = next((size for size in BLOCKS if n <= size), BLOCKS[-1])
    with engine.computing("float64"):
        wide = engine.replicate(trees.map(partial(np.asarray, dtype=np.float64), params))
        for start in range(0, n, size):
            rows = x[start : start + size]
            rows = np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)
            rows = rows.reshape(len(rows), *problem.in_shape)
            placed = engine.place_rows(rows, size if engine.is_jax else len(rows), "constant")
            for out, block in zip(outputs, function(problem, wide, placed), strict=True):
                out[start : start + rows.shape[0]] = np.asarray(block)[: rows.shape[0]]
    return outputs
