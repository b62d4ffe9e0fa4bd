"""From a list of layers to a graph: nodes with shapes, what each of them reads, and its activation.

A node is a linear map with weights and, but for the last, an activation. What has no weights
belongs to a neighbour: max pooling to the activation before it, average pooling, flattening and the
choice of the last state to the map that follows, and a skip to the node it is added to.
"""

from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

import numpy as np

from dladmm.network.items import (
    AveragePool,
    Conv1D,
    Conv2D,
    Convolutional,
    Dense,
    Flatten,
    GlobalAveragePool,
    Item,
    Masking,
    MaxPool,
    Recurrent,
    Residual,
    window_of,
)
from dladmm.terms import layers as maps
from dladmm.terms.activations import Activation, Identity, MaxPooled
from dladmm.terms.layers import Layer, LinearMap, at_each_position, same_padding

Shape = tuple[int, ...]
INPUT = -1  # the source that is x


class Graph(NamedTuple):
    """The nodes of a network in the order of the forward pass."""

    layers: tuple[Layer, ...]
    activations: tuple[Activation, ...]
    sources: tuple[tuple[int, ...], ...]


def graph_of(in_shape: Shape, items: tuple[Item | Activation, ...]) -> Graph:
    """The graph of a list; ValueError, which names the entry, where it does not fit together."""
    builder = Builder(in_shape)
    for place, item in enumerate(items, 1):
        try:
            builder.add(item)
        except ValueError as error:
            raise ValueError(f"layer {place} of the network, {item}: {error}") from None
    return builder.finished()


