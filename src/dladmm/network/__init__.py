"""Networks beyond perceptrons: what they are written down with, and the graph it gives."""

from dladmm.network.items import (
    AveragePool,
    Conv1D,
    Conv2D,
    Dense,
    Flatten,
    GlobalAveragePool,
    Masking,
    MaxPool,
    Recurrent,
    Residual,
)
from dladmm.network.network import Network

__all__ = [
    "AveragePool",
    "Conv1D",
    "Conv2D",
    "Dense",
    "Flatten",
    "GlobalAveragePool",
    "Masking",
    "MaxPool",
    "Network",
    "Recurrent",
    "Residual",
]
