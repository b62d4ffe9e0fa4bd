"""The IDX format of MNIST: two zero bytes, a type, a number of sizes, those, the data."""

from __future__ import annotations

import math

import numpy as np

# The third byte of a file, and what it says the entries are; all are big-endian.
ENTRY_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def parse_idx(content: bytes, name: str) -> np.ndarray:
    """The array in these bytes; ValueError, naming the file, where they are not one whole IDX."""
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in ENTRY_TYPES:
        raise ValueError(
            f"{name} starts with the bytes {content[:4].hex(' ') or '(none)'};"
            " expected an IDX file, which starts with 00 00, a type and a number of dimensions"
        )
    dtype, n_dimensions = np.dtype(ENTRY_TYPES[content[2]]), content[3]
    header = 4 + 4 * n_dimensions
    if len(content) < header:
        raise ValueError(f"{name} ends after {len(content)} bytes, inside its header of {header}")
    shape = tuple(int(n) for n in np.frombuffer(content, ">u4", n_dimensions, offset=4))
    expected = header + math.prod(shape) * dtype.itemsize
    if len(content) != expected:
        what = "is truncated" if len(content) < expected else "goes on after its data"
        raise ValueError(
            f"{name} {what}: it has {len(content)} bytes; expected {expected} for shape {shape}"
        )
    return (
        np.frombuffer(content, dtype, offset=header).reshape(shape).astype(dtype.newbyteorder("="))
    )
