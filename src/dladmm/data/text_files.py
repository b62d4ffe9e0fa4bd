"""Tables as text: how a file is written is found out, and pandas reads it, whole or by chunks."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import re
import warnings
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from dladmm.data.numbers import is_mark

SUFFIXES = (".csv", ".tsv", ".txt")
COMPRESSED = (".gz", ".bz2", ".xz", ".zip")
SIGNS = "$€£¥₹% \t\u00a0"
# Bytes from which separator and decimal mark are found out; more where a header is longer.
_SAMPLES = (1 << 18, 1 << 22, 1 << 26)
_BLOCK = 1 << 20
# Where several cut all rows alike, the first: commas also stand in numbers and sentences.
_SEPARATORS = ("\t", ";", "|", ",")
_SPACES = r"\s+"
_NAMES = {"\t": "tabs", _SPACES: "spaces"}
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_UNREADABLE = (OSError, EOFError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)


@dataclass(frozen=True)
class Dialect:
    """How a text file is written."""

    encoding: str
    separator: str
    decimal: str

    def unusual(self, separator: str) -> str:
        """What differs from dots, UTF-8 and this separator, in words."""
        odd = []
        if self.separator != separator:
            odd.append(f"{_NAMES.get(self.separator, repr(self.separator))} between cells")
        if self.decimal != ".":
            odd.append(f"{self.decimal!r} as the decimal mark")
        if not self.encoding.startswith("utf-8"):
            odd.append(f"{self.encoding} as the encoding")
        return ", ".join(odd)


def is_text_file(path: Path) -> bool:
    """By its name: .csv and its kin, compressed or not."""
    name = path.name.lower()
    inner = name.removesuffix(Path(name).suffix) if name.endswith(COMPRESSED) else name
    return inner.endswith(SUFFIXES) or (name.endswith(".zip") and "." not in inner)


class TextFile:
    """A table as text, with a header. `dialect` is found out when it is opened."""

    def __init__(self, path: Path):
        self.path = path
        try:
            encoding = _encoding(path)
            for size in _SAMPLES:
                text, cut = _beginning(path, encoding, size)
                # Excel can write the separator into a line of its own.
                own_line = re.match(r"sep=(.)\r?\n", text)
                text = text[own_line.end() :] if own_line else text
                separator, rows = _separated(text, cut)
                if len(rows) > 1 or not cut:
                    break
        except (*_UNREADABLE, UnicodeError) as error:
            raise ValueError(f"{path} cannot be read: {in_one_line(error)}") from None
        self.lines_before_header = 1 if own_line else 0
        if not rows:
            raise ValueError(f"{path} is empty; expected a header and rows")
        # In "a, b, c" the spaces belong to the separator: all of the header has them.
        names = next(iter(_rows(text, separator, cut=False, spaces=True)), rows[0])
        self.spaced = len(names) > 1 and all(name.startswith(" ") for name in names[1:])
        # As pandas names a column without a name.
        names = rows[0] if self.spaced else names
        self.header = [name or f"Unnamed: {j}" for j, name in enumerate(names)]
        decimal = "." if separator == "," else _decimal(cell for row in rows[1:] for cell in row)
        self.dialect = Dialect(encoding, separator, decimal)
        columns = ([row[j] for row in rows[1:] if j < len(row)] for j in range(len(self.header)))
        found = zip(self.header, columns, strict=True)
        self.padded = [name for name, cells in found if _is_padded(cells)]

    def frame(self, text_columns: Collection[str] | None = None) -> Any:
        """The whole table; cells of `text_columns` as they are written, by default those of numbers
        filled up with zeros, which are names: postcodes, say."""
        names = self.padded if text_columns is None else text_columns
        kinds = {name: str for name in names if name in self.header}
        with self._refusals():
            return self._read(dtype=kinds)

    def frames(
        self, rows: int, kinds: Mapping[str, Any], columns: Sequence[str] | None = None
    ) -> Iterator[Any]:
        """The table, so many rows at a time."""
        with self._refusals():
            frames = self._read(chunksize=rows, dtype=dict(kinds), usecols=columns)
        with frames:
            while True:
                with self._refusals():
                    frame = next(frames, None)
                if frame is None:
                    return
                yield frame

    def _read(self, **more: Any) -> Any:
        import pandas

        return pandas.read_csv(
            self.path,
            sep=self.dialect.separator,
            decimal=self.dialect.decimal,
            encoding=self.dialect.encoding,
            skiprows=self.lines_before_header,
            skipinitialspace=self.spaced,
            index_col=False,  # else surplus cells turn the first column into row names
            low_memory=False,
            **more,
        )

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        import pandas

        try:
            with warnings.catch_warnings():
                # Cells beyond the header are dropped with a warning only.
                warnings.simplefilter("error", pandas.errors.ParserWarning)
                yield
        except (ValueError, OverflowError, pandas.errors.ParserWarning, *_UNREADABLE) as error:
            raise ValueError(f"{self.path} cannot be read: {in_one_line(error)}") from None


def in_one_line(error: BaseException) -> str:
    """What a parser says of a file, which may be several lines."""
    return " ".join(str(error).split())


def _opened(path: Path) -> BinaryIO:
    """The file's bytes, decompressed; a ZIP archive has one file."""
    suffix = path.suffix.lower()
    if suffix == ".zip":
        archive = zipfile.ZipFile(path)
        names = archive.namelist()
        if len(names) != 1:
            raise OSError(f"the archive has {len(names)} files; expected one")
        return archive.open(names[0])  # type: ignore[return-value]
    openers: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    return openers.get(suffix, open)(path, "rb")


