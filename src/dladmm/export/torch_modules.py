"""PyTorch modules for a network's layers and activations, and back."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:  # the extra is optional
    raise ImportError("PyTorch is not installed; pip install 'dladmm[torch]'") from error

from dladmm.export.network import network_of
from dladmm.io.json_values import term_name
from dladmm.terms.activations import Activation, activations
from dladmm.terms.activations import LeakyReLU as LeakyReLUTerm
from dladmm.terms.activations import QuantizedReLU as QuantizedReLUTerm
from dladmm.terms.layers import Dense, Layer


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
MODULES: dict[str, type[nn.Module]] = {
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
NAMES = {module: name for name, module in MODULES.items()}

# Parameters that must have these values for the module to be the activation of its name.
REQUIRED: dict[type[nn.Module], dict[str, float]] = {
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
    if name in MODULES:
        return MODULES[name]()
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
    if kind not in NAMES:
        return None
    for parameter, value in REQUIRED.get(kind, {}).items():
        if getattr(module, parameter) != value:
            return None
    return activations.get(NAMES[kind])


def _linear(layer: Layer, W: np.ndarray, b: np.ndarray, dtype: torch.dtype | None) -> nn.Module:
    linear = nn.Linear(layer.fan_in, layer.units, dtype=dtype)
    put_weights(linear, W, b)
    return linear if len(layer.in_shape) == 1 else nn.Sequential(nn.Flatten(), linear)


# By the exact class: a subclass may be another map.
_LAYERS: dict[type[Layer], Callable[..., nn.Module]] = {Dense: _linear}


def layer_module(
    layer: Layer, W: np.ndarray, b: np.ndarray, dtype: torch.dtype | None
) -> nn.Module:
    """The module of `layer` with these weights; ValueError, by its name, if there is none."""
    if type(layer) not in _LAYERS:
        known = ", ".join(kind.__name__ for kind in _LAYERS)
        raise ValueError(f"{type(layer).__name__} has no PyTorch module; expected {known}")
    return _LAYERS[type(layer)](layer, W, b, dtype)


def put_weights(linear: nn.Linear, W: np.ndarray, b: np.ndarray) -> None:
    """New weights in place: dtype and device stay as they are."""
    with torch.no_grad():
        linear.weight.copy_(torch.from_numpy(np.array(W)))
        linear.bias.copy_(torch.from_numpy(np.array(b)))


def modules_of(
    blocks: Sequence[tuple[Layer, Any, Any]],
    between: Sequence[Activation],
    dtype: torch.dtype | None,
) -> list[nn.Module]:
    """Each layer with its W and b, and the activations between them."""
    modules: list[nn.Module] = []
    for l, (layer, W, b) in enumerate(blocks):
        modules.append(layer_module(layer, W, b, dtype))
        if l < len(between):
            modules.append(activation_module(between[l]))
    return modules


def to_torch(estimator: Any, dtype: torch.dtype | None = None) -> nn.Sequential:
    """A Sequential that returns what `predict_proba` (classes) or `predict` (values) returns.

    With the hinge loss, which has no probabilities, it returns the network's outputs. `dtype` is
    that of the parameters, by default torch's own, float32; values agree with `predict`, which
    computes in float64, to rounding, except where an activation jumps ("sign", "step",
    "quantized_relu") and a z lies within rounding of the jump.
    """
    network = network_of(estimator)
    modules = modules_of(network.blocks, network.activations, dtype)
    if network.link == "one_vs_rest":
        modules.append(nn.LogSigmoid())  # sigmoid_j / sum sigmoid is the softmax of log sigmoid
    if network.link in ("softmax", "one_vs_rest"):
        modules.append(nn.Softmax(dim=-1))
    if network.link == "sigmoid":
        modules.append(nn.Sigmoid())
    if network.link == "exp":
        modules.append(Exp())
    if network.is_vector:
        modules.append(nn.Flatten(0))  # one value per row, as predict has it
    return nn.Sequential(*modules)
