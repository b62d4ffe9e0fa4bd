"""Problem 2 of the paper: what is minimised, frozen and hashable, so that it is compiled once.

    min  sum_i omega_i [ R(z_L,i; y_i) + nu/2 sum_{l<L} ( |z_l,i - A_l(W_l, a_{l-1,i}) - b_l|^2
                                                        + |a_l,i - f_l(z_l,i)|^2 ) ]
         + sum_l Omega_l(W_l)
    s.t. z_L = A_L(W_L, a_{L-1}) + b_L,         a_0 = x.

Conventions, written once: samples are rows; everything is a sum over samples, each with its
weight omega_i; u is the unscaled dual of the constraint; lists run over l = 1..L from index 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral
from typing import Any

from dladmm.terms.activations import Activation, activations
from dladmm.terms.layers import Dense
from dladmm.terms.loss import Loss
from dladmm.terms.losses import losses
from dladmm.terms.regularizers import Regularizer, regularizers


@dataclass(frozen=True)
class Problem:
    """The network (layers and the activations between them), its loss and its regularisers."""

    layers: tuple[Dense, ...]
    activations: tuple[Activation, ...]
    loss: Loss
    regularizers: tuple[Regularizer, ...]

    def __post_init__(self) -> None:
        if not self.layers:
            raise ValueError("layers=() is empty; expected at least one layer")
        for l, (one, two) in enumerate(pairwise(self.layers), 1):
            if one.n_out != two.n_in:
                raise ValueError(
                    f"layers do not form a chain: layer {l} has {one.n_out} outputs;"
                    f" expected {two.n_in}, the inputs of layer {l + 1}"
                )
        for name, terms, expected in (
            ("activations", self.activations, len(self.layers) - 1),
            ("regularizers", self.regularizers, len(self.layers)),
        ):
            if len(terms) != expected:
                raise ValueError(
                    f"{name} has {len(terms)} entries; expected {expected}"
                    f" for a network of {len(self.layers)} layers"
                )

    @property
    def n_layers(self) -> int:
        return len(self.layers)

    @classmethod
    def dense(
        cls,
        sizes: Sequence[int],
        activation: Any = "relu",
        loss: Any = "log_loss",
        regularizer: Any = "none",
    ) -> Problem:
        """A fully connected network with these layer sizes, inputs and outputs included.

        `activation` and `regularizer` are one term for all layers or a list with one per layer
        (one per hidden layer for activations); terms are names or instances.
        """
        sizes = tuple(sizes)
        if len(sizes) < 2 or not all(isinstance(n, Integral) and n > 0 for n in sizes):
            raise ValueError(
                f"sizes={sizes!r} is not a network; expected at least two positive integers"
            )
        n_layers = len(sizes) - 1
        return cls(
            layers=tuple(Dense(int(m), int(n)) for m, n in pairwise(sizes)),
            activations=_per_layer(activation, n_layers - 1, activations.get),
            loss=losses.get(loss),
            regularizers=_per_layer(regularizer, n_layers, regularizers.get),
        )


def _per_layer(spec: Any, count: int, get: Any) -> tuple[Any, ...]:
    """One term for each layer from a single spec or a list of them."""
    many = spec if isinstance(spec, list | tuple) else [spec] * count
    return tuple(get(one) for one in many)
