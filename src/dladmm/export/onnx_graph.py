"""ONNX nodes for a network: a small builder, the activations, the links.

Only basic operators of opset 17 are used, which runtimes have for double as well as for float.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:  # the extra is optional
    raise ImportError("onnx is not installed; pip install 'dladmm[onnx]'") from error

from dladmm._version import __version__
from dladmm.export.network import Network
from dladmm.io.json_values import term_name
from dladmm.terms.activations import Activation

OPSET, ML_OPSET, IR_VERSION = 17, 3, 8
FLOAT, DOUBLE = TensorProto.FLOAT, TensorProto.DOUBLE
INT64, STRING = TensorProto.INT64, TensorProto.STRING
# Keeps the names of values inside the graph apart from the names of a table's columns.
PREFIX = "dladmm:"


class GraphBuilder:
    """Collects nodes and constants, which are of `dtype`; each `add` returns its value's name."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.kind = {"float32": FLOAT, "float64": DOUBLE}[dtype]
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.count = 0  # of values inside the graph

    def input(self, name: str, kind: int, *shape: int, meaning: str = "") -> str:
        self.inputs.append(helper.make_tensor_value_info(name, kind, [None, *shape], meaning))
        return name

    def constant(self, value: Any, dtype: Any = None) -> str:
        dtype = self.dtype if dtype is None else dtype
        name = f"{PREFIX}constant_{len(self.constants)}"
        array = np.ascontiguousarray(np.asarray(value, dtype=dtype)).reshape(np.shape(value))
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def add(self, op: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        return self.add_all(1, op, *inputs, domain=domain, **attributes)[0]

    def add_all(self, outputs: int, op: str, *inputs: str, **attributes: Any) -> list[str]:
        """A node of several values."""
        names = [self._name(op.lower()) for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        return names

    def function(self, width: int, count: int, body: Callable[..., list[str]]) -> Any:
        """A graph of `count` inputs and some outputs, rows of `width` numbers each, for a node that
        runs it; it sees the constants outside."""
        outside, self.nodes = self.nodes, []
        names = [self._name("given") for _ in range(count)]
        inputs, outputs = (
            [helper.make_tensor_value_info(one, self.kind, [None, width]) for one in many]
            for many in (names, body(*names))
        )
        graph = helper.make_graph(self.nodes, self._name("function"), inputs, outputs)
        self.nodes = outside
        return graph

    def _name(self, kind: str) -> str:
        self.count += 1
        return f"{PREFIX}{kind}_{self.count}"

    def cast(self, value: str, kind: int) -> str:
        return self.add("Cast", value, to=kind)

    def output(self, value: str, name: str, kind: int, shape: list[int | None]) -> None:
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, kind, shape))

    def model(self) -> Any:
        """The whole model, checked by ONNX's own checker."""
        graph = helper.make_graph(self.nodes, "dladmm", self.inputs, self.outputs, self.constants)
        opsets = [helper.make_opsetid("", OPSET)]
        if any(node.domain == "ai.onnx.ml" for node in self.nodes):
            opsets.append(helper.make_opsetid("ai.onnx.ml", ML_OPSET))
        model = helper.make_model(
            graph,
            opset_imports=opsets,
            ir_version=IR_VERSION,
            producer_name="dladmm",
            producer_version=__version__,
        )
        onnx.checker.check_model(model, full_check=True)
        return model


