"""Estimators of convolutional, recurrent and residual networks, on samples of their own shapes."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dladmm import DLADMMClassifier, DLADMMRegressor, Network
from dladmm.data.sequences import padded
from dladmm.network import Conv2D, Dense, MaxPool, Recurrent, Residual
from dladmm.terms.regularizers import L1

DIGITS = load_digits()
IMAGES, LABELS = DIGITS.images[:400, ..., None], DIGITS.target[:400]
CNN = Network((8, 8, 1), [Conv2D(8, 3), "relu", MaxPool(2), Dense(10)])
FAST = {"random_state": 0, "max_iter": 12, "engine": "numpy"}


@pytest.fixture(scope="module")
def fitted():
    return DLADMMClassifier(network=CNN, **FAST).fit(IMAGES, LABELS)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_images_are_classified(fitted):
    rest = slice(400, 800)
    assert fitted.score(DIGITS.images[rest, ..., None], DIGITS.target[rest]) > 0.85
    assert fitted.n_features_in_ == 64
    assert [W.shape for W in fitted.coefs_] == [(9, 8), (72, 10)]


def test_any_form_of_the_same_samples_gives_the_same(fitted):
    """With a channel, without, and as rows."""
    expected = fitted.predict_proba(IMAGES)
    np.testing.assert_array_equal(fitted.predict_proba(IMAGES[..., 0]), expected)
    np.testing.assert_array_equal(fitted.predict_proba(IMAGES.reshape(len(IMAGES), -1)), expected)


def test_a_model_file_and_a_pickle_hold_the_network(fitted, tmp_path):
    fitted.save(tmp_path / "digits.model")
    loaded = DLADMMClassifier.load(tmp_path / "digits.model")
    assert loaded.network == CNN
    assert loaded.layers_ == fitted.layers_
    expected = fitted.predict_proba(IMAGES)
    np.testing.assert_array_equal(loaded.predict_proba(IMAGES), expected)
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(fitted)).predict_proba(IMAGES), expected
    )
    assert clone(fitted).network == CNN


def test_a_network_is_drawn_and_reported(fitted):
    """Its pixels share their weights, so that those are tried which vary most."""
    assert "<svg" in fitted._repr_mimebundle_()["text/html"]
    page = fitted.report(IMAGES[:100], LABELS[:100])
    assert "those that vary most" in str(page.html)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("unit", [1e-6, 1e6])
@pytest.mark.parametrize("network", [CNN, Network((8, 8), [Recurrent(6), Dense(10)])])
def test_the_unit_of_images_does_not_matter(network, unit):
    model = DLADMMClassifier(network=network, **FAST | {"max_iter": 4, "dtype": "float64"})
    images = IMAGES[:100].reshape(100, *network.in_shape)
    expected = clone(model).fit(images, LABELS[:100]).predict_proba(images)
    found = clone(model).fit(unit * images, LABELS[:100]).predict_proba(unit * images)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_skip_from_the_inputs_adds_them_as_they_are():
    network = Network((64,), [Residual([Dense(64)]), "relu", Dense(10)])
    rows = IMAGES[:100].reshape(100, -1)
    model = DLADMMClassifier(network=network, **FAST | {"max_iter": 6}).fit(rows, LABELS[:100])
    assert model.score(rows, LABELS[:100]) > 0.8


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_pipelines_and_cross_validation_take_rows():
    model = make_pipeline(StandardScaler(), DLADMMClassifier(network=CNN, **FAST | {"max_iter": 5}))
    rows = IMAGES[:200].reshape(200, -1)
    assert cross_val_score(model, rows, LABELS[:200], cv=2).mean() > 0.5


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_regressor_takes_sequences():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 6, 1))
    network = Network((6, 1), [Recurrent(8), Dense(1)])
    model = DLADMMRegressor(network=network, **FAST | {"max_iter": 40})
    model.fit(x, x[:, -3:, 0].sum(axis=1))
    assert model.score(x, x[:, -3:, 0].sum(axis=1)) > 0.8


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_l1_makes_filters_exactly_zero():
    network = Network((8, 8, 1), [Conv2D(8, 3), "relu", Dense(10)])
    model = DLADMMClassifier(network=network, regularizer=[L1(30.0), L1(0.0)], **FAST)
    model.fit(IMAGES / 16, LABELS)
    filters = model.coefs_[0]
    assert (filters == 0).mean() > 0.2
    assert model.score(IMAGES / 16, LABELS) > 0.5


# Sequences of unequal length.


def test_sequences_get_zeros_in_front_and_a_channel_that_says_where_they_are():
    found = padded([[[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]], (3, 3))
    np.testing.assert_array_equal(found[0], [[0, 0, 0], [0, 0, 0], [1, 2, 1]])
    np.testing.assert_array_equal(found[1], [[0, 0, 0], [3, 4, 1], [5, 6, 1]])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_list_of_sequences_is_trained_on():
    rng = np.random.default_rng(0)
    sequences = [rng.normal(size=(rng.integers(2, 6), 1)) for _ in range(120)]
    y = np.array([one[-1, 0] > 0 for one in sequences])
    network = Network((5, 2), [Recurrent(6), Dense(2)])
    model = DLADMMClassifier(network=network, **FAST | {"max_iter": 30}).fit(sequences, y)
    assert model.score(sequences, y) > 0.9


@pytest.mark.parametrize(
    ("network", "X", "sentence"),
    [
        ("lenet", IMAGES, "network='lenet' is not valid; expected a dladmm.Network"),
        (CNN, IMAGES[:, :4], r"X has shape \(400, 4, 8, 1\); expected \(n, 8, 8, 1\)"),
        (CNN, IMAGES.reshape(400, -1)[:, :63], "X has 63 numbers for each sample; expected 64"),
        (
            Network((8, 8, 1), [Dense(3)]),
            IMAGES,
            r"network has outputs of shape \(3,\); expected \(10,\) .* end with Dense\(10\)",
        ),
        (
            Network((2, 2), [Recurrent(3), Dense(10)]),
            [np.ones((3, 1))] * 400,
            "sequences of up to 3 steps .* expected at most 2 steps and 1 channels",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(network, X, sentence):
    with pytest.raises(ValueError, match=sentence):
        DLADMMClassifier(network=network, **FAST).fit(X, LABELS)


def test_a_network_in_the_place_of_sizes_is_refused():
    with pytest.raises(ValueError, match="hidden_layer_sizes is a Network; expected it as network"):
        DLADMMClassifier(CNN, **FAST).fit(IMAGES, LABELS)
