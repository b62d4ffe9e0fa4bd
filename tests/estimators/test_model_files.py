"""A model file gives back the same model, or says in one sentence why it cannot."""

import errno
import json
import warnings
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save_file
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from dladmm.core.relaxed.schedules import Multiply
from dladmm.core.relaxed.step_rules import Backtracking, Matrix
from dladmm.estimators import DLADMMClassifier, DLADMMRegressor, model_files
from dladmm.estimators.model_files import load_estimator, load_model, save_model
from dladmm.io import model_file
from dladmm.io.model_file import ModelFileError
from dladmm.terms.activations import LeakyReLU, QuantizedReLU, activations
from dladmm.terms.regularizers import L1, NonNegative, Regularizer

pytestmark = [
    pytest.mark.float32,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

X = np.random.default_rng(3).normal(size=(40, 3))
CODES = np.digitize(X[:, 0] + X[:, 1] ** 2, [0.0, 1.0])
PREPROCESSING = {"columns": [{"name": "größe", "mean": 0.1, "scale": 2.5}], "fill": None}


def classifier(y=CODES, **parameters):
    return DLADMMClassifier((4,), max_iter=3, random_state=0, **parameters).fit(X, y)


@pytest.fixture(scope="module")
def fitted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return classifier()


@pytest.fixture
def path(tmp_path, fitted):
    save_model(tmp_path / "model.safetensors", fitted, PREPROCESSING)
    return tmp_path / "model.safetensors"


LABELS = {
    "int64": CODES,
    "int8": CODES.astype(np.int8),
    "float": CODES.astype(np.float32),
    "bool": CODES > 0,
    "str": np.array(["ä", "b", "long"])[CODES],
    "object": np.array(["ä", "b", "long"], dtype=object)[CODES],
}


@pytest.mark.parametrize("labels", LABELS)
def test_classes_keep_their_values_and_their_dtype(labels, tmp_path):
    saved = classifier(LABELS[labels])
    save_model(tmp_path / "m", saved)
    loaded = load_model(tmp_path / "m").estimator
    assert loaded.classes_.dtype == saved.classes_.dtype
    assert type(loaded.classes_[0]) is type(saved.classes_[0])
    np.testing.assert_array_equal(loaded.predict(X), saved.predict(X))
    np.testing.assert_array_equal(loaded.predict_proba(X), saved.predict_proba(X))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("columns", [None, 2])
def test_a_regressor_comes_back_bit_for_bit(dtype, columns, tmp_path):
    y = X[:, 0] if columns is None else X[:, :columns]
    saved = DLADMMRegressor((4, 3), dtype=dtype, max_iter=3, random_state=0).fit(X, y)
    save_model(tmp_path / "m", saved)
    loaded = load_model(tmp_path / "m").estimator
    assert loaded.coefs_[0].dtype == dtype
    assert loaded.predict(X).shape == y.shape
    np.testing.assert_array_equal(loaded.predict(X), saved.predict(X))


def test_everything_fitted_comes_back(path, fitted):
    model = load_model(path)
    loaded = model.estimator
    assert vars(loaded).keys() == vars(fitted).keys()
    assert loaded.get_params() == fitted.get_params()
    assert repr(loaded.certificate_) == repr(fitted.certificate_)  # NaN is not itself
    assert loaded.certificate_.to_dict() == fitted.certificate_.to_dict()
    assert list(loaded.history_) == list(fitted.history_)
    for name, values in fitted.history_.items():
        np.testing.assert_array_equal(loaded.history_[name], values)
    assert model.preprocessing == PREPROCESSING
    assert model.metadata["format_version"] == model_file.FORMAT_VERSION
    assert model.metadata["layers"] == [
        {"layer": "dense", "inputs": [3], "outputs": 4},
        {"layer": "dense", "inputs": [4], "outputs": 3},
    ]


def test_a_loaded_model_can_be_trained_further(path, fitted):
    loaded = load_model(path).estimator
    before = loaded.coefs_[0].copy()
    loaded.partial_fit(X, CODES)
    assert not np.array_equal(before, loaded.coefs_[0])
    warm = load_model(path).estimator.set_params(warm_start=True, max_iter=2).fit(X, CODES)
    assert warm.loss_ < fitted.loss_


def test_feature_names_and_early_stopping_come_back(tmp_path):
    pd = pytest.importorskip("pandas", reason="feature names come from a data frame")
    frame = pd.DataFrame(X, columns=["a", "ö", "c"])
    saved = DLADMMClassifier((4,), max_iter=3, early_stopping=True).fit(frame, CODES)
    save_model(tmp_path / "m", saved)
    loaded = load_model(tmp_path / "m").estimator
    np.testing.assert_array_equal(loaded.feature_names_in_, saved.feature_names_in_)
    assert loaded.feature_names_in_.dtype == object
    np.testing.assert_array_equal(loaded.validation_scores_, saved.validation_scores_)
    np.testing.assert_array_equal(loaded.predict(frame), saved.predict(frame))


PARAMETERS = {
    "activation instance": {"activation": LeakyReLU(0.2)},
    "activation list": {"activation": [QuantizedReLU(0.25, 9)]},
    "registered function": {"activation": "tanh"},
    "infinite field": {"regularizer": NonNegative()},
    "regularizer list": {"regularizer": [L1(1e-3), "none"]},
    "schedule": {"rho_schedule": Multiply(1.0, every=2)},
    "step rule": {"step_rule": Backtracking(start=2.0)},
    "matrix steps": {"step_rule": Matrix(0.5)},
    "class weights": {"class_weight": {0: 1.0, 1: 2.0, 2: 0.5}},
    "numpy numbers": {"alpha": np.float32(0.01), "tol": np.float64(1e-3)},
}


@pytest.mark.parametrize("case", PARAMETERS)
def test_parameters_come_back_equal(case, tmp_path):
    saved = classifier(**PARAMETERS[case])
    save_model(tmp_path / "m", saved)
    loaded = load_model(tmp_path / "m").estimator
    assert loaded.get_params() == saved.get_params()
    np.testing.assert_array_equal(loaded.predict_proba(X), saved.predict_proba(X))


def test_a_registered_function_is_stored_by_its_name(tmp_path):
    save_model(tmp_path / "m", classifier(activation=jnp.tanh))
    loaded = load_model(tmp_path / "m").estimator
    assert loaded.activation == activations.get("tanh")


def test_a_file_is_the_same_bytes_each_time(path, fitted, tmp_path):
    save_model(tmp_path / "again", fitted, PREPROCESSING)
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


# What is refused when saving.


def test_a_users_function_is_refused(tmp_path):
    model = classifier(activation=lambda z: jnp.sin(z))
    with pytest.raises(ValueError, match=r"activation=.* is a Python function"):
        save_model(tmp_path / "m", model)
    with pytest.raises(ValueError, match="Python function"):
        save_model(tmp_path / "m", classifier(activation=jax.nn.silu))
    assert not list(tmp_path.iterdir())


def test_a_term_of_an_unregistered_class_is_refused(tmp_path):
    @dataclass(frozen=True)
    class Mine(Regularizer):
        pass

    with pytest.raises(ValueError, match=r"regularizer=.*Mine.* cannot hold"):
        save_model(tmp_path / "m", classifier(regularizer=Mine()))


def test_a_generator_is_left_out_and_said(tmp_path):
    model = classifier().set_params(random_state=np.random.RandomState(0))
    with pytest.warns(UserWarning, match="random_state"):
        save_model(tmp_path / "m", model)
    assert load_model(tmp_path / "m").estimator.random_state is None


def test_other_objects_are_refused(tmp_path, fitted):
    with pytest.raises(ValueError, match=r"estimator is a list.*DLADMMClassifier"):
        save_model(tmp_path / "m", [])
    with pytest.raises(NotFittedError):
        save_model(tmp_path / "m", DLADMMClassifier())
    with pytest.raises(ValueError, match="preprocessing is not plain JSON"):
        save_model(tmp_path / "m", fitted, {"a": object()})


def test_a_full_disk_keeps_the_older_file(path, monkeypatch):
    older = path.read_bytes()

    def fill_up(self, data):
        with self.open("wb") as file:
            file.write(data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    other = classifier(CODES > 0)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", fill_up)
        with pytest.raises(OSError, match="No space left"):
            save_model(path, other)
    assert path.read_bytes() == older
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    save_model(path, other)  # control: without the full disk the same call replaces it
    assert path.read_bytes() != older


# What is refused when loading.


def test_every_flipped_bit_pattern_is_noticed(path):
    """One byte changed, at places all over the file: header, metadata, arrays."""
    whole = path.read_bytes()
    load_model(path)  # control
    for position in (*range(0, 60), *range(60, len(whole), 41), len(whole) - 1):
        changed = bytearray(whole)
        changed[position] ^= 0x20
        path.write_bytes(changed)
        with pytest.raises(ModelFileError, match=path.name):
            load_model(path)


def test_a_changed_array_is_corrupted(path):
    whole = bytearray(path.read_bytes())
    whole[-1] ^= 1
    path.write_bytes(whole)
    with pytest.raises(ModelFileError, match="corrupted: its checksum"):
        load_model(path)


def test_a_broken_header_is_corrupted(path):
    path.write_bytes(path.read_bytes().replace(b'"coefs.0":{', b'"coefs.0":['))
    with pytest.raises(ModelFileError, match=r"corrupted: its header"):
        load_model(path)


def test_changed_metadata_is_corrupted(path):
    assert path.read_bytes().count(b"fitted") == 1
    path.write_bytes(path.read_bytes().replace(b"max_iter=3", b"max_iter=4"))
    with pytest.raises(ModelFileError, match=r"corrupted: its checksum"):
        load_model(path)


@pytest.mark.parametrize("kept", [0, 20, 60, 0.3, 0.6, 0.95, -1])
def test_a_cut_file_is_truncated(path, kept):
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole)) if isinstance(kept, float) else kept])
    with pytest.raises(ModelFileError, match=f"{path.name} is truncated"):
        load_model(path)


