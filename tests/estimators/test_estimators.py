"""The estimators keep scikit-learn's contract and their own promises."""

import pickle
import threading
import warnings

import jax
import joblib
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from dladmm import DLADMMClassifier, DLADMMRegressor
from dladmm.terms.losses.separable import Quantile
from dladmm.terms.regularizers import L1, Box

pytestmark = [pytest.mark.float32, pytest.mark.slow]

quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@quiet
@parametrize_with_checks([DLADMMClassifier(), DLADMMRegressor()])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def blobs():
    return make_classification(
        120, 6, n_informative=4, n_redundant=0, n_classes=3, class_sep=2.0, random_state=0
    )


def small(**changes):
    return DLADMMClassifier((12,), **{"max_iter": 60, "random_state": 0, **changes})


@quiet
@pytest.mark.parametrize(
    "labels", [np.array(["a", "b", "ü"]), np.array([-1, 5, 9]), np.array([0.5, 1.5, 2.5])]
)
def test_labels_of_any_type_come_back_as_they_were(blobs, labels):
    X, y = blobs
    # Half labels such as 0.5 are continuous to scikit-learn, so floats must be whole.
    labels = np.floor(labels) if labels.dtype.kind == "f" else labels
    model = small().fit(X, labels[y])
    assert model.predict(X).dtype == labels.dtype
    assert (model.predict(X) == labels[y]).mean() > 0.8
    assert list(model.classes_) == sorted(labels)


@quiet
@pytest.mark.parametrize("loss", ["log_loss", "binary_log_loss", "hinge"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_every_classification_loss_learns_two_and_three_classes(blobs, loss, n_classes):
    X, y = blobs
    X, y = X[y < n_classes], y[y < n_classes]
    model = small(loss=loss).fit(X, y)
    assert model.score(X, y) > 0.85
    z = model.decision_function(X)
    assert z.shape == ((len(y),) if n_classes == 2 else (len(y), n_classes))
    assert hasattr(model, "predict_proba") == (loss != "hinge")
    if loss != "hinge":
        p = model.predict_proba(X)
        np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), p, rtol=1e-12)


