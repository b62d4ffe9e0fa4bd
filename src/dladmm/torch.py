"""Train a PyTorch network of your own: `dladmm.torch.train`.

It takes an `nn.Sequential` of `Linear` layers with supported activations between them, trains it
from its current weights and leaves the new weights in it. A module it cannot train is refused by
naming the layer. `Sign`, `Step` and `QuantizedReLU` are activations that only this library trains.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

# First: it says how to install PyTorch where it is missing.
from dladmm.export.torch_modules import (
    NAMES,
    REQUIRED,
    Exp,
    QuantizedReLU,
    Sign,
    Step,
    activation_term,
    put_weights,
)

# isort: split
import torch
from torch import Tensor, nn

from dladmm.core.options import Options
from dladmm.core.params import Params
from dladmm.core.problem import Problem
from dladmm.core.results import Callback, Result
from dladmm.core.solve import solve
from dladmm.terms.activations import Activation, activations
from dladmm.terms.losses import losses

__all__ = ["Exp", "QuantizedReLU", "Sign", "Step", "train"]


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
        Linear layers with supported activations between them.
    x : array or tensor
        Inputs, a row for each sample; on any device.
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
    linears, terms = _network(module)
    known = set(Options.__dataclass_fields__)
    for name in options:
        if name not in known:
            raise ValueError(f"option {name!r} is unknown; expected one of {sorted(known)}")
    wide = linears[0].weight.dtype == torch.float64
    options.setdefault("dtype", "float64" if wide else "float32")
    targets, loss = _targets(_array(y), loss, linears[-1].out_features)
    sizes = (linears[0].in_features, *(linear.out_features for linear in linears))
    result = solve(
        Problem.dense(sizes, terms, loss, regularizer),
        _array(x),
        targets,
        sample_weight=None if sample_weight is None else _array(sample_weight),
        options=Options(**options),
        params=Params(
            tuple(_array(linear.weight) for linear in linears),
            tuple(_array(linear.bias) for linear in linears),
        ),
        callback=callback,
    )
    for linear, W, b in zip(linears, result.params.W, result.params.b, strict=True):
        put_weights(linear, W, b)
    return result


def _array(value: Any) -> np.ndarray:
    """A NumPy copy of a tensor on any device and of any float type, or of anything array-like."""
    if not isinstance(value, Tensor):
        return np.asarray(value)
    value = value.detach().cpu()
    narrow = value.dtype in (torch.bfloat16, torch.float16)  # which NumPy lacks or rounds to
    return (value.float() if narrow else value).numpy().copy()


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


def _layers(module: nn.Sequential, prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    """The layers with their index, those of nested Sequentials as "2.0"."""
    # Not named_children(), which leaves out a module that stands in two places.
    for index, layer in enumerate(module):
        if type(layer) is nn.Sequential:
            yield from _layers(layer, f"{prefix}{index}.")
        else:
            yield f"{prefix}{index}", layer


def _network(module: nn.Sequential) -> tuple[list[nn.Linear], list[Activation]]:
    """The Linear layers and the activations between them; ValueError names what does not fit."""
    if not isinstance(module, nn.Sequential):
        raise ValueError(f"module is a {type(module).__name__}; expected an nn.Sequential")
    linears: list[nn.Linear] = []
    between: list[Activation | None] = []  # what follows each Linear
    last: Callable[[str], ValueError] | None = None
    for name, layer in _layers(module):
        refuse = _refusal(name, layer)
        if isinstance(layer, nn.Linear):
            _check_linear(layer, linears, refuse)
            linears.append(layer)
            between.append(None)
            continue
        term = activation_term(layer)
        if term is None:
            raise refuse(_why_not(layer))
        if isinstance(layer, nn.Identity):
            continue
        if not linears or between[-1] is not None:
            where = "after another activation" if linears else "before the first Linear"
            raise refuse(f"it stands {where}; expected one activation after a Linear at most")
        between[-1], last = term, refuse
    if not linears:
        raise ValueError("module has no Linear layer; expected at least one")
    if between[-1] is not None and last is not None:
        raise last("it follows the last Linear, whose outputs the loss takes as they are")
    identity = activations.get("identity")
    return linears, [term or identity for term in between[:-1]]


def _refusal(name: str, layer: nn.Module) -> Callable[[str], ValueError]:
    return lambda why: ValueError(f"layer {name} ({layer}) cannot be trained: {why}")


def _check_linear(
    layer: nn.Linear, before: list[nn.Linear], refuse: Callable[[str], ValueError]
) -> None:
    if type(layer) is not nn.Linear:
        raise refuse(f"{type(layer).__name__} is not nn.Linear itself")
    if layer.bias is None:
        raise refuse("it has bias=False; expected bias=True, since every layer here has a bias")
    if any(layer.weight is other.weight for other in before):
        raise refuse("its weights are shared with an earlier layer")
    if not (layer.weight.requires_grad and layer.bias.requires_grad):
        raise refuse("it is frozen (requires_grad=False), and all layers are trained here")
    if before and before[-1].out_features != layer.in_features:
        raise refuse(
            f"it has in_features={layer.in_features}; expected"
            f" {before[-1].out_features}, the outputs of the Linear before it"
        )


def _why_not(layer: nn.Module) -> str:
    if isinstance(layer, nn.Softmax | nn.LogSoftmax):
        return "the loss takes logits and applies the softmax itself; leave this layer out"
    if isinstance(layer, nn.Dropout):
        return "training here is deterministic; leave it out and use a regularizer"
    if type(layer) in REQUIRED:
        required = ", ".join(f"{k}={v:g}" for k, v in REQUIRED[type(layer)].items())
        return f"expected {required}"
    supported: list[type[nn.Module]] = [nn.LeakyReLU, QuantizedReLU, *NAMES]
    return f"expected Linear or one of {', '.join(sorted(kind.__name__ for kind in supported))}"
