"""A user's own layer, one class and one registry line, goes all the way: every method trains it,
model files and checkpoints hold it, and exports that do not know it refuse it by name."""

import warnings
from copy import copy
from dataclasses import dataclass

import numpy as np
import pytest
from layer_examples import Selected
from sklearn.exceptions import ConvergenceWarning
from tolerances import WEIGHTED_RUN

from dladmm import Checkpoints, DLADMMClassifier, Options, Problem, solve
from dladmm.core.initial import initial_params
from dladmm.estimators.model_files import load_model, save_model
from dladmm.terms.layers import Dense, layers

SEEN = (0, 1, 3)
LAYER = Selected(4, SEEN, 6)


@pytest.fixture(scope="module")
def rows():
    x = np.random.default_rng(0).normal(size=(120, 4))
    return x, (np.abs(x[:, 0]) + x[:, 3] > 0.7).astype(int)


@pytest.fixture(scope="module")
def fitted(rows):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return DLADMMClassifier((LAYER,), max_iter=40, random_state=0).fit(*rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("dladmm", {}),
        ("dladmm", {"step_rule": "closed-form"}),
        ("admm", {"rho": 1.0}),
        ("restored", {}),
        ("restored", {"batch_size": 40}),
    ],
    ids=["dladmm", "vectors", "admm", "restored", "mini-batches"],
)
def test_every_method_trains_it(rows, method, more):
    """As it trains a dense layer on the inputs that are seen, from the same weights."""
    x, y = rows
    own = Problem.of_layers((LAYER, Dense((6,), 2)), "tanh", "log_loss", "l2")
    narrow = Problem.dense((3, 6, 2), "tanh", "log_loss", "l2")
    start = initial_params(narrow, "he", 0, np.dtype("float64"))
    options = Options(method=method, max_iter=30, tol=None, dtype="float64", **more)
    found, expected = (
        solve(problem, inputs, np.eye(2)[y], params=start, options=options).history["lagrangian"]
        for problem, inputs in ((own, x), (narrow, x[:, SEEN]))
    )
    assert found == pytest.approx(expected, rel=WEIGHTED_RUN)
    assert found[-1] < found[0]


def test_what_is_not_seen_does_not_matter(rows, fitted):
    x, _ = rows
    hidden = x.copy()
    hidden[:, 2] = 1e6
    np.testing.assert_array_equal(fitted.predict_proba(x), fitted.predict_proba(hidden))
    hidden[:, 0] = 1e6  # control: this one is seen
    assert not np.array_equal(fitted.predict_proba(x), fitted.predict_proba(hidden))


def test_it_is_saved_and_loaded(rows, fitted, tmp_path):
    save_model(tmp_path / "m", fitted)
    loaded = load_model(tmp_path / "m")
    assert loaded.metadata["layers"][0] == {
        "layer": "selected", "inputs": 4, "seen": [0, 1, 3], "outputs": 6
    }  # fmt: skip
    assert loaded.estimator.layers_ == fitted.layers_
    assert loaded.estimator.hidden_layer_sizes == (LAYER,)
    x, _ = rows
    np.testing.assert_array_equal(loaded.estimator.predict_proba(x), fitted.predict_proba(x))


def test_a_file_with_it_is_refused_where_it_is_not_registered(fitted, tmp_path, monkeypatch):
    save_model(tmp_path / "m", fitted)
    monkeypatch.delitem(layers._classes, "selected")
    with pytest.raises(ValueError, match="'selected' is not registered here"):
        load_model(tmp_path / "m")


def test_a_run_with_it_goes_on_from_a_checkpoint(rows, tmp_path):
    x, y = rows
    problem = Problem.of_layers((LAYER, Dense((6,), 2)), "tanh")

    def run(max_iter, checkpoints=None):
        options = Options(max_iter=max_iter, tol=None, dtype="float64")
        return solve(problem, x, np.eye(2)[y], options=options, checkpoints=checkpoints)

    keeping = Checkpoints(tmp_path / "run", every=4, resume=True)
    run(5, keeping)
    resumed = run(9, keeping)
    assert resumed.resumed_from == 4
    assert resumed.history["train_loss"] == run(9).history["train_loss"]
    other = Problem.of_layers((Selected(4, (0, 1, 2), 6), Dense((6,), 2)), "tanh")
    with pytest.raises(ValueError, match=r"layer 1 .*'seen': \[0, 1, 3\].* instead of"):
        solve(
            other, x, np.eye(2)[y], options=Options(max_iter=9, tol=None, dtype="float64"),
            checkpoints=keeping,
        )  # fmt: skip


def test_exports_refuse_it_by_name(fitted, tmp_path):
    with pytest.raises(ValueError, match="Selected cannot be exported to ONNX"):
        fitted.to_onnx(tmp_path / "m.onnx")
    with pytest.raises(ValueError, match="Selected has no PyTorch module"):
        fitted.to_torch()
    assert not list(tmp_path.iterdir())


def test_exports_refuse_a_kind_of_dense_layer_too(fitted, tmp_path):
    """It may be another map: exporting it as a dense layer would be wrong without a word."""

    @dataclass(frozen=True)
    class Halved(Dense):
        def expand(self, a):
            return super().expand(a) / 2

    other = copy(fitted)
    other.layers_ = (Halved((4,), 6), Dense((6,), 2))
    with pytest.raises(ValueError, match="Halved cannot be exported to ONNX"):
        other.to_onnx(tmp_path / "m.onnx")
    with pytest.raises(ValueError, match="Halved has no PyTorch module"):
        other.to_torch()