@quiet
@pytest.mark.parametrize("loss", ["squared_error", "huber", "absolute_error", "quantile"])
def test_every_regression_loss_beats_the_mean(loss):
    X, y = load_diabetes(return_X_y=True)
    X, y = StandardScaler().fit_transform(X)[:150], (y[:150] - y.mean()) / y.std()
    model = DLADMMRegressor((20,), loss=loss, max_iter=100, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.3


@quiet
def test_a_quantile_is_exceeded_as_often_as_it_says():
    rng = np.random.default_rng(0)
    X = np.ones((400, 1))
    y = rng.normal(size=400)
    # Without hidden layers nothing is relaxed, and the problem is the loss's own.
    model = DLADMMRegressor((), loss=Quantile(0.9), max_iter=300, random_state=0).fit(X, y)
    assert abs((y <= model.predict(X)).mean() - 0.9) < 0.02


@quiet
def test_counts_are_predicted_on_their_own_scale():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = rng.poisson(np.exp(X[:, 0]))
    model = DLADMMRegressor((), loss="poisson", max_iter=200, random_state=0).fit(X, y)
    assert (model.predict(X) > 0).all()
    assert abs(model.predict(X).mean() - y.mean()) < 0.2 * y.mean()


@quiet
def test_several_outputs_are_predicted_together():
    X = np.random.default_rng(0).normal(size=(80, 3))
    Y = X @ np.arange(6.0).reshape(3, 2)
    model = DLADMMRegressor((16,), max_iter=200, random_state=0).fit(X, Y)
    assert model.predict(X).shape == Y.shape
    assert model.score(X, Y) > 0.9


@quiet
def test_sparse_rows_train_and_predict_as_dense_ones(blobs):
    X, y = blobs
    X = np.where(np.abs(X) < 1, 0, X)
    dense, thin = small().fit(X, y), small().fit(sparse.csr_array(X), y)
    np.testing.assert_array_equal(dense.coefs_[0], thin.coefs_[0])
    np.testing.assert_array_equal(dense.predict_proba(X), thin.predict_proba(sparse.csr_array(X)))


@quiet
def test_class_weight_is_a_sample_weight(blobs):
    X, y = blobs
    by_class = small(class_weight={0: 3.0, 1: 1.0, 2: 1.0}).fit(X, y)
    by_sample = small().fit(X, y, sample_weight=np.where(y == 0, 3.0, 1.0))
    np.testing.assert_array_equal(by_class.coefs_[0], by_sample.coefs_[0])
    assert not np.array_equal(by_class.coefs_[0], small().fit(X, y).coefs_[0])


@quiet
def test_exact_zeros_and_signs_come_from_the_regularizer(blobs):
    X, y = blobs
    thin = small(regularizer=L1(5.0)).fit(X, y)
    assert np.mean(thin.coefs_[0] == 0) > 0.2
    assert np.mean(small().fit(X, y).coefs_[0] == 0) == 0
    signed = small(regularizer=["none", "non_negative"]).fit(X, y)
    assert (signed.coefs_[1] >= 0).all()
    assert (signed.coefs_[0] < 0).any()


def test_max_iter_warns_and_an_idle_fit_does_not(blobs):
    X, y = blobs
    with pytest.warns(ConvergenceWarning, match="max_iter=3"):
        small(max_iter=3).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = small(max_iter=400, tol=0.05).fit(X, y)
    assert model.n_iter_ < 400
    assert model.status_ == "tol"
    assert "tol=0.05" in model.message_


def test_early_stopping_keeps_the_network_of_the_best_held_out_score(blobs):
    X, y = blobs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = small(early_stopping=True, validation_fraction=0.3, n_iter_no_change=5).fit(X, y)
    assert model.best_validation_score_ == max(model.validation_scores_)
    assert len(model.history_["validation_score"]) == model.n_iter_


@quiet
def test_history_has_one_value_per_iteration(blobs):
    X, y = blobs
    model = small(max_iter=30).fit(X, y)
    names = {"lagrangian", "residual", "train_loss", "gap", "seconds"}
    assert names <= model.history_.keys()
    assert {len(values) for values in model.history_.values()} == {model.n_iter_}
    assert np.all(np.diff(model.history_["seconds"]) >= 0)
    assert model.loss_curve_[-1] < model.loss_curve_[0]
    assert model.certificate_.to_dict()["n_iter"] == model.n_iter_


@quiet
def test_warm_start_goes_on_and_a_cold_start_does_not(blobs):
    X, y = blobs
    warm = small(max_iter=10, warm_start=True).fit(X, y)
    first = warm.loss_
    assert warm.fit(X, y).history_["train_loss"][0] < first
    assert small(max_iter=10).fit(X, y).history_["train_loss"][0] > first


def test_partial_fit_learns_a_little_with_each_call(blobs):
    X, y = blobs
    model = small().partial_fit(X, y, classes=[0, 1, 2])
    before = model.score(X, y)
    for _ in range(30):
        model.partial_fit(X, y)
    assert model.score(X, y) > max(before, 0.7)


def test_partial_fit_carries_its_moments_over(blobs):
    X, y = blobs

    def in_two_calls(between):
        model = small().partial_fit(X[:60], y[:60], classes=[0, 1, 2])
        return between(model).partial_fit(X[60:], y[60:]).coefs_[0]

    def only_the_network(model):
        fresh = small(warm_start=True)
        for name in ("classes_", "n_features_in_", "coefs_", "intercepts_", "layers_"):
            setattr(fresh, name, getattr(model, name))
        return fresh

    plain = in_two_calls(lambda model: model)
    np.testing.assert_array_equal(in_two_calls(lambda m: pickle.loads(pickle.dumps(m))), plain)
    assert not np.array_equal(in_two_calls(only_the_network), plain)


@quiet
def test_fit_forgets_what_partial_fit_has_gathered(blobs):
    X, y = blobs
    model = small().partial_fit(X, y).fit(X, y)
    np.testing.assert_array_equal(model.coefs_[0], small().fit(X, y).coefs_[0])
    one, other = (m.partial_fit(X, y).coefs_[0] for m in (model, small().fit(X, y)))
    np.testing.assert_array_equal(one, other)


@quiet
def test_mini_batches_train_on_memory_mapped_rows_an_epoch_per_iteration(blobs, tmp_path):
    X, y = blobs
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    # With a box rows in memory stay in their units too, as those of a file always do.
    settings = {"batch_size": 32, "max_iter": 30, "tol": None, "regularizer": Box(-9.0, 9.0)}
    model = small(**settings).fit(mapped, y)
    assert model.n_iter_ == 30
    assert model.score(X, y) > 0.9
    assert "mini-batches" in model.certificate_.summary()
    np.testing.assert_array_equal(model.coefs_[0], small(**settings).fit(X, y).coefs_[0])


@quiet
def test_the_papers_method_is_one_word_away(blobs):
    X, y = blobs
    model = small(method="dladmm").fit(X, y)
    assert model.certificate_.method == "dladmm"
    assert set(model.history_["rho"]) == {0.1}
    assert model.score(X, y) > 0.8


@quiet
def test_a_fit_ends_where_only_noise_is_left_to_fit():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 10))
    noisy, clean = rng.normal(size=100), X[:, 0] + np.sin(X[:, 1])
    fixed = {"random_state": 0, "max_iter": 100, "alpha": 1e-4}
    fit = lambda y, **more: DLADMMRegressor(**fixed | more).fit(X, y)  # noqa: E731
    on, off = fit(noisy), fit(noisy, stop_at_noise=False)
    assert on.status_ == "noise"
    assert on.n_iter_ < 20 < off.n_iter_
    assert on.score(X, noisy) < 0.7 < off.score(X, noisy)  # what the second one fits is noise
    assert fit(clean).score(X, clean) > 0.9


