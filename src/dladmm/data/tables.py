"""Reading tables: text, Excel and Parquet through pandas, NPZ through NumPy. Never a pickle."""

import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dladmm.data.columns import Table, column_from_series, named, table_from_arrays
from dladmm.data.text_files import COMPRESSED, TextFile, in_one_line, is_text_file
from dladmm.data.text_files import SUFFIXES as TEXT

PARQUET = (".parquet", ".pq")
EXCEL = (".xlsx", ".xlsm")
SUFFIXES = (*TEXT, *EXCEL, *PARQUET, ".npz")


def read_table(path: Path, text_columns: Collection[str] | None = None) -> Table:
    """The table in a file; ValueError in one sentence where there is none.

    Cells of `text_columns` are taken as they are written, so that the category 007 stays one; by
    default those of a text file's numbers that are filled up with zeros.
    What had to be found out about a text file is given as a UserWarning.
    """
    path = Path(path)
    check_readable(path)
    if is_text_file(path):
        file = text_file(path)
        table = table_of(file.frame(text_columns), file.dialect.decimal)
    elif path.suffix.lower() == ".npz":
        table = _read_npz(path)
    elif path.suffix.lower() in EXCEL:
        table = _read_excel(path)
    else:
        table = table_of(parquet_file(path).read().to_pandas())
    if table.n_rows == 0:
        raise ValueError(f"{path} has no rows; expected at least one")
    return table


def check_readable(path: Path) -> None:
    """ValueError unless this is a table's file that can be opened."""
    if not (is_text_file(path) or path.suffix.lower() in SUFFIXES):
        raise ValueError(
            f"{path} is not a table; expected a file ending in {', '.join(SUFFIXES)}, of which text"
            f" may be compressed ({', '.join(COMPRESSED)})"
        )
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise ValueError(f"{path} {what}; expected a table to read")
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None


def text_file(path: Path) -> TextFile:
    """A text file with the columns' names checked; how it is written is said if it is unusual."""
    file = TextFile(path)
    refuse_duplicates(path, file.header)
    if odd := file.dialect.unusual("\t" if ".tsv" in path.suffixes else ","):
        warnings.warn(f"{path.name} is read with {odd}", stacklevel=3)
    return file


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
        raise ValueError(f"{path} cannot be read as NPZ: {in_one_line(error)}") from None


def read_npy(path: Path) -> Any:
    """The array in an NPY file, memory-mapped."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        what = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ValueError(f"{path} cannot be read as NPY: {what}") from None


def _read_excel(path: Path) -> Table:
    """The first sheet of a workbook, its first row being the header."""
    import pandas

    try:
        with pandas.ExcelFile(path, engine="openpyxl") as book:
            sheets = [str(name) for name in book.sheet_names]
            cells = pandas.read_excel(book, sheet_name=0, header=None)
    except ImportError:
        raise ImportError(
            f"openpyxl is missing, which reads {path.name}; pip install 'dladmm[excel]'"
        ) from None
    except (ValueError, KeyError, OSError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} cannot be read as Excel: {in_one_line(error)}") from None
    if cells.empty:
        raise ValueError(f"{path} is empty; expected a header and rows")
    if len(sheets) > 1:
        warnings.warn(
            f"{path.name} has {len(sheets)} sheets; the first, {sheets[0]!r}, is read", stacklevel=3
        )
    header = [
        f"column {j}" if name != name else str(name) for j, name in enumerate(cells.iloc[0], 1)
    ]
    refuse_duplicates(path, header)
    frame = cells.iloc[1:].infer_objects()
    frame.columns = header
    return table_of(frame)


def parquet_file(path: Path) -> Any:
    """The open file, its columns checked; ValueError in one sentence where it cannot be read."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ImportError(
            f"pyarrow is missing, which reads {path.name}; pip install 'dladmm[parquet]'"
        ) from None
    try:
        file = pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path} cannot be read as Parquet: {in_one_line(error)}") from None
    refuse_duplicates(path, file.schema_arrow.names)
    return file


def refuse_duplicates(path: Path, names: Sequence[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"{path} has more than one column named {named(twice)}; expected one each")


def table_of(frame: Any, decimal: str = ".") -> Table:
    columns = (column_from_series(str(name), frame[name]) for name in frame.columns)
    return Table(tuple(replace(column, decimal=decimal) for column in columns), len(frame))