@dataclass
class Builder:
    """The nodes so far, and what the next one reads: `source` through `pending` maps, of `shape`.

    An entry of `activations` is None while its node may still be given one. `marked`: the shape of
    x where what is read next is a sequence that x's last channel marks.
    """

    shape: Shape
    source: int = INPUT
    layers: list[Layer] = field(default_factory=list)
    activations: list[Activation | None] = field(default_factory=list)
    sources: list[tuple[int, ...]] = field(default_factory=list)
    pending: list[LinearMap] = field(default_factory=list)
    flat: bool = False
    marked: Shape | None = None

    def add(self, item: Item | Activation) -> None:
        if self.marked and not isinstance(item, Recurrent):
            raise ValueError("it would read padded steps; expected Recurrent after Masking")
        match item:
            case Masking():
                self._mark()
            case Activation():
                self._activate(item)
            case Dense(units):
                self._add_node(maps.Dense(self.shape, units))
            case Conv1D() | Conv2D():
                self._add_node(self._convolution(item))
            case Recurrent():
                self._add_recurrence(item)
            case Residual(body):
                self._add_residual(tuple(body))
            case MaxPool():
                self._pool(item)
            case AveragePool():
                self._map(maps.Average(self.shape, self._window(item)))
            case GlobalAveragePool():
                self._check_axes("GlobalAveragePool", len(self.shape) - 1)
                self._map(maps.Average(self.shape, self.shape[:-1]))
                self.flat = True
            case Flatten():
                self.flat = True
            case _:
                raise ValueError(f"{type(item).__name__} is not known here")

    def finished(self) -> Graph:
        if self.marked:
            raise ValueError(
                'the network ends within a masked sequence; expected Recurrent(states="last")'
            )
        if not self.layers:
            raise ValueError("the network has no layer with weights; expected at least one")
        if self.pending or self.activations[-1] is not None:
            raise ValueError(
                "the network ends with an activation or a pooling; expected a layer with weights"
                " last, whose outputs the loss is about"
            )
        hidden = [f for f in self.activations[:-1] if f is not None]
        return Graph(tuple(self.layers), tuple(hidden), tuple(self.sources))

    # Nodes.

    def _add_node(self, layer: Layer) -> None:
        self._close()
        self._append(self._after_pending(layer), (self.source,))
        self.flat = False

    def _append(self, layer: Layer, sources: tuple[int, ...]) -> None:
        self.layers.append(layer)
        self.activations.append(None)
        self.sources.append(sources)
        self.source, self.shape = len(self.layers) - 1, layer.out_shape

    def _after_pending(self, layer: Layer) -> Layer:
        pending, self.pending = tuple(self.pending), []
        return maps.After(pending, layer) if pending else layer

    def _close(self) -> None:
        """Two linear maps in a row have the identity between them."""
        if self.source != INPUT and self.activations[self.source] is None:
            self.activations[self.source] = Identity()

    @property
    def _is_open(self) -> bool:
        return self.source != INPUT and self.activations[self.source] is None and not self.pending

    def _activate(self, f: Activation) -> None:
        if not self._is_open:
            raise ValueError("it follows no layer with weights; expected it right after one")
        self.activations[self.source] = f

    def _convolution(self, item: Convolutional) -> Layer:
        self._check_axes(type(item).__name__, item.axes)
        axes, (size, strides, dilation) = self.shape[:-1], item.sliding
        padding = item.padding
        if padding == "valid":
            padding = ((0, 0),) * len(axes)
        elif padding == "same":
            padding = same_padding(axes, size, strides, dilation)
        sliding = (self.shape, item.filters, size, strides, dilation, padding)
        if item.groups == 1:
            return maps.Convolution(*sliding)
        return maps.Grouped(*sliding, item.groups)

    def _add_recurrence(self, item: Recurrent) -> None:
        self._check_axes("Recurrent", 1)
        self._close()
        source, steps = self.source, self.shape[0]
        below = self._after_pending(at_each_position(self.shape, item.units))
        own = maps.Delayed((steps, item.units), item.units)
        parts: tuple[Layer, ...] = (below, own)
        sources: tuple[int, ...] = (source, len(self.layers))
        if self.marked:
            _check_at_zero(item.activation)
            if source != INPUT:
                parts = (*parts, maps.Present(self.marked, item.units))
                sources = (*sources, INPUT)
        kind = maps.Masked if self.marked else maps.Joined
        self._append(kind(parts, own=1), sources)
        self.activations[self.source] = item.activation
        if item.states == "last":
            self.marked = None
            self._map(maps.LastStep(self.shape))

    def _mark(self) -> None:
        if self.source != INPUT or self.pending:
            raise ValueError("it is not the first; expected Masking before all other layers")
        self._check_axes("Masking", 1)
        if self.shape[1] < 2:
            raise ValueError(
                "its inputs have one channel; expected those of a sequence, and one that says where"
                " the sequence is"
            )
        self.marked = self.shape

    def _add_residual(self, body: tuple[Item | Activation, ...]) -> None:
        if self.pending:
            raise ValueError("it follows an average pooling; expected a layer with weights between")
        self._close()
        entry, shape = self.source, self.shape
        before = self.activations[entry] if entry != INPUT else None
        for item in body:
            self.add(item)
        if entry != INPUT and self.activations[entry] is not before:
            raise ValueError("it begins with a max pooling; expected a layer with weights first")
        if self.source == entry or not self._is_open:
            raise ValueError(
                "its last layer has no weights; expected a convolution or a dense layer, to whose"
                " outputs the skip is added"
            )
        l = self.source
        layer, sources = self.layers[l], self.sources[l]
        parts = layer.parts if isinstance(layer, maps.Joined) else (layer,)
        self.layers[l] = maps.Joined((*parts, _shortcut(shape, layer.out_shape)))
        self.sources[l] = (*sources, entry)

    # What has no weights.

    def _map(self, one: LinearMap) -> None:
        self._close()
        if min(one.out_shape) < 1:
            raise ValueError(f"its inputs of shape {self.shape} are smaller than its window")
        self.pending.append(one)
        self.shape = one.out_shape

    def _pool(self, item: MaxPool) -> None:
        window = self._window(item)
        if self.source == INPUT or self.pending:
            raise ValueError("it follows no activation; expected a convolution before it")
        if self.source in self.sources[self.source]:
            raise ValueError("it follows a recurrence; expected a convolution before it")
        self._close()
        f = self.activations[self.source]
        assert f is not None
        pooled = MaxPooled(f, window)
        if isinstance(f, MaxPooled):  # the largest of the largest
            whole = tuple(a * b for a, b in zip(f.window, window, strict=True))
            pooled = MaxPooled(f.f, whole)
        self.shape = pooled.out_shape(self.layers[self.source].out_shape)
        if min(self.shape) < 1:
            raise ValueError("its window is larger than what it pools")
        self.activations[self.source] = pooled

    def _window(self, item: MaxPool | AveragePool) -> Shape:
        self._check_axes(type(item).__name__, len(self.shape) - 1)
        return window_of(item, len(self.shape) - 1)

    def _check_axes(self, name: str, axes: int) -> None:
        if self.flat or axes < 1 or len(self.shape) != axes + 1:
            shape = (prod(self.shape),) if self.flat else self.shape
            what = "(steps, channels)" if axes == 1 else "(height, width, channels)"
            raise ValueError(f"its inputs have shape {shape}; expected {what} for {name}")


def _check_at_zero(f: Activation) -> None:
    """ValueError for an activation that moves a masked state before its sequence begins."""
    at_zero = float(np.asarray(f(np.zeros((1, 1)))).item())
    if at_zero != 0:
        raise ValueError(
            f"its activation is {at_zero:g} at 0; expected one that is 0 there after Masking, such"
            " as tanh or relu"
        )


def _shortcut(shape: Shape, out_shape: Shape) -> Layer:
    """What adds inputs of one shape to outputs of another: nothing but a skip where they agree."""
    if shape == out_shape:
        return maps.Skip(shape)
    if len(shape) == len(out_shape) == 1:
        return maps.Dense(shape, out_shape[0])
    if len(shape) == len(out_shape):
        axes, ones = shape[:-1], (1,) * (len(shape) - 1)
        strides = tuple(-(-n // m) for n, m in zip(axes, out_shape, strict=False))
        layer = maps.Convolution(shape, out_shape[-1], ones, strides, ones, ((0, 0),) * len(axes))
        if layer.out_shape == out_shape:
            return layer
    raise ValueError(
        f"a skip from {shape} to {out_shape} has no map; expected outputs of the same number of"
        " axes, smaller by a whole stride"
    )
