"""Random calls of the public boundary, and what must come of each: a finite result whose
certificate a recount confirms, or a refusal in words that name what was wrong.

`PROPERTIES` maps a name to a function of one drawn case; test_fuzz.py tries a few of each, long.py
thousands.
"""

import math
from math import prod

import numpy as np
from file_cases import (
    NUMBERS,
    SPECIAL,
    checkpoint_records,
    model_changes,
    model_files,
    record_changes,
    tables,
    written_tables,
)
from hypothesis import strategies as st
from network_cases import (
    ACTIVATIONS,
    JUNK,
    LARGEST,
    building_networks,
    built,
    network_cases,
    often,
    rows_for,
    written,
)
from recount import differences, recounted
from refusals import check_refusal, data_at_fault

from dladmm import DLADMMClassifier, DLADMMRegressor, Network, Options, Problem, solve
from dladmm.core.predict import predict_output
from dladmm.network import Masking
from dladmm.terms.losses import losses
from dladmm.terms.regularizers import regularizers


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
        often(
            st.sampled_from([None, None, None, "some", "some", "tiny", "huge"]),
            st.sampled_from(["zero", "negative", "short"]),
        )
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
        "step_rule": st.sampled_from(["over-relaxed", "matrix", "closed-form", "backtracking"]),
        "zl_solver": st.sampled_from(["newton", "fista", "authors"]),
        "targets": st.sampled_from(["first-order", "closed"]),
        "init": st.sampled_from(["auto", "scaled", "he", "paper"]),
        "batch_size": st.sampled_from([None, "auto"]) | st.integers(1, 40),
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
        "layer_messages": st.sampled_from(["exact", "bfloat16", "8bit"]),
    }
    chosen = draw(st.sets(st.sampled_from(sorted(set(names) & set(usual))), max_size=7))
    given = {name: draw(often(usual[name], JUNK)) for name in sorted(chosen)}
    given.setdefault("max_iter", 4)
    return given | {"engine": "numpy"}


def check_certificate(certificate, history, method, mass, H):
    """mass: the sum of the weights; NaN where it is not known, which C2 alone asks for."""
    again = recounted(
        history, method=method, dtype=_dtype(certificate), start=math.nan, mass=mass, H=H
    )
    # Records do not hold the objective of the start, so its first iteration is left out.
    first = certificate.first_rise == 1
    compared = ("n_iter", "rho", "nu", "residual", "gap", "c_k", "k_c_k", "least_C2")
    if math.isnan(mass):
        del again["least_C2"]
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
    n = draw(often(st.integers(5, 30), st.integers(0, 4)))
    columns = draw(often(st.integers(1, 4), st.just(0)))
    classify = draw(st.booleans())
    kind = DLADMMClassifier if classify else DLADMMRegressor
    parameters = draw(settings_of(kind().get_params()))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    network = draw(networks_or_none())
    if network is not None:
        parameters["network"] = network
    else:
        parameters["hidden_layer_sizes"] = draw(often(SIZES, JUNK))
        parameters["activation"] = draw(often(st.sampled_from(ACTIVATIONS), JUNK))
    if draw(st.booleans()):
        parameters["loss"] = draw(
            often(st.sampled_from(FITTING[classify]), st.sampled_from(sorted(losses)) | JUNK)
        )
    outputs = draw(st.sampled_from([0, 0, 2, 1]))
    if isinstance(network, Network):
        outputs, columns = network.out_shape[-1], draw(often(st.just(prod(network.in_shape)), ONE))
    shape = (n, outputs) if outputs else (n,)
    if classify:
        classes = draw(often(st.integers(2, 4), st.just(1)))
        if isinstance(network, Network):
            shape, classes = (n,), draw(often(st.just(max(2, outputs)), st.just(classes)))
        elif len(shape) == 2:  # labels
            classes = draw(often(st.just(2), st.just(classes)))
        y = rng.integers(0, classes, shape)
        if draw(st.booleans()) and y.ndim == 1:
            y = np.array(["a", "b", "c", "d"])[y]
    else:
        with np.errstate(over="ignore"):
            y = rng.normal(size=shape) * 10.0 ** draw(
                often(st.integers(-9, 9), st.integers(-320, 308))
            )
        y = np.abs(y) if parameters.get("loss") == "poisson" else y
    X = draw(matrices(n, columns))
    if isinstance(network, Network) and (is_masked(network) or draw(st.booleans())):
        X = rows_for(network, rng, n)
    return kind, parameters, X, y, draw(weights_for(n))


