"""What a network is written down with: its layers, before the shapes of their inputs are known.

Shapes are those of one sample: (axes..., channels), so (28, 28, 1) for a grey image, and (steps,
channels) for a sequence.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from dladmm.terms.activations import Activation, activations
from dladmm.terms.registry import Registry

Sizes = int | tuple[int, ...]
PADDINGS = ("valid", "same")
STATES = ("last", "all")


@dataclass(frozen=True)
class Item:
    """One entry of a network's list."""


@dataclass(frozen=True)
class Dense(Item):
    """A fully connected layer: every unit sees every number of a sample.

    Parameters
    ----------
    units : int
        How many there are.
    """

    units: int

    def __post_init__(self) -> None:
        _check_count("Dense", "units", self.units)


@dataclass(frozen=True)
class Convolutional(Item):
    """Filters that slide over the axes of a sample.

    `padding`: "valid" for none, "same" for as many positions as the strides leave, or how many
    zeros there are before and behind an axis: one number, or one or a pair for each axis.
    """

    filters: int
    size: Sizes
    strides: Sizes = 1
    padding: Any = "valid"
    dilation: Sizes = 1
    groups: int = 1

    def __post_init__(self) -> None:
        name = type(self).__name__
        _check_count(name, "filters", self.filters)
        _check_count(name, "groups", self.groups)
        for field in ("size", "strides", "dilation"):
            object.__setattr__(self, field, _sizes(name, field, getattr(self, field), self.axes))
        if not isinstance(self.padding, str):
            object.__setattr__(self, "padding", _pairs(name, self.padding, self.axes))
        elif self.padding not in PADDINGS:
            raise ValueError(
                f"{name}(padding={self.padding!r}) is unknown; expected one of"
                f" {', '.join(PADDINGS)}, or numbers of zeros"
            )

    @property
    def sliding(self) -> tuple[Any, Any, Any]:
        """Size, strides and dilation, each with a number for every axis."""
        return self.size, self.strides, self.dilation

    @property
    def axes(self) -> int:
        raise TypeError(f"{type(self).__name__} does not say over how many axes it slides")


@dataclass(frozen=True)
class Conv1D(Convolutional):
    """Filters over the steps of a sequence, (steps, channels).

    Parameters
    ----------
    filters : int
        How many there are: the channels of what they give.
    size : int or tuple of int
        How far a filter reads along each axis.
    strides : int or tuple of int
        How far it moves on.
    padding : "valid", "same", int or tuple
        None, as many zeros as keep ceil(n/stride) positions, or how many zeros there are before and
        behind an axis: one number, or one or a pair for each axis.
    dilation : int or tuple of int
        How far apart the places are that it reads.
    groups : int
        A divisor of the channels and of the filters: each filter sees the channels of its group.
    """

    @property
    def axes(self) -> int:
        return 1


@dataclass(frozen=True)
class Conv2D(Convolutional):
    """Filters over an image, (height, width, channels).

    Parameters
    ----------
    filters : int
        How many there are: the channels of what they give.
    size : int or tuple of int
        How far a filter reads along each axis.
    strides : int or tuple of int
        How far it moves on.
    padding : "valid", "same", int or tuple
        None, as many zeros as keep ceil(n/stride) positions, or how many zeros there are before and
        behind an axis: one number, or one or a pair for each axis.
    dilation : int or tuple of int
        How far apart the places are that it reads.
    groups : int
        A divisor of the channels and of the filters: each filter sees the channels of its group.
    """

    @property
    def axes(self) -> int:
        return 2


@dataclass(frozen=True)
class MaxPool(Item):
    """The largest number of every window; windows do not overlap.

    Parameters
    ----------
    size : int or tuple of int
        Of a window, along each axis.
    """

    size: Sizes = 2


@dataclass(frozen=True)
class AveragePool(Item):
    """The mean of every window; windows do not overlap.

    Parameters
    ----------
    size : int or tuple of int
        Of a window, along each axis.
    """

    size: Sizes = 2


@dataclass(frozen=True)
class GlobalAveragePool(Item):
    """The mean over all positions, for each channel."""


@dataclass(frozen=True)
class Flatten(Item):
    """All numbers of a sample as one row; a dense layer does so by itself."""


@dataclass(frozen=True)
class Masking(Item):
    """Sequences of unequal length, as the first entry: padded steps do not count.

    The last channel of a sample is 1 where its sequence is. Before it, every channel is 0; a list
    of sequences is filled up so by the estimators. Recurrences follow, up to a last state. The
    weight of that channel is their bias, to which a regulariser then applies.
    """


