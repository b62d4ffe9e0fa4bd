"""The score on rows that were not seen: what it is, and that nothing else changes because of it."""

import numpy as np
import pandas as pd
import pytest
from command_line import QUICK, run
from sklearn.metrics import log_loss, mean_absolute_error, r2_score

from dladmm.cli.loading import Reading, Source
from dladmm.core.loop import Loop
from dladmm.data.target import fit_target
from dladmm.estimators import DLADMMClassifier, DLADMMRegressor
from dladmm.estimators.model_files import load_model

pytestmark = pytest.mark.float32

ROWS = 60
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"a": RNG.normal(size=ROWS), "b": RNG.normal(size=ROWS)})
KIND = np.where(FRAME.a + 0.3 * RNG.normal(size=ROWS) > 0.4, "yes", "no")
PRICE = 5000 + 300 * FRAME.a.to_numpy() + 20 * RNG.normal(size=ROWS)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "t.csv"
    FRAME.assign(kind=KIND, price=[f"${v:,.2f}" for v in PRICE]).to_csv(path, index=False)
    return path


def fit(table, target, *more):
    other = "price" if target == "kind" else "kind"
    out = table.parent / "m"
    return run(
        "fit", table, "--target", target, "--drop", other, "--out", out, *QUICK, "--seed", 3, *more
    )


def split(target, values, size=0.2):
    """The rows of a fit by hand: those to train on and those held out."""
    from sklearn.model_selection import train_test_split

    strata = values if target == "kind" else None
    both = train_test_split(np.arange(ROWS), test_size=size, random_state=3, stratify=strata)
    return [np.sort(rows) for rows in both]


def standardised(train, test):
    X = FRAME.to_numpy()
    return tuple((X[rows] - X[train].mean(0)) / X[train].std(0) for rows in (train, test))


def test_classes_are_scored_on_rows_that_were_not_seen(table):
    held_out = fit(table, "kind", "--json").json["held_out"]
    train, test = split("kind", KIND)
    X, X_test = standardised(train, test)
    model = DLADMMClassifier((3,), max_iter=3, random_state=3, tol=1e-3)
    with pytest.warns(UserWarning, match="max_iter"):
        model.fit(X, KIND[train])
    names, counts = np.unique(KIND[train], return_counts=True)
    shares = np.tile(counts / counts.sum(), (len(test), 1))
    expected = {
        "rows": 12,
        "accuracy": np.mean(model.predict(X_test) == KIND[test]),
        "accuracy_of_most_frequent_class": np.mean(KIND[test] == names[counts.argmax()]),
        "most_frequent_class": names[counts.argmax()],
        "log_loss": log_loss(KIND[test], model.predict_proba(X_test)),
        "log_loss_of_class_shares": log_loss(KIND[test], shares),
    }
    assert held_out == pytest.approx(expected, rel=1e-5)


def test_numbers_are_scored_in_their_own_unit(table):
    record = fit(table, "price", "--json").json
    assert record["unit"] == "$"
    train, test = split("price", PRICE)
    X, X_test = standardised(train, test)
    y = np.round(PRICE, 2)
    mean, scale = y[train].mean(), y[train].std()
    model = DLADMMRegressor((3,), max_iter=3, random_state=3, tol=1e-3)
    with pytest.warns(UserWarning, match="max_iter"):
        model.fit(X, (y[train] - mean) / scale)
    predicted = mean + scale * model.predict(X_test)
    expected = {
        "rows": 12,
        "r2": r2_score(y[test], predicted),
        "mean_absolute_error": mean_absolute_error(y[test], predicted),
        "mean_absolute_error_of_mean": mean_absolute_error(y[test], np.full(12, mean)),
    }
    assert record["held_out"] == pytest.approx(expected, rel=1e-4)


