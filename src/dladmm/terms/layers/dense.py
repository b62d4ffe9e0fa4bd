"""The fully connected layer."""

from dataclasses import dataclass
from math import prod
from typing import Self

from dladmm.engine.arrays import Array
from dladmm.terms.layers.base import Layer, Shape, part


@part
@dataclass(frozen=True)
class Dense(Layer):
    """p = a W^T; an input of several axes is one row of all its numbers.

    Parameters
    ----------
    inputs : tuple of int
        The shape of one input.
    outputs : int
        How many units there are.
    """

    inputs: Shape
    outputs: int

    @property
    def in_shape(self) -> Shape:
        return self.inputs

    @property
    def out_shape(self) -> Shape:
        return (self.outputs,)

    @property
    def fan_in(self) -> int:
        return prod(self.inputs)

    # Constants, which `Layer` computes: a small fit asks some ten thousand times.

    @property
    def positions(self) -> int:
        return 1

    @property
    def samples_at_once(self) -> int | None:
        return None

    def expand(self, a: Array) -> Array:
        return a if len(self.inputs) == 1 else a.reshape(a.shape[0], self.fan_in)

    def collapse(self, rows: Array) -> Array:
        return rows if len(self.inputs) == 1 else rows.reshape(rows.shape[0], *self.inputs)

    def input_map(self, W: Array) -> Array:
        return W.T

    @classmethod
    def example(cls) -> Self:
        return cls((2, 3), 4)
