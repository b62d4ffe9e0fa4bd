"""Problem 2 of the paper: what is minimised, frozen and hashable, so that it is compiled once.

    min  sum_i omega_i [ R(z_L,i; y_i) + nu/2 sum_{l<L} ( |z_l,i - A_l(W_l, a_{l-1,i}) - b_l|^2
                                                        + |a_l,i - f_l(z_l,i)|^2 ) ]
         + sum_l Omega_l(W_l)
    s.t. z_L = A_L(W_L, a_{L-1}) + b_L,         a_0 = x.

A layer may read several outputs of layers before it, x among them, and its own of one step of time
before (`sources`): a_{l-1} is then all of them together.

Conventions, written once: samples are rows; everything is a sum over samples, each with its
weight omega_i; u is the unscaled dual of the constraint; lists run over l = 1..L from index 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from numbers import Integral
from typing import Any

import numpy as np

from dladmm.engine.arrays import Array
from dladmm.network import Network
from dladmm.network.graph import INPUT
from dladmm.terms.activations import Activation, activations
from dladmm.terms.layers import Dense, Layer, layers
from dladmm.terms.losses import Loss, losses
from dladmm.terms.registry import needs_jax
from dladmm.terms.regularizers import Regularizer, regularizers


@dataclass(frozen=True)
class Problem:
    """The network (layers and the activations between them), its loss and its regularisers.

    Parameters
    ----------
    layers : tuple of Layer
        From the inputs to the outputs.
    activations : tuple of Activation
        One after each layer but the last.
    loss : Loss
        Of the outputs.
    regularizers : tuple of Regularizer
        One for each layer.
    sources : tuple of tuple of int
        What each layer reads: indices of layers before it, its own where it is recurrent, -1 for x.
        By default each reads the one before it.
    """

    layers: tuple[Layer, ...]
    activations: tuple[Activation, ...]
    loss: Loss
    regularizers: tuple[Regularizer, ...]
    sources: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        if not self.layers:
            raise ValueError("layers=() is empty; expected at least one layer")
        if not self.sources:
            one_after_the_other = tuple((l - 1,) for l in range(len(self.layers)))
            object.__setattr__(self, "sources", one_after_the_other)
        self._check_count("activations", self.activations, len(self.layers) - 1)
        self._check_count("regularizers", self.regularizers, len(self.layers))
        for l in range(len(self.layers)):
            for k, expected in zip(self.sources[l], self._shapes_read(l), strict=True):
                if k != INPUT and self.out_shapes[k] != expected:
                    raise ValueError(
                        f"layers do not form a chain: layer {k + 1} has outputs of shape"
                        f" {self.out_shapes[k]}; expected {expected}, the inputs of layer {l + 1}"
                    )

    def _check_count(self, name: str, terms: tuple[Any, ...], expected: int) -> None:
        if len(terms) != expected:
            raise ValueError(
                f"{name} has {len(terms)} entries; expected {expected}"
                f" for a network of {len(self.layers)} layers"
            )

    def with_regularizers(self, terms: Iterable[Regularizer]) -> Problem:
        """This problem under other regularisers: what is known of the network is known of it too.

        Parameters
        ----------
        terms : iterable of Regularizer
            One for each layer.

        Returns
        -------
        Problem
            With these.
        """
        regularizers = tuple(terms)
        self._check_count("regularizers", regularizers, len(self.layers))
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, regularizers=regularizers)
        return other

    @cached_property
    def out_shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of what each layer passes on for one sample: z_L of the last, a_l of others."""
        *hidden, last = (layer.out_shape for layer in self.layers)
        pairs = zip(self.activations, hidden, strict=True)
        return (*(f.out_shape(shape) for f, shape in pairs), last)

    @cached_property
    def readers(self) -> tuple[tuple[tuple[int, tuple[int, ...]], ...], ...]:
        """For each hidden layer, who reads a_l, and at which places among its inputs."""
        found: list[Any] = [[] for _ in self.activations]
        for k, sources in enumerate(self.sources):
            for l in sorted(set(sources) - {INPUT}):
                places = tuple(place for place, source in enumerate(sources) if source == l)
                found[l].append((k, places))
        return tuple(tuple(one) for one in found)

    @cached_property
    def last_reader(self) -> tuple[int, ...]:
        """For each hidden layer, the last layer that reads a_l."""
        return tuple(max(k for k, _ in one) for one in self.readers)

    @cached_property
    def curvature_columns(self) -> int:
        """How many columns of the loss's curvature a sample has; 0 where the loss does not tell."""
        z: Any = np.zeros((1, *self.out_shape), np.float32)
        roots = self.loss.curvature_roots(z, z)
        return 0 if roots is None else roots.shape[1]

    def is_recurrent(self, l: int) -> bool:
        """Whether a layer reads its own output of the step before.

        Parameters
        ----------
        l : int
            The layer's index.

        Returns
        -------
        bool
            Whether it does.
        """
        return l in self.sources[l]

    def inputs_of(self, l: int, x: Array, a: Sequence[Array]) -> Any:
        """What a layer reads: one array, or a tuple of several.

        Parameters
        ----------
        l : int
            The layer's index.
        x : array
            The inputs.
        a : sequence of array
            What the layers before it pass on.

        Returns
        -------
        array or tuple of array
            As the layer reads them.
        """
        found = tuple(x if k == INPUT else a[k] for k in self.sources[l])
        return found[0] if len(found) == 1 else found

    def masks(self, x: Array) -> tuple[Array | None, ...]:
        """Where the outputs of each layer count; None: everywhere.

        Parameters
        ----------
        x : array
            The inputs.

        Returns
        -------
        tuple of array or None
            1 or 0 at every position, (N, *positions, 1).
        """
        return tuple(layer.mask(x) for layer in self.layers)

    @property
    def is_chain(self) -> bool:
        """Whether every layer reads the one before it, and nothing else."""
        return all(sources == (l - 1,) for l, sources in enumerate(self.sources))

    @property
    def n_layers(self) -> int:
        return len(self.layers)

    @property
    def needs_jax(self) -> bool:
        """Whether one of its terms computes with arrays of JAX alone."""
        terms = (*self.layers, *self.activations, self.loss, *self.regularizers)
        return any(map(needs_jax, terms))

    @property
    def in_shape(self) -> tuple[int, ...]:
        """The shape of one sample's input."""
        places = zip(self.sources[0], self._shapes_read(0), strict=True)
        return next(shape for k, shape in places if k == INPUT)

    def _shapes_read(self, l: int) -> Any:
        shape = self.layers[l].in_shape
        return shape if len(self.sources[l]) > 1 else (shape,)

    @property
    def out_shape(self) -> tuple[int, ...]:
        """The shape of one sample's output."""
        return self.layers[-1].out_shape

    @classmethod
    def dense(
        cls,
        sizes: Sequence[int],
        activation: Any = "relu",
        loss: Any = "log_loss",
        regularizer: Any = "none",
    ) -> Problem:
        """A fully connected network with these layer sizes, inputs and outputs included.

        Parameters
        ----------
        sizes : sequence of int
            Inputs, units of each hidden layer, outputs.
        activation : str, Activation, callable or a list
            One for all hidden layers, or one for each.
        loss : str or Loss
            Of the outputs.
        regularizer : str, Regularizer or a list
            One for all layers, or one for each.

        Returns
        -------
        Problem
            With random weights still to be drawn.
        """
        given = tuple(sizes) if isinstance(sizes, Iterable) else ()
        counts = [n for n in given if isinstance(n, Integral) and not isinstance(n, bool) and n > 0]
        if len(given) < 2 or len(counts) < len(given):
            raise ValueError(
                f"sizes={sizes!r} is not a network; expected at least two positive integers"
            )
        sizes = given
        return cls.of_layers(chain(sizes[:1], sizes[1:]), activation, loss, regularizer)

    @classmethod
    def of_layers(
        cls,
        layers: Sequence[Layer],
        activation: Any = "relu",
        loss: Any = "log_loss",
        regularizer: Any = "none",
    ) -> Problem:
        """A network of these layers; the other terms as in `dense`.

        Parameters
        ----------
        layers : sequence of Layer
            From the inputs to the outputs.
        activation : str, Activation, callable or a list
            One for all hidden layers, or one for each.
        loss : str or Loss
            Of the outputs.
        regularizer : str, Regularizer or a list
            One for all layers, or one for each.

        Returns
        -------
        Problem
            With random weights still to be drawn.
        """
        return cls(
            layers=tuple(layers),
            activations=_per_layer("activation", activation, len(layers) - 1, activations.get),
            loss=losses.get(loss),
            regularizers=_per_layer("regularizer", regularizer, len(layers), regularizers.get),
        )

    @classmethod
    def of_network(
        cls, network: Network, loss: Any = "log_loss", regularizer: Any = "none"
    ) -> Problem:
        """This network, which has its activations already; the other terms as in `dense`.

        Parameters
        ----------
        network : Network
            Layers and activations.
        loss : str or Loss
            Of the outputs.
        regularizer : str, Regularizer or a list
            One for all layers, or one for each.

        Returns
        -------
        Problem
            With random weights still to be drawn.
        """
        layers, hidden, sources = network.graph
        terms = _per_layer("regularizer", regularizer, len(layers), regularizers.get)
        return cls(layers, hidden, losses.get(loss), terms, sources)


