"""Parquet files larger than memory: row group by row group into a memory-mapped file of inputs.

Nothing but one row group and the target column is held. What the columns mean (scales, categories)
is learned from the first row groups; a category that shows up later only counts as unseen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dladmm.data.columns import Table
from dladmm.data.preprocessing import TablePreprocessor
from dladmm.data.tables import PARQUET, parquet_file, table_of
from dladmm.data.target import fit_target

LEARN_ROWS = 200_000  # how many rows, at least, the columns are learned from


def is_parquet(data: str) -> bool:
    return Path(data).suffix.lower() in PARQUET


def row_groups(path: Path, columns: list[str] | None = None) -> Iterator[Table]:
    """The table of each row group that has rows."""
    file = parquet_file(path)
    for group in range(file.num_row_groups):
        table = table_of(file.read_row_group(group, columns=columns).to_pandas())
        if table.n_rows:
            yield table


def learned(path: Path, target: str, **settings: Any) -> TablePreprocessor:
    """Columns from the first row groups, the target from all of them."""
    first = next(row_groups(path), None)
    if first is None:
        raise ValueError(f"{path} has no rows; expected at least one")
    first.column(target)  # refused by name before anything large is read
    parts = []
    for part in row_groups(path):
        parts.append(part)
        if sum(p.n_rows for p in parts) >= LEARN_ROWS:
            break
    preprocessing = TablePreprocessor.fit(joined(parts), target, **settings)
    whole = joined(list(row_groups(path, [target]))).column(target)
    standardise = settings.get("standardise_target", True)
    return replace(preprocessing, target=fit_target(whole, settings.get("task"), standardise))


def joined(parts: list[Table]) -> Table:
    """Tables of the same columns, one below the other."""
    columns = tuple(
        replace(column, values=np.concatenate([part.column(column.name).values for part in parts]))
        for column in parts[0].columns
    )
    return Table(columns, sum(part.n_rows for part in parts))


def spooled(path: Path, preprocessing: TablePreprocessor, folder: Path) -> tuple[Any, np.ndarray]:
    """(inputs, memory-mapped from a file in `folder`; targets) of all rows, in their order."""
    n_inputs = sum(spec.n_inputs for spec in preprocessing.columns)
    rows = parquet_file(path).metadata.num_rows
    inputs = np.lib.format.open_memmap(
        folder / "inputs.npy", mode="w+", dtype=np.float32, shape=(rows, n_inputs)
    )
    targets, start = [], 0
    for table in row_groups(path):
        inputs[start : start + table.n_rows] = preprocessing.transform(table)
        targets.append(preprocessing.target.encode(table.column(preprocessing.target.name)))
        start += table.n_rows
    inputs.flush()
    return inputs, np.concatenate(targets)
