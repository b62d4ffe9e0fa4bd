"""Real images through convolutions: activations without a derivative, weights of one sign."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from dladmm import DLADMMClassifier, NonNegative, Options, Problem, solve
from dladmm.network import AveragePool, Conv2D, Dense, MaxPool, Network

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

IMAGES, DIGITS = load_digits().images / 16, load_digits().target
TRAIN, TEST = slice(0, 600), slice(600, 1000)
CODES = np.eye(10)[DIGITS[TRAIN]]
FLAT = ("sign", "step", "quantized_relu")
LOCAL = {"dtype": "float64", "engine": "numpy", "tol": None}


def network_of(activation, pool=MaxPool):
    return Network((8, 8, 1), [Conv2D(8, 3), activation, pool(2), Dense(10)])


def fitted(activation, **how):
    model = DLADMMClassifier(network=network_of(activation), random_state=0, engine="numpy", **how)
    return model.fit(IMAGES[TRAIN], DIGITS[TRAIN])


def score(model):
    return model.score(IMAGES[TEST], DIGITS[TEST])


@pytest.mark.parametrize("activation", FLAT)
def test_restored_sweeps_train_filters_under_a_flat_activation(activation):
    """By targets, as a gradient would leave every filter where it began."""
    problem = Problem.of_network(network_of(activation))
    result = solve(problem, IMAGES[TRAIN, ..., None], CODES, options=Options(max_iter=40, **LOCAL))
    start = solve(problem, IMAGES[TRAIN, ..., None], CODES, options=Options(max_iter=1, **LOCAL))
    moved = np.abs(result.params.W[0] - start.params.W[0]).max()
    losses = np.array(result.history["lagrangian"])
    assert (np.diff(losses) <= 0).all()
    assert moved > 1e-3
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("how", [{}, {"batch_size": 100}], ids=["full batch", "mini-batches"])
@pytest.mark.parametrize("activation", FLAT)
def test_they_classify_images_that_they_have_not_seen(activation, how):
    assert score(fitted(activation, max_iter=30, **how)) > 0.7  # chance has 0.1


@pytest.mark.parametrize("activation", FLAT)
@pytest.mark.parametrize("pool", [MaxPool, AveragePool])
def test_dladmm_descends_with_a_flat_activation(activation, pool):
    problem = Problem.of_network(network_of(activation, pool))
    options = Options(method="dladmm", rho=1.5, max_iter=50, **LOCAL)
    certificate = solve(
        problem, IMAGES[:100, ..., None], np.eye(10)[DIGITS[:100]], options=options
    ).certificate
    assert certificate.rho_exceeds_2H
    assert certificate.rises == 0
    assert certificate.sufficient_descent


@pytest.mark.parametrize(
    "how",
    [{}, {"batch_size": 100}, {"method": "dladmm"}],
    ids=["full batch", "mini-batches", "dladmm"],
)
def test_filters_without_negative_weights(how):
    model = fitted("relu", regularizer=[NonNegative(), "l2"], max_iter=40, tol=None, **how)
    filters = model.coefs_[0]
    assert (filters >= 0).all()
    assert (filters > 0).any(axis=0).sum() >= 2  # the constraint has not switched them all off
    assert (model.coefs_[1] < 0).any()  # the other layer is free
    assert score(model) > 0.75


def test_filters_have_negative_weights_without_the_constraint():
    """A control."""
    assert (fitted("relu", max_iter=40).coefs_[0] < 0).any()
