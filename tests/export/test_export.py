"""Exported networks return what the estimator's own predict and predict_proba return."""

import errno
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from dladmm.data.columns import Column, Table
from dladmm.data.preprocessing import TablePreprocessor
from dladmm.estimators import DLADMMClassifier, DLADMMRegressor
from dladmm.export.onnx import to_onnx
from dladmm.export.torch_modules import to_torch
from dladmm.terms.activations import LeakyReLU, QuantizedReLU, activations

pytestmark = [
    pytest.mark.float32,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

X = np.random.default_rng(5).normal(size=(60, 3)).astype(np.float32)
NAMES = np.array(["a", "bé", "c d"])[np.digitize(X[:, 0], [-0.4, 0.4])]
AGREEMENT = 1e-5


def classifier(activation="relu", y=NAMES, **parameters):
    model = DLADMMClassifier((5, 4), activation, max_iter=3, random_state=0, **parameters)
    return model.fit(X, y)


def regressor(y, **parameters):
    return DLADMMRegressor((5,), max_iter=3, random_state=0, **parameters).fit(X, y)


def run_torch(estimator, **options):
    torch = pytest.importorskip("torch", reason="the torch extra is not installed")
    module = to_torch(estimator, **options)
    with torch.no_grad():
        return module(torch.tensor(X, dtype=module[0].weight.dtype)).numpy()


def run_onnx(path, inputs=None):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs or {"X": X}), strict=True))


@pytest.fixture
def path(tmp_path):
    pytest.importorskip("onnx", reason="the onnx extra is not installed")
    return tmp_path / "model.onnx"


ACTIVATIONS = [*activations, LeakyReLU(0.3), QuantizedReLU(0.25, 7), jnp.tanh]


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda a: getattr(a, "__name__", str(a)))
def test_every_activation_agrees(activation, tmp_path):
    model = classifier(activation)
    probabilities = model.predict_proba(X)
    if pytest.importorskip("torch", reason="the torch extra is not installed"):
        assert np.abs(run_torch(model) - probabilities).max() < AGREEMENT
    if pytest.importorskip("onnx", reason="the onnx extra is not installed"):
        for dtype in ("float64", "float32"):
            to_onnx(model, tmp_path / "m.onnx", dtype=dtype)
            out = run_onnx(tmp_path / "m.onnx")
            assert np.abs(out["probabilities"] - probabilities).max() < AGREEMENT
            assert (out["label"] == model.predict(X)).all()


def test_the_comparison_can_fail(path):
    """Control: the same weights with another activation do not agree."""
    model = classifier("relu")
    probabilities = model.predict_proba(X)
    to_onnx(model.set_params(activation="leaky_relu"), path)
    assert np.abs(run_onnx(path)["probabilities"] - probabilities).max() > 100 * AGREEMENT


LABELS = {
    "three": NAMES,
    "two": NAMES > "a",
    "float": (NAMES > "a") * 1.0,
    "int8": (NAMES > "a").astype(np.int8),
    "object": NAMES.astype(object),
}


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("loss", ["log_loss", "binary_log_loss", "hinge"])
def test_every_loss_and_label_agrees(loss, labels, path):
    model = classifier(y=LABELS[labels], loss=loss)
    if loss == "hinge":
        name, expected = "scores", model.decision_function(X).reshape(len(X), -1)
    else:
        name, expected = "probabilities", model.predict_proba(X)
    to_onnx(model, path)
    out = run_onnx(path)
    assert list(out) == ["label", name]
    assert np.abs(out[name] - expected).max() < AGREEMENT
    np.testing.assert_array_equal(out["label"], model.predict(X))
    assert np.abs(run_torch(model) - expected).max() < AGREEMENT


@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
def test_several_labels_agree(loss, path):
    model = classifier(y=X > 0.3, loss=loss)
    if loss == "hinge":
        name, expected = "scores", model.decision_function(X)
    else:
        name, expected = "probabilities", model.predict_proba(X)
    to_onnx(model, path)
    out = run_onnx(path)
    assert list(out) == ["label", name]
    assert np.abs(out[name] - expected).max() < AGREEMENT
    np.testing.assert_array_equal(out["label"], model.predict(X))
    assert out["label"].dtype == model.predict(X).dtype
    assert np.abs(run_torch(model) - expected).max() < AGREEMENT
    # Control: a softmax over the labels, as for classes, is something else.
    model.multilabel_ = False
    model.loss = "log_loss"
    assert np.abs(run_torch(model) - expected).max() > 100 * AGREEMENT


