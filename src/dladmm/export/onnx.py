"""A fitted estimator as an ONNX file.

`predict` computes in float64, and so does the file unless asked otherwise; in float32 values agree
to rounding, except where an activation jumps ("sign", "step", "quantized_relu") and a z lies within
rounding of the jump.
"""

import warnings
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from dladmm.data.preprocessing import TablePreprocessor
from dladmm.export.network import network_of
from dladmm.io.files import write_file


def to_onnx(
    estimator: Any,
    path: str | PathLike[str],
    preprocessing: Mapping[str, Any] | None = None,
    *,
    dtype: str = "float64",
) -> list[str]:
    """Write an ONNX file, whole or not at all; returns, and warns of, what ONNX cannot do.

    Input `X` (float, one column per feature, or a network's samples, channels last); outputs
    `label` and `probabilities` (`scores` with the hinge loss), both with a column for each label if
    rows have several, or `prediction`. With the `preprocessing` of a model file the graph takes the
    table's raw columns instead, one input each, and predicts in the target's own units. `dtype` is
    what the graph computes in: "float64" as `predict` does, or "float32" for half the size;
    convolutions and average pooling, which runtimes have in float32 alone, are computed in that.
    Needs onnx: pip install 'dladmm[onnx]'.
    """
    network = network_of(estimator)
    from dladmm.export.onnx_graph import (
        FLOAT,
        GraphBuilder,
        add_class_outputs,
        add_label_outputs,
        add_value_output,
    )
    from dladmm.export.onnx_network import add_network

    if dtype not in ("float32", "float64"):
        raise ValueError(f"dtype={dtype!r} is unknown; expected 'float32' or 'float64'")
    g = GraphBuilder(dtype)
    limits: list[str] = []
    mean = scale = None
    n_features = network.n_features
    if preprocessing is None:
        features = g.cast(g.input("X", FLOAT, *network.problem.in_shape), g.kind)
    else:
        from dladmm.export.onnx_preprocessing import add_preprocessing

        preprocessor = TablePreprocessor.from_dict(preprocessing)
        if len(preprocessor.input_names) != n_features:
            raise ValueError(
                f"preprocessing gives {len(preprocessor.input_names)} features;"
                f" expected {n_features}, as the estimator has"
            )
        features, limits = add_preprocessing(g, preprocessor)
        if len(network.problem.in_shape) > 1:
            features = g.add("Reshape", features, g.constant([-1, *network.problem.in_shape], int))
        mean, scale = preprocessor.target.mean, preprocessor.target.scale
    z = add_network(g, network, features)
    if network.multilabel:
        add_label_outputs(g, network, z)
    elif network.classes is not None:
        add_class_outputs(g, network, z, network.classes)
    else:
        add_value_output(g, network, z, mean, scale)
    write_file(Path(path), g.model().SerializeToString())
    for sentence in limits:
        warnings.warn(sentence, stacklevel=2)
    return limits
