"""Linear maps by name. A convolution or a recurrence is a new map, not a new algorithm."""

from dladmm.terms.layers.base import Layer
from dladmm.terms.layers.dense import Dense
from dladmm.terms.registry import Registry

__all__ = ["Dense", "Layer", "layers"]

layers: Registry[Layer] = Registry("layer", Layer)
layers.register("dense", Dense.example)