@pytest.mark.parametrize("columns", [None, 2])
@pytest.mark.parametrize(
    "loss", ["squared_error", "huber", "absolute_error", "quantile", "poisson"]
)
def test_regressions_agree(loss, columns, path):
    y = np.abs(X[:, 0] if columns is None else X[:, :columns])
    model = regressor(y, loss=loss)
    predicted = model.predict(X)
    assert to_onnx(model, path) == []
    np.testing.assert_allclose(run_onnx(path)["prediction"], predicted, rtol=AGREEMENT)
    torch = pytest.importorskip("torch", reason="the torch extra is not installed")
    np.testing.assert_allclose(run_torch(model, dtype=torch.float64), predicted, rtol=AGREEMENT)
    # In float32 a value near zero has the rounding of the larger ones it is the difference of.
    size = np.abs(predicted).max()
    np.testing.assert_allclose(run_torch(model), predicted, rtol=AGREEMENT, atol=AGREEMENT * size)


def test_the_sequential_is_made_of_torchs_own_modules():
    torch = pytest.importorskip("torch", reason="the torch extra is not installed")
    module = to_torch(classifier(y=NAMES > "a", loss="binary_log_loss"))
    kinds = [type(layer).__name__ for layer in module]
    assert kinds == ["Linear", "ReLU", "Linear", "ReLU", "Linear", "Softmax"]
    assert module[0].weight.dtype == torch.get_default_dtype()


def test_the_file_passes_onnx_checker_and_takes_any_number_of_rows(path):
    onnx = pytest.importorskip("onnx", reason="the onnx extra is not installed")
    model = classifier()
    to_onnx(model, path)
    onnx.checker.check_model(path, full_check=True)
    one = run_onnx(path, {"X": X[:1]})
    assert one["label"].shape == (1,)
    np.testing.assert_allclose(one["probabilities"], model.predict_proba(X[:1]), atol=AGREEMENT)


def test_what_cannot_be_exported_is_refused(path):
    pytest.importorskip("torch", reason="the torch extra is not installed")
    mine = classifier(activation=lambda z: jnp.sin(z))
    with pytest.raises(ValueError, match="cannot be exported to ONNX; expected one of"):
        to_onnx(mine, path)
    with pytest.raises(ValueError, match="no PyTorch module; expected one of"):
        to_torch(mine)
    with pytest.raises(ValueError, match="dtype='float16' is unknown"):
        to_onnx(classifier(), path, dtype="float16")
    assert not path.exists()


@pytest.mark.parametrize(
    ("package", "export", "ours"),
    [
        ("torch", lambda model: model.to_torch(), ["dladmm.export.torch_modules"]),
        ("onnx", lambda model: model.to_onnx("never.onnx"), ["dladmm.export.onnx_graph"]),
    ],
)
def test_a_missing_package_is_one_sentence(package, export, ours, monkeypatch):
    model = classifier()
    monkeypatch.setitem(sys.modules, package, None)
    for module in ours:
        monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(ImportError, match=rf"pip install 'dladmm\[{package}\]'"):
        export(model)


def test_a_full_disk_keeps_the_older_file(path, monkeypatch):
    path.write_bytes(b"older")

    def fill_up(self, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fill_up)
    with pytest.raises(OSError, match="No space left"):
        to_onnx(classifier(), path)
    assert path.read_bytes() == b"older"
    assert list(path.parent.iterdir()) == [path]


# With preprocessing: the graph takes the table's own columns.

ROWS = 60
RNG = np.random.default_rng(11)
CITY = np.array(["Köln", "Rom", "Oslo"], dtype=object)[RNG.integers(0, 3, ROWS)]
CITY[5] = None
PLANT = np.array(["oak", "elm"], dtype=object)[RNG.integers(0, 2, ROWS)]
SIZE = 1e6 + RNG.normal(size=ROWS)
SIZE[[3, 7]] = np.nan
DAYS = 19_000 + np.arange(ROWS) / 2
TABLE = Table(
    (
        Column("size, m", "number", SIZE),
        Column("city", "text", CITY),
        Column("label", "boolean", (DAYS % 2 < 1).astype(float)),
        Column("plant", "text", PLANT),
        Column("when", "date", DAYS),
        Column(
            "kind", "text", np.where(np.isnan(SIZE) | (SIZE > 1e6), "big", "low").astype(object)
        ),
        Column("price", "number", 500 + 100 * np.nan_to_num(SIZE - 1e6)),
    ),
    ROWS,
)


def raw_inputs(table, skip):
    """What a caller of the ONNX file passes: strings with "" for missing, else doubles."""
    inputs = {}
    for column in table.columns:
        if column.name == skip:
            continue
        name = "column_2" if column.name == "label" else column.name
        cells = column.values
        if column.kind == "text":
            cells = np.array(["" if cell is None else cell for cell in cells], dtype=object)
        inputs[name] = cells[:, None]
    return inputs


