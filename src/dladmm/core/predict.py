"""The network's output for new inputs, one compilation for all batch sizes of a magnitude.

Rows are padded to a bucket and computed in float64: a prediction does not depend on the batch it
is in beyond rounding far below float32's.
"""

from functools import partial
from typing import Any

import jax
import numpy as np
from jax import Array
from scipy import sparse

from dladmm.core.params import Params, forward
from dladmm.core.problem import Problem

BUCKETS = (8, 128, 2048)


@partial(jax.jit, static_argnames="problem")
def _output(problem: Problem, params: Params, x: Array) -> tuple[Array, Array]:
    z = forward(problem, params, x)
    return z, problem.loss.predict(z)


def predict_output(problem: Problem, params: Params, x: Any) -> tuple[np.ndarray, np.ndarray]:
    """(z_L, what it stands for) as float64, by blocks of rows; x is dense, or a CSR matrix."""
    n = x.shape[0]
    outputs = np.empty((2, n, *problem.out_shape))
    bucket = next((size for size in BUCKETS if n <= size), BUCKETS[-1])
    with jax.enable_x64(True):
        wide = jax.tree.map(partial(np.asarray, dtype=np.float64), params)
        for start in range(0, n, bucket):
            rows = x[start : start + bucket]
            rows = np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)
            missing = bucket - rows.shape[0]
            padded = np.pad(rows, ((0, missing), *((0, 0),) * (rows.ndim - 1)))
            for out, block in zip(outputs, _output(problem, wide, padded), strict=True):
                out[start : start + rows.shape[0]] = np.asarray(block)[: rows.shape[0]]
    return outputs[0], outputs[1]
