"""Any network of this library as PyTorch modules, one after the other.

Inside, samples have their channels first, as PyTorch's convolutions want them; a first module turns
those that come in. Where a node adds up a skip, what was made since its start is the body of a
`Residual`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from dladmm.core.params import Params
from dladmm.core.problem import Problem
from dladmm.export.torch_activations import activation_module
from dladmm.export.torch_shapes import (
    AllStates,
    ChannelsFirst,
    ChannelsLast,
    LastState,
    Recurrence,
    Residual,
)
from dladmm.export.weight_layouts import channels_first, in_groups
from dladmm.network.graph import INPUT
from dladmm.terms.activations import Activation, Identity, MaxPooled
from dladmm.terms.layers import (
    After,
    Average,
    Convolution,
    Delayed,
    Dense,
    Grouped,
    Joined,
    LastStep,
    Masked,
    Present,
    Skip,
)

Sizes = tuple[int, ...]
CONVOLVING = (Convolution, Grouped)
CONVOLUTIONS: Any = {1: nn.Conv1d, 2: nn.Conv2d}
ZERO_PADS: Any = {1: nn.ZeroPad1d, 2: nn.ZeroPad2d}
MAX_POOLS: Any = {1: nn.MaxPool1d, 2: nn.MaxPool2d}
AVERAGE_POOLS: Any = {1: nn.AvgPool1d, 2: nn.AvgPool2d}
GLOBAL_POOLS: Any = {1: nn.AdaptiveAvgPool1d, 2: nn.AdaptiveAvgPool2d}
NONLINEARITIES: dict[type[nn.Module], str] = {nn.Tanh: "tanh", nn.ReLU: "relu"}  # of nn.RNN


def modules_of_problem(
    problem: Problem, params: Params, dtype: torch.dtype | None = None
) -> list[nn.Module]:
    """Modules that take samples as `solve` does, channels last, and return the network's outputs.

    ValueError, by its name, for a layer or an activation that has no module.
    """
    return Writer(problem, dtype).written(params)


class Writer:
    """The modules so far, and how many of them each node has passed on its output through."""

    def __init__(self, problem: Problem, dtype: torch.dtype | None) -> None:
        self.problem, self.dtype = problem, dtype
        self.modules: list[nn.Module] = []
        self.places: dict[int, int] = {}
        self.skipped = {
            k for l, sources in enumerate(problem.sources) for k in sources[1:] if k != l
        }  # nodes that a skip reads, after whose modules none may be taken away

    def written(self, params: Params) -> list[nn.Module]:
        problem = self.problem
        if len(problem.in_shape) > 1:
            self.modules.append(ChannelsFirst())
        self.places[INPUT] = len(self.modules)
        for l, (W, b) in enumerate(zip(params.W, params.b, strict=True)):
            self._add_node(l, np.asarray(W), np.asarray(b))
            self.places[l] = len(self.modules)
        return self.modules

    def _add_node(self, l: int, W: np.ndarray, b: np.ndarray) -> None:
        layer: Any = self.problem.layers[l]
        sources = self.problem.sources[l]
        joined = type(layer) in (Joined, Masked)
        parts, columns = (layer.parts, layer.split(W)) if joined else ((layer,), [W])
        if sources[0] != l - 1:
            raise ValueError(
                f"layer {l + 1} reads layer {sources[0] + 1} first, which has no PyTorch module;"
                f" expected layer {l}"
            )
        f = self.problem.activations[l] if l < len(self.problem.activations) else None
        if self.problem.is_recurrent(l):
            self._add_recurrence(l, parts, columns, b, f)
            return
        self._add_layer(l, parts[0], columns[0], b)
        for part, V, entry in zip(parts[1:], columns[1:], sources[1:], strict=True):
            self._add_skip(part, V, entry)
        if f is not None:
            self._add_activation(f)

    # Layers with weights.

    def _add_layer(self, l: int, layer: Any, W: np.ndarray, b: np.ndarray) -> None:
        layer = self._add_maps(l, layer)
        if type(layer) is Dense and len(layer.in_shape) > 1:
            self.modules.append(nn.Flatten())
        if type(layer) in CONVOLVING and any(first != last for first, last in layer.padding):
            zeros = [n for pair in reversed(layer.padding) for n in pair]
            self.modules.append(ZERO_PADS[len(layer.padding)](tuple(zeros)))
        self.modules.append(self._weighted(layer, W, b))

    def _weighted(self, layer: Any, W: np.ndarray, b: np.ndarray | None = None) -> nn.Module:
        """A Linear or a convolution; without a bias where there is none."""
        module: nn.Module
        groups = layer.groups if type(layer) is Grouped else 1
        if type(layer) is Dense:
            window = layer.in_shape[:-1]
            module = nn.Linear(layer.fan_in, layer.units, b is not None, dtype=self.dtype)
        elif type(layer) in CONVOLVING and len(layer.window) in CONVOLUTIONS:
            window = layer.window
            even = all(first == last for first, last in layer.padding)
            module = CONVOLUTIONS[len(window)](
                layer.in_shape[-1],
                layer.units,
                window,
                stride=layer.strides,
                padding=tuple(first for first, _ in layer.padding) if even else 0,
                dilation=layer.dilation,
                groups=groups,
                bias=b is not None,
                dtype=self.dtype,
            )
        else:
            raise _has_no_module(layer)
        put(module.weight, in_groups(channels_first(W, window), groups))
        if b is not None:
            put(module.bias, b)
        return module

    def _add_skip(self, part: Any, V: np.ndarray, entry: int) -> None:
        if entry not in self.places:
            raise ValueError("skips that cross each other have no PyTorch module")
        start = self.places[entry]
        shortcut = None if type(part) is Skip else self._weighted(part, V)
        self.modules[start:] = [Residual(nn.Sequential(*self.modules[start:]), shortcut)]
        self.places = {k: place for k, place in self.places.items() if place <= start}

    def _add_recurrence(
        self, l: int, parts: Sequence[Any], columns: Sequence[np.ndarray], b: np.ndarray, f: Any
    ) -> None:
        if type(parts[-1]) is Present:
            raise ValueError(
                "a recurrence after another one, both masked, has no PyTorch module; expected one"
            )
        if len(parts) != 2 or type(parts[1]) is not Delayed:
            raise ValueError("a recurrence with a skip has no PyTorch module")
        below = self._add_maps(l, parts[0])
        if type(below) is not Convolution or below.n_weights != below.inputs[-1] * below.units:
            raise _has_no_module(below)
        self._turn_back(l)
        sizes, (W, V) = (below.inputs[-1], below.units), columns
        module = activation_module(f)
        if type(module) in NONLINEARITIES:
            kind = NONLINEARITIES[type(module)]
            rnn = nn.RNN(*sizes, nonlinearity=kind, batch_first=True, dtype=self.dtype)
            zero = np.zeros_like(b)
            for parameter, value in zip(rnn.parameters(), (W, V, b, zero), strict=True):
                put(parameter, value)
            self.modules += [rnn, AllStates()]
        else:
            input = nn.Linear(*sizes, dtype=self.dtype)
            state = nn.Linear(sizes[1], sizes[1], bias=False, dtype=self.dtype)
            for value, weight in ((W, input.weight), (b, input.bias), (V, state.weight)):
                put(weight, value)
            self.modules += [Recurrence(input, state, module), AllStates()]
        self.modules.append(ChannelsFirst())

    # What has no weights.

    def _turn_back(self, l: int) -> None:
        """Channels last from here on."""
        turned = self.modules and type(self.modules[-1]) is ChannelsFirst
        if turned and l - 1 not in self.skipped:
            self.modules.pop()
        else:
            self.modules.append(ChannelsLast())

    def _add_maps(self, l: int, layer: Any) -> Any:
        """What a layer reads its inputs through; returns the layer itself."""
        if type(layer) is not After:
            return layer
        for one in layer.maps:
            axes = one.inputs[:-1]
            if type(one) is LastStep:
                self._turn_back(l)
                if self.modules and type(self.modules[-1]) is AllStates:
                    self.modules.pop()
                self.modules.append(LastState())
            elif type(one) is Average and one.window == axes and len(axes) in GLOBAL_POOLS:
                self.modules.append(GLOBAL_POOLS[len(axes)](1))
            elif type(one) is Average and len(axes) in AVERAGE_POOLS:
                self.modules.append(AVERAGE_POOLS[len(axes)](one.window))
            else:
                raise _has_no_module(one)
        return layer.then

    def _add_activation(self, f: Activation) -> None:
        if isinstance(f, MaxPooled):
            if len(f.window) not in MAX_POOLS:
                raise _has_no_module(f)
            self.modules.append(MAX_POOLS[len(f.window)](f.window))
            if isinstance(f.f, Identity):
                return
            f = f.f
        self.modules.append(activation_module(f))


def put(weight: Any, value: np.ndarray) -> None:
    """New weights in place: dtype and device stay as they are."""
    with torch.no_grad():
        weight.copy_(torch.from_numpy(np.array(value)).reshape(weight.shape))


def _has_no_module(what: Any) -> ValueError:
    known = "Dense, Convolution, Recurrent, Residual and pooling over one axis or two"
    return ValueError(f"{type(what).__name__} has no PyTorch module; expected {known}")
