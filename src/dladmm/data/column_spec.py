"""What is learned about one column, and how its cells become network inputs."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from dladmm.data.columns import Column, Kind, lookalikes, named
from dladmm.data.dates import date_formats, to_days
from dladmm.data.numbers import NumberText, is_mark, is_padded, looks_like_numbers, number_text

# One input per category: more of them would be row names, not categories.
MOST_CATEGORIES = 100
# Fewer rows differ in a column of numbers or names by chance.
LEAST_IDS = 20

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
    1970-01-01; `date_format` is how it was written where it was text, and `written` how numbers
    were. category: one input per entry of `categories`, 1 for the cell's own; None among them
    stands for missing cells, which are else taken as the most frequent category, `fill_category`.
    `other`: one more input for all categories that are not told apart, since there were too many.
    """

    name: str
    kind: SpecKind
    mean: float = 0.0
    scale: float = 1.0
    fill: float = 0.0
    date_format: str | None = None
    categories: tuple[str | None, ...] = ()
    fill_category: str | None = None
    other: bool = False
    written: NumberText | None = None

    @property
    def n_inputs(self) -> int:
        return len(self.categories) + self.other if self.kind == "category" else 1

    @property
    def input_names(self) -> list[str]:
        if self.kind != "category":
            return [self.name]
        names = ["(missing)" if c is None else c for c in self.categories]
        return [f"{self.name}={name}" for name in [*names, *["(other)"] * self.other]]

    @property
    def as_text(self) -> bool:
        """Whether its cells must be read as they are written."""
        return bool(self.kind == "category" or self.date_format or self.written)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "categories": list(self.categories)}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> ColumnSpec:
        """The inverse of `to_dict`; fields that earlier releases had not are as they were then."""
        written = NumberText.from_dict(plain.get("written"))
        return cls(**{**plain, "categories": tuple(plain["categories"]), "written": written})


def fit_column(column: Column, standardise: bool = True) -> ColumnSpec:
    """Learn one column; what a user should know is given as UserWarnings."""
    if column.kind != "text" or column.declared:
        return _fit_category(column) if column.kind == "text" else _fit_number(column, standardise)
    counts = Counter(cell for cell in column.values if cell is not None)
    formats = date_formats(cell for cell in counts if not is_mark(cell))
    if formats:
        if len(formats) > 1:
            say(f"column {column.name!r} has dates that could be {formats}; read as {formats[0]}")
        days = _days(column, formats[0])
        _say_marks(column, Counter({c: n for c, n in counts.items() if is_mark(c)}))
        spec = _fit_number(Column(column.name, "date", days), standardise)
        return replace(spec, date_format=formats[0])
    written = number_text(counts, column.decimal)
    if written is None:
        return _fit_category(column)
    values, marks = written.read(column.values, column.decimal)
    if how := str(written):
        say(f"column {column.name!r} is read as numbers with {how}")
    _say_marks(column, marks)
    spec = _fit_number(Column(column.name, "number", values), standardise)
    return replace(spec, written=written)


def _fit_number(column: Column, standardise: bool) -> ColumnSpec:
    _refuse_infinite(column)
    kind = _SPEC_KIND[column.kind]
    missing = column.missing
    present = column.values[~missing].astype(np.float64)
    if not len(present):
        say(f"column {column.name!r} has no values at all and is taken as 0")
        return ColumnSpec(column.name, kind)
    fill = float(np.median(present))
    if not standardise or kind == "boolean":
        return ColumnSpec(column.name, kind, fill=fill)
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
    return ColumnSpec(column.name, kind, mean, scale, fill)


