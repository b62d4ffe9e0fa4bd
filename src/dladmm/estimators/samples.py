"""Samples of any shape as rows: what the estimators check, split and scale is a matrix.

The rows are put back into their shape where a network reads them, which copies nothing.
"""

from math import prod
from typing import Any

import numpy as np

from dladmm.data.sequences import padded
from dladmm.network import Network


def as_rows(network: Network | None, X: Any) -> Any:
    """X with one row for each sample of a network; ValueError for another shape.

    Sequences of unequal length, a list of (steps, channels), get zeros in front and one channel
    more, which is 1 where a sequence is. A matrix, and anything without a network, is left alone.
    """
    if network is None:
        return X
    if not isinstance(network, Network):
        raise ValueError(f"network={network!r} is not valid; expected a dladmm.Network")
    shape = network.in_shape
    if isinstance(X, list | tuple) and X and np.ndim(X[0]) == 2 and len(shape) == 2:
        return padded(X, shape).reshape(len(X), -1)
    array = X if hasattr(X, "shape") else np.asarray(X)
    if array.ndim <= 2:
        return X
    if array.shape[1:] not in (shape, shape[:-1] if shape[-1] == 1 else shape):
        raise ValueError(
            f"X has shape {array.shape}; expected (n, {', '.join(map(str, shape))}), as the network"
            " reads"
        )
    return np.asarray(array).reshape(array.shape[0], prod(shape))
