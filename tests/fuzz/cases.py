"""Random calls of the public boundary, and what must come of each: a finite result whose
certificate a recount confirms, or a refusal in words that name what was wrong.

`PROPERTIES` maps a name to a function of one drawn case; test_fuzz.py tries a few of each, long.py
thousands.
"""

import csv
import hashlib
import io
import json
import math
import re
import shutil
import tempfile
import warnings
from functools import cache
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from recount import differences, recounted

from dladmm import Checkpoints, DLADMMClassifier, DLADMMRegressor, Options, Problem, solve
from dladmm.core.predict import predict_output
from dladmm.data.tables import read_table
from dladmm.estimators.model_files import load_model, save_model
from dladmm.io.model_file import ModelFileError, read_model_file, write_model_file
from dladmm.terms.activations import activations
from dladmm.terms.losses import losses
from dladmm.terms.regularizers import regularizers

NUMBERS = [0.0, 1.0, -1.0, 0.5, 3.0, 1e-30, -1e-12, 1e12, -1e30, 1e-300, 1e300, 3e38, 5e-324]
SPECIAL = [math.nan, math.inf, -math.inf, 1.7e308]
JUNK = st.sampled_from([None, True, -1, 0, 1.5, math.nan, math.inf, "?", "", (), [], {}, 10**30])
ACTIVATIONS = sorted(activations)
# What a sentence may speak of.
WORDS = {
    *Options.__dataclass_fields__,
    *DLADMMClassifier().get_params(),
    *DLADMMRegressor().get_params(),
    *(
        [
            "X",
            "x",
            "y",
            "Y",
            "sample_weight",
            "sample",
            "samples",
            "rows",
            "params",
            "memory",
            "network",
            "layer",
            "layers",
            "sizes",
        ]
    ),
    *(["class", "classes", "feature", "features", "target", "targets", "weights"]),
}


def often(usual, rare):
    """Mostly one, now and then the other."""
    return st.integers(0, 29).flatmap(lambda k: rare if k == 0 else usual)