ONE = st.just(1)


@st.composite
def networks_or_none(draw):
    """In a quarter of the cases a small network, or now and then what is none."""
    if draw(st.integers(0, 3)):
        return None
    try:
        network = built(*draw(written()))
    except ValueError:
        return draw(often(st.none(), JUNK))
    return network if network.n_weights < LARGEST else None


def is_masked(network):
    return isinstance(network.layers[0], Masking)


def estimators(case):
    kind, parameters, X, y, weights = case
    model = kind(**parameters)
    try:
        model.fit(X, y, sample_weight=weights)
        predicted = model.predict(X)
    except ValueError as error:
        network = parameters.get("network")
        columns = prod(network.in_shape) if isinstance(network, Network) else None
        classify = kind is DLADMMClassifier
        data = data_at_fault(X, y, weights, classify=classify, columns=columns)
        # Its outputs may not be those of y; the rows may be too few to hold any out.
        also = {"network", "early_stopping"} & set(parameters)
        return check_refusal(error, parameters, data, also)
    assert len(predicted) == len(X)
    if kind is DLADMMClassifier:
        predicted = model.decision_function(X)
    assert np.isfinite(predicted).all() or model.status_ == "diverged", predicted
    assert all(np.isfinite(W).all() for W in (*model.coefs_, *model.intercepts_))
    assert model.message_
    H = model._problem_of(model.layers_).loss.lipschitz
    mass = mass_of(model, len(X), weights)
    check_certificate(model.certificate_, model.history_, model.method, mass, H)
    return model.status_


def mass_of(model, n, weights):
    """The sum of the weights that were trained with; NaN where only scikit-learn knows which rows
    those are."""
    if weights is not None:
        dtype = _dtype(model.certificate_)
        return math.nan if model.early_stopping else float(np.asarray(weights, dtype).sum())
    held = math.ceil(n * model.validation_fraction) if model.early_stopping else 0
    return float(n - held)


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
        given = parameters | {"activation": activation, "loss": loss, "regularizer": regularizer}
        data = data_at_fault(x, y, weights, classify=False)
        return check_refusal(error, given, data)
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


# Networks.


@st.composite
def dense_networks(draw):
    sizes = draw(often(st.lists(often(st.integers(1, 4), JUNK), max_size=5), JUNK))
    terms = [
        draw(often(st.sampled_from(names), JUNK | st.lists(st.sampled_from(names), max_size=4)))
        for names in (ACTIVATIONS, sorted(losses), sorted(regularizers))
    ]
    return sizes, terms


def building(case):
    sizes, (activation, loss, regularizer) = case
    try:
        problem = Problem.dense(sizes, activation, loss, regularizer)
    except ValueError as error:
        given = {"activation": activation, "loss": loss, "regularizer": regularizer}
        return check_refusal(error, given | {"sizes": sizes}, also={"sizes"})
    assert problem.n_layers == len(sizes) - 1
    return "built"


PROPERTIES = {
    "estimators": (fits(), estimators),
    "solve": (solves(), solving),
    "model files": (model_changes(), model_files),
    "checkpoints": (record_changes(), checkpoint_records),
    "tables": (written_tables(), tables),
    "sizes": (dense_networks(), building),
    "networks": (network_cases(), building_networks),
}
