"""Data larger than a process may hold: read chunk by chunk, and only the rows that are wanted.

What the columns mean (scales, categories) is learned from the first chunks; a category that shows
up later only counts as unseen. Nothing is held but one chunk, the target column, and the inputs of
the wanted rows, which may be a memory-mapped file.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from dladmm.data.columns import Column, Table, table_from_arrays
from dladmm.data.datasets import IDX_NAMES, NAMES, idx_file, load_part, scaled
from dladmm.data.idx import IdxFile
from dladmm.data.images import read_image_folder
from dladmm.data.preprocessing import TablePreprocessor
from dladmm.data.tables import (
    PARQUET,
    check_readable,
    parquet_file,
    read_npy,
    read_table,
    table_of,
    text_file,
)
from dladmm.data.text_files import is_text_file

# How many rows the columns are learned from: a part of many, within these bounds.
LEARN_PART, LEAST_TO_LEARN, MOST_TO_LEARN = 8, 10_000, 200_000
CHUNK_ROWS = 16_384  # of an array
PARQUET_ROWS = 131_072  # of a row group, which may be the whole file
TEXT_ROWS = 65_536  # of a text file


class Chunks(Protocol):
    """Rows of a file, in their order. What is `in_memory` is learned from as a whole."""

    in_memory: bool

    @property
    def n_rows(self) -> int: ...

    def tables(self, rows: slice, columns: Sequence[str] | None = None) -> Iterator[Table]:
        """These rows, some at a time; all columns, or the target alone, given by its name."""


class TableChunks:
    """A table that is in memory as a whole."""

    in_memory = True

    def __init__(self, table: Table):
        self.table, self.n_rows = table, table.n_rows

    def tables(self, rows: slice, columns: Sequence[str] | None = None) -> Iterator[Table]:
        table = self.table
        if columns is not None:
            table = Table(tuple(table.column(name) for name in columns), table.n_rows)
        yield table if rows == slice(0, table.n_rows) else table.take(rows)


class ReadChunks:
    """Chunks whose cells have been read as a preprocessing reads them."""

    def __init__(self, chunks: Chunks, preprocessing: TablePreprocessor):
        self.chunks, self.preprocessing, self.n_rows = chunks, preprocessing, chunks.n_rows
        self.in_memory = chunks.in_memory

    def tables(self, rows: slice, columns: Sequence[str] | None = None) -> Iterator[Table]:
        return map(self.preprocessing.read, self.chunks.tables(rows, columns))


class TextChunks:
    """A text file, which is read from its beginning each time: rows may be of any length.

    The first reading counts the rows and settles the kinds of the columns, so that a chunk of
    numbers is text where the whole column is.
    """

    in_memory = False

    def __init__(self, path: Path):
        check_readable(path)
        self.file = text_file(path)
        self.n_rows = 0
        found: dict[str, set[str]] = {name: set() for name in self.file.header}
        for frame in self.file.frames(TEXT_ROWS, dict.fromkeys(self.file.padded, str)):
            self.n_rows += len(frame)
            for column in table_of(frame).columns:
                if not column.missing.all():
                    whole = "integer" if column.values.dtype.kind in "iu" else column.kind
                    found.setdefault(column.name, set()).add(whole)
        if self.n_rows == 0:
            raise ValueError(f"{path} has no rows; expected at least one")
        self.kinds: dict[str, Any] = {}
        for name, kinds in found.items():
            if kinds == {"integer", "number"}:
                self.kinds[name] = np.float64
            elif "text" in kinds or len(kinds) > 1:
                self.kinds[name] = str

    def tables(self, rows: slice, columns: Sequence[str] | None = None) -> Iterator[Table]:
        end = 0
        for frame in self.file.frames(TEXT_ROWS, self.kinds, columns):
            begin, end = end, end + len(frame)
            first, last = max(rows.start, begin) - begin, min(rows.stop, end) - begin
            if first < last:
                yield table_of(frame.iloc[first:last], self.file.dialect.decimal)
            if end >= rows.stop:
                break


class ParquetChunks:
    """A Parquet file by its row groups."""

    in_memory = False

    def __init__(self, path: Path):
        check_readable(path)
        self.path = path
        self.n_rows = int(parquet_file(path).metadata.num_rows)

    def tables(self, rows: slice, columns: Sequence[str] | None = None) -> Iterator[Table]:
        file = parquet_file(self.path)
        end = 0
        for group in range(file.num_row_groups):
            begin, end = end, end + file.metadata.row_group(group).num_rows
            first, last = max(rows.start, begin) - begin, min(rows.stop, end) - begin
            if first >= last:
                continue
            start = 0
            for batch in file.iter_batches(
                PARQUET_ROWS, [group], None if columns is None else list(columns)
            ):
                one, end_of_batch = max(first, start), min(last, start + batch.num_rows)
                if one < end_of_batch:
                    yield table_of(batch.slice(one - start, end_of_batch - one).to_pandas())
                start += batch.num_rows
                if start >= last:
                    break


class ArrayChunks:
    """Arrays of inputs and targets, in memory, mapped or streamed: columns x0, x1, ... and y."""

    in_memory = False

    def __init__(self, inputs: Any, targets: Any, prepare: Callable[[Any], Any] = np.asarray):
        self.inputs, self.targets, self.prepare = inputs, targets, prepare
        self.n_rows = int(inputs.shape[0])

    def tables(self, rows: slice, columns: Sequence[str] | None = None) -> Iterator[Table]:
        if columns is not None and "y" in columns:
            for y in chunks_of_array(self.targets, rows):
                yield table_from_arrays(np.empty((len(y), 0)), y)
            return
        both = zip(
            chunks_of_array(self.inputs, rows), chunks_of_array(self.targets, rows), strict=True
        )
        for x, y in both:
            yield table_from_arrays(self.prepare(x), y)


def open_array(path: Path) -> Any:
    """An array that is read where it is sliced: a memory map, or a gzipped IDX as a stream."""
    array = read_npy(path) if path.suffix.lower() == ".npy" else IdxFile(path).opened()
    if not array.shape:
        raise ValueError(f"{path} holds a single value; expected one row for each sample")
    return array


def whole_array(path: Path) -> np.ndarray:
    array = open_array(path)
    return array.read() if isinstance(array, IdxFile) else np.asarray(array)


def chunks_of_array(array: Any, rows: slice) -> Iterator[np.ndarray]:
    if isinstance(array, IdxFile):
        yield from array.stream(rows, CHUNK_ROWS)
        return
    for start in range(rows.start, rows.stop, CHUNK_ROWS):
        yield array[start : min(start + CHUNK_ROWS, rows.stop)]


def chunks_of(data: str, target: str | None, data_dir: Path | None) -> Chunks:
    """DATA by chunks; a file whose format has to be read whole is one chunk."""
    path = Path(data)
    if path.suffix.lower() in PARQUET:
        return ParquetChunks(path)
    if is_text_file(path):
        return TextChunks(path)
    if path.is_dir():
        return ArrayChunks(*read_image_folder(path))
    if data in NAMES and data not in IDX_NAMES:
        return ArrayChunks(*load_part(data, data_dir, "train"))
    if data in NAMES:
        images, labels = (idx_file(data, data_dir, f"{array}_train").opened() for array in "xy")
        return ArrayChunks(images, labels, scaled)
    if not is_array_file(data):
        return TableChunks(read_table(path))
    if target is None or not is_array_file(target):
        raise ValueError(
            f"--target {target or 'is missing'}; expected a .npy or IDX file with one row for each"
            f" of {data}"
        )
    inputs, targets = open_array(path), open_array(Path(target))
    if targets.shape[0] != inputs.shape[0]:
        raise ValueError(
            f"{target} has {targets.shape[0]} rows; expected {inputs.shape[0]}, one for each of"
            f" {data}"
        )
    return ArrayChunks(inputs, targets)


def is_array_file(data: str) -> bool:
    """Whether DATA is an array alone, so that the target is in another file."""
    name = Path(data).name.lower().removesuffix(".gz")
    return name.endswith((".npy", "ubyte", ".idx"))


def rows_to_learn(n_rows: int) -> int:
    """A part of a large table; the same for any number of processes, as the inputs must be."""
    return min(n_rows, MOST_TO_LEARN, max(LEAST_TO_LEARN, n_rows // LEARN_PART))


def target_column(chunks: Chunks, target: str) -> Column:
    """The target of all rows, eight bytes for each."""
    for table in chunks.tables(slice(0, 1)):
        table.column(target)  # refused by name before more is read
    parts = list(chunks.tables(slice(0, chunks.n_rows), [target]))
    if not parts:
        raise ValueError("the data have no rows; expected at least one")
    return joined(parts).column(target)


def learned(
    chunks: Chunks,
    target: str,
    rows: int | None = None,
    *,
    whole_target: Column | None = None,
    among: np.ndarray | None = None,
    **settings: Any,
) -> TablePreprocessor:
    """Columns from the first `rows`, the target from all of them; `among` is a mask of a part."""
    whole = whole_target or target_column(chunks, target)
    if rows is None:
        rows = chunks.n_rows if chunks.in_memory else rows_to_learn(chunks.n_rows)
    first = joined(list(chunks.tables(slice(0, rows))))
    if among is not None:
        first = first.take(among[:rows])
        whole = replace(whole, values=whole.values[among])
    return TablePreprocessor.fit(first, target, whole_target=whole, **settings)


def joined(parts: list[Table]) -> Table:
    """Tables of the same columns, one below the other."""
    columns = tuple(_joined([part.column(name) for part in parts]) for name in parts[0].names)
    return Table(columns, sum(part.n_rows for part in parts))


def _joined(parts: list[Column]) -> Column:
    """A part without a single cell says nothing about the column's kind."""
    kind = next((part.kind for part in parts if not part.missing.all()), parts[0].kind)
    empty = None if kind == "text" else np.nan
    values = [
        part.values if part.kind == kind else np.full(len(part.values), empty)
        for part in parts
        if part.kind == kind or part.missing.all()
    ]
    if len(values) < len(parts):
        raise ValueError(f"column {parts[0].name!r} is of several kinds; expected one")
    return replace(parts[0], kind=kind, values=np.concatenate(values))