@st.composite
def matrices(draw, n, columns):
    """Unlike columns: normal, constant, duplicate, huge, tiny, now and then what is no number."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    X = rng.normal(size=(n, columns))
    for j in range(columns):
        kind = draw(st.sampled_from(["as it is", "scaled", "constant", "copy", "codes"]))
        if kind == "scaled":
            with np.errstate(over="ignore"):
                X[:, j] *= 10.0 ** draw(st.integers(-40, 40))
        elif kind == "constant":
            X[:, j] = draw(st.sampled_from(NUMBERS))
        elif kind == "copy":
            X[:, j] = X[:, 0]
        elif kind == "codes":
            X[:, j] = rng.integers(0, 2, n)
    if n and columns and draw(st.integers(0, 15)) == 0:
        X[draw(st.integers(0, n - 1)), draw(st.integers(0, columns - 1))] = draw(
            st.sampled_from(SPECIAL + NUMBERS)
        )
    with np.errstate(over="ignore", invalid="ignore"):
        return X.astype(draw(often(st.just("float64"), st.sampled_from(DTYPES))))


DTYPES = ["float32", "float16", "int64", "int8", "bool", "object", "float64"]
SIZES = st.lists(st.integers(1, 5), max_size=4).map(tuple)


@st.composite
def weights_for(draw, n):
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    kind = draw(
        st.sampled_from([None] * 9 + ["some"] * 4 + ["zero", "tiny", "huge", "negative", "short"])
    )
    given = {
        None: None,
        "some": rng.uniform(0, 3, n),
        "zero": np.zeros(n),
        "tiny": rng.uniform(0, 1e-200, n),
        "huge": rng.uniform(0, 1e200, n),
        "negative": -np.ones(n),
        "short": np.ones(max(0, n - 1)),
    }
    return given[kind]


PENALTY = st.floats(-8, 8).map(lambda p: 10.0**p)


@st.composite
def settings_of(draw, names):
    """Parameters that estimators and Options share; most valid, a few not."""
    usual = {
        "method": st.sampled_from(["restored", "restored", "dladmm", "admm"]),
        "rho": st.none() | PENALTY,
        "nu": PENALTY,
        "rho_schedule": st.sampled_from(["constant", "paper", "adaptive"]),
        "nu_schedule": st.sampled_from(["constant", "paper", "adaptive"]),
        "step_rule": st.sampled_from(["closed-form", "backtracking"]),
        "zl_solver": st.sampled_from(["newton", "fista", "authors"]),
        "init": st.sampled_from(["auto", "scaled", "he", "paper"]),
        "batch_size": st.none() | st.integers(1, 40),
        "max_iter": st.integers(1, 4),
        "tol": st.none() | st.sampled_from([0.0, 1e-3, 10.0]),
        "dtype": st.sampled_from(["auto", "float32", "float64"]),
        "dual_start": st.sampled_from(["auto", "gradient", "zero"]),
        "n_iter_no_change": st.integers(1, 3),
        "stop_at_noise": st.booleans(),
        "early_stopping": st.booleans(),
        "validation_fraction": st.floats(0.05, 0.6),
        "warm_start": st.booleans(),
        "random_state": st.integers(0, 5),
        "alpha": st.sampled_from(["evidence", 0.0, 1e-4, 1e6]),
        "regularizer": st.none() | st.sampled_from(sorted(regularizers)),
    }
    chosen = draw(st.sets(st.sampled_from(sorted(set(names) & set(usual))), max_size=7))
    given = {name: draw(often(usual[name], JUNK)) for name in sorted(chosen)}
    given.setdefault("max_iter", 4)
    return given | {"engine": "numpy"}


def check_refusal(error):
    """A sentence, not a stack of internals, that names something the caller has given."""
    text = str(error)
    assert text, repr(error)
    assert set(re.findall(r"[A-Za-z_]+", text)) & WORDS, text


def check_certificate(certificate, history, method, mass, H):
    again = recounted(
        history, method=method, dtype=_dtype(certificate), start=math.nan, mass=mass, H=H
    )
    # Records do not hold the objective of the start, so its first iteration is left out.
    first = certificate.first_rise == 1
    compared = ("n_iter", "rho", "nu", "residual", "gap", "c_k", "k_c_k", "least_C2")
    wrong = differences(certificate, {name: again[name] for name in compared if name in again})
    assert wrong == {}, wrong
    assert certificate.rises - first == again["rises"]


def _dtype(certificate):
    return "float64" if certificate.rise_tolerance == 1e-10 else "float32"


# Estimators.

FITTING = {
    True: ["log_loss", "binary_log_loss", "hinge"],
    False: ["squared_error", "huber", "absolute_error", "quantile", "poisson"],
}


@st.composite
def fits(draw):
    n, columns = draw(st.integers(0, 30)), draw(st.integers(0, 4))
    n = max(n, draw(st.sampled_from([0, 5, 5, 5])))
    columns = max(columns, draw(st.sampled_from([0, 1, 1, 1])))
    classify = draw(st.booleans())
    kind = DLADMMClassifier if classify else DLADMMRegressor
    parameters = draw(settings_of(kind().get_params()))
    parameters["hidden_layer_sizes"] = draw(often(SIZES, JUNK))
    parameters["activation"] = draw(often(st.sampled_from(ACTIVATIONS), JUNK))
    if draw(st.booleans()):
        parameters["loss"] = draw(
            often(st.sampled_from(FITTING[classify]), st.sampled_from(sorted(losses)) | JUNK)
        )
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    shape = draw(st.sampled_from([(n,), (n,), (n, 2), (n, 1)]))
    if classify:
        y = rng.integers(0, draw(st.integers(1, 4)), shape)
        if draw(st.booleans()) and y.ndim == 1:
            y = np.array(["a", "b", "c", "d"])[y]
    else:
        with np.errstate(over="ignore"):
            y = rng.normal(size=shape) * 10.0 ** draw(
                often(st.integers(-9, 9), st.integers(-320, 308))
            )
        y = np.abs(y) if parameters.get("loss") == "poisson" else y
    return kind, parameters, draw(matrices(n, columns)), y, draw(weights_for(n))


def estimators(case):
    kind, parameters, X, y, weights = case
    model = kind(**parameters)
    try:
        model.fit(X, y, sample_weight=weights)
        predicted = model.predict(X)
    except ValueError as error:
        return check_refusal(error)
    if kind is DLADMMRegressor:
        assert np.isfinite(predicted).all() or model.status_ == "diverged", predicted
    assert all(np.isfinite(W).all() for W in (*model.coefs_, *model.intercepts_))
    assert model.message_
    plain = weights is None and not model.early_stopping
    H = model._problem_of(model.layers_).loss.lipschitz
    check_certificate(
        model.certificate_, model.history_, model.method, len(X) if plain else math.inf, H
    ) if plain else None
    return model.status_


# solve.


@st.composite
def solves(draw):
    n, columns, outputs = draw(st.integers(1, 25)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    sizes = (columns, *draw(SIZES), outputs)
    loss = draw(st.sampled_from(sorted(losses)))
    parameters = draw(settings_of(Options.__dataclass_fields__))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    y = rng.normal(size=(n, outputs))
    if "log_loss" in loss or "hinge" in loss:
        y = (y > 0).astype(float) if "multilabel" in loss else np.eye(outputs)[y.argmax(1)]
    if loss == "poisson":
        y = np.abs(y)
    terms = draw(often(st.sampled_from(ACTIVATIONS), JUNK)), loss
    regularizer = draw(often(st.sampled_from(sorted(regularizers)), JUNK))
    return (
        sizes,
        terms,
        regularizer,
        parameters,
        draw(matrices(n, columns)),
        y,
        draw(weights_for(n)),
    )


def solving(case):
    sizes, (activation, loss), regularizer, parameters, x, y, weights = case
    try:
        problem = Problem.dense(sizes, activation, loss, regularizer)
        result = solve(problem, x, y, sample_weight=weights, options=Options(**parameters))
    except ValueError as error:
        return check_refusal(error)
    assert all(np.isfinite(v).all() for v in (*result.params.W, *result.params.b))
    z = predict_output(problem, result.params, np.asarray(x, "float64"))[0]
    assert np.isfinite(z).all() or result.status == "diverged"
    assert result.message
    mass = float(
        len(x) if weights is None else np.asarray(weights, _dtype(result.certificate)).sum()
    )
    check_certificate(
        result.certificate, result.history, result.certificate.method, mass, problem.loss.lipschitz
    )
    return str(result.status)


# Model files: bytes changed anyhow, and metadata changed with a checksum that fits it.


@cache
def model_bytes():
    x = np.random.default_rng(0).normal(size=(20, 2))
    model = DLADMMRegressor((3,), max_iter=2, random_state=0, engine="numpy")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        save_model(Path(folder) / "m", model.fit(x, x[:, 0]), {"columns": [{"name": "a"}]})
        return (Path(folder) / "m").read_bytes()


@cache
def model_content():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m"
        path.write_bytes(model_bytes())
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
    if draw(st.booleans()):
        return "bytes", draw(damaged_bytes(model_bytes()))
    metadata, tensors = model_content()
    kept = {k: v for k, v in metadata.items() if k not in ("format", "format_version", "sha256")}
    path = draw(st.sampled_from(paths_of(kept)[1:]))
    kept = changed(kept, path, draw(st.just(REMOVED) | JSON))
    if draw(st.integers(0, 3)) == 0:
        name = draw(st.sampled_from(sorted(tensors)))
        shape = draw(st.sampled_from([(), (0,), (2,), (3, 2), (1, 1, 1)]))
        tensors = tensors | {name: np.full(shape, draw(st.sampled_from(NUMBERS + SPECIAL)))}
    return "content", (kept, tensors)


def model_files(case):
    how, what = case
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m"
        if how == "bytes":
            path.write_bytes(what)
            if what == model_bytes():
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
            predicted = model.estimator.predict(np.ones((2, 2)))
        except ValueError as error:
            assert str(error)
            return "refused later"
        assert np.shape(predicted)[0] == 2
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
        suffix = draw(
            st.sampled_from([".csv", ".tsv", ".npz", ".parquet", ".xlsx", ".csv.gz", ".txt"])
        )
        start = draw(
            st.sampled_from([b"", b"PK\x03\x04", b"PAR1", b"\x1f\x8b", b"\xff\xfe", b"a,b\n"])
        )
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


# Networks.


@st.composite
def networks(draw):
    sizes = draw(often(st.lists(often(st.integers(1, 4), JUNK), max_size=5), JUNK))
    terms = [
        draw(often(st.sampled_from(names), JUNK | st.lists(st.sampled_from(names), max_size=4)))
        for names in (ACTIVATIONS, sorted(losses), sorted(regularizers))
    ]
    return sizes, terms


def building(case):
    sizes, terms = case
    try:
        problem = Problem.dense(sizes, *terms)
    except ValueError as error:
        return check_refusal(error)
    assert problem.n_layers == len(sizes) - 1
    return "built"


PROPERTIES = {
    "estimators": (fits(), estimators),
    "solve": (solves(), solving),
    "model files": (model_changes(), model_files),
    "checkpoints": (record_changes(), checkpoint_records),
    "tables": (written_tables(), tables),
    "networks": (networks(), building),
}