@dataclass(frozen=True)
class Recurrent(Item):
    """Elman's recurrence: a_t = f(W_x x_t + W_h a_{t-1} + b), from a_0 = 0.

    Parameters
    ----------
    units : int
        Numbers in a state.
    activation : str, Activation or callable
        f.
    states : "last" or "all"
        What is passed on.
    """

    units: int
    activation: Any = "tanh"
    states: str = "last"

    def __post_init__(self) -> None:
        _check_count("Recurrent", "units", self.units)
        object.__setattr__(self, "activation", activations.get(self.activation))
        if self.states not in STATES:
            raise ValueError(
                f"Recurrent(states={self.states!r}) is unknown; expected one of {', '.join(STATES)}"
            )


@dataclass(frozen=True)
class Residual(Item):
    """What goes in is added to what its layers make of it, before the activation that follows; by a
    layer of its own where the shapes differ.

    Parameters
    ----------
    body : list
        Layers and activations; the last one has weights.
    """

    body: Sequence[Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "body", listed("Residual(body={!r})", self.body))


# Kinds of layers, for model files and for networks written as JSON.
items: Registry[Item] = Registry("network layer", Item)
items.register("dense", lambda: Dense(1))
items.register("conv1d", lambda: Conv1D(1, 1))
items.register("conv2d", lambda: Conv2D(1, 1))
items.register("max_pool", MaxPool)
items.register("average_pool", AveragePool)
items.register("global_average_pool", GlobalAveragePool)
items.register("flatten", Flatten)
items.register("masking", Masking)
items.register("recurrent", lambda: Recurrent(1))
items.register("residual", lambda: Residual((Dense(1),)))

_GATES = "its gates multiply what two linear maps give, which is no linear map and one activation"
_BATCH = "it ties the samples of a batch together, so that phi no longer separates over them"
REFUSED = {
    "lstm": _GATES,
    "gru": _GATES,
    "batchnorm": _BATCH,
    "layernorm": "it divides by a norm of its inputs, which is no linear map and one activation",
    "attention": "it multiplies its inputs with each other, which is not linear in each of them",
    "dropout": "it draws another network in every pass, of which no loss can be watched",
}


def listed(what: str, given: Any) -> tuple[Item | Activation, ...]:
    """A list of layers and activations, which may be named; ValueError, by the words of `what`, for
    anything else."""
    if isinstance(given, Item | Activation | str):
        given = [given]
    if not isinstance(given, Iterable) or isinstance(given, Mapping):
        raise ValueError(
            f"{what.format(given)} is not valid; expected a list of layers and activations"
        )
    return tuple(_item(one) for one in given)


def _item(given: Any) -> Item | Activation:
    if isinstance(given, Item | Activation):
        return given
    if isinstance(given, str) and given in activations:
        return activations.get(given)
    name = given if isinstance(given, str) else type(given).__name__
    if isinstance(given, type):
        name = given.__name__
    why = why_refused(name)
    if why is not None:
        raise ValueError(
            f"{name} does not fit: {why}; expected {', '.join(_names())} or an activation"
        )
    raise ValueError(
        f"{given!r} is no layer of a network; expected {', '.join(_names())} or an activation"
    )


def why_refused(name: str) -> str | None:
    """Why a layer of this name, in whichever spelling, does not fit; None where it is not known."""
    known_as = name.lower().replace("_", "").replace("normalization", "norm")
    return next((why for refused, why in REFUSED.items() if refused in known_as), None)


def _names() -> list[str]:
    return [type(items.build(name)).__name__ for name in items]


def _check_count(item: str, name: str, value: Any, least: int = 1) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{item}({name}={value!r}) is not valid; expected an integer >= {least}")


def _sizes(item: str, name: str, value: Any, axes: int, least: int = 1) -> tuple[int, ...]:
    """One number for every axis."""
    many = tuple(value) if isinstance(value, tuple | list) else (value,) * axes
    if len(many) != axes:
        raise ValueError(
            f"{item}({name}={value!r}) has {len(many)} numbers; expected one, or {axes}"
        )
    for one in many:
        _check_count(item, name, one, least)
    return tuple(map(int, many))


def _pairs(item: str, padding: Any, axes: int) -> tuple[tuple[int, ...], ...]:
    """How many zeros there are before and behind each axis."""
    many = padding if isinstance(padding, tuple | list) else (padding,) * axes
    if len(many) != axes:
        raise ValueError(
            f"{item}(padding={padding!r}) is for {len(many)} axes; expected one number, or {axes}"
        )
    return tuple(_sizes(item, "padding", one, 2, least=0) for one in many)


def window_of(item: MaxPool | AveragePool, axes: int) -> tuple[int, ...]:
    """The window of a pooling over so many axes."""
    return _sizes(type(item).__name__, "size", item.size, axes)
