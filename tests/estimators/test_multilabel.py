"""Rows of several labels: a matrix of 0 and 1 for y, as MLPClassifier takes it."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.neural_network import MLPClassifier
from sklearn.utils import compute_sample_weight
from tolerances import ROUNDING

from dladmm import DLADMMClassifier
from dladmm.estimators.labels import balanced_over_processes
from dladmm.terms.losses import Loss

pytestmark = [
    pytest.mark.float32,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

X, Y = make_multilabel_classification(240, 8, n_classes=4, n_labels=2, random_state=0)
TRAIN, TEST = slice(0, 120), slice(120, None)


def small(**changes):
    return DLADMMClassifier((12,), **{"alpha": 0.1, "max_iter": 40, "random_state": 0, **changes})


def outputs(model, X):
    """The network of ReLU units by hand."""
    for W, b in zip(model.coefs_[:-1], model.intercepts_[:-1], strict=True):
        X = np.maximum(X @ W + b, 0)
    return X @ model.coefs_[-1] + model.intercepts_[-1]


@pytest.mark.parametrize("weighted", [False, True])
def test_without_hidden_units_each_label_is_a_logistic_regression(weighted):
    weights = np.random.default_rng(0).uniform(0.2, 3, 120) if weighted else None
    x = (X - X.mean(0)) / X.std(0)
    # l2 is on what the estimator trains on: inputs whose root mean square is 1.
    x /= np.sqrt(np.average((x[TRAIN] ** 2).mean(1), weights=weights))
    ours = DLADMMClassifier((), alpha=1.0, max_iter=200, tol=0, stop_at_noise=False, random_state=0)
    found = ours.fit(x[TRAIN], Y[TRAIN], weights).predict_proba(x)
    regression = LogisticRegression(solver="newton-cholesky", tol=1e-10)
    for label, p in zip(Y[TRAIN].T, found.T, strict=True):
        expected = regression.fit(x[TRAIN], label, weights).predict_proba(x)[:, 1]
        np.testing.assert_allclose(p, expected, atol=1e-5)
        # Control: with other weights it is another regression.
        other = regression.fit(x[TRAIN], label, np.linspace(0.1, 2, 120)).predict_proba(x)[:, 1]
        assert np.abs(p - other).max() > 1e-2


@pytest.mark.parametrize("n_labels", [2, 4])
@pytest.mark.parametrize("loss", ["log_loss", "binary_log_loss", "hinge"])
def test_predictions_are_thresholds_of_the_networks_outputs(loss, n_labels):
    model = small(loss=loss).fit(X[TRAIN], Y[TRAIN, :n_labels])
    z = outputs(model, X)
    np.testing.assert_allclose(model.decision_function(X), z, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(model.predict(X), z > 0)
    assert len(set(model.predict(X).sum(axis=1))) > 2  # rows with more and with fewer labels
    assert hasattr(model, "predict_proba") == (loss != "hinge")
    if loss != "hinge":
        p = model.predict_proba(X)
        np.testing.assert_allclose(p, expit(model.decision_function(X)), rtol=ROUNDING)
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), p, rtol=1e-12)
        assert np.ptp(p.sum(axis=1)) > 0.5  # they are independent


FORMS = {
    "int": Y,
    "int8": Y.astype(np.int8),
    "bool": Y.astype(bool),
    "float": Y.astype(np.float32),
    "lists": Y.tolist(),
    "csr": sparse.csr_array(Y),
    "csc": sparse.csc_matrix(Y),
}


@pytest.mark.parametrize("form", FORMS)
def test_labels_of_any_form_are_those_of_mlpclassifier(form):
    y = FORMS[form]
    model, theirs = small().fit(X, y), MLPClassifier((2,), max_iter=1).fit(X, y)
    got, expected = model.predict(X), theirs.predict(X)
    assert (type(got), got.dtype, got.shape) == (type(expected), expected.dtype, expected.shape)
    np.testing.assert_array_equal(model.classes_, theirs.classes_)
    assert model.predict_proba(X).shape == theirs.predict_proba(X).shape
    np.testing.assert_array_equal(model.coefs_[0], small().fit(X, Y).coefs_[0])
    assert model.score(X, y) == accuracy_score(Y, small().fit(X, Y).predict(X))


@pytest.mark.parametrize("changes", [{}, {"loss": "hinge"}, {"method": "dladmm"}])
def test_what_it_learns_holds_for_new_rows(changes):
    def right(labels):
        """Of all labels of new rows."""
        model = DLADMMClassifier((12,), max_iter=100, random_state=0, **changes)
        return (model.fit(X[TRAIN], labels).predict(X[TEST]) == Y[TEST]).mean()

    base_rate = np.maximum(Y[TEST].mean(0), 1 - Y[TEST].mean(0)).mean()
    assert right(Y[TRAIN]) > base_rate + 0.1
    # Control: rows of another order say nothing.
    assert right(np.random.default_rng(0).permutation(Y[TRAIN])) < base_rate + 0.03


@pytest.mark.parametrize("changes", [{}, {"method": "dladmm"}, {"batch_size": 40}])
def test_the_accuracy_of_a_run_is_that_of_whole_rows(changes):
    model = small(max_iter=20, tol=None, **changes).fit(X, Y)
    # Of mini-batches, the accuracy of an epoch is that of its networks on the way.
    close = 0.03 if "batch_size" in changes else 1e-12
    assert abs(model.history_["train_accuracy"][-1] - model.score(X, Y)) <= close
    by_label = (model.predict(X) == Y).mean()
    assert by_label - model.score(X, Y) > 0.2  # what it is not


def test_early_stopping_holds_out_rows_and_keeps_the_best_network():
    rare = Y.copy()
    rare[:, 0] = 0
    rare[5, 0] = 1  # a label of one row cannot be in both parts
    model = small(early_stopping=True, validation_fraction=0.3, n_iter_no_change=5).fit(X, rare)
    assert model.best_validation_score_ == max(model.validation_scores_)
    assert 0 < model.best_validation_score_ <= 1


def test_a_label_that_is_never_or_always_on_is_learned():
    constant = Y.copy()
    constant[:, 0], constant[:, 1] = 0, 1
    found = small().fit(X, constant).predict(X)
    assert not found[:, 0].any()
    assert found[:, 1].all()


def test_warm_start_goes_on_and_partial_fit_learns():
    warm = small(max_iter=10, warm_start=True).fit(X, Y)
    first = warm.loss_
    assert warm.fit(X, Y).history_["train_loss"][0] < first
    model = small().partial_fit(X, Y, classes=[0, 1, 2, 3])
    before = (model.predict(X) == Y).mean()
    for _ in range(30):
        model.partial_fit(X, Y)
    assert (model.predict(X) == Y).mean() > max(before, 0.75)
    plain, thin = (small().partial_fit(X, y) for y in (Y, sparse.csr_array(Y)))
    assert sparse.issparse(thin.predict(X))
    np.testing.assert_array_equal(thin.predict(X).toarray(), plain.predict(X))


@pytest.mark.parametrize("class_weight", ["balanced", [{0: 1, 1: 5}, {}, {1: 2}, {0: 3, 1: 1}]])
def test_class_weight_is_the_product_over_labels(class_weight):
    by_class = small(class_weight=class_weight).fit(X, Y)
    weights = compute_sample_weight(class_weight, Y)
    np.testing.assert_array_equal(by_class.coefs_[0], small().fit(X, Y, weights).coefs_[0])
    assert not np.array_equal(by_class.coefs_[0], small().fit(X, Y).coefs_[0])


@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_loaded_model_predicts_the_same_and_goes_on(loss, form, tmp_path):
    model = small(loss=loss).fit(X, form(Y))
    model.save(tmp_path / "m")
    loaded = DLADMMClassifier.load(tmp_path / "m")
    assert type(loaded.predict(X)) is type(model.predict(X))
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert loaded.score(X, form(Y)) == model.score(X, form(Y))
    assert loaded.set_params(warm_start=True, max_iter=2).fit(X, Y).loss_ <= model.loss_ + 1e-6


def test_two_columns_are_labels_and_one_column_is_classes():
    assert small().fit(X, Y[:, :2]).predict(X).shape == (len(X), 2)
    with pytest.warns(match="column-vector"):
        model = small().fit(X, Y[:, :1])
    assert model.predict(X).shape == (len(X),)
    assert not model.multilabel_


class Own(Loss):
    """One that classifies, but does not say what it does with labels."""

    classifies = True


@pytest.mark.parametrize(
    ("model", "y", "message"),
    [
        (small(), 2 * Y - 1, "y has 4 columns with values other than 0 and 1; expected one"),
        (small(), Y * np.arange(4), "y has 4 columns with values other than 0 and 1"),
        (small(), Y.astype(str), "y has 4 columns with values other than 0 and 1"),
        (small(), Y * 0.5, "continuous"),
        (small(loss="huber"), Y, "loss='huber' is for regression"),
        (small(loss=Own()), Y, "is not for rows of several labels; expected 'log_loss'"),
        (small(loss="multilabel_log_loss"), Y[:, 0], "is for rows of several labels; expected a y"),
        (small(class_weight={1: 2.0}), Y, "class_weight={1: 2.0} does not fit y of 4 labels"),
        (small(class_weight=[{1: 2.0}]), Y, "does not fit y of 4 labels; expected 'balanced'"),
    ],
)
def test_what_does_not_fit_is_refused(model, y, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)


def test_what_continues_a_fit_has_the_same_labels():
    for before, now, message in [
        (Y, Y[:, :3], "y has 3 columns; expected 4, as in the fit this one continues"),
        (Y, Y[:, 0], "y has 1 columns; expected 4"),
        (Y[:, 0], Y, "y has 4 columns; expected 1"),
    ]:
        for model in (small().partial_fit(X, before), small(warm_start=True).fit(X, before)):
            go_on = model.fit if model.warm_start else model.partial_fit
            with pytest.raises(ValueError, match=message):
                go_on(X, now)
    with pytest.raises(ValueError, match=r"classes=\[0, 1\] does not fit y, a matrix of 4 labels"):
        small().partial_fit(X, Y, classes=[0, 1])


def test_a_fit_may_change_from_classes_to_labels_and_back():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = small().fit(X, Y[:, 0]).fit(X, Y)
        np.testing.assert_array_equal(model.predict(X), small().fit(X, Y).predict(X))
        assert model.fit(X, Y[:, 0]).predict_proba(X).shape == (len(X), 2)


def test_balanced_over_processes_is_balanced_over_rows():
    for column in (*Y.T, np.zeros(len(Y), int)):
        weights = balanced_over_processes([0, 1], column)
        found = np.array([weights[label] for label in column])
        np.testing.assert_allclose(found, compute_sample_weight("balanced", column), rtol=ROUNDING)
