"""Networks by name, for samples of any shape they fit; and networks written as JSON.

A JSON file has the shape of a sample and the layers, each an activation's name, or a layer's with
its one number or its fields:

    {"in_shape": [28, 28, 1],
     "layers": [{"conv2d": {"filters": 16, "size": 5}}, "relu", {"max_pool": 2}, {"dense": 10}]}
"""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from dladmm.network.items import (
    Conv1D,
    Conv2D,
    Dense,
    GlobalAveragePool,
    MaxPool,
    Recurrent,
    Residual,
    items,
)
from dladmm.network.network import Network

Shape = tuple[int, ...]


def lenet(shape: Shape, outputs: int) -> list[Any]:
    """Two convolutions with max pooling, and a dense layer."""
    conv, size = _sliding(shape), 5 if min(shape[:-1]) >= 16 else 3
    return [
        *(conv(16, size), "relu", MaxPool(2), conv(32, size), "relu"),
        *((MaxPool(2),) if size == 5 else ()),
        *(Dense(128), "relu", Dense(outputs)),
    ]


def cnn_small(shape: Shape, outputs: int) -> list[Any]:
    """Three convolutions that keep the size of what they read, with max pooling."""
    conv = _sliding(shape)
    return [
        *(conv(32, 3, padding="same"), "relu", MaxPool(2)),
        *(conv(64, 3, padding="same"), "relu", MaxPool(2)),
        *(conv(64, 3, padding="same"), "relu", Dense(64), "relu", Dense(outputs)),
    ]


def resnet_small(shape: Shape, outputs: int) -> list[Any]:
    """A convolution, three residual blocks, and the mean over all positions."""
    conv = _sliding(shape)

    def block(filters: int, strides: int) -> list[Any]:
        first = conv(filters, 3, strides=strides, padding="same")
        return [Residual([first, "relu", conv(filters, 3, padding="same")]), "relu"]

    return [
        *(conv(16, 3, padding="same"), "relu"),
        *block(16, 1),
        *block(32, 2),
        *block(64, 2),
        *(GlobalAveragePool(), Dense(outputs)),
    ]


def rnn(shape: Shape, outputs: int) -> list[Any]:
    """A recurrence over the steps, or the rows of an image."""
    return [Recurrent(128), Dense(outputs)]


PRESETS = {"lenet": lenet, "cnn-small": cnn_small, "resnet-small": resnet_small, "rnn": rnn}


def preset(name: str, in_shape: Shape, outputs: int) -> Network:
    """The network of this name for samples of a shape, (axes..., channels)."""
    if name not in PRESETS:
        raise ValueError(f"network {name!r} is unknown; expected one of {', '.join(PRESETS)}")
    if len(in_shape) not in (2, 3):
        raise ValueError(
            f"samples have shape {in_shape}; expected (steps, channels) or (height, width,"
            f" channels) for the network {name!r}"
        )
    if name == "rnn" and len(in_shape) == 3:
        in_shape = (in_shape[0], in_shape[1] * in_shape[2])
    return Network(in_shape, PRESETS[name](in_shape, outputs))


def read_network(path: Path) -> Network:
    """The network of a JSON file; ValueError where it is none."""
    try:
        stored = json.loads(path.read_text())
        shape, layers = stored["in_shape"], stored["layers"]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"{path} is no network ({error}); expected a JSON object with in_shape and layers"
        ) from None
    try:
        return Network(tuple(shape), [_from_json(one) for one in layers])
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None


def _from_json(one: Any) -> Any:
    if not isinstance(one, dict):
        return one
    if len(one) != 1 or next(iter(one)) not in items:
        return next(iter(one), "")  # refused by its name
    ((name, value),) = one.items()
    kind: Any = type(items.build(name))
    if isinstance(value, list) and kind is Residual:
        return Residual(tuple(map(_from_json, value)))
    if not isinstance(value, dict):
        return kind(value) if value is not None else kind()
    known = [field.name for field in fields(kind)]
    unknown = sorted(set(value) - set(known))
    if unknown:
        raise ValueError(f"{name} has no {unknown[0]!r}; expected {', '.join(known)}")
    return kind(**{key: tuple(v) if isinstance(v, list) else v for key, v in value.items()})


def _sliding(shape: Shape) -> Any:
    return Conv1D if len(shape) == 2 else Conv2D
