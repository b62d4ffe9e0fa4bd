"""Train a PyTorch network of your own: `dladmm.torch.train`.

It takes an `nn.Sequential` of `Linear`, `Conv1d`, `Conv2d`, `RNN`, poolings, `Flatten`, `Residual`
and supported activations, trains it from its current weights and leaves the new weights in it. A
module it cannot train is refused by naming the layer. `Sign`, `Step` and `QuantizedReLU` are
activations that only this library trains. `LastState` or `AllStates` stands after an `RNN`, which
returns a pair; `ChannelsFirst` and `ChannelsLast` turn the axes of a sample.
"""

from typing import Any

import numpy as np

# First: it says how to install PyTorch where it is missing.
import dladmm.export.torch_modules  # noqa: F401

# isort: split
import torch
from torch import nn

from dladmm.core.options import Options
from dladmm.core.problem import Problem
from dladmm.core.results import Callback, Result
from dladmm.core.solve import solve
from dladmm.export.torch_activations import Exp, QuantizedReLU, Sign, Step
from dladmm.export.torch_reading import Reading, array_of
from dladmm.export.torch_shapes import AllStates, ChannelsFirst, ChannelsLast, LastState, Residual
from dladmm.terms.losses import losses

__all__ = [
    "AllStates",
    "ChannelsFirst",
    "ChannelsLast",
    "Exp",
    "LastState",
    "QuantizedReLU",
    "Residual",
    "Sign",
    "Step",
    "train",
]


def train(
    module: nn.Sequential,
    x: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    loss: Any = None,
    regularizer: Any = "none",
    callback: Callback | None = None,
    **options: Any,
) -> Result:
    """Minimise the loss of `module` on x and y from its current weights; they are changed in place.

    Parameters
    ----------
    module : torch.nn.Sequential
        Layers that `dladmm.Network` knows, with supported activations between them. An RNN's two
        biases act as one, which comes back in bias_ih, bias_hh being zero; likewise that of a
        `Residual`, in its body.
    x : array or tensor
        What the module takes, on any device: (N, features), (N, channels, height, width),
        (N, channels, steps), or (N, steps, channels) where an RNN comes first.
    y : array or tensor
        Class indices (loss "log_loss", the last Linear giving one logit per class) or float targets
        (loss "squared_error").
    sample_weight : array, tensor or None
        How much each sample counts.
    loss : str, Loss or None
        Any loss of the library; by default the one that y asks for.
    regularizer : str, Regularizer or a list with one per layer
        For example L1(1e-3).
    callback : callable or None
        Called with a Progress after each iteration; True ends the run.
    **options : object
        The fields of `dladmm.Options`; dtype follows the module unless given.

    Returns
    -------
    Result
        Why the run ended, its records and its certificate.
    """
    array = array_of(x)
    reading = Reading(module, array.shape)
    known = set(Options.__dataclass_fields__)
    for name in options:
        if name not in known:
            raise ValueError(f"option {name!r} is unknown; expected one of {sorted(known)}")
    options.setdefault("dtype", "float64" if reading.dtype == torch.float64 else "float32")
    targets, loss = _targets(array_of(y), loss, reading.network.out_shape[-1])
    result = solve(
        Problem.of_network(reading.network, loss, regularizer),
        reading.samples(array),
        targets,
        sample_weight=None if sample_weight is None else array_of(sample_weight),
        options=Options(**options),
        params=reading.params(),
        callback=callback,
    )
    reading.put(result.params)
    return result


def _targets(y: np.ndarray, loss: Any, n_outputs: int) -> tuple[np.ndarray, Any]:
    """y as the loss wants it, one column per output, and the loss: by y's type unless given."""
    indices = y.ndim == 1 and y.dtype.kind in "iu"
    if loss is None:
        loss = "log_loss" if indices else "squared_error"
    if not (indices and losses.get(loss).classifies):
        return y, loss
    one_output = n_outputs == 1 and losses.get(loss).one_vs_rest
    n_classes = 2 if one_output else n_outputs
    if n_classes < 2:
        raise ValueError(
            "y holds class indices, but the last Linear has out_features=1; expected one output"
            " per class, or loss='binary_log_loss', or float targets for a regression"
        )
    if y.size and not (y.min() >= 0 and y.max() < n_classes):
        raise ValueError(
            f"y has class indices from {y.min()} to {y.max()}; expected 0 to {n_classes - 1},"
            f" as the last Linear has out_features={n_outputs}"
        )
    return (y[:, None] if one_output else np.eye(n_classes)[y]), loss