def test_each_score_says_what_it_is(table):
    spoken = fit(table, "kind").out
    assert "training the model on all 60 rows" in spoken
    assert "training another network on 48 rows; 12 are held out (--test-size 0" in spoken
    assert "(on the rows it was trained on)" in spoken
    assert "held-out accuracy" in spoken
    assert "; always 'no': " in spoken
    assert "; the classes' shares: " in spoken
    assert "(on 12 rows not seen in training)" in spoken
    spoken = fit(table, "price").out
    assert "held-out R2" in spoken
    assert "held-out mean absolute error" in spoken
    assert " $; the mean: " in spoken
    predicted = run("predict", table.parent / "m", table, "--out", table.parent / "p.csv")
    assert "R2 on these 60 rows: " in predicted.out


def test_the_model_is_that_of_all_rows(table):
    record = fit(table, "kind", "--json").json
    model = load_model(table.parent / "m").estimator
    without = fit(table, "kind", "--json", "--test-size", "0").json
    for one, other in zip(
        load_model(table.parent / "m").estimator.coefs_, model.coefs_, strict=True
    ):
        np.testing.assert_array_equal(one, other)
    assert "held_out" not in without
    assert without["train_loss"] == record["train_loss"]
    refused = fit(table, "kind", "--test-size", "1")
    assert (refused.code, refused.err) == (
        2,
        "dladmm: --test-size 1 is not valid; expected a part, from 0 to 1\n",
    )


def test_checkpoints_are_those_of_the_model_alone(table, tmp_path):
    straight = fit(table, "kind", "--max-iter", "4", "--json").json
    keep = ("--checkpoint", tmp_path / "run", "--checkpoint-every", "1", "--json")
    assert fit(table, "kind", "--max-iter", "2", *keep).code == 0
    resumed = fit(table, "kind", "--max-iter", "4", *keep, "--resume").json
    assert resumed["resumed_from"] == 2
    for key in ("train_loss", "train", "held_out"):
        assert resumed[key] == straight[key]


def test_ctrl_c_in_the_second_training_costs_the_score_alone(table, monkeypatch):
    whole, begun = Loop._absorb, []

    def press(loop, launched):
        begun.append(loop)
        if len({id(one) for one in begun}) == 2:
            raise KeyboardInterrupt
        return whole(loop, launched)

    monkeypatch.setattr(Loop, "_absorb", press)
    ran = fit(table, "kind", "--json")
    assert (ran.code, ran.json["status"], ran.json["held_out"]) == (0, "max_iter", None)
    assert "no held-out score: interrupted; the model of all rows is saved" in ran.err
    assert (table.parent / "m").exists()


def test_each_class_is_held_out_alike_and_a_class_of_one_row_never(tmp_path):
    kinds = np.array(["a"] * 50 + ["b"] * 20 + ["c"])
    pd.DataFrame({"x": np.arange(71.0), "y": kinds}).to_csv(tmp_path / "t.csv", index=False)
    reading = Reading(Source(str(tmp_path / "t.csv"), "y"))
    with pytest.warns(UserWarning, match="one row only of the class 'c'"):
        target = fit_target(reading.target_column)
    out = reading.held_out(target, 0.2, seed=0)
    assert [int((out & (kinds == kind)).sum()) for kind in "abc"] == [10, 4, 0]
    np.testing.assert_array_equal(out, reading.held_out(target, 0.2, seed=0))
    assert (out != reading.held_out(target, 0.2, seed=1)).any()


def test_a_mark_that_only_held_out_rows_have_is_read_as_in_all_rows(tmp_path):
    for row in range(0, ROWS, 7):
        widths = [f"{v:.3f}" for v in FRAME.a]
        widths[row] = "about 7"
        table = FRAME.assign(a=widths, kind=KIND, price=PRICE)
        table.to_csv(tmp_path / "t.csv", index=False)
        ran = fit(tmp_path / "t.csv", "kind", "--json")
        assert "column 'a' has 'about 7' in 1 of 60 rows, taken as missing" in ran.err
        assert ran.json["held_out"]["rows"] == 12
