"""A network as people write it down."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from numbers import Integral
from typing import Any

from dladmm.network.graph import Graph, graph_of
from dladmm.network.items import listed
from dladmm.terms.activations import MaxPooled
from dladmm.terms.layers import (
    After,
    Average,
    Convolution,
    Dense,
    Grouped,
    Joined,
    LastStep,
    Layer,
    Masked,
    Skip,
)


@dataclass(frozen=True)
class Network:
    """Layers and activations, one after the other, on samples of a shape.

    Parameters
    ----------
    in_shape : tuple of int
        The shape of one sample: (features,), (steps, channels) or (height, width, channels).
    layers : list
        Dense, Conv1D, Conv2D, MaxPool, AveragePool, GlobalAveragePool, Flatten, Masking, Recurrent,
        Residual and activations, which may be named. The last one has weights: its outputs are the
        network's.

    Examples
    --------
    >>> from dladmm import Network
    >>> from dladmm.network import Conv2D, Dense, MaxPool
    >>> network = Network((28, 28, 1), [Conv2D(16, 5), "relu", MaxPool(2), Dense(10)])
    >>> network.out_shape
    (10,)
    """

    in_shape: tuple[int, ...]
    layers: Sequence[Any]

    def __post_init__(self) -> None:
        given = self.in_shape
        shape = tuple(given) if isinstance(given, tuple | list) else (given,)
        if not shape or not all(
            isinstance(n, Integral) and not isinstance(n, bool) and n > 0 for n in shape
        ):
            raise ValueError(
                f"in_shape={given!r} is not valid; expected the shape of one sample, such as"
                " (28, 28, 1)"
            )
        object.__setattr__(self, "in_shape", tuple(map(int, shape)))
        object.__setattr__(self, "layers", listed("layers={!r}", self.layers))
        self.graph  # noqa: B018  a network that does not fit together is refused at once

    @cached_property
    def graph(self) -> Graph:
        """Its nodes, as the methods see them."""
        return graph_of(self.in_shape, tuple(self.layers))

    @property
    def out_shape(self) -> tuple[int, ...]:
        return self.graph.layers[-1].out_shape

    @property
    def n_weights(self) -> int:
        """Weights and biases."""
        return sum(layer.n_parameters for layer in self.graph.layers)

    def summary(self) -> str:
        """A table of its nodes: what they read, their outputs, weights and bytes in float32.

        Returns
        -------
        str
            A line for each node.
        """
        rows = [("node", "layer", "reads", "outputs", "weights", "bytes")]
        rows.append(("0", "input", "", _shape(self.in_shape), "0", "0"))
        graph = self.graph
        for l, (layer, sources) in enumerate(zip(graph.layers, graph.sources, strict=True)):
            shape, f = layer.out_shape, ""
            if l < len(graph.activations):
                shape = graph.activations[l].out_shape(shape)
                f = f" + {_activation(graph.activations[l])}"
            count = layer.n_parameters
            reads = ", ".join("itself" if k == l else str(k + 1) for k in sources)
            row = (str(l + 1), _kind(layer) + f, reads, _shape(shape), f"{count:,}")
            rows.append((*row, f"{4 * count:,}"))
        total = self.n_weights
        rows.append(("", "all", "", "", f"{total:,}", f"{4 * total:,}"))
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        lines = [
            "  ".join(
                cell.rjust(width) if k in (0, 4, 5) else cell.ljust(width)
                for k, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        rule = "-" * max(map(len, lines))
        return "\n".join([lines[0], rule, *lines[1:-1], rule, lines[-1]])


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) + (f" = {prod(shape)}" if len(shape) > 1 else "")


def _activation(f: Any) -> str:
    if isinstance(f, MaxPooled):
        return f"{_activation(f.f)} + max pool {'x'.join(map(str, f.window))}"
    return getattr(f, "name", None) or type(f).__name__


def _kind(layer: Layer) -> str:
    """In words."""
    match layer:
        case Dense():
            return "dense"
        case Convolution(window=window):
            if prod(window) == 1:
                return "dense at each position"
            kind = f"convolution {'x'.join(map(str, window))}"
            return f"{kind}, {layer.groups} groups" if isinstance(layer, Grouped) else kind
        case After(maps=before, then=inner):
            return " + ".join([*map(_map, before), _kind(inner)])
        case Joined(parts=parts, own=own):
            if own is not None:
                return "recurrence, masked" if isinstance(layer, Masked) else "recurrence"
            shortcut = "skip" if isinstance(parts[-1], Skip) else "skip by a layer"
            return f"{_kind(parts[0])} + {shortcut}"
        case _:
            return type(layer).__name__


def _map(one: Any) -> str:
    match one:
        case LastStep():
            return "last state"
        case Average(window=window):
            return f"average pool {'x'.join(map(str, window))}"
        case _:
            return type(one).__name__