def _beginning(path: Path, encoding: str, size: int) -> tuple[str, bool]:
    """The first bytes as text, and whether there are more."""
    with _opened(path) as file:
        sample, cut = file.read(size), bool(file.read(1))
    return codecs.getincrementaldecoder(encoding)(errors="replace").decode(sample), cut


def _encoding(path: Path) -> str:
    """As the file says itself, or the first that reads all of it."""
    with _opened(path) as file:
        first = file.read(1000)
    for mark, name in _BYTE_ORDER_MARKS.items():
        if first.startswith(mark):
            return name
    if 3 * first.count(0) > len(first):  # every second byte of plain English in UTF-16
        return "utf-16-le" if first[1::2].count(0) > first[::2].count(0) else "utf-16-be"
    return next((name for name in ("utf-8", "cp1252") if _decodes(path, name)), "latin-1")


def _decodes(path: Path, encoding: str) -> bool:
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        with _opened(path) as file:
            while block := file.read(_BLOCK):
                decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _separated(text: str, cut: bool) -> tuple[str, list[list[str]]]:
    """The separator that cuts most rows like the header, and the rows of the sample."""
    best: tuple[float, str, list[list[str]]] | None = None
    for separator in _SEPARATORS:
        rows = _rows(text, separator, cut)
        if rows and len(rows[0]) > 1:
            alike = sum(len(row) == len(rows[0]) for row in rows) / len(rows)
            if best is None or alike > best[0]:
                best = alike, separator, rows
    if best is not None:
        return best[1:]
    spaced = [line.split() for line in text.splitlines() if line.strip()]
    spaced = spaced[:-1] if cut else spaced
    if len(spaced) > 1 and {len(row) for row in spaced} == {len(spaced[0])} != {1}:
        return _SPACES, spaced
    return ",", _rows(text, ",", cut)


def _rows(text: str, separator: str, cut: bool, spaces: bool = False) -> list[list[str]]:
    """The rows of a text; `spaces` keeps those that begin a cell."""
    if separator == _SPACES:
        return []
    rows: list[list[str]] = []
    lines = io.StringIO(text, newline="")
    try:
        for row in csv.reader(lines, delimiter=separator, skipinitialspace=not spaces):
            rows.extend([row] if row else [])
    except csv.Error:  # a cell longer than this reader takes: the rows before it will do
        return rows
    return rows[:-1] if cut else rows


def _is_padded(cells: Sequence[str]) -> bool:
    """Whether whole numbers are filled up with zeros to one length, such as 02139 and 10001."""
    numbers = {cell.strip() for cell in cells if not is_mark(cell)}
    return (
        all(number.isdecimal() for number in numbers)
        and len({len(number) for number in numbers}) == 1
        and any(number[0] == "0" for number in numbers - {"0"})
    )


def _decimal(cells: Iterator[str]) -> str:
    """The decimal mark of most cells that leave no doubt; 1,234 and 1.234 do.

    Signs of money and percent are no part of a number: 7.840,66 € leaves none.
    """
    counts = {".": 0, ",": 0}
    for cell in cells:
        bare = cell.strip(SIGNS)
        found = re.fullmatch(r"[+\-]?[\d.]*(,)\d+|[+\-]?[\d,]*(\.)\d+", bare)
        if found and not re.fullmatch(r"[+\-]?[1-9]\d{0,2}[.,]\d{3}", bare):
            counts[found[1] or found[2]] += 1
    return max(counts, key=lambda mark: counts[mark])
