"""A table as plain columns of four kinds: what files and frames become before learning."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from numbers import Real
from typing import Any, Literal

import numpy as np

Kind = Literal["number", "boolean", "date", "text"]
SECONDS_PER_DAY = 86_400


@dataclass(frozen=True)
class Column:
    """One column. Missing cells are NaN, and None in text.

    number: integers or floats; boolean: 0.0 and 1.0; date: days since 1970-01-01 in UTC;
    text: an object array of str. `declared`: made of categories by whoever wrote the table, even
    if they read as numbers. `decimal`: the decimal mark of the file it comes from.
    """

    name: str
    kind: Kind
    values: np.ndarray
    declared: bool = False
    decimal: str = "."

    @property
    def missing(self) -> np.ndarray:
        if self.kind == "text":
            return np.array([cell is None for cell in self.values], dtype=bool)
        return np.isnan(self.values)


@dataclass(frozen=True)
class Table:
    """Columns of one length, with names that differ."""

    columns: tuple[Column, ...]
    n_rows: int

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def column(self, name: str) -> Column:
        """The column of this name; ValueError names those that come close."""
        for column in self.columns:
            if column.name == name:
                return column
        raise ValueError(f"there is no column {name!r}; expected {_suggestion(name, self.names)}")

    def without(self, *names: str) -> Table:
        return replace(self, columns=tuple(c for c in self.columns if c.name not in names))

    def take(self, rows: Any) -> Table:
        """These rows: a slice, a mask or positions."""
        n_rows = len(np.arange(self.n_rows)[rows])
        columns = tuple(replace(c, values=c.values[rows]) for c in self.columns)
        return Table(columns, n_rows)


def _suggestion(name: str, names: Sequence[str]) -> str:
    by_lower = {known.lower(): known for known in names}
    close = difflib.get_close_matches(name.lower(), list(by_lower), n=3, cutoff=0.5)
    if close:
        return "perhaps " + " or ".join(repr(by_lower[match]) for match in close)
    return "one of " + named(names)


def named(names: Iterable[Any], at_most: int = 5) -> str:
    """Names in quotes for a message, the first few of them."""
    names = list(names)
    shown = ", ".join(repr(name) for name in names[:at_most])
    return shown if len(names) <= at_most else f"{shown} and {len(names) - at_most} more"


def lookalikes(names: Iterable[Any]) -> str | None:
    """Two texts that differ in capitals and spaces only, in words; None where there are none."""
    seen: dict[str, str] = {}
    for name in names:
        if not isinstance(name, str):
            continue
        first = seen.setdefault(" ".join(name.casefold().split()), name)
        if first != name:
            return (
                f"has {first!r} and {name!r}, which differ in capitals or spaces only and are told"
                " apart; write them alike if they mean the same"
            )
    return None


def table_from_arrays(X: Any, y: Any = None) -> Table:
    """Columns x0, x1, ... of a matrix, samples as rows, and y where there is one."""
    X = np.asarray(X)
    if X.ndim < 2:
        raise ValueError(f"X has shape {X.shape}; expected a matrix, samples as rows")
    X = X.reshape(len(X), -1) if len(X) else X.reshape(0, X.shape[1])
    columns = [column_from_array(f"x{j}", X[:, j]) for j in range(X.shape[1])]
    if y is not None:
        y = np.asarray(y)
        if y.ndim == 2 and y.shape[1] == 1:
            y = y[:, 0]
        if y.shape != (len(X),):
            raise ValueError(f"y has shape {y.shape}; expected ({len(X)},), one for each row of X")
        columns.append(column_from_array("y", y))
    return Table(tuple(columns), len(X))


def column_from_array(name: str, values: np.ndarray) -> Column:
    """A column of one NumPy type; ValueError for types that are no table's."""
    kind = values.dtype.kind
    if kind in "iuf":
        return Column(name, "number", values)
    if kind == "b":
        return Column(name, "boolean", values.astype(np.float64))
    if kind == "M":
        return Column(name, "date", _days_of_datetime64(values))
    if kind == "m":
        return Column(name, "number", values / np.timedelta64(1, "s") / SECONDS_PER_DAY)
    if kind in "USTO":
        return _from_objects(name, values.astype(object), np.zeros(len(values), dtype=bool))
    raise ValueError(
        f"column {name!r} is of type {values.dtype}; expected numbers, text, dates or booleans"
    )


