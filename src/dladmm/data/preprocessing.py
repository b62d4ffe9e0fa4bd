"""From a table to the numbers a network takes, as plain data that is saved in the model.

Numbers are standardised, categories one-hot encoded, dates turned into days and standardised,
missing cells imputed. Learned from the training rows once; never from the rows to predict.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from dladmm.data.columns import Column, Kind, Table, named
from dladmm.data.dates import date_formats, to_days
from dladmm.data.target import Target, fit_target

FORMAT = 1
# One input per category: more of them would be row names, not categories.
MOST_CATEGORIES = 100

SpecKind = Literal["number", "boolean", "date", "category"]
_SPEC_KIND: dict[Kind, SpecKind] = {
    "number": "number",
    "boolean": "boolean",
    "date": "date",
    "text": "category",
}


@dataclass(frozen=True)
class ColumnSpec:
    """What was learned about one column.

    number, boolean, date: (v - mean) / scale, a missing v being `fill`. A date is days since
    1970-01-01; `date_format` is how it was written where it was text. category: one input per
    entry of `categories`, 1 for the cell's own; None among them stands for missing cells, which
    are else taken as the most frequent category, `fill_category`.
    """

    name: str
    kind: SpecKind
    mean: float = 0.0
    scale: float = 1.0
    fill: float = 0.0
    date_format: str | None = None
    categories: tuple[str | None, ...] = ()
    fill_category: str | None = None

    @property
    def n_inputs(self) -> int:
        return len(self.categories) if self.kind == "category" else 1

    @property
    def input_names(self) -> list[str]:
        if self.kind != "category":
            return [self.name]
        return [f"{self.name}={'(missing)' if c is None else c}" for c in self.categories]


@dataclass(frozen=True)
class TablePreprocessor:
    """The columns of a model in its order, and its target."""

    columns: tuple[ColumnSpec, ...]
    target: Target
    source: str = "table"

    @classmethod
    def fit(
        cls,
        table: Table,
        target: str,
        *,
        task: str | None = None,
        standardise: bool = True,
        standardise_target: bool = True,
        source: str = "table",
        whole_target: Column | None = None,
    ) -> TablePreprocessor:
        """Learn from training rows; what a user should know is given as UserWarnings.

        `standardise` False keeps numbers as they are (pixels between 0 and 1 need nothing).
        `whole_target` is the target of all rows where `table` has only the first of them.
        """
        learned = fit_target(whole_target or table.column(target), task, standardise_target)
        features = table.without(target)
        if not features.columns:
            raise ValueError(f"the table has the target {target!r} only; expected other columns")
        specs = tuple(_fit_column(column, standardise) for column in features.columns)
        constant = [
            column.name
            for column, spec in zip(features.columns, specs, strict=True)
            if _is_constant(column, spec)
        ]
        if constant and standardise:
            verb = "is constant and says" if len(constant) == 1 else "are constant and say"
            _say(f"{_column_s(constant)} {named(constant)} {verb} nothing about the target")
        return cls(specs, learned, source)

    @property
    def input_names(self) -> list[str]:
        return [name for spec in self.columns for name in spec.input_names]

    @property
    def text_columns(self) -> list[str]:
        """Columns whose cells must be read as they are written."""
        names = [c.name for c in self.columns if c.kind == "category" or c.date_format]
        return [*names, self.target.name] if self.target.class_type == "str" else names

    def transform(self, table: Table) -> np.ndarray:
        """One row of network inputs for each row, by column name; ValueError where that fails."""
        names = [spec.name for spec in self.columns]
        given = {column.name: column for column in table.columns}
        missing = [name for name in names if name not in given]
        if missing:
            raise ValueError(
                f"{_column_s(missing)} {named(missing)} of the model {_is_are(missing)} missing;"
                f" expected {named(names)}"
            )
        extra = [name for name in given if name not in names and name != self.target.name]
        if extra:
            _say(
                f"{_column_s(extra)} {named(extra)} {_is_are(extra)} unknown to the model, ignored"
            )
        if [name for name in given if name in names] != names:
            _say("the columns are in another order than in training and are matched by name")
        float32 = all(given[name].values.dtype == np.float32 for name in names)
        n_inputs = sum(spec.n_inputs for spec in self.columns)
        inputs = np.zeros((table.n_rows, n_inputs), np.float32 if float32 else np.float64)
        start = 0
        for spec in self.columns:
            _write_inputs(spec, given[spec.name], inputs[:, start : start + spec.n_inputs])
            start += spec.n_inputs
        return inputs

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "format": FORMAT,
            "source": self.source,
            "columns": [
                {**asdict(spec), "categories": list(spec.categories)} for spec in self.columns
            ],
            "target": self.target.to_dict(),
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> TablePreprocessor:
        """The inverse of `to_dict`; ValueError for anything else."""
        if plain.get("format") != FORMAT:
            raise ValueError(f"preprocessing has format {plain.get('format')!r}; expected {FORMAT}")
        try:
            specs = tuple(
                ColumnSpec(**{**spec, "categories": tuple(spec["categories"])})
                for spec in plain["columns"]
            )
            return cls(specs, Target.from_dict(plain["target"]), plain["source"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"preprocessing is not readable: {error!r}") from None


def _fit_column(column: Column, standardise: bool) -> ColumnSpec:
    if column.kind == "text":
        cells = set(column.values[~column.missing])
        formats = date_formats(cells)
        if not formats:
            return _fit_category(column)
        if len(formats) > 1:
            _say(f"column {column.name!r} has dates that could be {formats}; read as {formats[0]}")
        days = _days(column, formats[0])
        return _fit_number(Column(column.name, "date", days), standardise, formats[0])
    return _fit_number(column, standardise)


def _fit_number(column: Column, standardise: bool, date_format: str | None = None) -> ColumnSpec:
    _refuse_infinite(column)
    kind = _SPEC_KIND[column.kind]
    missing = column.missing
    present = column.values[~missing].astype(np.float64)
    if not len(present):
        _say(f"column {column.name!r} has no values at all and is taken as 0")
        return ColumnSpec(column.name, kind, date_format=date_format)
    fill = float(np.median(present))
    if not standardise or kind == "boolean":
        return ColumnSpec(column.name, kind, fill=fill, date_format=date_format)
    values = np.where(missing, fill, column.values.astype(np.float64))
    with np.errstate(over="ignore", invalid="ignore"):
        mean, scale = float(values.mean()), float(values.std())
    if not (math.isfinite(mean) and math.isfinite(scale)):
        raise ValueError(
            f"column {column.name!r} has numbers up to {np.abs(present).max():.3g};"
            " expected numbers whose squares can be added"
        )
    # Rounding leaves a tiny deviation in a constant column; an overflowing 1/scale is no scale.
    if np.ptp(values) == 0 or scale < np.finfo(np.float64).tiny:
        scale = 1.0
    return ColumnSpec(column.name, kind, mean, scale, fill, date_format)


def _fit_category(column: Column) -> ColumnSpec:
    counts = Counter(cell for cell in column.values if cell is not None)
    kept = [category for category, _ in counts.most_common(MOST_CATEGORIES)]
    if len(counts) > len(kept):
        _say(
            f"column {column.name!r} has {len(counts)} categories;"
            f" the {len(kept)} most frequent are told apart"
        )
    numbers = [category for category in counts if _is_number(category)]
    if 2 * len(numbers) >= len(counts):
        odd = next((category for category in counts if not _is_number(category)), None)
        if odd is not None:
            _say(f"column {column.name!r} is taken as categories, not numbers, because of {odd!r}")
    categories: tuple[str | None, ...] = tuple(sorted(kept))
    if column.missing.any():
        categories += (None,)
    return ColumnSpec(column.name, "category", categories=categories, fill_category=kept[0])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_constant(column: Column, spec: ColumnSpec) -> bool:
    if spec.kind == "category":
        return len(spec.categories) == 1
    if column.kind == "text":
        return len(set(column.values)) == 1
    present = column.values[~column.missing]
    return len(present) > 0 and np.ptp(present) == 0


def _write_inputs(spec: ColumnSpec, column: Column, inputs: np.ndarray) -> None:
    """Fill this column's part of the network inputs."""
    if spec.kind == "category":
        _write_one_hot(spec, column, inputs)
        return
    values = _numbers(spec, column).astype(inputs.dtype, copy=False)
    missing = np.isnan(values)
    inputs[:, 0] = (np.where(missing, spec.fill, values) - spec.mean) / spec.scale


