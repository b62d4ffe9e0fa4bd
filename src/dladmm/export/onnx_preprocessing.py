"""A table's preprocessing as ONNX nodes: one input per column, in the column's own units.

Numbers, booleans and dates are double; a missing cell is NaN. Categories are strings; a missing
cell is the empty string. Standardisation is computed in double, as in training.
"""

import numpy as np

from dladmm.data.column_spec import ColumnSpec
from dladmm.data.preprocessing import TablePreprocessor
from dladmm.export.onnx_graph import DOUBLE, FLOAT, PREFIX, STRING, GraphBuilder

_OUTPUTS = ("label", "probabilities", "scores", "prediction")


def add_preprocessing(g: GraphBuilder, preprocessor: TablePreprocessor) -> tuple[str, list[str]]:
    """The network's features from a table's columns, and what ONNX cannot do, in sentences."""
    if _is_matrix(preprocessor):
        return _matrix(g, preprocessor.columns), []
    limits: list[str] = []
    parts: list[str] = []
    taken: set[str] = set()
    for j, spec in enumerate(preprocessor.columns):
        name = _input_name(j, spec.name, taken)
        taken.add(name)
        if name != spec.name:
            limits.append(f"the column {spec.name!r} is the input {name!r} of the ONNX model")
        if spec.kind == "category":
            parts.append(_one_hot(g, spec, name))
            continue
        meaning = "missing: NaN"
        if spec.kind == "date":
            meaning = f"days since 1970-01-01 UTC; {meaning}"
            limits.append(
                f"ONNX cannot read dates: the input {name!r} takes days since 1970-01-01 UTC"
            )
        if spec.written:
            limits.append(
                f"ONNX cannot read numbers as text: the input {name!r} takes numbers"
                + (f" in the unit {spec.written.unit!r}" if spec.written.unit else "")
            )
        x = g.input(name, DOUBLE, 1, meaning=meaning)
        parts.append(_standardised(g, x, (spec,)))
    return g.add("Concat", *parts, axis=1), limits


def _is_matrix(preprocessor: TablePreprocessor) -> bool:
    """Whether the columns are those of an array, x0, x1, ..., which is one input then."""
    return all(
        spec.kind in ("number", "boolean") and spec.name == f"x{j}"
        for j, spec in enumerate(preprocessor.columns)
    )


def _matrix(g: GraphBuilder, specs: tuple[ColumnSpec, ...]) -> str:
    x = g.input("X", FLOAT, len(specs), meaning="missing: NaN")
    return _standardised(g, g.cast(x, DOUBLE), specs)


def _standardised(g: GraphBuilder, x: str, specs: tuple[ColumnSpec, ...]) -> str:
    """(v - mean) / scale, v = fill where it is missing, for each column."""
    fill, mean, scale = (
        g.constant([[getattr(spec, field) for spec in specs]], np.float64)
        for field in ("fill", "mean", "scale")
    )
    filled = g.add("Where", g.add("IsNaN", x), fill, x)
    return g.cast(g.add("Div", g.add("Sub", filled, mean), scale), g.kind)


def _one_hot(g: GraphBuilder, spec: ColumnSpec, name: str) -> str:
    """1 for the cell's own category; an unseen one is other, or all zeros."""
    codes = {category: j for j, category in enumerate(spec.categories)}
    missing = codes.pop(None, codes.get(spec.fill_category, -1))
    codes.setdefault("", missing)
    code = g.add(
        "LabelEncoder",
        g.input(name, STRING, 1, meaning="missing: the empty string"),
        domain="ai.onnx.ml",
        keys_strings=list(codes),
        values_int64s=list(codes.values()),
        default_int64=len(spec.categories) if spec.other else -1,
    )
    positions = g.constant(np.arange(spec.n_inputs)[None, :], np.int64)
    return g.cast(g.add("Equal", code, positions), g.kind)


def _input_name(position: int, name: str, taken: set[str]) -> str:
    """The column's own name, unless the graph needs it for something else."""
    usable = name and name not in _OUTPUTS and not name.startswith(PREFIX)
    name = name if usable else f"column_{position}"
    while name in taken:
        name += "_"
    return name
