"""Convolution along one axis or two: a dense product on the windows of a sample; in groups too."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Self

import numpy as np

from dladmm.engine.arrays import Array, xp
from dladmm.engine.sums import row_gram
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


@part
@dataclass(frozen=True)
class Grouped(Convolution):
    """A convolution whose filters each see the channels of their own group, one of `groups`.

    W has a column for every channel all the same, and zeros where a filter does not look, by
    `pattern`: a product costs what it does without groups. [W b] has a column of biases for each
    group, and K = [a, 1]^T [a, 1] no entry between two of them: on matrices D with these zeros it
    is the same form <D K, D>, and steps in its metric keep them.
    """

    groups: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.inputs[-1] % self.groups or self.outputs % self.groups:
            raise ValueError(
                f"groups={self.groups} does not divide {self.inputs[-1]} channels and"
                f" {self.outputs} filters; expected a divisor of both"
            )

    @property
    def _unit_groups(self) -> np.ndarray:
        return np.arange(self.outputs) * self.groups // self.outputs

    @property
    def _column_groups(self) -> np.ndarray:
        channels = self.inputs[-1]
        return np.tile(np.arange(channels) * self.groups // channels, prod(self.window))

    @property
    def pattern(self) -> np.ndarray:
        """1 where W may have a weight."""
        return _same(self._unit_groups, self._column_groups)

    @property
    def n_columns(self) -> int:
        return self.fan_in + self.groups

    @property
    def n_parameters(self) -> int:
        return self.units * (self.fan_in // self.groups + 1)

    @property
    def initial_scale(self) -> float:
        return (2 * self.groups / self.fan_in) ** 0.5

    def initial_weights(self, normal: Callable[[Shape], Array], scales: Sequence[float]) -> Array:
        return self._kept(super().initial_weights(normal, scales))

    def _kept(self, W: Array) -> Array:
        return W * self.pattern.astype(W.dtype)

    def change(self, D: Array, a: Array) -> Array:
        return super().change(self._kept(D), a)

    def adjoint_a(self, W: Array, r: Array) -> Array:
        return super().adjoint_a(self._kept(W), r)

    def adjoint_W(self, r: Array, a: Array, weights: Array | None) -> Array:
        return self._kept(super().adjoint_W(r, a, weights))

    def to_matrix(self, W: Array, b: Array) -> Array:
        own = _same(self._unit_groups, np.arange(self.groups)).astype(b.dtype)
        return xp.concatenate([self._kept(W), b[:, None] * own], axis=1)

    def from_matrix(self, M: Array) -> tuple[Array, Array]:
        own = _same(self._unit_groups, np.arange(self.groups)).astype(M.dtype)
        return self._kept(M[:, : self.fan_in]), xp.sum(M[:, self.fan_in :] * own, axis=1)

    def gradient_gram(self, r: Array, a: Array) -> Array:
        rows = self.expand(a)
        n, each = rows.shape[0], r.shape[0] // rows.shape[0]
        r = r.reshape(n, each, self.positions, -1)
        g = xp.einsum("nepu,npf->neuf", r, rows.reshape(n, self.positions, -1))
        g = self._kept(g).reshape(n * each, -1)
        return g @ g.T

    # Moments, with zeros between two groups.

    def gram(self, a: Array, weights: Array | None) -> Array:
        same = _same(self._column_groups, self._column_groups)
        K = super().gram(a, weights)
        return K * same.astype(K.dtype)

    def gram_with_bias(self, a: Array, weights: Array | None) -> Array:
        K = super().gram_with_bias(a, weights)
        places = np.append(np.arange(self.fan_in), [self.fan_in] * self.groups)
        groups = np.append(self._column_groups, np.arange(self.groups))
        return K[places][:, places] * _same(groups, groups).astype(K.dtype)

    def gram_with_bias_times(self, a: Array, U: Array, weights: Array | None) -> Array:
        return self.gram_with_bias(a, weights) @ U

    def unit_gram(self, r: Array, weights: Array | None) -> Array:
        S = row_gram(r, weights)
        return S * _same(self._unit_groups, self._unit_groups).astype(S.dtype)

    def unit_gram_times(self, r: Array, U: Array, weights: Array | None) -> Array:
        return self.unit_gram(r, weights) @ U

    @classmethod
    def example(cls) -> Self:
        return cls((5, 6, 4), 6, (3, 2), (2, 1), (1, 2), ((1, 1), (0, 1)), 2)


def _same(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """1 for each pair of one and two that is of the same group."""
    return one[:, None] == two


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
