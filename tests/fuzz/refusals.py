"""What a refusal has to name, found without asking the library what it refuses: an argument that
was given a bad value, or rows, targets and weights where those are at fault."""

import math
import re

import numpy as np

from dladmm.terms.activations import activations
from dladmm.terms.losses import losses
from dladmm.terms.regularizers import regularizers


def _whole(least):
    return lambda v: isinstance(v, int) and not isinstance(v, bool) and v >= least


def _number(least=0.0, above=False):
    def test(v):
        known = isinstance(v, int | float) and math.isfinite(v)
        return known and (v > least if above else v >= least)

    return test


def _among(*names):
    return lambda v: isinstance(v, str) and v in names


def _or_none(test):
    return lambda v: v is None or test(v)


SCHEDULES = ("constant", "paper", "adaptive")
ANY = lambda v: True  # noqa: E731
VALID = {
    "method": _among("restored", "dladmm", "admm"),
    "rho": _or_none(_number(above=True)),
    "nu": _number(above=True),
    "rho_schedule": _among(*SCHEDULES),
    "nu_schedule": _among(*SCHEDULES),
    "step_rule": _among("over-relaxed", "matrix", "closed-form", "backtracking"),
    "zl_solver": _among("newton", "fista", "authors"),
    "targets": _among("first-order", "closed"),
    "init": _among("auto", "scaled", "he", "paper"),
    "batch_size": lambda v: v is None or v == "auto" or _whole(1)(v),
    "max_iter": _whole(1),
    "tol": _or_none(_number()),
    "dtype": _among("auto", "float32", "float64"),
    "dual_start": _among("auto", "gradient", "zero"),
    "n_iter_no_change": _whole(1),
    "stop_at_noise": ANY,
    "early_stopping": ANY,
    "warm_start": ANY,
    "validation_fraction": lambda v: _number(above=True)(v) and v < 1,
    "random_state": lambda v: v is None or (isinstance(v, int) and 0 <= v < 2**32),
    "alpha": lambda v: v == "evidence" or _number()(v),
    "regularizer": _or_none(_among(*regularizers)),
    "activation": _among(*activations),
    "loss": _among(*losses),
    "hidden_layer_sizes": lambda v: isinstance(v, tuple) and all(map(_whole(1), v)),
    "layer_messages": _among("exact", "bfloat16", "8bit"),
}
# What the library may call the data, in its own words or in scikit-learn's.
ROWS = {"X", "x", "sample", "samples", "rows", "feature", "features"}
TARGETS = {"y", "Y", "class", "classes", "target", "targets"}


def faulty(given):
    """The arguments whose values no run could take."""
    return {name for name, value in given.items() if name in VALID and not VALID[name](value)}


def data_at_fault(X, y, weights, *, classify, columns=None):
    """Words for what is wrong with rows, targets or weights; none where nothing is."""
    words = set()
    with np.errstate(all="ignore"):
        rows = np.asarray(X, "float32")
        size = rows.size // max(1, len(rows))
        few = not rows.size or len(rows) < 2 or size != (size if columns is None else columns)
        if few or not np.isfinite(rows).all():
            words |= ROWS
        if classify and (len(np.unique(y)) < 2 or np.ndim(y) > 1 or len(y) < 10):
            words |= TARGETS
        if not classify and not np.isfinite(np.square(np.asarray(y, "float32"))).all():
            words |= TARGETS
        if weights is not None:
            total = np.asarray(weights, "float32").sum()
            if len(weights) != len(rows) or np.min(weights, initial=0) < 0 or not 0 < total < 1e30:
                words |= {"sample_weight", "weights"}
    return words


def check_refusal(error, given, data=frozenset(), also=frozenset()):
    """One sentence about something that was given: where a value is bad, about that one, or about
    another that it quotes. also: arguments that may be at fault too, which is not known here."""
    text = str(error)
    words = set(re.findall(r"[A-Za-z]\w*", text))
    bad = faulty(given) | data
    quoted = any(f"{name}={value!r}" in text for name, value in given.items())
    expected = bad | also if bad else set(given)
    if any(isinstance(v, int) and v > 10**6 for v in given.values()):
        expected = expected | {"memory"}
    assert quoted or words & expected, f"{text!r} names none of {expected}"
    if not words & ROWS:  # scikit-learn has more to say of those
        assert "\n" not in text, text
    return "refused"
