"""ONNX nodes for any network of this library.

Inside, samples have their channels first, as ONNX has them. Runtimes know convolution and average
pooling in float32 alone: these are computed so, and all else in the graph's own type.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from dladmm.export.network import Network
from dladmm.export.onnx_graph import FLOAT, GraphBuilder, add_activation
from dladmm.export.weight_layouts import channels_first, in_groups
from dladmm.network.graph import INPUT
from dladmm.terms.activations import Activation, MaxPooled
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
    Skip,
)


def add_network(g: GraphBuilder, network: Network, x: str) -> str:
    """The nodes from the features x to the last layer's z."""
    problem, params = network.problem, network.params
    values = {INPUT: _turned(g, x, len(problem.in_shape)) if len(problem.in_shape) > 1 else x}
    for l, (W, b) in enumerate(zip(params.W, params.b, strict=True)):
        layer: Any = problem.layers[l]
        f = problem.activations[l] if l < len(problem.activations) else None
        read = [values[k] for k in problem.sources[l] if k != l]
        if f is not None and problem.is_recurrent(l):
            values[l] = _add_recurrence(g, layer, read, W, b, f)
            continue
        z = _add_layer(g, layer, read, W, b)
        values[l] = z if f is None else _add_pooled_activation(g, f, z)
    return values[problem.n_layers - 1]


# Layers with weights; each takes what it reads, its W, and its b or none.


def _add_layer(g: GraphBuilder, layer: Any, read: list[str], W: Any, b: Any) -> str:
    """The nodes of one layer; ValueError, by its name, for one that is not known here."""
    # By the exact class: a subclass may be another map.
    if type(layer) is Joined:
        total = ""
        for k, (part, V) in enumerate(zip(layer.parts, layer.split(W), strict=True)):
            p = _add_layer(g, part, [read[k]], V, b if k == 0 else None)
            total = g.add("Add", total, p) if total else p
        return total
    if type(layer) is After:
        return _add_layer(g, layer.then, [_add_maps(g, layer, read[0])], W, b)
    if type(layer) not in _LAYERS:
        raise _not_exported(layer)
    return _LAYERS[type(layer)](g, layer, read[0], W, b)


def _add_dense(g: GraphBuilder, layer: Dense, x: str, W: Any, b: Any) -> str:
    flat = x if len(layer.in_shape) == 1 else g.add("Flatten", x)
    columns = channels_first(W, layer.in_shape[:-1]).reshape(np.shape(W))
    given = [flat, g.constant(columns.T)]
    return g.add("MatMul", *given) if b is None else g.add("Gemm", *given, g.constant(b))


def _add_convolution(g: GraphBuilder, layer: Convolution, x: str, W: Any, b: Any) -> str:
    groups = layer.groups if isinstance(layer, Grouped) else 1
    weight = in_groups(channels_first(W, layer.window), groups)
    values = [weight, *([] if b is None else [b])]
    constants = [g.constant(value, np.float32) for value in values]
    options: dict[str, Any] = {
        "kernel_shape": layer.window,
        "strides": layer.strides,
        "dilations": layer.dilation,
        "group": groups,
        "pads": [n for side in zip(*layer.padding, strict=True) for n in side],
    }
    return _in_float32(g, lambda x: g.add("Conv", x, *constants, **options), x)


_LAYERS: dict[Any, Callable[..., str]] = {
    Dense: _add_dense,
    Convolution: _add_convolution,
    Grouped: _add_convolution,
    Skip: lambda g, layer, x, W, b: x,
}


def _add_recurrence(
    g: GraphBuilder, layer: Any, read: list[str], W: Any, b: Any, f: Activation
) -> str:
    """All states, step by step: a_t = f(W x_t + b + V a_{t-1})."""
    if type(layer) is Masked and len(layer.parts) > 2:
        raise ValueError(
            "a recurrence after another one, both masked, cannot be exported to ONNX; expected one"
        )
    below, own = layer.parts if len(layer.parts) == 2 else (None, None)
    x = read[0]
    if type(below) is After:
        x, below = _add_maps(g, below, x), below.then
    at_each_step = type(below) is Convolution and below.fan_in == below.inputs[-1]
    if type(own) is not Delayed or not at_each_step:
        raise ValueError("a recurrence with a skip cannot be exported to ONNX")
    W, V = layer.split(W)
    given = g.add("MatMul", _turned(g, x, 2), g.constant(W.T))
    given = g.add("Add", given, g.constant(b))
    count = g.add("Shape", given, start=0, end=1)
    shape = g.add("Concat", count, g.constant([layer.units], np.int64), axis=0)
    start = g.add("Expand", g.constant(np.zeros((1, layer.units))), shape)
    by_state = g.constant(V.T)

    def step(state: str, given: str) -> list[str]:
        a = add_activation(g, f, g.add("Add", given, g.add("MatMul", state, by_state)))
        return [g.add("Identity", a), g.add("Identity", a)]

    options: dict[str, Any] = {"scan_input_axes": [1], "scan_output_axes": [1]}
    body = g.function(layer.units, 2, step)
    _, states = g.add_all(2, "Scan", start, given, body=body, num_scan_inputs=1, **options)
    return _turned(g, states, 2)


# What has no weights.


def _add_maps(g: GraphBuilder, layer: After, x: str) -> str:
    for one in layer.maps:
        if type(one) is LastStep:
            x = g.add("Gather", x, g.constant(-1, np.int64), axis=2)
        elif type(one) is Average and one.window == one.inputs[:-1]:
            x = g.add("ReduceMean", x, axes=list(range(2, len(one.inputs) + 1)))
        elif type(one) is Average:
            x = _add_average(g, one, x)
        else:
            raise _not_exported(one)
    return x


def _add_average(g: GraphBuilder, one: Average, x: str) -> str:
    pool: dict[str, Any] = {"kernel_shape": one.window, "strides": one.window}
    return _in_float32(g, lambda x: g.add("AveragePool", x, **pool), x)


def _add_pooled_activation(g: GraphBuilder, f: Activation, z: str) -> str:
    if isinstance(f, MaxPooled):
        z = g.add("MaxPool", z, kernel_shape=f.window, strides=f.window)
        f = f.f
    return add_activation(g, f, z)


def _in_float32(g: GraphBuilder, function: Callable[[str], str], x: str) -> str:
    if g.kind == FLOAT:
        return function(x)
    return g.cast(function(g.cast(x, FLOAT)), g.kind)


def _turned(g: GraphBuilder, x: str, axes: int) -> str:
    """The channels of a sample of so many axes first, if they are last; of two axes, also back."""
    return g.add("Transpose", x, perm=[0, axes, *range(1, axes)])


def _not_exported(what: Any) -> ValueError:
    known = "Dense, Convolution, Recurrent, Residual and pooling"
    return ValueError(f"{type(what).__name__} cannot be exported to ONNX; expected {known}")
