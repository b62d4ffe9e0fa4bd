"""A trained model as one safetensors file: the arrays, and JSON that says what they are.

The header's `__metadata__` has one entry, "dladmm", whose text is canonical JSON: format and
library version, estimator class, parameters, fitted attributes, certificate, preprocessing, and
the SHA-256 of all that and of the arrays. There is no pickle, so loading a file runs no code.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import warnings
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors
from sklearn.utils.validation import check_is_fitted

from dladmm._version import __version__
from dladmm.core.certificate import Certificate
from dladmm.core.problem import Problem
from dladmm.estimators import DLADMMClassifier, DLADMMRegressor
from dladmm.files import write_atomically
from dladmm.io.plain import decode, encode

FORMAT, FORMAT_VERSION = "dladmm model", 1
_KEY = "dladmm"
# How the header of a model begins, which tells a damaged model from a foreign file.
_OPENING = b'{"__metadata__":{"dladmm":'
_LENGTH_BYTES = 8

Estimator = DLADMMClassifier | DLADMMRegressor
_CLASSES: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (DLADMMClassifier, DLADMMRegressor)
}


class ModelFileError(ValueError):
    """A file that is not a whole, unchanged model this version can read; the text says why."""


@dataclasses.dataclass(frozen=True)
class LoadedModel:
    """What a model file holds; `metadata` is its JSON as stored, for inspection."""

    estimator: Any
    preprocessing: dict[str, Any] | None
    metadata: dict[str, Any]


def save_model(
    path: str | PathLike[str], estimator: Any, preprocessing: Mapping[str, Any] | None = None
) -> None:
    """Write a fitted estimator to `path`, whole or not at all; an older file survives any error.

    `preprocessing` is any plain JSON dictionary; it comes back from `load_model` unchanged.
    """
    if type(estimator) not in _CLASSES.values():
        raise ValueError(
            f"estimator is a {type(estimator).__name__}, which a model file cannot hold;"
            f" expected a fitted {' or '.join(_CLASSES)}"
        )
    check_is_fitted(estimator, "coefs_")
    tensors = _tensors(estimator)
    metadata = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "library_version": __version__,
        "estimator": type(estimator).__name__,
        "layer_sizes": layer_sizes(estimator),
        "parameters": _parameters(estimator),
        "fitted": _fitted(estimator),
        "history": list(estimator.history_),
        "certificate": encode("certificate_", dataclasses.asdict(estimator.certificate_)),
        "preprocessing": _checked_json(preprocessing),
    }
    metadata["sha256"] = _checksum(metadata, tensors)
    content = save_tensors(tensors, {_KEY: _canonical(metadata)})
    with write_atomically(Path(path)) as part:
        part.write_bytes(content)


def load_model(path: str | PathLike[str]) -> LoadedModel:
    """The model in the file at `path`; ModelFileError if it is truncated, corrupted, foreign
    or newer than this version can read. A file that cannot be opened raises its OSError."""
    path = Path(path)
    metadata, tensors = _read(path, path.read_bytes())
    try:
        estimator = _rebuild(metadata, tensors)
    except (ValueError, TypeError, KeyError) as error:
        raise ModelFileError(
            f"{path} was written by dladmm {metadata.get('library_version')} and does not fit"
            f" this version, {__version__}: {error}"
        ) from error
    return LoadedModel(estimator, metadata["preprocessing"], metadata)


def load_estimator(path: str | PathLike[str], expected: type[Any]) -> Any:
    """The estimator in the file at `path`; ModelFileError if it is not an `expected`."""
    estimator = load_model(path).estimator
    if not isinstance(estimator, expected):
        raise ModelFileError(
            f"{path} holds a {type(estimator).__name__}; expected a {expected.__name__}"
        )
    return estimator


def layer_sizes(estimator: Any) -> list[int]:
    """Inputs, hidden units and outputs of a fitted network."""
    return [int(estimator.coefs_[0].shape[0]), *(int(W.shape[1]) for W in estimator.coefs_)]


# Writing: arrays go to tensors, everything else to JSON.

_IN_TENSORS = ("coefs_", "intercepts_", "history_")


def _tensors(estimator: Any) -> dict[str, np.ndarray]:
    named = {
        **{f"coefs.{l}": W for l, W in enumerate(estimator.coefs_)},
        **{f"intercepts.{l}": b for l, b in enumerate(estimator.intercepts_)},
        **{
            f"history.{name}": np.asarray(values, dtype=np.float64)
            for name, values in estimator.history_.items()
        },
    }
    # safetensors writes the memory as it lies, so it must lie in C order.
    return {name: np.ascontiguousarray(array) for name, array in named.items()}


def _parameters(estimator: Any) -> dict[str, Any]:
    parameters = estimator.get_params(deep=False)
    seed = parameters["random_state"]
    if not (seed is None or isinstance(seed, int | np.integer)):
        warnings.warn(
            f"random_state={seed!r} cannot be held by a model file; the loaded model has None",
            stacklevel=3,
        )
        parameters["random_state"] = None
    # Of the machine that trained, not of the model.
    parameters["devices"] = parameters["checkpoints"] = None
    return {name: encode(name, value) for name, value in parameters.items()}


def _fitted(estimator: Any) -> dict[str, Any]:
    return {
        name: encode(name, value)
        for name, value in vars(estimator).items()
        if name.endswith("_") and name[0] != "_" and name not in (*_IN_TENSORS, "certificate_")
    }


def _checked_json(preprocessing: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if preprocessing is None:
        return None
    try:
        copy = json.loads(json.dumps(dict(preprocessing), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ValueError(f"preprocessing is not plain JSON: {error}") from None
    return copy


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


def _read(path: Path, data: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
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
    if not data or (len(data) < length + _LENGTH_BYTES and _begins_like_a_model(raw)):
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


def _begins_like_a_model(raw: bytes) -> bool:
    return bool(raw) and (raw.startswith(_OPENING) or _OPENING.startswith(raw))


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


def _rebuild(metadata: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Any:
    kind = _CLASSES.get(metadata["estimator"])
    if kind is None:
        raise ValueError(f"the estimator {metadata['estimator']!r} is unknown")
    parameters = {name: decode(value) for name, value in metadata["parameters"].items()}
    unknown = sorted(set(parameters) - set(kind().get_params(deep=False)))
    if unknown:
        raise ValueError(f"the parameter {unknown[0]!r} of {kind.__name__} is unknown")
    estimator = kind(**parameters)
    for name, value in metadata["fitted"].items():
        setattr(estimator, name, decode(value))
    n_layers = len(metadata["layer_sizes"]) - 1
    estimator.coefs_ = [tensors[f"coefs.{l}"] for l in range(n_layers)]
    estimator.intercepts_ = [tensors[f"intercepts.{l}"] for l in range(n_layers)]
    estimator.history_ = {name: tensors[f"history.{name}"].tolist() for name in metadata["history"]}
    estimator.certificate_ = _certificate(decode(metadata["certificate"]))
    # An activation or a loss a user has registered must be registered here too.
    Problem.dense(metadata["layer_sizes"], estimator.activation, estimator.loss)
    return estimator


def _certificate(stored: Mapping[str, Any]) -> Certificate:
    """Fields this version has added are not a number; those it has dropped are left out."""
    names = [field.name for field in dataclasses.fields(Certificate)]
    return Certificate(**{name: stored.get(name, math.nan) for name in names})
