"""PyTorch layers, one after the other, read into the entries of a `Network`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from dladmm.export.torch_activations import activation_term
from dladmm.export.torch_items import (
    CONVOLUTIONS,
    MAX_POOLS,
    POOLS,
    ZERO_PADS,
    convolution_item,
    is_whole_flatten,
    pool_item,
    recurrent_item,
    why_not,
)
from dladmm.export.torch_shapes import AllStates, ChannelsFirst, ChannelsLast, LastState, Residual
from dladmm.network import Conv1D, Conv2D, Dense, Flatten
from dladmm.network import Residual as ResidualItem

Refuse = Callable[[str], ValueError]
WITH_WEIGHTS: tuple[type[nn.Module], ...] = (nn.Linear, *CONVOLUTIONS, nn.RNN)


@dataclass(frozen=True)
class Part:
    """Weights of one module that are columns of a node's matrix, and biases that it adds up; both
    None and empty for what is added to a node as it is."""

    module: Any
    refuse: Refuse
    weight: Any
    biases: tuple[Any, ...]
    flat: bool  # whether it reads a sample with its channels first, flattened


@dataclass
class Reader:
    """The entries so far, each with who is to blame for it, and the weights of each node.

    axes: how many a sample has beside its channels, 0 if it is one row. open: the place of an
    activation that may still follow the last layer with weights; None if none may.
    """

    axes: int
    first: bool
    items: list[Any] = field(default_factory=list)
    refusals: list[Refuse] = field(default_factory=list)
    nodes: list[list[Part]] = field(default_factory=list)
    seen: list[Any] = field(default_factory=list)  # weights, none of which may come twice
    open: int | None = None
    flat: bool = False
    zeros: tuple[int, ...] = ()  # of a ZeroPad before a convolution
    last: Refuse | None = None  # of an activation that nothing with weights follows

    def read(self, layers: list[tuple[str, nn.Module]]) -> None:
        for place, (name, layer) in enumerate(layers):
            refuse = refusal(name, layer)
            following = layers[place + 1][1] if place + 1 < len(layers) else None
            if isinstance(layer, nn.RNN):
                self._read_recurrence(layer, following, refuse)
            elif type(layer) in (AllStates, LastState):
                if place == 0 or not isinstance(layers[place - 1][1], nn.RNN):
                    raise refuse("expected it right after an RNN")
            elif isinstance(layer, WITH_WEIGHTS):
                self._read_weighted(layer, refuse)
            elif type(layer) is Residual:
                self._read_residual(name, layer, refuse)
            elif type(layer) in ZERO_PADS:
                self._read_zeros(layer, following, refuse)
            elif type(layer) in (ChannelsFirst, ChannelsLast):
                self._turn(isinstance(layer, ChannelsFirst), refuse)
            elif type(layer) in POOLS:
                self._read_pool(layer, refuse)
            elif is_whole_flatten(layer):
                if self.axes > 0:
                    self.flat = self.first
                self._add(Flatten(), refuse)
                self.axes = 0
            else:
                self._read_activation(layer, refuse)

    def check_end(self) -> None:
        if not self.nodes:
            raise ValueError("module has no Linear layer; expected at least one")
        if self.last is not None:
            raise self.last(
                "it follows the last layer with weights, whose outputs the loss takes as they are"
            )
        if self.axes > 0:
            raise self.refusals[-1](
                "it gives outputs for every position; expected a Linear after a Flatten, an"
                " average over all positions or LastState"
            )

    def _add(self, item: Any, refuse: Refuse) -> None:
        self.items.append(item)
        self.refusals.append(refuse)

    # Layers with weights.

    def _read_weighted(self, layer: Any, refuse: Refuse) -> None:
        self._check_weights(layer, refuse)
        if not isinstance(layer, nn.Linear):
            self._check_layout(layer, True, refuse)
            item: Any = convolution_item(layer, refuse, self.zeros)
            self.zeros = ()
        elif self.axes == 0:
            item = Dense(layer.out_features)
        elif self.first or self.axes > 2:
            raise refuse("it reads the last axis of samples that have several; expected a Flatten")
        else:
            item = (Conv1D, Conv2D)[self.axes - 1](layer.out_features, 1)
        self.nodes.append([Part(layer, refuse, layer.weight, _biases(layer), self.flat)])
        self._close_with(item, refuse)

    def _close_with(self, item: Any, refuse: Refuse) -> None:
        self._add(item, refuse)
        self.open, self.flat, self.last = len(self.items), False, None

    def _read_recurrence(self, layer: nn.RNN, states: nn.Module | None, refuse: Refuse) -> None:
        if type(states) not in (LastState, AllStates):
            raise refuse("it returns a pair; expected dladmm.torch.LastState() or AllStates() next")
        item = recurrent_item(layer, isinstance(states, LastState), refuse)
        self._check_weights(layer, refuse)
        self._check_layout(layer, False, refuse)
        W, V, *biases = layer.all_weights[0]
        own = Part(layer, refuse, V, (), False)
        self.nodes.append([Part(layer, refuse, W, tuple(biases), False), own])
        self._close_with(item, refuse)
        self.open = None
        if isinstance(states, LastState):
            self.axes = 0

    def _read_residual(self, name: str, layer: Residual, refuse: Refuse) -> None:
        if not isinstance(layer.body, nn.Sequential):
            raise refuse(f"its body is a {type(layer.body).__name__}; expected an nn.Sequential")
        body = Reader(self.axes, self.first, nodes=self.nodes, seen=self.seen, flat=self.flat)
        count = len(self.nodes)
        body.read(list(layers_of(layer.body, f"{name}.body.")))
        if len(self.nodes) == count:
            raise refuse("its body has no layer with weights; expected at least one")
        if body.axes == self.axes > 0 and body.first != self.first:
            raise refuse("its body turns the axes of a sample; expected ChannelsFirst before it")
        self.nodes[-1].append(self._shortcut(name, layer.shortcut, refuse))
        self._close_with(ResidualItem(tuple(body.items)), refuse)
        self.axes = body.axes

    def _shortcut(self, name: str, layer: Any, whole: Refuse) -> Part:
        if layer is None or type(layer) is nn.Identity:
            return Part(None, whole, None, (), False)
        refuse = refusal(f"{name}.shortcut", layer)
        if type(layer) not in (nn.Linear, *CONVOLUTIONS):
            raise refuse("expected a Linear, a Conv1d or a Conv2d, or none")
        if type(layer) in CONVOLUTIONS:
            convolution_item(layer, refuse)
            if layer.padding not in ((0,), (0, 0), "valid", "same"):
                raise refuse(f"it has padding={layer.padding}; expected padding=0")
        self._check_weights(layer, refuse, with_bias=layer.bias is not None)
        return Part(layer, refuse, layer.weight, _biases(layer), self.flat)

    def _check_weights(self, layer: Any, refuse: Refuse, with_bias: bool = True) -> None:
        if type(layer) not in WITH_WEIGHTS:
            raise refuse(f"{type(layer).__name__} is not nn.{_base(layer)} itself")
        if with_bias and (not layer.bias if isinstance(layer, nn.RNN) else layer.bias is None):
            raise refuse("it has bias=False; expected bias=True, since every layer here has a bias")
        weights = list(layer.parameters())
        if any(one is other for one in weights for other in self.seen):
            raise refuse("its weights are shared with an earlier layer")
        if not all(one.requires_grad for one in weights):
            raise refuse("it is frozen (requires_grad=False), and all layers are trained here")
        self.seen += weights

    # What has none.

    def _check_layout(self, layer: nn.Module, first: bool, refuse: Refuse) -> None:
        if self.axes > 0 and self.first != first:
            turn = "ChannelsFirst" if first else "ChannelsLast"
            raise refuse(f"what arrives has its channels elsewhere; expected {turn}() before it")

    def _turn(self, first: bool, refuse: Refuse) -> None:
        if self.axes < 1 or self.first == first:
            raise refuse("samples are like that already")
        self.first = first

    def _read_zeros(self, layer: Any, following: nn.Module | None, refuse: Refuse) -> None:
        if type(following) not in CONVOLUTIONS:
            raise refuse("expected it right before a Conv1d or a Conv2d")
        self.zeros = tuple(layer.padding)

    def _read_pool(self, layer: nn.Module, refuse: Refuse) -> None:
        self._check_layout(layer, True, refuse)
        item = pool_item(layer, refuse)
        self._add(item, refuse)
        if not isinstance(layer, MAX_POOLS):
            self.open = None

    def _read_activation(self, layer: nn.Module, refuse: Refuse) -> None:
        term = activation_term(layer)
        if term is None:
            raise refuse(why_not(layer))
        if isinstance(layer, nn.Identity):
            return
        if self.open is None:
            where = "after another activation or a pooling"
            if not self.items:
                where = "before the first layer with weights"
            raise refuse(f"it stands {where}; expected one after a layer with weights at most")
        # After a max pooling it may stand before it as well: f(max z), and no activation falls.
        self.items.insert(self.open, term)
        self.refusals.insert(self.open, refuse)
        self.open, self.last = None, refuse


def _biases(layer: Any) -> tuple[Any, ...]:
    return () if layer.bias is None else (layer.bias,)


def _base(layer: nn.Module) -> str:
    return next(kind.__name__ for kind in WITH_WEIGHTS if isinstance(layer, kind))


def layers_of(module: nn.Sequential, prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    """The layers with their index, those of nested Sequentials as "2.0"."""
    # Not named_children(), which leaves out a module that stands in two places.
    for index, layer in enumerate(module):
        if type(layer) is nn.Sequential:
            yield from layers_of(layer, f"{prefix}{index}.")
        else:
            yield f"{prefix}{index}", layer


def refusal(name: str, layer: nn.Module) -> Refuse:
    shown = repr(layer) if "\n" not in repr(layer) else type(layer).__name__
    return lambda why: ValueError(f"layer {name} ({shown}) cannot be trained: {why}")
