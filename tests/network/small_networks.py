"""Small networks of every kind, for the tests that hold for all of them."""

from dladmm.network import (
    AveragePool,
    Conv1D,
    Conv2D,
    Dense,
    Flatten,
    GlobalAveragePool,
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
SKIPS = Network((4,), [Residual([Dense(5), "tanh", Dense(4)]), "relu", Dense(3)])

NETWORKS = {
    "cnn": CNN,
    "pooled": POOLED,
    "sequence": SEQUENCE,
    "residual": RESIDUAL,
    "recurrent": RECURRENT,
    "stacked": STACKED,
    "skips": SKIPS,
}