@pytest.mark.parametrize(
    "content",
    [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(64), b"a,b\n1,2\n", b"\x80\x04K\x01.", b"{}" * 40],
    ids=["png", "text", "pickle", "json"],
)
def test_a_file_of_another_kind_is_foreign(tmp_path, content):
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(ModelFileError, match="m is foreign: not a safetensors file"):
        load_model(tmp_path / "m")


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_another_safetensors_file_is_foreign(tmp_path, metadata):
    save_file({"weight": np.ones(3)}, tmp_path / "m", metadata)
    with pytest.raises(ModelFileError, match=r"foreign: a safetensors file, but not a dladmm"):
        load_model(tmp_path / "m")


def test_a_newer_format_is_refused(tmp_path, fitted, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(model_file, "FORMAT_VERSION", 99)
        patch.setattr(model_file, "__version__", "7.0")
        save_model(tmp_path / "m", fitted)
        load_model(tmp_path / "m")  # control: that version reads it
    with pytest.raises(ModelFileError, match=r"m is newer: .*version 99, written by dladmm 7\.0"):
        load_model(tmp_path / "m")


def test_a_parameter_unknown_here_is_refused(tmp_path, fitted, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(model_files, "_parameters", lambda estimator: {"momentum": 0.9})
        save_model(tmp_path / "m", fitted)
    with pytest.raises(ModelFileError, match=r"does not fit this version.*'momentum'"):
        load_model(tmp_path / "m")


def test_a_term_unknown_here_is_refused(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(activations._classes, "mine", LeakyReLU)
        save_model(tmp_path / "m", classifier(activation="mine"))
        load_model(tmp_path / "m")  # control: where it is registered
    with pytest.raises(ModelFileError, match="'mine'"):
        load_model(tmp_path / "m")


def test_a_missing_file_is_an_oserror(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_model(tmp_path / "nowhere")


def test_the_kind_of_estimator_is_checked(path):
    assert isinstance(load_estimator(path, DLADMMClassifier), DLADMMClassifier)
    with pytest.raises(ModelFileError, match="holds a DLADMMClassifier; expected a DLADMMRegress"):
        load_estimator(path, DLADMMRegressor)


def test_the_metadata_is_readable_json_without_code(path):
    length = int.from_bytes(path.read_bytes()[:8], "little")
    header = json.loads(path.read_bytes()[8 : 8 + length])
    metadata = json.loads(header["__metadata__"]["dladmm"])
    assert metadata["estimator"] == "DLADMMClassifier"
    assert metadata["parameters"]["activation"] == "relu"
    assert metadata["fitted"]["classes_"] == {"$array": [0, 1, 2], "dtype": "<i8"}
