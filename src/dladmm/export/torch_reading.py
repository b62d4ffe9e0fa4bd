"""A user's own nn.Sequential as a network of this library, and its weights in both directions.

The modules are read one after the other into the entries of a `Network`; shapes are then found and
checked as for any other network. PyTorch's samples have their channels first where a convolution or
a pooling reads them, and last where an RNN does: the first module that cares says which it is.
"""

from typing import Any

import numpy as np
from torch import Tensor, nn

from dladmm.core.params import Params
from dladmm.export.torch_items import CONVOLUTIONS, POOLS
from dladmm.export.torch_network import put
from dladmm.export.torch_reader import Part, Reader, layers_of
from dladmm.export.torch_shapes import ChannelsFirst, ChannelsLast, Residual
from dladmm.export.weight_layouts import channels_first, channels_last, in_groups, out_of_groups
from dladmm.network import Network
from dladmm.network.graph import Builder
from dladmm.terms import layers as maps

INPUT_SIZES = ("in_features", "in_channels", "input_size")  # what PyTorch calls them


class Reading:
    """A module as a network: `network`, `params()`, and `put(params)` for new weights in place."""

    def __init__(self, module: nn.Sequential, shape: tuple[int, ...]) -> None:
        """`shape` is that of x; ValueError, by its name, for a layer that does not fit."""
        if not isinstance(module, nn.Sequential):
            raise ValueError(f"module is a {type(module).__name__}; expected an nn.Sequential")
        if len(shape) < 2:
            raise ValueError(
                f"x has shape {shape}; expected (samples, features), or samples with more axes"
            )
        layers = list(layers_of(module))
        self.channels_first = len(shape) > 2 and _reads_channels_first(layers)
        reader = Reader(len(shape) - 2, self.channels_first)
        reader.read(layers)
        in_shape = shape[1:]
        if self.channels_first:
            in_shape = (*shape[2:], shape[1])
        self.network = _network(in_shape, reader)
        self.nodes = list(zip(self.network.graph.layers, reader.nodes, strict=True))
        for l, (layer, parts) in enumerate(self.nodes):
            for one, part in _pairs(layer, parts):
                _check_part(one, part, in_shape if l == 0 else ())

    @property
    def dtype(self) -> Any:
        return self.nodes[0][1][0].weight.dtype

    def samples(self, x: np.ndarray) -> np.ndarray:
        """x with its channels last."""
        return np.ascontiguousarray(np.moveaxis(x, 1, -1)) if self.channels_first else x

    def params(self) -> Params:
        W, b = [], []
        for layer, parts in self.nodes:
            pairs = _pairs(layer, parts)
            found = [_columns(one, part) for one, part in pairs]
            W.append(np.concatenate(found, axis=1))
            b.append(np.sum([array_of(bias) for _, part in pairs for bias in part.biases], axis=0))
        return Params(tuple(W), tuple(b))

    def put(self, params: Params) -> None:
        """Of several biases that a node adds up the first has it all, and the others are zero."""
        for (layer, parts), W, b in zip(self.nodes, params.W, params.b, strict=True):
            W, b = np.asarray(W), np.asarray(b)
            columns = layer.split(W) if isinstance(layer, maps.Joined) else [W]
            with_columns = [V for V in columns if V.shape[1]]
            pairs = _pairs(layer, parts)
            for (one, part), V in zip(pairs, with_columns, strict=True):
                put(part.weight, in_groups(channels_first(V, _window(one, part)), _groups(one)))
            biases = [bias for _, part in pairs for bias in part.biases]
            for k, bias in enumerate(biases):
                put(bias, b if k == 0 else np.zeros_like(b))


def _network(in_shape: tuple[int, ...], reader: Reader) -> Network:
    """The network of these entries; ValueError names the module that does not fit."""
    builder = Builder(in_shape)
    for item, refuse in zip(reader.items, reader.refusals, strict=True):
        try:
            builder.add(item)
        except ValueError as error:
            raise refuse(str(error)) from None
    reader.check_end()
    return Network(in_shape, tuple(reader.items))


