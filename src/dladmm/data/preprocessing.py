"""From a table to the numbers a network takes, as plain data that is saved in the model.

Numbers are standardised, categories one-hot encoded, dates turned into days and standardised,
missing cells imputed. Learned from the training rows once; never from the rows to predict.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dladmm.data.column_spec import (
    ColumnSpec,
    fit_column,
    is_constant,
    is_id,
    read_column,
    say,
    write_inputs,
)
from dladmm.data.columns import Column, Table, named
from dladmm.data.target import Target, fit_target

# 2 has numbers as text, other categories and dropped columns; 1 is still read.
FORMAT = 2


@dataclass(frozen=True)
class TablePreprocessor:
    """The columns of a model in its order, its target, and the columns that were left out."""

    columns: tuple[ColumnSpec, ...]
    target: Target
    source: str = "table"
    dropped: tuple[str, ...] = ()

    @classmethod
    def fit(
        cls,
        table: Table,
        target: str,
        *,
        task: str | None = None,
        drop: Sequence[str] = (),
        standardise: bool = True,
        standardise_target: bool = True,
        source: str = "table",
        whole_target: Column | None = None,
    ) -> TablePreprocessor:
        """Learn from the training rows that have a target; what a user should know is given as
        UserWarnings.

        `standardise` False keeps numbers as they are (pixels between 0 and 1 need nothing).
        `whole_target` is the target of all rows where `table` has only the first of them.
        """
        for name in drop:
            table.column(name)
        if target in drop:
            raise ValueError(f"the target {target!r} is to be dropped; expected other columns")
        learned = fit_target(whole_target or table.column(target), task, standardise_target)
        answered = learned.answered(table.column(target))
        features = table.without(target, *drop)
        if not features.columns:
            what = "and what is dropped " if drop else ""
            raise ValueError(
                f"the table has the target {target!r} {what}only; expected other columns"
            )
        features = features if answered.all() else features.take(answered)
        specs = tuple(fit_column(column, standardise) for column in features.columns)
        if standardise:
            _say_about(features, specs)
        return cls(specs, learned, source, tuple(drop))

    @property
    def input_names(self) -> list[str]:
        return [name for spec in self.columns for name in spec.input_names]

    @property
    def text_columns(self) -> list[str]:
        """Columns whose cells must be read as they are written."""
        names = [spec.name for spec in self.columns if spec.as_text]
        text_target = self.target.class_type == "str" or self.target.written
        return [*names, self.target.name] if text_target else names

    def read(self, table: Table) -> Table:
        """A table of the same columns as they were taken in training, before anything is scaled.

        So a part of the rows can be learned from on its own without being read in another way.
        """
        specs = {spec.name: spec for spec in self.columns}
        columns = tuple(
            self.target.read(column)
            if column.name == self.target.name
            else read_column(specs[column.name], column)
            for column in table.columns
            if column.name not in self.dropped
        )
        return Table(columns, table.n_rows)

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
        expected = {*names, self.target.name, *self.dropped}
        extra = [name for name in given if name not in expected]
        if extra:
            say(f"{_column_s(extra)} {named(extra)} {_is_are(extra)} unknown to the model, ignored")
        if [name for name in given if name in names] != names:
            say("the columns are in another order than in training and are matched by name")
        float32 = all(given[name].values.dtype == np.float32 for name in names)
        n_inputs = sum(spec.n_inputs for spec in self.columns)
        inputs = np.zeros((table.n_rows, n_inputs), np.float32 if float32 else np.float64)
        start = 0
        for spec in self.columns:
            write_inputs(spec, given[spec.name], inputs[:, start : start + spec.n_inputs])
            start += spec.n_inputs
        return inputs

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "format": FORMAT,
            "source": self.source,
            "columns": [spec.to_dict() for spec in self.columns],
            "target": self.target.to_dict(),
            "dropped": list(self.dropped),
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> TablePreprocessor:
        """The inverse of `to_dict`; ValueError for anything else."""
        if plain.get("format") not in (1, FORMAT):
            raise ValueError(f"preprocessing has format {plain.get('format')!r}; expected {FORMAT}")
        try:
            specs = tuple(ColumnSpec.from_dict(spec) for spec in plain["columns"])
            target, dropped = Target.from_dict(plain["target"]), tuple(plain.get("dropped", ()))
            return cls(specs, target, plain["source"], dropped)
        except (KeyError, TypeError) as error:
            raise ValueError(f"preprocessing is not readable: {error!r}") from None


def _say_about(features: Table, specs: tuple[ColumnSpec, ...]) -> None:
    """Which columns say nothing, and which say too much."""

    def those(test: Callable[[Column, ColumnSpec], bool]) -> list[str]:
        both = zip(features.columns, specs, strict=True)
        return [column.name for column, spec in both if test(column, spec)]

    if constant := those(is_constant):
        verb = "is constant and says" if len(constant) == 1 else "are constant and say"
        say(f"{_column_s(constant)} {named(constant)} {verb} nothing about the target")
    if ids := those(is_id):
        options = " ".join(f"--drop {shlex.quote(name)}" for name in ids)
        verb, them = ("has", "it") if len(ids) == 1 else ("have", "them")
        say(
            f"{_column_s(ids)} {named(ids)} {verb} another value in each row, like a row's name or"
            f" number, and may say nothing about new rows; {options} leaves {them} out"
        )


def _column_s(names: list[str]) -> str:
    return "column" if len(names) == 1 else "columns"


def _is_are(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"