def chain(in_shape: tuple[int, ...], units: Sequence[int | Layer]) -> tuple[Layer, ...]:
    """Layers one after the other: a number is a dense layer of so many units."""
    found: list[Layer] = []
    for one in units:
        before = found[-1].out_shape if found else tuple(map(int, in_shape))
        found.append(one if isinstance(one, Layer) else Dense(before, int(one)))
    return tuple(found)


def _per_layer(name: str, spec: Any, count: int, get: Any) -> tuple[Any, ...]:
    """One term for each layer from a single spec or a list of them; ValueError by its name where
    those are too few or too many."""
    many = spec if isinstance(spec, list | tuple) else [spec] * count
    if len(many) != count:
        raise ValueError(f"{name}={spec!r} has {len(many)} entries; expected one, or {count}")
    return tuple(get(one) for one in many)


def sizes_of(network: Sequence[Layer]) -> list[int]:
    """How many numbers go in, and how many come out of each layer."""
    first: Any = network[0]
    inputs = first.in_shape if first.is_single else first.in_shape[0]  # x, and what else it reads
    return [prod(inputs), *(prod(layer.out_shape) for layer in network)]


def described_layers(network: Sequence[Layer]) -> list[dict[str, Any]]:
    """Each layer as plain values: its registered name, or its class's, and its fields."""
    return [
        {"layer": layers.name_of(layer) or type(layer).__name__, **layer.describe()}
        for layer in network
    ]


def layers_from(described: Sequence[dict[str, Any]]) -> tuple[Layer, ...]:
    """The layers that `described_layers` described; ValueError where one is not known here."""
    found = []
    for stored in described:
        name, fields = stored["layer"], {k: v for k, v in stored.items() if k != "layer"}
        if name not in layers:
            raise ValueError(f"the layer {name!r} is not registered here")
        try:
            found.append(type(layers.get(name)).from_description(fields))
        except TypeError as error:
            raise ValueError(f"the layer {name!r} has other fields here ({error})") from None
    return tuple(found)
