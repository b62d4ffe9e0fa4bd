"""Linear maps by name. A convolution or a recurrence is a new map, not a new algorithm."""

from dladmm.terms.layers.base import Layer
from dladmm.terms.layers.convolution import Convolution, Grouped, at_each_position, same_padding
from dladmm.terms.layers.dense import Dense
from dladmm.terms.layers.joined import Delayed, Joined, Masked, Present, Skip
from dladmm.terms.layers.maps import After, Average, LastStep, LinearMap
from dladmm.terms.registry import Registry

__all__ = [
    "After",
    "Average",
    "Convolution",
    "Delayed",
    "Dense",
    "Grouped",
    "Joined",
    "LastStep",
    "Layer",
    "LinearMap",
    "Masked",
    "Present",
    "Skip",
    "at_each_position",
    "layers",
    "same_padding",
]

layers: Registry[Layer] = Registry("layer", Layer)
layers.register("dense", Dense.example)
layers.register("convolution", Convolution.example)
layers.register("grouped", Grouped.example)
layers.register("delayed", Delayed.example)
layers.register("after", After.example)
layers.register("joined", Joined.example)
layers.register("masked", Masked.example)
