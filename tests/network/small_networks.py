"""Small networks of every kind, for the tests that hold for all of them."""

import numpy as np

from dladmm.network import (
    AveragePool,
    Conv1D,
    Conv2D,
    Dense,
    Flatten,
    GlobalAveragePool,
    Masking,
    MaxPool,
    Network,
    Recurrent,
    Residual,
)

CNN = Network(
    (7, 6, 2),
    [Conv2D(4, 3), "relu", MaxPool(2), Conv2D(3, 2, padding="same"), "relu", Flatten(), Dense(3)],
)
POOLED = Network(
    (8, 8, 1),
    [Conv2D(3, 3, strides=(2, 1), dilation=(1, 2)), "relu", AveragePool((1, 2)), Conv2D(4, 2),
     "leaky_relu", GlobalAveragePool(), Dense(3)],
)  # fmt: skip
SEQUENCE = Network((9, 2), [Conv1D(4, 3), "relu", MaxPool(2), Conv1D(3, 2), "tanh", Dense(3)])
RESIDUAL = Network(
    (6, 6, 2),
    [
        *(Conv2D(4, 3, padding="same"), "relu"),
        *(Residual([Conv2D(4, 3, padding="same"), "relu", Conv2D(4, 3, padding="same")]), "relu"),
        *(Residual([Conv2D(5, 3, strides=2, padding="same")]), "relu", Dense(3)),
    ],
)
RECURRENT = Network((5, 2), [Recurrent(4, "relu"), Dense(3)])
STACKED = Network((5, 2), [Recurrent(4, states="all"), Recurrent(3, "tanh"), Dense(3)])
MASKED = Network((5, 3), [Masking(), Recurrent(4, "relu", states="all"), Recurrent(3), Dense(3)])
GROUPED = Network(
    (6, 5, 4),
    [Conv2D(6, 3, padding="same", groups=2), "relu", MaxPool(2), Conv2D(3, 2, groups=3), "relu",
     Dense(3)],
)  # fmt: skip
SKIPS = Network((4,), [Residual([Dense(5), "tanh", Dense(4)]), "relu", Dense(3)])

NETWORKS = {
    "cnn": CNN,
    "pooled": POOLED,
    "sequence": SEQUENCE,
    "residual": RESIDUAL,
    "recurrent": RECURRENT,
    "stacked": STACKED,
    "grouped": GROUPED,
    "masked": MASKED,
    "skips": SKIPS,
}


def samples_of(network, rng, n):
    """Random samples; sequences of all lengths where the network masks them."""
    x = rng.normal(size=(n, *network.in_shape))
    if isinstance(network.layers[0], Masking):
        steps = network.in_shape[0]
        x[..., -1] = 1
        x[np.arange(steps) < np.arange(n)[:, None] % steps] = 0
    return x
