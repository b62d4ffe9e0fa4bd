"""Standard deviations of predictions: against Bayesian regression, and against what they cover."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from tolerances import EXACT_STEP

from dladmm import DLADMMClassifier, DLADMMRegressor
from dladmm.core.params import Params
from dladmm.core.predict import predict_leverage
from dladmm.core.problem import Problem
from dladmm.core.restored.evidence import last_layer_covariance

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
NINETY = 1.6448536269514722  # standard deviations each side


def test_a_linear_model_has_the_variances_of_bayesian_regression():
    """Of b + x w with w ~ N(0, 1/alpha), b ~ N(0, 1e9), as a Gaussian process has them."""
    rng = np.random.default_rng(0)
    x, new, alpha = rng.normal(size=(30, 4)), rng.normal(size=(5, 4)), 0.8
    problem = Problem.dense((4, 1), loss="squared_error")
    with_one = np.column_stack([x, np.ones(30)])
    C = last_layer_covariance(problem, with_one.T @ with_one, alpha)
    found = predict_leverage(problem, Params((np.ones((1, 4)),), (np.ones(1),)), new, C)
    prior = np.diag([*np.full(4, 1 / alpha), 1e9])
    rows = np.column_stack([new, np.ones(5)])
    across = rows @ prior @ with_one.T
    gain = np.linalg.solve(with_one @ prior @ with_one.T + np.eye(30), across.T)
    exact = np.sum(rows @ prior * rows, axis=1) - np.sum(across * gain.T, axis=1)
    np.testing.assert_allclose(found, exact, rtol=1e-5)  # a prior of 1e9 has lost its last digits
    assert np.abs(found / (exact * 1.01) - 1).min() > 0.005  # a control


@pytest.fixture(scope="module")
def diabetes():
    return train_test_split(*load_diabetes(return_X_y=True), test_size=0.4, random_state=0)


@pytest.fixture(scope="module")
def fitted(diabetes):
    X, _, y, _ = diabetes
    return DLADMMRegressor((20,), random_state=0).fit(X, y)


def test_ninety_percent_intervals_hold_ninety_percent(fitted, diabetes):
    _, X, _, y = diabetes
    predicted, std = fitted.predict(X, return_std=True)
    np.testing.assert_array_equal(predicted, fitted.predict(X))
    assert std.shape == y.shape
    held = np.mean(np.abs(predicted - y) <= NINETY * std)
    assert 0.85 <= held <= 0.95
    assert np.mean(np.abs(predicted - y) <= NINETY * std / 2) < 0.75  # a control


def test_they_are_in_the_unit_of_the_target_and_grow_away_from_the_rows(fitted, diabetes):
    X, _, y, _ = diabetes
    std = fitted.predict(X, return_std=True)[1]
    more = DLADMMRegressor((20,), random_state=0).fit(X, 1e3 * y).predict(X, return_std=True)[1]
    np.testing.assert_allclose(more, 1e3 * std, rtol=1e-6)
    assert fitted.predict(20 * X, return_std=True)[1].mean() > 1.5 * std.mean()


def test_a_model_without_hidden_layers_has_them_in_any_unit(diabetes):
    X, new, y, _ = diabetes
    fit = lambda factor: DLADMMRegressor((), random_state=0).fit(factor * X, y)  # noqa: E731
    expected = fit(1.0).predict(new, return_std=True)[1]
    np.testing.assert_allclose(fit(1e3).predict(1e3 * new, return_std=True)[1], expected, rtol=1e-6)
    factors = 10.0 ** np.arange(-5, 5)  # which are standardised, where the others are not
    spread = fit(factors).predict(factors * new, return_std=True)[1]
    np.testing.assert_allclose(spread, expected, rtol=0.05)
    assert expected.max() > 1.01 * expected.min()


def test_a_fit_too_short_to_find_the_noise_has_none(diabetes):
    X, _, y, _ = diabetes
    model = DLADMMRegressor((5,), max_iter=9, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="return_std=True needs the noise"):
        model.predict(X, return_std=True)


def test_several_outputs_have_each_their_own(diabetes):
    X, _, y, _ = diabetes
    model = DLADMMRegressor((10,), random_state=0, max_iter=30).fit(X, np.column_stack([y, 9 * y]))
    std = model.predict(X, return_std=True)[1]
    np.testing.assert_allclose(std[:, 1], 9 * std[:, 0], rtol=EXACT_STEP)


def test_a_model_file_keeps_them(fitted, diabetes, tmp_path):
    fitted.save(tmp_path / "m")
    again = DLADMMRegressor.load(tmp_path / "m")
    for one, two in zip(
        fitted.predict(diabetes[1], return_std=True),
        again.predict(diabetes[1], return_std=True),
        strict=True,
    ):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    "settings",
    [
        {"alpha": 1.0},
        {"method": "dladmm"},
        {"batch_size": 50},
        {"early_stopping": True},
        {"loss": "huber"},
    ],
)
def test_where_there_is_no_posterior_they_are_refused_by_name(diabetes, settings, tmp_path):
    X, _, y, _ = diabetes
    model = DLADMMRegressor((20,), random_state=0, max_iter=3, **settings).fit(X, y)
    model.save(tmp_path / "m")
    for one in (model, DLADMMRegressor.load(tmp_path / "m")):
        with pytest.raises(ValueError, match="return_std=True needs the noise that alpha="):
            one.predict(X, return_std=True)


def test_a_classifier_keeps_none(diabetes):
    X, _, y, _ = diabetes
    assert DLADMMClassifier((5,), max_iter=2, random_state=0).fit(X, y > 150).covariance_ is None
