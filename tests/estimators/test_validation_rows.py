"""`fit(..., validation=(X, y))`: rows that are scored as the fit goes, and decide only if asked."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, make_classification

from dladmm import DLADMMClassifier, DLADMMRegressor

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def classes():
    X, y = make_classification(300, 6, n_informative=4, n_classes=3, random_state=0)
    return X[:200], np.array(["a", "b", "c"])[y[:200]], X[200:], np.array(["a", "b", "c"])[y[200:]]


def classifier(**settings):
    return DLADMMClassifier((8,), **{"max_iter": 12, "tol": None, "random_state": 0, **settings})


@pytest.mark.parametrize("batch_size", [None, 50])
def test_they_are_scored_and_change_nothing(classes, batch_size):
    X, y, X_new, y_new = classes
    alone = classifier(batch_size=batch_size).fit(X, y)
    watched = classifier(batch_size=batch_size).fit(X, y, validation=(X_new, y_new))
    for one, other in zip(alone.coefs_, watched.coefs_, strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(watched.validation_scores_) == 12
    assert watched.validation_scores_[-1] == pytest.approx(watched.score(X_new, y_new))
    assert watched.best_validation_score_ == max(watched.validation_scores_)
    assert not hasattr(alone, "validation_scores_")
    # Other rows have other scores: what is seen is not the training's own accuracy.
    assert watched.validation_scores_ != watched.history_["train_accuracy"]


def test_of_numbers_it_is_minus_the_loss_in_the_unit_of_the_training_loss():
    X, y = load_diabetes(return_X_y=True)
    model = DLADMMRegressor((8,), alpha=0.0, max_iter=20, tol=None, random_state=0)
    model.fit(X[:300], y[:300], validation=(X[300:], y[300:]))
    off, off_new = (np.mean((model.predict(X[part]) - y[part]) ** 2)
                    for part in (slice(0, 300), slice(300, None)))  # fmt: skip
    assert -model.validation_scores_[-1] / model.loss_ == pytest.approx(off_new / off)
    assert off_new != pytest.approx(off)


def test_with_early_stopping_they_decide_and_all_rows_are_trained_on(classes):
    X, y, X_new, y_new = classes
    settings = {"max_iter": 200, "tol": 1e-3, "n_iter_no_change": 5}
    model = classifier(early_stopping=True, **settings).fit(X, y, validation=(X_new, y_new))
    assert "held-out score" in model.message_
    assert model.best_validation_score_ == pytest.approx(model.score(X_new, y_new))
    # The same rows and seed without a decision: the same path, gone on to its end.
    whole = classifier(max_iter=model.n_iter_, tol=None).fit(X, y, validation=(X_new, y_new))
    np.testing.assert_allclose(whole.history_["train_loss"], model.history_["train_loss"])
    apart = classifier(early_stopping=True, **settings).fit(X, y)
    assert apart.history_["train_loss"][0] != pytest.approx(model.history_["train_loss"][0])


def test_several_labels_and_a_column_of_numbers(classes):
    X, y, X_new, y_new = classes
    labels, labels_new = (np.column_stack([v == "a", v != "c"]).astype(int) for v in (y, y_new))
    tagger = classifier().fit(X, labels, validation=(X_new, labels_new))
    assert tagger.validation_scores_[-1] == pytest.approx(tagger.score(X_new, labels_new))
    column = DLADMMRegressor((4,), max_iter=3, random_state=0)
    column.fit(X, X[:, :1], validation=(X_new, X_new[:, 0]))
    assert column.predict(X).shape == (200, 1)  # as the y of the fit


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (3, "validation is not valid; expected a pair"),
        (lambda X, y: (X[:, :2], y), "validation: X has 2 features"),
        (lambda X, y: (X, np.full(len(y), "z")), "validation: y has the class 'z'"),
        (lambda X, y: (X, y[:3]), "validation: Found input variables with inconsistent"),
    ],
)
def test_what_does_not_fit_is_refused(classes, given, said):
    X, y, X_new, y_new = classes
    rows = given(X_new, y_new) if callable(given) else given
    with pytest.raises(ValueError, match=said):
        classifier().fit(X, y, validation=rows)


def test_a_run_may_go_on_with_rows_to_score_on_or_without(classes, tmp_path):
    pytest.importorskip("orbax.checkpoint", reason="the checkpoint extra is not installed")
    from dladmm import Checkpoints

    X, y, X_new, y_new = classes
    kept = Checkpoints(tmp_path / "run", every=1, resume=True)
    classifier(max_iter=4, checkpoints=kept).fit(X, y)
    resumed = classifier(checkpoints=kept).fit(X, y, validation=(X_new, y_new))
    assert resumed.resumed_from_ in (3, 4)
    scores = np.array(resumed.validation_scores_)
    assert np.isnan(scores[: resumed.resumed_from_]).all()
    assert np.isfinite(scores[resumed.resumed_from_ :]).all()
    for one, other in zip(classifier().fit(X, y).coefs_, resumed.coefs_, strict=True):
        np.testing.assert_array_equal(one, other)
