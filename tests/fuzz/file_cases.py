"""Random files: models, records of checkpoints and tables, damaged or made up; see cases.py."""

import csv
import hashlib
import io
import json
import math
import shutil
import tempfile
import warnings
from functools import cache
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from sklearn.base import clone

from dladmm import Checkpoints, DLADMMClassifier, DLADMMRegressor, Network, Options, Problem, solve
from dladmm.data.tables import read_table
from dladmm.estimators.model_files import load_model, save_model
from dladmm.io.model_file import ModelFileError, read_model_file, write_model_file
from dladmm.network import Conv2D, Dense, Masking, MaxPool, Recurrent, Residual

NUMBERS = [0.0, 1.0, -1.0, 0.5, 3.0, 1e-30, -1e-12, 1e12, -1e30, 1e-300, 1e300, 3e38, 5e-324]
SPECIAL = [math.nan, math.inf, -math.inf, 1.7e308]

# Model files: bytes changed anyhow, and metadata changed with a checksum that fits it.


COMMON = {"max_iter": 2, "random_state": 0, "engine": "numpy"}
IMAGES = Network((4, 4, 1), [Conv2D(2, 2), "relu", MaxPool(2), Residual([Conv2D(2, 1)]), Dense(2)])
STEPS = Network((3, 2), [Masking(), Recurrent(2), Dense(1)])
MODELS = {
    "regressor": DLADMMRegressor((3,), **COMMON),
    "classifier": DLADMMClassifier((3,), activation="tanh", **COMMON),
    "images": DLADMMClassifier(network=IMAGES, **COMMON),
    "sequences": DLADMMRegressor(network=STEPS, **COMMON),
}


def rows_of(kind, n):
    x = np.random.default_rng(0).normal(size=(n, {"images": 16, "sequences": 6}.get(kind, 2)))
    return np.where(np.arange(6) % 2, 1.0, x) if kind == "sequences" else x


@cache
def model_bytes(kind):
    x = rows_of(kind, 20)
    y = x[:, 0] > 0 if isinstance(MODELS[kind], DLADMMClassifier) else x[:, 0]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = clone(MODELS[kind]).fit(x, y)
        save_model(Path(folder) / "m", model, {"columns": [{"name": "a"}]})
        return (Path(folder) / "m").read_bytes()


@cache
def model_content(kind):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m"
        path.write_bytes(model_bytes(kind))
        return read_model_file(path)


KEYS = ["a", "kind", "layer", "inputs", "outputs", "$array", "$term", "$tuple", "dtype", "name"]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 10**6)
    | st.sampled_from(["", "a", "dense", "relu", "<f8", "O"])
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3)
    ),
    max_leaves=6,
)


def paths_of(value, here=()):
    """Where something stands inside JSON."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [here, *(path for key, v in inner for path in paths_of(v, (*here, key)))]


def changed(value, path, new):
    """A copy of JSON with another value, or without one, at `path`."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    if len(path) == 1 and new is REMOVED:
        del copy[path[0]]
    else:
        copy[path[0]] = new if len(path) == 1 else changed(value[path[0]], path[1:], new)
    return copy


REMOVED = object()


@st.composite
def damaged_bytes(draw, whole):
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        at, length = draw(st.integers(0, len(data))), draw(st.integers(0, 12))
        how = draw(st.sampled_from(["flip", "cut", "insert", "remove", "random"]))
        if how == "flip" and at < len(data):
            data[at] ^= draw(st.integers(1, 255))
        elif how == "cut":
            del data[at:]
        elif how == "insert":
            data[at:at] = draw(st.binary(min_size=1, max_size=8))
        elif how == "remove":
            del data[at : at + length]
        elif how == "random":
            data[at : at + length] = draw(st.binary(min_size=length, max_size=length))
    return bytes(data)


@st.composite
def model_changes(draw):
    kind = draw(st.sampled_from(list(MODELS)))
    if draw(st.booleans()):
        return kind, "bytes", draw(damaged_bytes(model_bytes(kind)))
    metadata, tensors = model_content(kind)
    kept = {k: v for k, v in metadata.items() if k not in ("format", "format_version", "sha256")}
    path = draw(st.sampled_from(paths_of(kept)[1:]))
    kept = changed(kept, path, draw(st.just(REMOVED) | JSON))
    if draw(st.integers(0, 3)) == 0:
        name = draw(st.sampled_from(sorted(tensors)))
        shape = draw(st.sampled_from([(), (0,), (2,), (3, 2), (1, 1, 1)]))
        tensors = tensors | {name: np.full(shape, draw(st.sampled_from(NUMBERS + SPECIAL)))}
    return kind, "content", (kept, tensors)