def encoded(
    chunks: Chunks,
    preprocessing: TablePreprocessor,
    rows: Any,
    file: Path | None,
    dtype: Any = np.float32,
) -> tuple[np.ndarray, np.ndarray]:
    """(inputs, targets) of these rows: a slice, a mask, or positions in their order.

    The inputs are memory-mapped from `file`, if it is named.
    """
    rows = np.arange(chunks.n_rows)[rows]
    shape = (len(rows), sum(spec.n_inputs for spec in preprocessing.columns))
    if file is None:
        inputs = np.empty(shape, dtype)
    else:
        inputs = np.lib.format.open_memmap(file, mode="w+", dtype=dtype, shape=shape)
    targets = []
    done, begin = 0, int(rows[0]) if len(rows) else 0
    for table in chunks.tables(slice(begin, int(rows[-1]) + 1) if len(rows) else slice(0, 0)):
        until = int(np.searchsorted(rows, begin + table.n_rows))
        own, origin, begin = table.take(rows[done:until] - begin), begin, begin + table.n_rows
        try:
            inputs[done:until] = _inputs(preprocessing, own)
            targets.append(preprocessing.target.encode(own.column(preprocessing.target.name)))
        except ValueError as error:
            after = f" (rows are counted after row {origin})" if origin else ""
            raise ValueError(f"{error}{after}") from None
        done = until
    if file is not None:
        with suppress(OSError):  # where a file in use can go, not even a killed process leaves it
            file.unlink()
    return inputs, np.concatenate(targets) if targets else np.empty(0)


def _inputs(preprocessing: TablePreprocessor, table: Table) -> np.ndarray:
    with warnings.catch_warnings():
        # Said of the rows that were learned from; each chunk would say it again.
        warnings.filterwarnings("ignore", ".*taken as missing", UserWarning)
        return preprocessing.transform(table)
