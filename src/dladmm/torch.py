"""PyTorch modules: the library's activations as modules, and training a user's own network.

`train` takes an `nn.Sequential` of `Linear` layers with supported activations between them, trains
it from its current weights and leaves the new weights in it. A module it cannot train is refused
by naming the layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:  # the extra is optional
    raise ImportError("PyTorch is not installed; pip install 'dladmm[torch]'") from error

from dladmm.core.options import Callback, Options, Result
from dladmm.core.problem import Problem
from dladmm.core.solve import solve
from dladmm.core.state import Params
from dladmm.io.network import Network
from dladmm.io.plain import term_name
from dladmm.terms.activations import Activation, activations
from dladmm.terms.activations import LeakyReLU as LeakyReLUTerm
from dladmm.terms.activations import QuantizedReLU as QuantizedReLUTerm
from dladmm.terms.losses import losses


class Sign(nn.Module):
    """f(z) = 1 for z >= 0, else -1; its gradient is zero, so only this library trains it."""

    def forward(self, z: Tensor) -> Tensor:
        return torch.where(z >= 0, 1.0, -1.0).to(z.dtype)


class Step(nn.Module):
    """f(z) = 1 for z >= 0, else 0; its gradient is zero, so only this library trains it."""

    def forward(self, z: Tensor) -> Tensor:
        return (z >= 0).to(z.dtype)


class QuantizedReLU(nn.Module):
    """f(z) = step * clip(floor(z/step + 1/2), 0, n_levels - 1); its gradient is zero."""

    def __init__(self, step: float = 0.5, n_levels: int = 5):
        super().__init__()
        self.step, self.n_levels = step, n_levels

    def forward(self, z: Tensor) -> Tensor:
        return self.step * torch.floor(z / self.step + 0.5).clamp(0, self.n_levels - 1)

    def extra_repr(self) -> str:
        return f"step={self.step}, n_levels={self.n_levels}"


class Exp(nn.Module):
    """exp(z), the link of the Poisson loss."""

    def forward(self, z: Tensor) -> Tensor:
        return z.exp()


# Modules that have no parameters, by the registered name of their activation.
_PLAIN_MODULES: dict[str, type[nn.Module]] = {
    "identity": nn.Identity,
    "relu": nn.ReLU,
    "hard_tanh": nn.Hardtanh,
    "hard_sigmoid": nn.Hardsigmoid,
    "relu6": nn.ReLU6,
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "softplus": nn.Softplus,
    "elu": nn.ELU,
    "sign": Sign,
    "step": Step,
}
_NAMES = {module: name for name, module in _PLAIN_MODULES.items()}

# Parameters that must have these values for the module to be the activation of its name.
_REQUIRED: dict[type[nn.Module], dict[str, float]] = {
    nn.Hardtanh: {"min_val": -1.0, "max_val": 1.0},
    nn.Softplus: {"beta": 1.0},
    nn.ELU: {"alpha": 1.0},
}


def activation_module(activation: Activation) -> nn.Module:
    """The module that computes `activation`; ValueError where there is none."""
    name = term_name("activation", activation)
    if isinstance(activation, LeakyReLUTerm) and name in ("relu", "leaky_relu"):
        return nn.LeakyReLU(activation.slope) if activation.slope else nn.ReLU()
    if isinstance(activation, QuantizedReLUTerm) and name == "quantized_relu":
        return QuantizedReLU(activation.step, activation.n_levels)
    if name in _PLAIN_MODULES:
        return _PLAIN_MODULES[name]()
    raise ValueError(
        f"activation={activation!r} has no PyTorch module; expected one of"
        f" {', '.join(sorted(activations))}"
    )


def activation_term(module: nn.Module) -> Activation | None:
    """The activation a module computes; None where it is none of the library's."""
    kind = type(module)
    if isinstance(module, nn.LeakyReLU) and kind is nn.LeakyReLU:
        return LeakyReLUTerm(module.negative_slope)
    if isinstance(module, QuantizedReLU):
        return QuantizedReLUTerm(module.step, module.n_levels)
    if kind not in _NAMES:
        return None
    for parameter, value in _REQUIRED.get(kind, {}).items():
        if getattr(module, parameter) != value:
            return None
    return activations.get(_NAMES[kind])


def sequential(network: Network, dtype: torch.dtype | None = None) -> nn.Sequential:
    """The Linear layers, activations and link of an exported network; see `io.export.to_torch`."""
    modules: list[nn.Module] = []
    for l, (W, b) in enumerate(zip(network.weights, network.biases, strict=True)):
        linear = nn.Linear(W.shape[0], W.shape[1], dtype=dtype)
        _put(linear, W.T, b)
        modules.append(linear)
        if l < len(network.activations):
            modules.append(activation_module(network.activations[l]))
    if network.link == "one_vs_rest":
        modules.append(nn.LogSigmoid())  # sigmoid_j / sum sigmoid is the softmax of log sigmoid
    if network.has_probabilities:
        modules.append(nn.Softmax(dim=-1))
    if network.link == "exp":
        modules.append(Exp())
    if network.is_vector:
        modules.append(nn.Flatten(0))  # one value per row, as predict has it
    return nn.Sequential(*modules)


def _put(linear: nn.Linear, W: np.ndarray, b: np.ndarray) -> None:
    """New weights in place: dtype and device stay as they are."""
    with torch.no_grad():
        linear.weight.copy_(torch.from_numpy(np.array(W)))
        linear.bias.copy_(torch.from_numpy(np.array(b)))


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

    y holds class indices (loss "log_loss", the last Linear giving one logit per class) or float
    targets (loss "squared_error"); any other loss of the library may be given. `options` are the
    fields of `dladmm.Options`; dtype follows the module unless given. Tensors may be on any device.
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
        _put(linear, W, b)
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
    if type(layer) in _REQUIRED:
        required = ", ".join(f"{k}={v:g}" for k, v in _REQUIRED[type(layer)].items())
        return f"expected {required}"
    supported: list[type[nn.Module]] = [nn.LeakyReLU, QuantizedReLU, *_NAMES]
    return f"expected Linear or one of {', '.join(sorted(kind.__name__ for kind in supported))}"
