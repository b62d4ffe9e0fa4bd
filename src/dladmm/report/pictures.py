"""A small grey picture as a PNG within a page, with nothing but the standard library."""

import base64
import struct
import zlib

import numpy as np


def png(pixels: np.ndarray) -> bytes:
    """An eight-bit grey PNG of a matrix, its least value black and its greatest white."""
    low, high = float(pixels.min()), float(pixels.max())
    grey = np.round(255 * (pixels - low) / ((high - low) or 1.0)).astype(np.uint8)
    height, width = grey.shape
    lines = b"".join(b"\0" + line.tobytes() for line in grey)  # no filter before each line
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def image_tag(pixels: np.ndarray, words: str) -> str:
    """The picture as HTML; `words` say what it shows and are escaped already."""
    data = base64.b64encode(png(pixels)).decode()
    return f'<img src="data:image/png;base64,{data}" alt="{words}">'
