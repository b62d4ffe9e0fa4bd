"""A fit does not depend on the unit of any column, and its network is in the user's units."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_wine
from sklearn.preprocessing import StandardScaler
from tolerances import FLOAT32_UNITS, UNITS

from dladmm import DLADMMClassifier, DLADMMRegressor
from dladmm.core.params import Params
from dladmm.core.predict import predict_output
from dladmm.estimators import parameters
from dladmm.estimators import units as units_of_estimators
from dladmm.estimators.units import Units, as_they_are, input_units, learned, share_a_unit
from dladmm.terms.losses import losses
from dladmm.terms.losses.separable import Huber
from dladmm.terms.regularizers import L1, Box, NonNegative

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
COLUMNS = 10.0 ** np.array([-6, 6, -3, 3, 0, -6, 6, 2, -2, 5])
FACTORS = [(1e6, 1.0), (1e-6, 1.0), (COLUMNS, 1.0), (1.0, 1e8), (1.0, 1e-8)]


@pytest.fixture(scope="module")
def table():
    X, y = load_diabetes(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def predicted(X, y, dtype, **how):
    model = DLADMMRegressor((20,), random_state=0, max_iter=25, dtype=dtype, **how)
    return model.fit(X, y).predict(X)


def furthest(table, factors, dtype, **how):
    """The largest change of a prediction, in the spread of the target."""
    X, y = table
    for_x, for_y = factors
    changed = predicted(X * for_x, y * for_y, dtype, **how) / for_y
    return np.abs(changed - predicted(X, y, dtype, **how)).max() / y.std()


@pytest.mark.parametrize("factors", FACTORS)
@pytest.mark.parametrize(("dtype", "bound"), [("float64", UNITS), ("float32", FLOAT32_UNITS)])
def test_predictions_do_not_depend_on_units(table, factors, dtype, bound):
    assert furthest(table, factors, dtype) < bound


def furthest_probability(table, factor, dtype):
    """The largest change of a probability, of three classes."""
    X, y = table
    classes = np.digitize(y, np.quantile(y, [1 / 3, 2 / 3]))
    fit = lambda x: DLADMMClassifier(  # noqa: E731
        (20,), random_state=0, max_iter=25, dtype=dtype
    ).fit(x, classes)
    return np.abs(fit(X * factor).predict_proba(X * factor) - fit(X).predict_proba(X)).max()


@pytest.mark.parametrize("factor", [1e6, 1e-6, COLUMNS], ids=["1e6", "1e-6", "columns"])
@pytest.mark.parametrize(("dtype", "bound"), [("float64", UNITS), ("float32", FLOAT32_UNITS)])
def test_probabilities_do_not_depend_on_units(table, factor, dtype, bound):
    assert furthest_probability(table, factor, dtype) < bound


@pytest.mark.parametrize("factors", FACTORS)
def test_a_fit_that_tol_ends_ends_at_the_same_iteration(table, factors):
    X, y = table
    for_x, for_y = factors
    one, other = (
        DLADMMRegressor((5,), random_state=0, max_iter=400, tol=1e-2, dtype="float64").fit(*given)
        for given in ((X, y), (X * for_x, y * for_y))
    )
    assert (one.status_, other.status_) == ("tol", "tol")
    assert 1 < one.n_iter_ == other.n_iter_ < 400
    change = other.predict(X * for_x) / for_y - one.predict(X)
    assert np.abs(change).max() < UNITS * y.std()


@pytest.fixture
def unscaled(monkeypatch):
    """A control: rows are trained on as they are."""
    monkeypatch.setattr(parameters, "learned", lambda x, y, weights, loss, *_: as_they_are(loss))


@pytest.mark.parametrize("factors", [(1e-6, 1.0), (COLUMNS, 1.0)])
@pytest.mark.usefixtures("unscaled")
def test_without_the_scaling_they_do(table, factors):
    assert not furthest(table, factors, "float64") < UNITS


# Start and evidence have the target's unit by themselves; a strength that is given has none.
OF_Y = pytest.mark.parametrize("factors", [(1.0, 1e8), (1.0, 1e-8)])


@OF_Y
def test_a_given_strength_is_the_same_in_any_unit_of_y(table, factors):
    assert furthest(table, factors, "float64", alpha=10.0) < UNITS


@OF_Y
@pytest.mark.usefixtures("unscaled")
def test_without_the_scaling_it_is_another_one(table, factors):
    assert not furthest(table, factors, "float64", alpha=10.0) < UNITS


@pytest.mark.usefixtures("unscaled")
def test_without_the_scaling_probabilities_do(table):
    assert not furthest_probability(table, COLUMNS, "float64") < UNITS


def unexplained(table):
    """The share of each of two outputs that is not learned, their scales 1 and 1e5."""
    X, y = table
    Y = np.column_stack([y / y.std(), 1e5 * X[:, 2]])
    model = DLADMMRegressor((20,), random_state=0, max_iter=60).fit(X, Y)
    return np.mean((model.predict(X) - Y) ** 2, axis=0) / Y.var(axis=0)


def test_outputs_of_unlike_scales_are_learned_alike(table):
    first, second = unexplained(table)
    assert first < 0.6
    assert second < 0.1


@pytest.mark.usefixtures("unscaled")
def test_without_the_scaling_the_smaller_is_lost(table):
    assert unexplained(table)[0] > 0.9


def test_raw_wine_is_learned_as_it_is_given():
    X, y = load_wine(return_X_y=True)
    test = np.arange(len(y)) % 4 == 0
    model = DLADMMClassifier((20,), random_state=0, max_iter=60).fit(X[~test], y[~test])
    assert model.score(X[test], y[test]) > 0.9


def test_columns_that_share_a_unit_get_one_scale():
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (50, 30)) * (rng.uniform(size=30) > 0.3)
    centre, scale = input_units(pixels.astype(float), None)
    assert (np.ndim(centre), np.ndim(scale)) == (0, 0)
    mixed = np.column_stack([rng.normal(40, 10, 50), rng.normal(3e4, 1e4, 50), pixels[:, 0] > 99])
    centre, scale = input_units(mixed.astype(float), None)
    np.testing.assert_allclose(centre, [*mixed[:, :2].mean(0), 0])
    np.testing.assert_allclose(scale, [*mixed[:, :2].std(0), 1])  # one-hot codes stay codes
    assert input_units(np.zeros((4, 2)), None) == (0.0, 1.0)


def test_columns_far_from_zero_are_centred_and_codes_stay():
    rng = np.random.default_rng(0)
    kelvin = rng.normal(280, 10, (50, 4))
    codes = rng.integers(0, 2, (50, 3))
    year, constant = 2023.0 + rng.integers(0, 2, 50), np.full(50, 1e7)
    centre, scale = input_units(np.column_stack([kelvin, codes, year, constant]), None)
    np.testing.assert_allclose(centre, [*kelvin.mean(0), 0, 0, 0, year.mean(), 0])
    one = np.sqrt((kelvin.std(0) ** 2).mean())
    np.testing.assert_allclose(scale[:4], one)
    np.testing.assert_allclose(scale[7:], [one, 1e7])  # a year is no wider than a degree
    centre, scale = input_units(np.column_stack([1e-9 * kelvin, codes, year]), None)
    np.testing.assert_allclose(scale, [*[1e-9 * one] * 4, 1, 1, 1, year.std()])
    assert input_units(kelvin, None, by_column=False)[0] == 0  # a convolution has one centre


# What is added to X, or beside it, and has nothing to say: (offset, another column of this size).
FAR_AWAY = {
    "offset": (lambda X, size: X + size, 1e3, 1e6),
    "constant": (lambda X, size: np.c_[X, np.full(len(X), size)], 1e3, 1e9),
    "two values": (lambda X, size: np.c_[X, size * (1 + np.arange(len(X)) % 2)], 1e3, 1e9),
}


@pytest.mark.parametrize("how", FAR_AWAY)
def test_it_does_not_matter_where_zero_is(table, how, monkeypatch):
    X, y = table
    change, near, far = FAR_AWAY[how]
    one, other = (predicted(change(X, size), y, "float64") for size in (near, far))
    assert np.abs(one - other).max() < UNITS * y.std()
    error = np.mean((predicted(X, y, "float64") - y) ** 2)
    assert np.mean((one - y) ** 2) < 1.1 * error
    monkeypatch.setattr(units_of_estimators, "FAR", np.inf)  # a control
    monkeypatch.setattr(units_of_estimators, "WIDE", np.inf)
    assert np.mean((predicted(change(X, near), y, "float64") - y) ** 2) > 1.5 * error


def test_a_file_on_disk_is_not_copied(table, tmp_path):
    X, y = table
    np.save(tmp_path / "x.npy", X * COLUMNS)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    units = learned(np.asarray(mapped), y[:, None], None, losses.get("squared_error"), True)
    assert units.inputs(mapped, "float64") is mapped
    assert units.y_scale == pytest.approx(y.std())


def test_what_counts_as_one_unit():
    assert share_a_unit(np.array([255.0, 200.0, 3.0, 255.0]))
    assert not share_a_unit(np.array([1.0, 2.0, 3.0, 400.0]))
    assert not share_a_unit(np.array([1.0, 2.0, 3.0, 1e-6]))


def test_the_network_of_the_user_is_the_network_that_was_trained():
    rng = np.random.default_rng(1)
    W = (rng.normal(size=(4, 3)), rng.normal(size=(2, 4)))
    params = Params(W, (rng.normal(size=4), rng.normal(size=2)))
    units = Units(
        rng.normal(size=3), rng.uniform(1, 2, 3), rng.normal(size=2), rng.uniform(1, 2, 2),
        losses.get("squared_error"),
    )  # fmt: skip
    problem = DLADMMRegressor((4,), alpha=0.0)._problem(3, 2)
    x = rng.normal(size=(7, 3))
    trained, _ = predict_output(problem, params, units.inputs(x, "float64"))
    mine, _ = predict_output(problem, units.network_of_user(problem, params), x)
    np.testing.assert_allclose(units.targets(mine), trained, rtol=1e-10)
    back = units.network_to_train(problem, units.network_of_user(problem, params))
    for one, two in zip((*back.W, *back.b), (*params.W, *params.b), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-10)


def test_zeros_signs_and_boxes_are_exact_in_the_users_units(table):
    X, y = table
    X, y = X * COLUMNS, y * 1e4
    fit = lambda term: DLADMMRegressor(  # noqa: E731
        (8,), regularizer=term, random_state=0, max_iter=20
    ).fit(X, y)
    zeros = np.mean(fit(L1(20.0)).coefs_[0] == 0)
    assert 0.2 < zeros < 1
    assert all((W >= 0).all() for W in fit(NonNegative()).coefs_)
    assert all((np.abs(W) <= 0.5).all() for W in fit(Box(-0.5, 0.5)).coefs_)


def test_a_loss_with_a_unit_of_its_own_takes_it_along(table):
    X, y = table
    units = learned(X, y[:, None], None, Huber(delta=30.0), by_column=True)
    z = np.linspace(y.min(), y.max(), len(y))[:, None]
    inside = np.asarray(units.loss.value(units.targets(z), units.targets(y[:, None])))
    outside = np.asarray(Huber(delta=30.0).value(z, y[:, None]))
    np.testing.assert_allclose(inside * units.y_scale**2, outside, rtol=1e-9)


def test_warm_starts_and_streams_keep_their_units(table):
    X, y = table
    X = X * COLUMNS
    model = DLADMMRegressor((8,), random_state=0, max_iter=5, warm_start=True).fit(X, y)
    losses_before = model.loss_
    assert model.fit(X, y).loss_curve_[0] < 1.2 * losses_before
    stream = DLADMMRegressor((8,), random_state=0, batch_size=100)
    for _ in range(12):
        stream.partial_fit(X, y)
    assert stream.score(X, y) > 0.3


def test_an_alpha_that_is_no_strength_is_refused(table):
    with pytest.raises(ValueError, match="alpha='strong' is not valid; expected 'evidence' or"):
        DLADMMRegressor(alpha="strong").fit(*table)
