"""Activations by name; any smooth function is one too."""

from dladmm.engine.arrays import sigmoid, softplus
from dladmm.terms.activations.base import Activation, WithoutSlope
from dladmm.terms.activations.piecewise import (
    HardSigmoid,
    HardTanh,
    Identity,
    LeakyReLU,
    PiecewiseConstant,
    PiecewiseLinear,
    QuantizedReLU,
    ReLU,
    ReLU6,
    Sign,
    Step,
)
from dladmm.terms.activations.pooled import MaxPooled
from dladmm.terms.activations.smooth import Smooth, elu, tanh
from dladmm.terms.registry import Registry

__all__ = [
    "Activation",
    "HardSigmoid",
    "HardTanh",
    "Identity",
    "LeakyReLU",
    "MaxPooled",
    "PiecewiseConstant",
    "PiecewiseLinear",
    "QuantizedReLU",
    "ReLU",
    "ReLU6",
    "Sign",
    "Smooth",
    "Step",
    "WithoutSlope",
    "activations",
]

activations: Registry[Activation] = Registry("activation", Activation, from_callable=Smooth)
activations.register("identity", Identity)
activations.register("relu", ReLU)
activations.register("leaky_relu", LeakyReLU)
activations.register("hard_tanh", HardTanh)
activations.register("hard_sigmoid", HardSigmoid)
activations.register("relu6", ReLU6)
activations.register("sigmoid", lambda: Smooth(sigmoid, "sigmoid"))
activations.register("tanh", lambda: Smooth(tanh, "tanh"))
activations.register("softplus", lambda: Smooth(softplus, "softplus"))
activations.register("elu", lambda: Smooth(elu, "elu"))
activations.register("sign", Sign)
activations.register("step", Step)
activations.register("quantized_relu", QuantizedReLU)