@pytest.mark.filterwarnings("ignore:the column 'label':UserWarning")
@pytest.mark.parametrize("target", ["kind", "price"])
def test_preprocessing_is_in_the_graph(target, path):
    prepared = TablePreprocessor.fit(TABLE, target)
    features = prepared.transform(TABLE.without(target))
    y = prepared.target.encode(TABLE.column(target))
    kind = DLADMMClassifier if target == "kind" else DLADMMRegressor
    model = kind((5,), max_iter=5, random_state=0).fit(features, y)
    with pytest.warns(UserWarning, match="ONNX cannot read dates"):
        said = to_onnx(model, path, prepared.to_dict())
    assert said == [
        "the column 'label' is the input 'column_2' of the ONNX model",
        "ONNX cannot read dates: the input 'when' takes days since 1970-01-01 UTC",
    ]
    out = run_onnx(path, raw_inputs(TABLE, target))
    if target == "kind":
        np.testing.assert_array_equal(out["label"], model.predict(features))
        np.testing.assert_allclose(
            out["probabilities"], model.predict_proba(features), atol=AGREEMENT
        )
    else:
        predicted = prepared.target.decode(model.predict(features))
        assert np.ptp(predicted) > 1  # control: the prediction is in the target's units
        np.testing.assert_allclose(out["prediction"], predicted, rtol=AGREEMENT)


@pytest.mark.filterwarnings("ignore:the column 'label':UserWarning")
@pytest.mark.filterwarnings("ignore:ONNX cannot read dates:UserWarning")
@pytest.mark.filterwarnings("ignore:column 'plant' has the category:UserWarning")
def test_missing_and_unseen_cells_agree(path):
    prepared = TablePreprocessor.fit(TABLE, "price")
    features = prepared.transform(TABLE.without("price"))
    model = DLADMMRegressor((5,), max_iter=3).fit(features, features[:, 0])
    to_onnx(model, path, prepared.to_dict())
    rows = []
    for column in TABLE.without("price").columns:
        cells = column.values[:3].copy()
        # Row 0 misses every cell; row 1 has a category nobody has seen.
        cells[0] = None if column.kind == "text" else np.nan
        if column.name == "plant":
            cells[1] = "fern"
        rows.append(Column(column.name, column.kind, cells))
    few = Table(tuple(rows), 3)
    out = run_onnx(path, raw_inputs(few, None))
    predicted = prepared.target.decode(model.predict(prepared.transform(few)))
    np.testing.assert_allclose(out["prediction"], predicted, rtol=AGREEMENT)


def test_other_categories_and_numbers_as_text_agree(path):
    many = [f"c{i}" for i in range(120)] * 2
    money = [f"${i % 50},000.50" for i in range(240)]
    table = Table(
        (
            Column("many", "text", np.array(many, dtype=object)),
            Column("money", "text", np.array(money, dtype=object)),
            Column("y", "number", np.sin(np.arange(240.0))),
        ),
        240,
    )
    with pytest.warns(UserWarning, match="column"):
        prepared = TablePreprocessor.fit(table, "y")
    features = prepared.transform(table)
    model = DLADMMRegressor((5,), max_iter=3).fit(
        features, prepared.target.encode(table.column("y"))
    )
    with pytest.warns(UserWarning, match="ONNX cannot read numbers as text"):
        said = to_onnx(model, path, prepared.to_dict())
    assert said == [
        "ONNX cannot read numbers as text: the input 'money' takes numbers in the unit '$'"
    ]
    numbers = np.array([1000.0 * (i % 50) + 0.5 for i in range(240)])
    out = run_onnx(path, {"many": np.array(many, dtype=object)[:, None], "money": numbers[:, None]})
    predicted = prepared.target.decode(model.predict(features))
    np.testing.assert_allclose(out["prediction"], predicted, rtol=AGREEMENT)


def test_columns_of_an_array_are_one_input(path):
    table = Table(tuple(Column(f"x{j}", "number", 9 + 3 * X[:, j]) for j in range(3)), len(X))
    table = Table((*table.columns, Column("y", "text", NAMES.astype(object))), len(X))
    prepared = TablePreprocessor.fit(table, "y")
    features = prepared.transform(table.without("y"))
    model = DLADMMClassifier((5,), max_iter=3).fit(features, NAMES)
    assert to_onnx(model, path, prepared.to_dict()) == []
    out = run_onnx(path, {"X": 9 + 3 * X})
    np.testing.assert_allclose(out["probabilities"], model.predict_proba(features), atol=AGREEMENT)


def test_preprocessing_of_another_model_is_refused(path):
    prepared = TablePreprocessor.fit(TABLE, "price")
    with pytest.raises(ValueError, match=r"preprocessing gives \d+ features; expected 3"):
        to_onnx(classifier(), path, prepared.to_dict())