def read_signature(path: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Inputs and outputs of an ONNX file: name, type, shape (None: rows) and meaning."""
    graph = onnx.load(path).graph
    inputs, outputs = (
        [
            {
                "name": value.name,
                "type": TensorProto.DataType.Name(value.type.tensor_type.elem_type).lower(),
                "shape": [
                    one.dim_value if one.HasField("dim_value") else None
                    for one in value.type.tensor_type.shape.dim
                ],
                "meaning": value.doc_string,
            }
            for value in values
        ]
        for values in (graph.input, graph.output)
    )
    return inputs, outputs


def _clip(g: GraphBuilder, z: str, low: float, high: float) -> str:
    return g.add("Clip", z, g.constant(low), g.constant(high))


def _two_levels(g: GraphBuilder, z: str, low: float, high: float) -> str:
    """`high` where z >= 0, else `low`."""
    above = g.add("GreaterOrEqual", z, g.constant(0.0))
    return g.add("Where", above, g.constant(high), g.constant(low))


def _leaky_relu(g: GraphBuilder, z: str, f: Any) -> str:
    if not f.slope:
        return g.add("Relu", z)
    below = g.add("Mul", g.add("Min", z, g.constant(0.0)), g.constant(f.slope))
    return g.add("Add", g.add("Relu", z), below)


def _hard_sigmoid(g: GraphBuilder, z: str, f: Any) -> str:
    line = g.add("Add", g.add("Mul", z, g.constant(1 / 6)), g.constant(0.5))
    return _clip(g, line, 0.0, 1.0)


def _softplus(g: GraphBuilder, z: str, f: Any = None) -> str:
    """max(z, 0) + log(1 + exp(-|z|)), which cannot overflow."""
    small = g.add("Exp", g.add("Neg", g.add("Abs", z)))
    return g.add("Add", g.add("Relu", z), g.add("Log", g.add("Add", small, g.constant(1.0))))


def _elu(g: GraphBuilder, z: str, f: Any) -> str:
    """max(z, 0) + exp(min(z, 0)) - 1."""
    below = g.add("Sub", g.add("Exp", g.add("Min", z, g.constant(0.0))), g.constant(1.0))
    return g.add("Add", g.add("Relu", z), below)


def _quantized_relu(g: GraphBuilder, z: str, f: Any) -> str:
    step = g.constant(f.step)
    level = g.add("Floor", g.add("Add", g.add("Div", z, step), g.constant(0.5)))
    return g.add("Mul", _clip(g, level, 0.0, f.n_levels - 1), step)


_ACTIVATIONS: dict[str, Callable[[GraphBuilder, str, Any], str]] = {
    "identity": lambda g, z, f: z,
    "relu": _leaky_relu,
    "leaky_relu": _leaky_relu,
    "hard_tanh": lambda g, z, f: _clip(g, z, -1.0, 1.0),
    "hard_sigmoid": _hard_sigmoid,
    "relu6": lambda g, z, f: _clip(g, z, 0.0, 6.0),
    "sigmoid": lambda g, z, f: g.add("Sigmoid", z),
    "tanh": lambda g, z, f: g.add("Tanh", z),
    "softplus": _softplus,
    "elu": _elu,
    "sign": lambda g, z, f: _two_levels(g, z, -1.0, 1.0),
    "step": lambda g, z, f: _two_levels(g, z, 0.0, 1.0),
    "quantized_relu": _quantized_relu,
}


def add_activation(g: GraphBuilder, activation: Activation, z: str) -> str:
    name = term_name("activation", activation)
    if name not in _ACTIVATIONS:
        raise ValueError(
            f"activation={activation!r} cannot be exported to ONNX; expected one of"
            f" {', '.join(sorted(_ACTIVATIONS))}"
        )
    return _ACTIVATIONS[name](g, z, activation)


def add_label_outputs(g: GraphBuilder, network: Network, z: str) -> None:
    """`label`, a 0 or 1 for each, and `probabilities` or `scores` as `add_class_outputs` has."""
    shape = [None, network.n_outputs]
    g.output(g.cast(g.add("Greater", z, g.constant(0.0)), INT64), "label", INT64, shape)
    if network.has_probabilities:
        g.output(g.cast(g.add("Sigmoid", z), FLOAT), "probabilities", FLOAT, shape)
    else:
        g.output(g.cast(z, FLOAT), "scores", FLOAT, shape)


def add_class_outputs(g: GraphBuilder, network: Network, z: str, classes: np.ndarray) -> None:
    """`label`, and `probabilities` as predict_proba has them or, for the hinge loss, `scores`."""
    n_outputs = network.n_outputs
    labels = np.asarray(classes.tolist())  # strings held as objects become strings
    kinds: dict[str, tuple[int, Any]] = {
        "U": (STRING, object), "i": (INT64, int), "u": (INT64, int),
        "b": (TensorProto.BOOL, bool), "f": (DOUBLE, np.float64),
    }  # fmt: skip
    if labels.dtype.kind not in kinds:
        raise ValueError(
            f"classes_ of dtype {classes.dtype} cannot be exported to ONNX;"
            " expected numbers, booleans or strings"
        )
    if n_outputs > 1:
        code = g.add("ArgMax", z, axis=1, keepdims=0)
    else:
        positive = g.add("Greater", z, g.constant(0.0))
        code = g.add("Squeeze", g.add("Cast", positive, to=INT64), g.constant([1], np.int64))
    kind, dtype = kinds[labels.dtype.kind]
    g.output(g.add("Gather", g.constant(labels, dtype), code), "label", kind, [None])
    if not network.has_probabilities:
        g.output(g.cast(z, FLOAT), "scores", FLOAT, [None, n_outputs])
        return
    if network.link == "one_vs_rest":
        # sigmoid_j / sum sigmoid is the softmax of log sigmoid(z) = -softplus(-z).
        z = g.add("Neg", _softplus(g, g.add("Neg", z)))
    g.output(g.cast(g.add("Softmax", z, axis=-1), FLOAT), "probabilities", FLOAT, [None, n_outputs])


def add_value_output(
    g: GraphBuilder, network: Network, z: str, mean: Any = None, scale: Any = None
) -> None:
    """`prediction` as predict has it, undoing a standardised target where there was one."""
    if network.link == "exp":
        z = g.add("Exp", z)
    if scale is not None:
        z = g.add("Mul", z, g.constant(scale))
    if mean is not None:
        z = g.add("Add", z, g.constant(mean))
    z = g.cast(z, FLOAT)
    if network.is_vector:
        g.output(g.add("Squeeze", z, g.constant([1], np.int64)), "prediction", FLOAT, [None])
    else:
        g.output(z, "prediction", FLOAT, [None, network.n_outputs])
