"""Reading tables: CSV and Parquet through pandas, NPZ through NumPy. No pickle is ever loaded."""

import csv
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dladmm.data.columns import Table, column_from_series, named, table_from_arrays

SEPARATORS = {".csv": ",", ".tsv": "\t"}
PARQUET = (".parquet", ".pq")
SUFFIXES = (*SEPARATORS, *PARQUET, ".npz")


def read_table(path: Path, text_columns: Collection[str] = ()) -> Table:
    """The table in a .csv, .tsv, .parquet or .npz file; ValueError in one sentence otherwise.

    Cells of `text_columns` are taken as they are written, so that the category 007 stays one.
    """
    path, suffix = Path(path), Path(path).suffix.lower()
    check_readable(path)
    if suffix == ".npz":
        table = _read_npz(path)
    elif suffix in SEPARATORS:
        table = _read_csv(path, SEPARATORS[suffix], text_columns)
    else:
        table = _read_parquet(path)
    if table.n_rows == 0:
        raise ValueError(f"{path} has no rows; expected at least one")
    return table


def check_readable(path: Path) -> None:
    """ValueError unless this is a table's file that can be opened."""
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{path} is not a table; expected a file ending in {', '.join(SUFFIXES)}")
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise ValueError(f"{path} {what}; expected a table to read")
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None


def _read_npz(path: Path) -> Table:
    try:
        if not zipfile.is_zipfile(path):
            raise ValueError("it is no archive of arrays")
        with np.load(path, allow_pickle=False) as arrays:
            if "X" not in arrays:
                raise ValueError(
                    f"it holds {named(arrays.files) or 'nothing'}; expected arrays X and y"
                )
            return table_from_arrays(arrays["X"], arrays.get("y"))
    except (ValueError, TypeError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} cannot be read as NPZ: {error}") from None


def read_npy(path: Path) -> Any:
    """The array in an NPY file, memory-mapped."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        what = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ValueError(f"{path} cannot be read as NPY: {what}") from None


def _read_csv(path: Path, separator: str, text_columns: Collection[str]) -> Table:
    import pandas

    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = next(csv.reader(file, delimiter=separator, strict=True), [])
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text; expected a table in UTF-8") from None
    except csv.Error as error:
        raise ValueError(f"{path} cannot be read: its header is broken ({error})") from None
    if not header:
        raise ValueError(f"{path} is empty; expected a header and rows")
    if len(header) == 1 and ";" in header[0]:
        raise ValueError(f"{path} seems to be separated by ';'; expected {separator!r}")
    _refuse_duplicates(path, header)
    try:
        with warnings.catch_warnings():
            # Cells beyond the header are dropped with a warning only.
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            frame = pandas.read_csv(
                path,
                sep=separator,
                encoding="utf-8-sig",
                dtype={name: str for name in text_columns if name in header},
                index_col=False,  # else surplus cells turn the first column into row names
                low_memory=False,
            )
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text; expected a table in UTF-8") from None
    except (ValueError, OverflowError, pandas.errors.ParserWarning) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    return table_of(frame)


def _read_parquet(path: Path) -> Table:
    return table_of(parquet_file(path).read().to_pandas())


def parquet_file(path: Path) -> Any:
    """The open file, its columns checked; ValueError in one sentence where it cannot be read."""
    import pyarrow
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path} cannot be read as Parquet: {error}") from None
    _refuse_duplicates(path, file.schema_arrow.names)
    return file


def _refuse_duplicates(path: Path, names: Sequence[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"{path} has more than one column named {named(twice)}; expected one each")


def table_of(frame: Any) -> Table:
    columns = tuple(column_from_series(str(name), frame[name]) for name in frame.columns)
    return Table(columns, len(frame))
