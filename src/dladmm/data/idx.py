"""The IDX format of MNIST: two zero bytes, a type, a number of sizes, those, the data."""

import gzip
import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

# The third byte of a file, and what it says the entries are; all are big-endian.
ENTRY_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
LONGEST_HEADER = 4 + 4 * 255


def open_unpacked(path: Path) -> IO[bytes]:
    """The bytes of a file, gzipped or not."""
    return gzip.open(path) if is_gzipped(path) else path.open("rb")  # type: ignore[return-value]


def is_gzipped(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


class Header(NamedTuple):
    """What an IDX file says of itself; its data begin after `size` bytes."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    size: int

    @property
    def length(self) -> int:
        """The bytes of the whole file."""
        return self.size + math.prod(self.shape) * self.dtype.itemsize

    @property
    def row_bytes(self) -> int:
        return math.prod(self.shape[1:]) * self.dtype.itemsize


def parse_header(content: bytes, name: str) -> Header:
    """The header these bytes begin with; ValueError, naming the file, where there is none."""
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in ENTRY_TYPES:
        raise ValueError(
            f"{name} starts with the bytes {content[:4].hex(' ') or '(none)'};"
            " expected an IDX file, which starts with 00 00, a type and a number of dimensions"
        )
    dtype, n_dimensions = np.dtype(ENTRY_TYPES[content[2]]), content[3]
    size = 4 + 4 * n_dimensions
    if len(content) < size:
        raise ValueError(f"{name} ends after {len(content)} bytes, inside its header of {size}")
    shape = tuple(int(n) for n in np.frombuffer(content, ">u4", n_dimensions, offset=4))
    return Header(dtype, shape, size)


def parse_idx(content: bytes, name: str) -> np.ndarray:
    """The array in these bytes; ValueError, naming the file, where they are not one whole IDX."""
    header = parse_header(content, name)
    _check_length(header, len(content), name)
    entries = np.frombuffer(content, header.dtype, offset=header.size)
    return _native(entries.reshape(header.shape))


def _check_length(header: Header, found: int, name: str) -> None:
    if found != header.length:
        what = "is truncated" if found < header.length else "goes on after its data"
        raise ValueError(
            f"{name} {what}: it has {found} bytes; expected {header.length}"
            f" for shape {header.shape}"
        )


def _native(entries: np.ndarray) -> np.ndarray:
    return entries.astype(entries.dtype.newbyteorder("="))


class IdxFile:
    """An IDX file of which only some rows are read; gzipped, the others are read and forgotten."""

    def __init__(self, path: Path):
        self.path = path
        if not path.is_file():
            raise ValueError(f"{path} does not exist; expected an IDX or .npy file to read")
        self.zipped = is_gzipped(path)
        with open_unpacked(path) as stream:
            self.header = parse_header(self._read(stream, LONGEST_HEADER), str(path))
        if not self.zipped:
            _check_length(self.header, path.stat().st_size, str(path))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.header.shape

    def opened(self) -> Any:
        """A memory map where the file is not compressed, else this file itself."""
        if self.zipped:
            return self
        header = self.header
        return np.memmap(self.path, header.dtype, "r", header.size, header.shape)

    def read(self) -> np.ndarray:
        """All of it."""
        with open_unpacked(self.path) as stream:
            return parse_idx(self._read(stream, self.header.length + 1), str(self.path))

    def stream(self, rows: slice, at_once: int) -> Iterator[np.ndarray]:
        """These rows, `at_once` at a time."""
        row = self.header.row_bytes
        with open_unpacked(self.path) as stream:
            self._skip(stream, self.header.size + rows.start * row)
            for start in range(rows.start, rows.stop, at_once):
                count = min(at_once, rows.stop - start)
                content = self._read(stream, count * row)
                if len(content) < count * row:
                    raise ValueError(f"{self.path} is truncated: it ends inside row {start}")
                entries = np.frombuffer(content, self.header.dtype)
                yield _native(entries.reshape(count, *self.header.shape[1:]))

    def _skip(self, stream: IO[bytes], count: int) -> None:
        while count > 0:
            content = self._read(stream, min(count, 2**20))
            if not content:
                raise ValueError(f"{self.path} is truncated: it ends before the rows wanted")
            count -= len(content)

    def _read(self, stream: IO[bytes], count: int) -> bytes:
        try:
            return stream.read(count)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{self.path} cannot be unpacked: {error}") from None
