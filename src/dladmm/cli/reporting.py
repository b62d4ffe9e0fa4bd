"""The page of `dladmm fit --report`: a network in the words of the table it was trained on."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import numpy as np

from dladmm.data.column_spec import ColumnSpec
from dladmm.data.columns import named
from dladmm.data.datasets import NAMES
from dladmm.data.preprocessing import TablePreprocessor
from dladmm.report.model_report import Report, page_of
from dladmm.report.page import Table
from dladmm.report.subject import Subject, chosen


def table_report(
    estimator: Any,
    preprocessing: TablePreprocessor,
    X: np.ndarray,
    y: np.ndarray,
    *,
    known: np.ndarray,
    rows: np.ndarray,
    source: str,
    seed: Any,
    model: Any = None,
    of_model: TablePreprocessor | None = None,
    remarks: list[str] | None = None,
) -> Report:
    """The page of `estimator` on these rows; `model` is the saved one where it is another, and
    `of_model` its preprocessing, which knows how the file's cells are written."""
    target, specs = preprocessing.target, _as_written(preprocessing, of_model or preprocessing)
    kept = chosen(len(X))
    inputs = np.asarray(X[kept])
    starts = np.cumsum([0, *(spec.n_inputs for spec in specs)])
    places = {spec.name: (spec, int(starts[k])) for k, spec in enumerate(specs)}
    pixels = math.isqrt(inputs.shape[1])
    is_image = preprocessing.source in NAMES and pixels**2 == inputs.shape[1]

    def cell(k: int, name: str) -> str:
        spec, start = places[name]
        return cell_text(spec, inputs[k, start : start + spec.n_inputs])

    subject = Subject(
        estimator,
        inputs,
        np.asarray(y)[kept],
        [(s.name, range(starts[k], starts[k + 1])) for k, s in enumerate(specs)],
        known,
        np.asarray(rows)[kept] + 1,
        model=model,
        title=f"{target.name} of {source}",
        target=target.name,
        unit=(of_model or preprocessing).target.unit,
        decode=target.decode,
        scale=target.scale,
        cells=cell,
        image_shape=(pixels, pixels) if is_image else None,
        columns=None if is_image else columns_table(specs, (of_model or preprocessing).dropped),
        remarks=remarks or [],
        notes=_notes(model is not None),
        seed=seed,
    )
    return page_of(subject)


def _as_written(
    preprocessing: TablePreprocessor, of_model: TablePreprocessor
) -> tuple[ColumnSpec, ...]:
    """The columns with the units and date formats of the file, as the model has read them."""
    known = {spec.name: spec for spec in of_model.columns}
    return tuple(
        replace(spec, written=known[spec.name].written, date_format=known[spec.name].date_format)
        if spec.kind in ("number", "date") and known[spec.name].kind == spec.kind
        else spec
        for spec in preprocessing.columns
    )


def _notes(is_another: bool) -> list[str]:
    if not is_another:
        return []
    return [
        "Scores, mistakes and what columns matter are of a network trained on the other rows in the"
        " same way; curves and certificate are of the saved model, which has seen all rows."
    ]


def columns_table(specs: tuple[ColumnSpec, ...], dropped: tuple[str, ...]) -> Table:
    """What became of each column."""
    rows = [[spec.name, spec.kind, str(spec.n_inputs), became(spec)] for spec in specs]
    rows += [[name, "", "0", "left out"] for name in dropped]
    return Table(("column", "kind", "inputs", "what became of it"), rows)


def became(spec: ColumnSpec) -> str:
    """In words, what the network takes for a cell."""
    if spec.kind == "category":
        other = ", one more for all others" if spec.other else ""
        shown = named(["(missing)" if c is None else c for c in spec.categories], 6)
        return f"an input for each of {shown}{other}"
    unit = f" {spec.written.unit}" if spec.written and spec.written.unit else ""
    if spec.kind == "date":
        return f"days, standardised; written as {spec.date_format or 'dates'}"
    if spec.scale == 1.0 and spec.mean == 0.0:
        return "as it is"
    return f"standardised: mean {spec.mean:.4g}{unit}, deviation {spec.scale:.4g}{unit}"


def cell_text(spec: ColumnSpec, inputs: np.ndarray) -> str:
    """A cell as it was, from what the network takes for it."""
    if spec.kind == "category":
        if not inputs.any():
            return "(unseen)"
        place = int(np.argmax(inputs))
        if place == len(spec.categories):
            return "(other)"
        category = spec.categories[place]
        return "(missing)" if category is None else category
    value = float(inputs[0]) * spec.scale + spec.mean
    if spec.kind == "date":
        return str(date(1970, 1, 1) + timedelta(days=round(value)))
    if spec.kind == "boolean":
        return "true" if value > 0.5 else "false"
    # What is left of rounding in the network's precision is nothing.
    value = round(value, 6 - math.ceil(math.log10(spec.scale)))
    unit = f" {spec.written.unit}" if spec.written and spec.written.unit else ""
    return f"{value + 0.0:.5g}{unit}"