def _pairs(layer: Any, parts: list[Part]) -> list[tuple[Any, Part]]:
    """Each map with weights of a node, without the maps before it, and the part it belongs to."""
    inner = layer.parts if isinstance(layer, maps.Joined) else (layer,)
    for one, part in zip(inner, parts, strict=True):
        if isinstance(one, maps.Skip) and part.weight is not None:
            raise part.refuse("what it reads and what it is added to agree; expected no shortcut")
        if part.weight is None and not isinstance(one, maps.Skip):
            raise part.refuse(
                f"its body gives {one.out_shape} for {one.in_shape}; expected a shortcut"
                " that does so too"
            )
    found = [one.then if isinstance(one, maps.After) else one for one in inner]
    return [(one, part) for one, part in zip(found, parts, strict=True) if part.weight is not None]


def _check_part(layer: Any, part: Part, in_shape: tuple[int, ...]) -> None:
    kind = type(part.module)
    if kind in CONVOLUTIONS or (kind is nn.Linear and isinstance(layer, maps.Convolution)):
        _check_window(layer, part)
    size = next(name for name in INPUT_SIZES if hasattr(part.module, name))
    got = part.weight.shape[1] * _groups(layer)
    expected = layer.fan_in // int(np.prod(part.weight.shape[2:]))
    if got == expected:
        return
    if len(in_shape) == 1:
        raise ValueError(f"x has {in_shape[0]} columns; expected {got}, as the network has")
    raise part.refuse(f"it has {size}={got}; expected {expected}, what arrives there")


def _check_window(layer: Any, part: Part) -> None:
    """Of a shortcut, whose place in the network says how it must slide."""
    ones = (1,) * len(layer.in_shape[:-1])
    if not isinstance(layer, maps.Convolution):
        raise part.refuse("expected a Linear, since what it reads is one row of numbers")
    given = [getattr(part.module, name, ones) for name in ("kernel_size", "stride")]
    if given != [layer.window, layer.strides]:
        raise part.refuse(f"expected kernel_size={layer.window} and stride={layer.strides}")


def _window(layer: Any, part: Part) -> tuple[int, ...]:
    """The window that a part's weights go over, for `channels_first` and `channels_last`."""
    if isinstance(layer, maps.Dense):
        return layer.in_shape[:-1] if part.flat else ()
    return tuple(getattr(layer, "window", ()))


def _groups(layer: Any) -> int:
    return layer.groups if isinstance(layer, maps.Grouped) else 1


def _columns(layer: Any, part: Part) -> np.ndarray:
    """Our W of a part's weights."""
    weight = array_of(part.weight)
    if _groups(layer) > 1:
        weight = out_of_groups(weight, _groups(layer))
    return channels_last(weight, _window(layer, part))


def _reads_channels_first(layers: list[tuple[str, nn.Module]]) -> bool:
    """Whether x has its channels first, by the first module that cares."""
    for _, layer in layers:
        if isinstance(layer, Residual) and isinstance(layer.body, nn.Sequential):
            return _reads_channels_first(list(layers_of(layer.body)))
        if isinstance(layer, ChannelsFirst | nn.RNN | nn.Linear):
            return False
        if isinstance(layer, (ChannelsLast, nn.Flatten, *CONVOLUTIONS, *POOLS)):
            return True
    return False


def array_of(value: Any) -> np.ndarray:
    """A NumPy copy of a tensor on any device and of any float type, or of anything array-like."""
    if not isinstance(value, Tensor):
        return np.asarray(value)
    value = value.detach().cpu()
    narrow = value.itemsize < 4 and value.is_floating_point()  # which NumPy lacks or rounds to
    return (value.float() if narrow else value).numpy().copy()
