"""Figures of a page against scikit-learn's, and what is known of them."""

import numpy as np
import pytest
from sklearn import metrics
from tolerances import ROUNDING

from dladmm.report import measures
from dladmm.report.pictures import png


@pytest.fixture
def classes(rng):
    y = rng.choice(["a", "b", "c"], 200, p=[0.6, 0.3, 0.1])
    shares = rng.dirichlet(np.ones(3), 200)
    names = np.array(["a", "b", "c"])
    return y, names[shares.argmax(axis=1)], shares, names


def test_class_scores_are_those_of_scikit_learn(classes):
    y, predicted, shares, names = classes
    accuracy, recall, log_loss = measures.class_scores(y, predicted, shares, names, y)
    assert accuracy.value == metrics.accuracy_score(y, predicted)
    assert accuracy.baseline == np.mean(y == "a")
    assert recall.value == pytest.approx(
        metrics.balanced_accuracy_score(y, predicted), rel=ROUNDING
    )
    assert log_loss.value == pytest.approx(metrics.log_loss(y, shares), rel=ROUNDING)
    prior = np.tile([np.mean(y == name) for name in names], (len(y), 1))
    assert log_loss.baseline == pytest.approx(metrics.log_loss(y, prior), rel=ROUNDING)
    assert not accuracy.is_better  # random guesses are no better than the most frequent class
    assert measures.class_scores(y, y, shares, names, y)[0].is_better


def test_number_scores_are_those_of_scikit_learn(rng):
    y, predicted = rng.normal(size=(2, 100))
    r2, absolute, squared = measures.number_scores(y, predicted, y)
    assert r2.value == pytest.approx(metrics.r2_score(y, predicted), rel=ROUNDING)
    assert r2.baseline == pytest.approx(0, abs=1e-12)
    assert absolute.value == pytest.approx(metrics.mean_absolute_error(y, predicted), rel=ROUNDING)
    assert squared.value == pytest.approx(
        metrics.root_mean_squared_error(y, predicted), rel=ROUNDING
    )


def test_the_confusion_matrix_is_that_of_scikit_learn(classes):
    y, predicted, _, names = classes
    found = measures.confusion(y, predicted, names)
    np.testing.assert_array_equal(found, metrics.confusion_matrix(y, predicted, labels=names))


def test_calibration_of_who_is_as_sure_as_it_should_be(rng):
    sure = rng.uniform(0.3, 1, 100_000)
    honest = measures.calibration(rng.random(100_000) < sure, sure)
    boastful = measures.calibration(rng.random(100_000) < sure - 0.2, sure)
    assert sum(count for _, _, count in honest) == 100_000
    assert max(abs(share - came_true) for share, came_true, _ in honest) < 0.02
    assert min(share - came_true for share, came_true, _ in boastful) > 0.15


def test_coverage_of_normal_errors(rng):
    off = rng.normal(0, 2, 100_000)
    assert (
        max(abs(level - share) for level, share in measures.coverage(off, np.full(1, 2.0))) < 0.01
    )
    assert measures.coverage(off, np.full(1, 1.0))[4][1] < 0.7


def test_importance_is_of_what_the_score_reads(rng):
    X = rng.normal(size=(300, 4))
    y = X[:, 2] + 0.1 * X[:, 0]

    def score(rows):
        return measures.r_squared(y, rows[:, 2] + 0.1 * rows[:, 0])

    found = measures.importances(score, X, [(str(k), [k]) for k in range(4)])
    assert [one.name for one in found[:2]] == ["2", "0"]
    assert found[0].falls > 1  # R2 of shuffled predictions is about -1
    assert [one.falls for one in found[2:]] == [0, 0]
    together = measures.importances(score, X, [("both", [0, 2])])
    assert together[0].falls > found[1].falls


def test_a_png_is_what_a_reader_of_png_reads(rng, tmp_path):
    from matplotlib.image import imread

    pixels = rng.uniform(-3, 5, (5, 7))
    (tmp_path / "a.png").write_bytes(png(pixels))
    read = imread(tmp_path / "a.png")
    expected = (pixels - pixels.min()) / np.ptp(pixels)
    np.testing.assert_allclose(read, expected, atol=1 / 255)
