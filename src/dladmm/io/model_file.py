"""The format of model files: tensors, and JSON that says what they are, as one safetensors file.

The header's `__metadata__` has one entry, "dladmm", whose text is canonical JSON with the format,
the library's version, and the SHA-256 of all of it and of the tensors. There is no pickle, so
reading a file runs no code. What the JSON means is the business of `estimators.model_files`.
"""

import hashlib
import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from dladmm._version import __version__
from dladmm.io.files import write_file

FORMAT, FORMAT_VERSION = "dladmm model", 2
_KEY = "dladmm"
# How the header of a model begins, which tells a damaged model from a foreign file.
_OPENING = b'{"__metadata__":{"dladmm":'
_LENGTH_BYTES = 8


class ModelFileError(ValueError):
    """A file that is not a whole, unchanged model this version can read; the text says why."""


def write_model_file(
    path: str | PathLike[str], content: Mapping[str, Any], tensors: Mapping[str, np.ndarray]
) -> None:
    """Write plain JSON values and tensors to `path`, whole or not at all."""
    # safetensors writes the memory as it lies, so it must lie in C order.
    tensors = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    metadata = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "library_version": __version__,
        **content,
    }
    metadata["sha256"] = _checksum(metadata, tensors)
    write_file(Path(path), save_tensors(tensors, {_KEY: _canonical(metadata)}))


def _canonical(metadata: Mapping[str, Any]) -> str:
    return json.dumps(metadata, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _checksum(metadata: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of the metadata without its checksum, then of each tensor: what it is, its bytes."""
    digest = hashlib.sha256()
    without = {key: value for key, value in metadata.items() if key != "sha256"}
    digest.update(_canonical(without).encode())
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


# Reading: each way a file can be wrong has its own sentence.


def read_model_file(
    path: str | PathLike[str],
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """(metadata, tensors) of the file at `path`; ModelFileError if it is truncated, corrupted,
    foreign or newer than this version can read. A file that cannot be opened raises its OSError."""
    path = Path(path)
    data = path.read_bytes()
    header = _header(path, data)
    entries = header.get("__metadata__")
    text = entries.get(_KEY) if isinstance(entries, dict) else None
    if text is None:
        raise ModelFileError(f"{path} is foreign: a safetensors file, but not a dladmm model")
    metadata = _metadata(path, text)
    expected = _expected_length(path, header, data)
    if len(data) < expected:
        _truncated(path, len(data), expected)
    try:
        # Copies, since what is loaded from bytes is read-only.
        tensors = {name: array.copy() for name, array in load_tensors(data).items()}
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise ModelFileError(f"{path} is corrupted: {error}") from None
    if metadata.get("sha256") != _checksum(metadata, tensors):
        raise ModelFileError(f"{path} is corrupted: its checksum does not match its content")
    return metadata, tensors


def _truncated(path: Path, found: int, expected: int) -> NoReturn:
    raise ModelFileError(f"{path} is truncated: it has {found} bytes of {expected}")


def _header(path: Path, data: bytes) -> dict[str, Any]:
    """The safetensors header: its length in 8 bytes, then JSON."""
    length = int.from_bytes(data[:_LENGTH_BYTES], "little")
    raw = data[_LENGTH_BYTES : _LENGTH_BYTES + length]
    like_a_model = raw and (raw.startswith(_OPENING) or _OPENING.startswith(raw))
    if not data or (len(data) < length + _LENGTH_BYTES and like_a_model):
        _truncated(path, len(data), max(_LENGTH_BYTES, length + _LENGTH_BYTES))
    try:
        header = json.loads(raw)
    except ValueError:
        header = None
    if isinstance(header, dict):
        return header
    if raw.startswith(_OPENING):
        raise ModelFileError(f"{path} is corrupted: its header is not valid JSON")
    raise ModelFileError(f"{path} is foreign: not a safetensors file, so not a dladmm model")


def _metadata(path: Path, text: Any) -> dict[str, Any]:
    try:
        metadata = json.loads(text)
        version = metadata["format_version"]
        if metadata["format"] != FORMAT or not isinstance(version, int):
            raise ValueError(f"format is {metadata['format']!r}, version {version!r}")
        canonical = _canonical(metadata)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"{path} is corrupted: its metadata is not valid ({error})") from None
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"{path} is newer: it has format version {version}, written by dladmm"
            f" {metadata.get('library_version')}, and this is dladmm {__version__}, which reads"
            f" up to {FORMAT_VERSION}; upgrade dladmm"
        )
    # A change that JSON reads as the same value is a change all the same.
    if canonical != text:
        raise ModelFileError(f"{path} is corrupted: its metadata is not in canonical form")
    return dict(metadata)


def _expected_length(path: Path, header: Mapping[str, Any], data: bytes) -> int:
    start = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "little")
    try:
        ends = [one["data_offsets"][1] for key, one in header.items() if key != "__metadata__"]
        return start + max(map(int, ends), default=0)
    except (KeyError, TypeError, ValueError, IndexError):
        raise ModelFileError(f"{path} is corrupted: its header lists no valid tensors") from None