def model_files(case):
    kind, how, what = case
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m"
        if how == "bytes":
            path.write_bytes(what)
            if what == model_bytes(kind):
                return "unchanged"
        else:
            write_model_file(path, *what)
        try:
            model = load_model(path)
        except ModelFileError as error:
            assert str(path) in str(error)
            return "refused"
        assert how == "content", "damage was not noticed"
        try:
            predicted = model.estimator.predict(rows_of(kind, 2))
        except ValueError as error:
            assert str(error)
            return "refused later"
        assert np.shape(predicted)[0] == 2
        output = model.estimator._output(rows_of(kind, 2))[0]
        huge = any(np.abs(W).max(initial=0) > 1e30 for W in what[1].values())
        assert np.isfinite(output).all() or huge, output
    return "loaded"


# Checkpoints: the text of a record changed, with a checksum that fits it.


@cache
def kept_run():
    folder = Path(tempfile.mkdtemp(prefix="dladmm-fuzz-"))
    run(folder / "run", 4)
    return folder / "run"


def run(folder, max_iter):
    x = np.random.default_rng(0).normal(size=(12, 2))
    problem = Problem.dense((2, 2, 1), "relu", "squared_error")
    options = Options(max_iter=max_iter, tol=None, dtype="float64", engine="numpy")
    keeping = Checkpoints(folder, every=2, keep=1, resume=True, warn=lambda text: None)
    return solve(problem, x, x[:, :1], options=options, checkpoints=keeping)


def record_file(folder):
    return folder / "4/run/metadata"


@st.composite
def record_changes(draw):
    record = json.loads(record_file(kept_run()).read_text())
    how = draw(st.sampled_from(["bytes", "record", "text", "text", "text"]))
    if how == "bytes":
        return draw(damaged_bytes(record_file(kept_run()).read_bytes()))
    if how == "record":
        path = draw(st.sampled_from(paths_of(record)))
        new = draw(JSON)
        return json.dumps(changed(record, path, new)).encode()
    text = json.loads(record["text"])
    path = draw(st.sampled_from(paths_of(text)))
    return signed(changed(text, path, draw(st.just(REMOVED) | JSON) if path else draw(JSON)))


def signed(content):
    """The bytes of a record whose checksum fits it."""
    text = json.dumps(content)
    return json.dumps({"text": text, "sha256": hashlib.sha256(text.encode()).hexdigest()}).encode()


def checkpoint_records(case):
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder) / "run"
        shutil.copytree(kept_run(), where)
        record_file(where).write_bytes(case)
        try:
            result = run(where, 5)
        except ValueError as error:
            assert str(where) in str(error), error
            return "refused"
    assert all(np.isfinite(W).all() for W in result.params.W)
    return "went on"


# Tables.

NUMBERS_AS_TEXT = ["", "1", "-2.5", "1,5", "1.000,25", "NaN", "inf", "?", "$3", "7 %", "1e400"]
ODD_TEXT = ["2020-01-31", "yes", '"', "'", "a;b", "a\tb", "two\nlines", "\x00", "\ufeff", "007"]
CELLS = st.text(max_size=6) | st.sampled_from(NUMBERS_AS_TEXT + ODD_TEXT)
SUFFIXES = [".csv", ".tsv", ".npz", ".parquet", ".xlsx", ".csv.gz", ".txt"]
OPENINGS = [b"", b"PK\x03\x04", b"PAR1", b"\x1f\x8b", b"\xff\xfe", b"a,b\n"]


@st.composite
def written_tables(draw):
    """(suffix, bytes): a table in some dialect, or nothing of the kind."""
    if draw(st.integers(0, 3)) == 0:
        suffix, start = draw(st.sampled_from(SUFFIXES)), draw(st.sampled_from(OPENINGS))
        return suffix, start + draw(st.binary(max_size=200))
    width = draw(st.integers(1, 4))
    rows = draw(st.lists(st.lists(CELLS, min_size=width, max_size=width), max_size=8))
    if draw(st.integers(0, 5)) == 0:
        rows.append(draw(st.lists(CELLS, max_size=6)))
    text = io.StringIO()
    quoting = draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    writer = csv.writer(
        text,
        delimiter=draw(st.sampled_from([",", ";", "\t", "|"])),
        quoting=quoting,
        lineterminator=draw(st.sampled_from(["\n", "\r\n", "\r"])),
    )
    writer.writerows(rows)
    encoding = draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "cp1252", "latin-1"]))
    return draw(st.sampled_from([".csv", ".tsv"])), text.getvalue().encode(encoding, "replace")


def tables(case):
    suffix, content = case
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"t{suffix}"
        path.write_bytes(content)
        try:
            table = read_table(path)
        except ValueError as error:
            assert path.name in str(error), error
            assert "\n" not in str(error), error
            return "refused"
        assert table.n_rows > 0
        assert all(len(column.values) == table.n_rows for column in table.columns)
    return "read"