def _numbers(spec: ColumnSpec, column: Column) -> np.ndarray:
    """The cells as the numbers they were in training, NaN where missing."""
    if column.missing.all():
        return np.full(len(column.values), np.nan)
    if spec.kind == "date" and column.kind == "text" and spec.date_format:
        return _days(column, spec.date_format)
    fits = column.kind == "date" if spec.kind == "date" else column.kind in ("number", "boolean")
    if not fits:
        row = int(np.argmin(column.missing))
        cell = f"the text {column.values[row]!r}" if column.kind == "text" else f"a {column.kind}"
        expected = "dates" if spec.kind == "date" else "numbers"
        raise ValueError(
            f"column {column.name!r} has {cell} in row {row + 1};"
            f" expected {expected}, as in training"
        )
    _refuse_infinite(column)
    return column.values


def _write_one_hot(spec: ColumnSpec, column: Column, inputs: np.ndarray) -> None:
    code = {category: j for j, category in enumerate(spec.categories)}
    code.setdefault(None, code.get(spec.fill_category, -1))
    cells = [None if gone else _as_category(column, v) for v, gone in _cells(column)]
    codes = np.array([code.get(cell, -1) for cell in cells])
    known = codes >= 0
    inputs[np.flatnonzero(known), codes[known]] = 1
    unseen = list(dict.fromkeys(cell for cell, seen in zip(cells, known, strict=True) if not seen))
    if unseen:
        what = "category" if len(unseen) == 1 else "categories"
        _say(f"column {column.name!r} has the {what} {named(unseen)}, unseen in training")


def _cells(column: Column) -> Iterable[tuple[Any, bool]]:
    return zip(column.values.tolist(), column.missing, strict=True)


def _as_category(column: Column, value: Any) -> str:
    if column.kind == "boolean":
        return str(bool(value))
    return str(value)


def _days(column: Column, date_format: str) -> np.ndarray:
    """Days since 1970-01-01 of dates written as text; ValueError for one that is not a date."""
    known: dict[str | None, float] = {None: math.nan}
    for row, cell in enumerate(column.values, 1):
        if cell not in known:
            day = to_days(cell, date_format)
            if day is None:
                raise ValueError(
                    f"column {column.name!r} has the text {cell!r} in row {row};"
                    f" expected dates ({date_format}), as in training"
                )
            known[cell] = day
    return np.array([known[cell] for cell in column.values])


def _refuse_infinite(column: Column) -> None:
    infinite = np.isinf(column.values)
    if infinite.any():
        raise ValueError(
            f"column {column.name!r} is infinite in row {int(np.argmax(infinite)) + 1}"
            f" ({int(infinite.sum())} in all); expected finite numbers"
        )


def _say(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=2)


def _column_s(names: list[str]) -> str:
    return "column" if len(names) == 1 else "columns"


def _is_are(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"
