"""Convolution along one axis or two: a dense product on the windows of a sample."""

from dataclasses import dataclass
from math import prod
from typing import Self

from dladmm.engine.arrays import Array
from dladmm.engine.windows import added_windows, cropped, positions, window_rows, zero_padded
from dladmm.terms.layers.base import Layer, Shape, part

Padding = tuple[tuple[int, int], ...]


@part
@dataclass(frozen=True)
class Convolution(Layer):
    """p = windows(a) W^T; a sample is (*axes, channels), and W has a column for each number of a
    window: place after place, the channels of a place side by side."""

    inputs: Shape
    outputs: int
    window: Shape
    strides: Shape
    dilation: Shape
    padding: Padding  # zeros before and behind each axis

    def __post_init__(self) -> None:
        if min(self._positions) < 1:
            raise ValueError(
                f"a window of {self.window} does not fit into inputs of shape {self.inputs};"
                " expected a smaller window, or padding"
            )

    @property
    def in_shape(self) -> Shape:
        return self.inputs

    @property
    def out_shape(self) -> Shape:
        return (*self._positions, self.outputs)

    @property
    def fan_in(self) -> int:
        return prod(self.window) * self.inputs[-1]

    @property
    def _axes(self) -> Shape:
        """The axes between samples and channels, padding included."""
        pairs = zip(self.inputs[:-1], self.padding, strict=True)
        return tuple(n + before + behind for n, (before, behind) in pairs)

    @property
    def _sliding(self) -> tuple[Shape, Shape, Shape]:
        return self.window, self.strides, self.dilation

    @property
    def _positions(self) -> Shape:
        return positions(self._axes, *self._sliding)

    def expand(self, a: Array) -> Array:
        return window_rows(zero_padded(a, self.padding), *self._sliding)

    def collapse(self, rows: Array) -> Array:
        return cropped(added_windows(rows, self._axes, *self._sliding), self.padding)

    @classmethod
    def example(cls) -> Self:
        return cls((5, 6, 2), 3, (3, 2), (2, 1), (1, 2), ((1, 1), (0, 1)))


def same_padding(axes: Shape, window: Shape, strides: Shape, dilation: Shape) -> Padding:
    """Zeros such that there are ceil(n/stride) positions, one more behind than before if odd."""
    found = []
    for n, k, step, d in zip(axes, window, strides, dilation, strict=True):
        missing = max(0, (-(-n // step) - 1) * step + (k - 1) * d + 1 - n)
        found.append((missing // 2, missing - missing // 2))
    return tuple(found)


def at_each_position(inputs: Shape, outputs: int) -> Convolution:
    """The same dense layer at each position, or step in time, of inputs (*axes, channels)."""
    ones = (1,) * (len(inputs) - 1)
    return Convolution(inputs, outputs, ones, ones, ones, ((0, 0),) * len(ones))
