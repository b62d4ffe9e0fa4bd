"""The commands end to end: a table goes in, a model and predictions come out."""

import csv
import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from command_line import QUICK, run

import dladmm.core.solve
import dladmm.estimators
import dladmm.estimators.base
from dladmm.cli.options import parse_batch_size
from dladmm.core.loop import Loop
from dladmm.data.preprocessing import TablePreprocessor
from dladmm.data.tables import read_table
from dladmm.estimators.model_files import load_model, save_model

pytestmark = pytest.mark.float32

TARGET = 'Größe "in" cm, gerundet'
HEADER = ["città", "bought on", "weight", "vip", TARGET]


def write_table(path, rows=60, seed=0):
    """Numbers, categories, missing cells, dates, booleans, quotes and non-ASCII headers."""
    rng = np.random.default_rng(seed)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER)
        for i in range(rows):
            city = ["Zürich", 'the "Hague"', "New York, NY", ""][rng.integers(4)]
            weight = rng.normal(70, 10)
            day = f"20{10 + rng.integers(15)}-0{1 + rng.integers(9)}-1{rng.integers(10)}"
            row = [city, "" if i % 11 == 3 else day, "" if i % 9 == 4 else f"{weight:.1f}"]
            writer.writerow([*row, rng.integers(2) == 1, ["größer", "klein"][int(weight < 70)]])
    return path


