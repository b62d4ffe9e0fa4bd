"""PyTorch modules for activations, and back."""

import torch
from torch import Tensor, nn

from dladmm.io.json_values import term_name
from dladmm.terms.activations import Activation, activations
from dladmm.terms.activations import LeakyReLU as LeakyReLUTerm
from dladmm.terms.activations import QuantizedReLU as QuantizedReLUTerm


class Sign(nn.Module):
    """f(z) = 1 for z >= 0, else -1; its gradient is zero, so only this library trains it."""

    def forward(self, z: Tensor) -> Tensor:
        return torch.where(z >= 0, 1.0, -1.0).to(z.dtype)


class Step(nn.Module):
    """f(z) = 1 for z >= 0, else 0; its gradient is zero, so only this library trains it."""

    def forward(self, z: Tensor) -> Tensor:
        return (z >= 0).to(z.dtype)


class QuantizedReLU(nn.Module):
    """f(z) = step * clip(floor(z/step + 1/2), 0, n_levels - 1); its gradient is zero.

    Parameters
    ----------
    step : float
        Between two levels.
    n_levels : int
        How many there are, 0 among them.
    """

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