def _fit_category(column: Column) -> ColumnSpec:
    counts = Counter(cell for cell in column.values if cell is not None)
    kept = [category for category, _ in counts.most_common(MOST_CATEGORIES)]
    other = len(counts) > len(kept)
    if other:
        say(
            f"column {column.name!r} has {len(counts)} categories;"
            f" the {len(kept)} most frequent are told apart, the rest are one: other"
        )
    if looks_like_numbers(counts) and not column.declared:
        odd = next((cell for cell in counts if not looks_like_numbers([cell])), None)
        if odd is not None:
            say(f"column {column.name!r} is taken as categories, not numbers, because of {odd!r}")
        elif padded := next((cell for cell in counts if is_padded(cell)), None):
            say(
                f"column {column.name!r} has leading zeros, such as {padded!r}, and is taken as"
                " names, not numbers"
            )
    if alike := lookalikes(counts):
        say(f"column {column.name!r} {alike}")
    categories: tuple[str | None, ...] = tuple(sorted(kept))
    if column.missing.any():
        categories += (None,)
    most = kept[0] if kept else None  # rows that are left out may have been the only ones
    return ColumnSpec(
        column.name, "category", categories=categories, fill_category=most, other=other
    )


def is_constant(column: Column, spec: ColumnSpec) -> bool:
    if spec.kind == "category":
        return spec.n_inputs == 1
    if column.kind == "text":
        return len(set(column.values)) == 1
    present = column.values[~column.missing]
    return len(present) > 0 and np.ptp(present) == 0


def is_id(column: Column, spec: ColumnSpec) -> bool:
    """Whether no two rows share a value: text, or integers that are so named or have few gaps."""
    if spec.kind != "category" and column.values.dtype.kind not in "iu":
        return False
    values = column.values
    if column.missing.any() or len(values) < LEAST_IDS or len(set(values.tolist())) < len(values):
        return False
    if spec.kind == "category":
        return True
    name = column.name.lower().replace("-", "_").replace(" ", "_")
    so_named = name in ("id", "index", "unnamed:_0", "row") or name.endswith(("_id", "_nr", "_no"))
    return so_named or int(np.ptp(values)) < 2 * len(values)


def read_column(spec: ColumnSpec, column: Column) -> Column:
    """The column as it was taken in training: numbers and dates where their text was read as such,
    and categories that stay categories, whatever they look like in other rows."""
    if column.kind != "text":
        return column
    if spec.kind == "category":
        return replace(column, declared=True)
    return Column(column.name, "date" if spec.kind == "date" else "number", _numbers(spec, column))


def write_inputs(spec: ColumnSpec, column: Column, inputs: np.ndarray) -> None:
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
    if spec.kind == "number" and column.kind == "text":
        written = spec.written or NumberText()
        try:
            values, marks = written.read(column.values, column.decimal)
        except ValueError as error:
            raise ValueError(
                f"column {column.name!r} has {error}; expected numbers, as in training"
            ) from None
        _say_marks(column, marks)
        return values
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
    rest = len(spec.categories) if spec.other else -1
    cells = [None if gone else _as_category(column, v) for v, gone in _cells(column)]
    codes = np.array([code.get(cell, rest) for cell in cells], dtype=int)
    known = codes >= 0
    inputs[np.flatnonzero(known), codes[known]] = 1
    unseen = list(dict.fromkeys(cell for cell, seen in zip(cells, known, strict=True) if not seen))
    if unseen:
        what = "category" if len(unseen) == 1 else "categories"
        say(f"column {column.name!r} has the {what} {named(unseen)}, unseen in training")


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
            day = math.nan if is_mark(cell) else to_days(cell, date_format)
            if day is None:
                raise ValueError(
                    f"column {column.name!r} has the text {cell!r} in row {row};"
                    f" expected dates ({date_format}), as in training"
                )
            known[cell] = day
    return np.array([known[cell] for cell in column.values])


def _say_marks(column: Column, marks: Counter[str]) -> None:
    if marks:
        say(
            f"column {column.name!r} has {named(marks, 3)} in {sum(marks.values())} of"
            f" {len(column.values)} rows, taken as missing"
        )


def _refuse_infinite(column: Column) -> None:
    infinite = np.isinf(column.values)
    if infinite.any():
        raise ValueError(
            f"column {column.name!r} is infinite in row {int(np.argmax(infinite)) + 1}"
            f" ({int(infinite.sum())} in all); expected finite numbers"
        )


def say(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=2)