def column_from_series(name: str, series: Any) -> Column:
    """A column of a pandas frame, whatever its extension type."""
    absent = series.isna().to_numpy(dtype=bool)
    dtype = series.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "biufmM":
        return column_from_array(name, series.to_numpy())
    if getattr(dtype, "tz", None) is not None:  # before `kind`: dates of a zone are kept in UTC
        return column_from_array(name, series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())
    declared = hasattr(dtype, "categories")  # a categorical is one even if it is made of numbers
    cells = series.astype(object).to_numpy(dtype=object)
    return _from_objects(name, cells, absent, as_text=declared)


def _from_objects(
    name: str, cells: np.ndarray, absent: np.ndarray, as_text: bool = False
) -> Column:
    """The narrowest kind that holds every cell of a mixed column; text where nothing else does."""
    absent = absent | np.array([_is_missing(cell) for cell in cells], dtype=bool)
    present = [cell for cell, gone in zip(cells, absent, strict=True) if not gone]
    types = {type(cell) for cell in present}
    bad = [t.__name__ for t in types if issubclass(t, list | tuple | dict | set | np.ndarray)]
    if bad:
        raise ValueError(
            f"column {name!r} holds cells of type {bad[0]};"
            " expected numbers, text, dates or booleans"
        )
    if types and all(issubclass(t, bool | np.bool_) for t in types):
        return Column(name, "boolean", _filled(present, absent))
    if not as_text and all(issubclass(t, Real | Decimal | np.number) for t in types):
        if types and not absent.any() and all(issubclass(t, int | np.integer) for t in types):
            return Column(name, "number", _integers(present))
        return Column(name, "number", _filled(present, absent))
    if types and all(issubclass(t, date) for t in types):
        return Column(name, "date", _filled([days_since_1970(cell) for cell in present], absent))
    text = np.full(len(cells), None, dtype=object)
    text[~absent] = [_as_text(cell) for cell in present]
    return Column(name, "text", text, declared=as_text)


def _is_missing(cell: Any) -> bool:
    return cell is None or (isinstance(cell, float) and cell != cell)


def _as_text(cell: Any) -> str:
    return cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)


def _integers(cells: list[Any]) -> np.ndarray:
    try:
        return np.array([int(cell) for cell in cells], dtype=np.int64)
    except OverflowError:
        return _filled(cells, np.zeros(len(cells), dtype=bool))


def _filled(present: Sequence[Any], absent: np.ndarray) -> np.ndarray:
    """The cells as float64 with NaN where one is missing; beyond its range they are infinite."""
    values = np.full(len(absent), np.nan)
    values[~absent] = [_as_float(cell) for cell in present]
    return values


def _as_float(cell: Any) -> float:
    try:
        return float(cell)
    except OverflowError:
        return float("inf")


def _days_of_datetime64(values: np.ndarray) -> np.ndarray:
    microseconds = values.astype("datetime64[us]").astype(np.int64)
    days = microseconds / (SECONDS_PER_DAY * 1e6)
    return np.where(np.isnat(values), np.nan, days)


def days_since_1970(day: date) -> float:
    """Days since 1970-01-01 UTC, with the time of day as a fraction; no zone means UTC."""
    if not isinstance(day, datetime):
        return float(day.toordinal() - date(1970, 1, 1).toordinal())
    moment = day if day.tzinfo else day.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() / SECONDS_PER_DAY