def read_csv(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table and a model of it, made once."""
    folder = tmp_path_factory.mktemp("cli")
    write_table(folder / "t.csv")
    ran = run("fit", folder / "t.csv", "--target", TARGET, "--out", folder / "m", *QUICK, "--json")
    assert ran.code == 0, ran.err
    (folder / "fit.json").write_text(ran.out)
    return folder


def in_a_shell(*arguments, before=""):
    code = f"{before}\nfrom dladmm.cli.app import main; main()"
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    program = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(program, env=environment, capture_output=True, encoding="utf-8")


def test_round_trip_from_a_shell(tmp_path):
    table, model, out = write_table(tmp_path / "t.csv"), tmp_path / "m", tmp_path / "p.csv"
    fit = ["fit", table, "--target", TARGET, "--out", model]
    for step in (fit, ["predict", model, table, "--out", out]):
        ran = in_a_shell(*step)
        assert ran.returncode == 0, ran.stderr
        assert "Traceback" not in ran.stderr
    truth = [row[TARGET] for row in read_csv(table)]
    predicted = [row["label"] for row in read_csv(out)]
    # scikit-learn's LogisticRegression has 0.98 on the same inputs, the larger class 0.58.
    assert np.mean([t == p for t, p in zip(truth, predicted, strict=True)]) > 0.9


def test_a_system_that_stops_the_writing_keeps_the_older_model(tmp_path):
    pytest.importorskip("resource", reason="file size limits are POSIX's")
    table, model = write_table(tmp_path / "t.csv"), tmp_path / "m"
    model.write_text("older")
    ran = in_a_shell(
        *("fit", table, "--target", TARGET, "--out", model, *QUICK),
        before="import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))",
    )
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
    assert "the model could not be saved" in ran.stderr
    assert model.read_text() == "older"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "t.csv"]


def test_fit_says_what_it_does(tmp_path):
    table = write_table(tmp_path / "t.csv")
    ran = run("fit", table, "--target", TARGET, "--out", tmp_path / "m", *QUICK)
    assert ran.code == 0
    assert "classification of" in ran.out
    assert "2 classes ('größer', 'klein'), inferred from the target" in ran.out
    assert "the true loss rose    never" in ran.out
    assert "--max-iter allows more" in ran.err


def test_fit_json_is_one_object(folder):
    record = json.loads((folder / "fit.json").read_text())
    assert {"status", "n_iter", "train_score", "certificate", "model"} <= set(record)
    assert (record["status"], record["n_iter"]) == ("max_iter", 3)
    assert record["network"] == [7, 3, 2]
    assert record["certificate"]["rho_exceeds_2H"] is False  # the default rho is 0.1
    assert record["model"] == str(folder / "m")


def test_predictions_are_those_of_the_loaded_model(folder, tmp_path):
    ran = run("predict", folder / "m", folder / "t.csv", "--out", tmp_path / "p.csv", "--json")
    assert ran.json["rows"] == 60
    assert ran.json["columns"] == ["label", "p_größer", "p_klein"]
    loaded = load_model(folder / "m")
    preprocessing = TablePreprocessor.from_dict(loaded.preprocessing)
    inputs = preprocessing.transform(read_table(folder / "t.csv", preprocessing.text_columns))
    rows = read_csv(tmp_path / "p.csv")
    assert [row["label"] for row in rows] == loaded.estimator.predict(inputs).tolist()
    np.testing.assert_allclose(
        [[float(row["p_größer"]), float(row["p_klein"])] for row in rows],
        loaded.estimator.predict_proba(inputs),
        rtol=1e-6,
    )
    fit_score = json.loads((folder / "fit.json").read_text())["train_score"]
    assert ran.json["score"] == pytest.approx(fit_score)


def test_inspect_says_what_a_model_holds(folder):
    ran = run("inspect", folder / "m", "--json")
    kinds = {column["name"]: column["kind"] for column in ran.json["preprocessing"]["columns"]}
    assert kinds == {
        "città": "category",
        "bought on": "date",
        "weight": "number",
        "vip": "boolean",
    }
    assert ran.json["network"] == [7, 3, 2]
    spoken = run("inspect", folder / "m").out
    assert f"{TARGET}: classification of 'größer', 'klein'" in spoken
    assert "7-3-2" in spoken


def test_a_regression_predicts_in_the_units_of_its_target(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    np.savez(tmp_path / "t.npz", X=X, y=5000 + 300 * X[:, 0])
    options = ["--hidden", "8", "--max-iter", "60", "--json"]
    ran = run("fit", tmp_path / "t.npz", "--out", tmp_path / "m", *options)
    assert (ran.code, ran.json["task"]) == (0, "regression")
    assert ran.json["train_score"] > 0.8
    run("predict", tmp_path / "m", tmp_path / "t.npz", "--out", tmp_path / "p.csv")
    predicted = [float(row["prediction"]) for row in read_csv(tmp_path / "p.csv")]
    assert np.std(predicted - (5000 + 300 * X[:, 0])) < 150


def test_standard_deviations_are_in_the_units_of_the_target(folder, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = 5000 + 300 * X[:, 0]
    np.savez(tmp_path / "t.npz", X=X, y=y)
    assert run("fit", tmp_path / "t.npz", "--out", tmp_path / "m", *QUICK).code == 0
    ask = ["predict", tmp_path / "m", tmp_path / "t.npz", "--out", tmp_path / "p.csv"]
    run(*ask)
    plain = [float(row["prediction"]) for row in read_csv(tmp_path / "p.csv")]
    predict = dladmm.estimators.DLADMMRegressor.predict

    def with_std(self, X, return_std=False):
        return (predict(self, X), np.full(len(X), 0.5)) if return_std else predict(self, X)

    monkeypatch.setattr(dladmm.estimators.DLADMMRegressor, "predict", with_std)
    assert run(*ask, "--std", "--json").json["columns"] == ["prediction", "std"]
    rows = read_csv(tmp_path / "p.csv")
    assert [float(row["prediction"]) for row in rows] == pytest.approx(plain)
    assert [float(row["std"]) for row in rows] == pytest.approx([y.std() / 2] * 60)

    def without(self, X, return_std=False):
        raise ValueError("there is no posterior, because the method is admm")

    monkeypatch.setattr(dladmm.estimators.DLADMMRegressor, "predict", without)
    assert run(*ask, "--std").err == "dladmm: there is no posterior, because the method is admm\n"
    classes = run("predict", folder / "m", folder / "t.csv", "--out", tmp_path / "p.csv", "--std")
    assert "--std is for numbers" in classes.err


def test_parquet_and_a_task_that_overrules_the_inferred_one(tmp_path):
    frame = pd.DataFrame({"a": np.arange(40.0), "b": [True, False] * 20, "y": [1, 2] * 20})
    frame.to_parquet(tmp_path / "t.parquet")
    arguments = ["fit", tmp_path / "t.parquet", "--target", "y", "--out", tmp_path / "m", *QUICK]
    assert run(*arguments, "--json").json["task"] == "classification"
    assert run(*arguments, "--json", "--task", "regression").json["task"] == "regression"


def test_a_named_data_set_has_a_test_score(tmp_path):
    ran = run("fit", "digits", "--out", tmp_path / "m", *QUICK, "--json")
    assert (ran.code, ran.json["network"]) == (0, [64, 3, 10])
    assert 0 <= ran.json["test_score"] <= 1
    assert load_model(tmp_path / "m").preprocessing["source"] == "digits"
    predicted = run("predict", tmp_path / "m", "digits", "--out", tmp_path / "p.csv", "--json")
    assert predicted.json["score"] == pytest.approx(ran.json["test_score"])


def test_a_loss_without_probabilities_gives_labels_only(folder, tmp_path):
    fit = ["fit", folder / "t.csv", "--target", TARGET, "--out", tmp_path / "m", *QUICK]
    assert run(*fit, "--loss", "hinge").code == 0
    run("predict", tmp_path / "m", folder / "t.csv", "--out", tmp_path / "p.csv")
    assert list(read_csv(tmp_path / "p.csv")[0]) == ["label"]


def test_a_model_saved_from_python_predicts_arrays(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 2
    model = dladmm.estimators.DLADMMClassifier((3,), max_iter=3, tol=1e3, n_iter_no_change=1)
    save_model(tmp_path / "m", model.fit(X, y))
    np.savez(tmp_path / "t.npz", X=X, y=y)
    assert run("predict", tmp_path / "m", tmp_path / "t.npz", "--out", tmp_path / "p.csv").code == 0
    labels = [int(row["label"]) for row in read_csv(tmp_path / "p.csv")]
    assert labels == model.predict(X).tolist()
    pd.DataFrame({"a": ["x"], "b": [1]}).to_csv(tmp_path / "t.csv", index=False)
    ran = run("predict", tmp_path / "m", tmp_path / "t.csv", "--out", tmp_path / "p.csv")
    assert (ran.code, "saved without preprocessing" in ran.err) == (2, True)


def test_several_labels_are_a_column_each(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = dladmm.estimators.DLADMMClassifier((3,), max_iter=3, tol=1e3, n_iter_no_change=1)
    save_model(tmp_path / "m", model.fit(X, X[:, :2] > 0))
    np.save(tmp_path / "t.npy", X)
    assert run("predict", tmp_path / "m", tmp_path / "t.npy", "--out", tmp_path / "p.csv").code == 0
    rows = read_csv(tmp_path / "p.csv")
    assert list(rows[0]) == ["label_0", "label_1", "p_0", "p_1"]
    assert [[int(row["label_0"]), int(row["label_1"])] for row in rows] == model.predict(X).tolist()
    assert [float(row["p_1"]) for row in rows] == model.predict_proba(X)[:, 1].tolist()


def test_ctrl_c_keeps_the_best_network_so_far(folder, tmp_path, monkeypatch):
    whole, begun = Loop._absorb, []

    def press_after_two(loop, launched):
        begun.append(whole(loop, launched))
        if len(begun) == 2:
            raise KeyboardInterrupt
        return begun[-1]

    monkeypatch.setattr(Loop, "_absorb", press_after_two)
    fit = ["fit", folder / "t.csv", "--target", TARGET, "--out", tmp_path / "m", *QUICK]
    ran = run(*fit, "--json")
    assert (ran.code, ran.json["status"], ran.json["n_iter"]) == (130, "interrupted", 2)
    assert "interrupted after 2 iterations; the best network is kept" in ran.err
    assert load_model(tmp_path / "m").estimator.status_ == "interrupted"


def test_ctrl_c_before_the_first_iteration_keeps_the_older_file(folder, tmp_path, monkeypatch):
    def press(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("dladmm.core.restored.method.iterate_restored", press)
    (tmp_path / "m").write_text("older")
    ran = run("fit", folder / "t.csv", "--target", TARGET, "--out", tmp_path / "m", *QUICK)
    assert (ran.code, ran.err.count("\n")) == (130, 1)
    assert (tmp_path / "m").read_text() == "older"


def test_an_unwritable_output_is_noticed_before_training(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(dladmm.estimators.base, "solve", None)  # training would fail
    table = folder / "t.csv"
    (tmp_path / "file").write_text("")
    for out in (tmp_path, tmp_path / "none" / "m", tmp_path / "file" / "m"):
        ran = run("fit", table, "--target", TARGET, "--out", out, *QUICK)
        assert (ran.code, ran.err.count("\n")) == (2, 1)


@pytest.mark.parametrize(("text", "size"), [(None, None), ("auto", "auto"), ("64", 64)])
def test_the_size_of_a_batch_is_a_number_or_auto(text, size):
    assert parse_batch_size(text) == size


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--hidden", "8,x"], "--hidden '8,x' is not valid"),
        (["--hidden", "0"], "--hidden '0' is not valid"),
        (["--method", "sgd"], "method='sgd' is unknown"),
        (["--step-rule", "exact"], "step_rule='exact' is unknown; expected one of over-relaxed"),
        (["--activation", "wavy"], "activation='wavy' is unknown"),
        (["--loss", "squared"], "loss='squared' is unknown"),
        (["--loss", "huber"], "is for regression"),
        (["--task", "ranking"], "task='ranking' is unknown"),
        (["--max-iter", "0"], "max_iter=0 is not valid"),
        (["--seed", "-1"], "random_state=-1 is not valid"),
        (["--dtype", "float8"], "dtype='float8' is unknown"),
        (["--alpha", "-1"], "expected"),
        (["--batch-size", "half"], "--batch-size 'half' is not valid; expected auto or a number"),
        (["--batch-size", "0"], "--batch-size '0' is not valid"),
    ],
)
def test_wrong_options_are_refused_in_one_sentence(folder, tmp_path, options, words):
    out = tmp_path / "m"
    ran = run("fit", folder / "t.csv", "--target", TARGET, "--out", out, *QUICK, *options)
    assert (ran.code, ran.err.count("\n"), words in ran.err) == (2, 1, True), ran.err
    assert not out.exists()


def test_wrong_files_are_refused_in_one_sentence(folder, tmp_path):
    table, model, out = folder / "t.csv", folder / "m", tmp_path / "p.csv"
    for arguments, words in (
        (["fit", table, "--out", out], "--target is missing; expected one of the columns"),
        (["fit", tmp_path / "none.csv", "--target", "y", "--out", out], "does not exist"),
        (["fit", "cifar", "--target", "y", "--out", out], "is not a table"),
        (["predict", tmp_path / "none", table, "--out", out], "none: No such file or directory"),
        (["predict", table, table, "--out", out], "is foreign"),
        (["predict", model, table, "--out", tmp_path / "p.xlsx"], "is not a .csv file"),
        (["inspect", table], "is foreign"),
    ):
        ran = run(*arguments)
        assert (ran.code, ran.err.count("\n"), words in ran.err) == (2, 1, True), ran.err
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["fit", "predict", "inspect", "export"])
def test_help_is_there(command):
    ran = run(command, "--help")
    assert ran.code == 0
    assert "--json" in ran.out
    assert "Example: dladmm" in ran.out or command == "inspect"


def test_the_help_of_all_fits_a_screen_and_leads_to_examples(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    ran = run("--help")
    assert len(ran.out.rstrip().splitlines()) <= 30
    assert "Begin with: dladmm demo, then: dladmm fit" in ran.out
    words = set(ran.out.partition("Commands")[2].split())
    assert {"demo", "fit", "predict", "inspect", "export"} <= words