@quiet
def test_a_fitted_estimator_survives_pickle_joblib_and_clone(blobs, tmp_path):
    X, y = blobs
    model = small(activation="tanh").fit(X, y)
    joblib.dump(model, tmp_path / "model.joblib")
    for copy in (pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model.joblib")):
        np.testing.assert_array_equal(copy.predict_proba(X), model.predict_proba(X))
    assert clone(model).get_params() == model.get_params()
    assert not hasattr(clone(model), "coefs_")


@quiet
def test_it_works_in_a_pipeline_and_in_cross_validation(blobs):
    X, y = blobs
    pipe = make_pipeline(StandardScaler(), small())
    assert pipe.fit(X, y).score(X, y) > 0.85
    assert cross_val_score(pipe, X, y, cv=3).min() > 0.6


def test_a_grid_search_in_two_processes_neither_warns_nor_fights(blobs):
    X, y = blobs
    search = GridSearchCV(small(max_iter=400, tol=0.02), {"nu": [0.5, 1.0]}, n_jobs=2, cv=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search.fit(X, y)
    assert search.best_score_ > 0.7


@quiet
def test_fitting_in_a_thread_gives_the_same_network(blobs):
    X, y = blobs
    results = []
    thread = threading.Thread(target=lambda: results.append(small().fit(X, y)))
    thread.start()
    thread.join()
    np.testing.assert_array_equal(results[0].coefs_[0], small().fit(X, y).coefs_[0])


@quiet
def test_a_second_fit_of_the_same_shape_does_not_compile_again(blobs, caplog):
    X, y = blobs
    small(engine="jax").fit(X, y)
    with jax.log_compiles(), caplog.at_level("WARNING", "jax"):
        small(random_state=1, max_iter=30, engine="jax").fit(X + 1, y)
        assert "iterate_restored" not in caplog.text
        small(engine="jax").fit(X[:-1], y[:-1])  # control: another shape
        assert "iterate_restored" in caplog.text


@quiet
def test_a_prediction_does_not_depend_on_its_batch():
    X, y = load_digits(return_X_y=True)
    model = DLADMMClassifier((30,), max_iter=5, random_state=0).fit(X[:300], y[:300])
    together = model.predict_proba(X[:300])
    one_by_one = np.vstack([model.predict_proba(X[i : i + 1]) for i in range(20)])
    np.testing.assert_allclose(one_by_one, together[:20], rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (DLADMMClassifier(loss="huber"), "loss='huber' is for regression; expected"),
        (DLADMMRegressor(loss="hinge"), "loss='hinge' is for classes; expected"),
        (DLADMMClassifier(activation="gelu2"), "activation='gelu2' is unknown; expected"),
        (DLADMMClassifier(method="dladmm", batch_size=32), "batch_size=32"),
        (DLADMMClassifier(rho=-1.0), "rho=-1.0"),
        (DLADMMClassifier(early_stopping=True, validation_fraction=2), "validation_fraction=2"),
        (DLADMMClassifier(dtype="float16"), "dtype='float16'"),
    ],
)
def test_wrong_parameters_are_refused_by_name(blobs, model, message):
    X, y = blobs
    with pytest.raises(ValueError, match=message):
        model.fit(X, y if isinstance(model, DLADMMClassifier) else y.astype(float))
