"""The network's output for new inputs, one compilation for all batch sizes of a magnitude.

Rows are padded to a bucket and computed in float64: a prediction does not depend on the batch it
is in beyond rounding far below float32's.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import sparse

from dladmm.core.params import Params, forward
from dladmm.core.problem import Problem
from dladmm.core.restored.point import forward_pass
from dladmm.terms.sums import flat_rows

BUCKETS = (8, 128, 2048)


@partial(jax.jit, static_argnames="problem")
def _output(problem: Problem, params: Params, x: Array) -> tuple[Array, Array]:
    z = forward(problem, params, x)
    return z, problem.loss.predict(z)


@partial(jax.jit, static_argnames="problem")
def _leverage(problem: Problem, params: Params, x: Array, covariance: Array) -> tuple[Array]:
    """v^T C v of each sample, v the row [a, 1] that its last layer sees."""
    layer, a = problem.layers[-1], forward_pass(problem, params, x)[0][-1]
    v = layer.to_matrix(flat_rows(layer.expand(a)), jnp.ones(len(x), x.dtype))
    return (jnp.sum(v @ covariance * v, axis=1, keepdims=True),)


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
    n = x.shape[0]
    outputs = np.empty((count, n, *shape))
    bucket = next((size for size in BUCKETS if n <= size), BUCKETS[-1])
    with jax.enable_x64(True):
        wide = jax.tree.map(partial(np.asarray, dtype=np.float64), params)
        for start in range(0, n, bucket):
            rows = x[start : start + bucket]
            rows = np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)
            missing = bucket - rows.shape[0]
            padded = np.pad(rows, ((0, missing), *((0, 0),) * (rows.ndim - 1)))
            for out, block in zip(outputs, function(problem, wide, padded), strict=True):
                out[start : start + rows.shape[0]] = np.asarray(block)[: rows.shape[0]]
    return outputs
