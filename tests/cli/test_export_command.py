"""`dladmm export`: from the same table, another program predicts what `dladmm predict` does."""

import sys

import numpy as np
import pandas as pd
import pytest
from command_line import QUICK, run

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytest.importorskip("onnx", reason="the onnx extra is not installed")

pytestmark = pytest.mark.float32


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of numbers, categories, dates and missing cells, its model and its predictions."""
    folder = tmp_path_factory.mktemp("export")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "km": rng.integers(5, 300, 80).astype(float),
            "fuel": rng.choice(["diesel", "petrol", "gas"], 80),
            "built": pd.to_datetime("2010-01-01") + pd.to_timedelta(rng.integers(0, 4000, 80), "D"),
        }
    )
    frame["price"] = (20000 - 40 * frame["km"] + rng.normal(0, 500, 80)).round()
    frame.loc[::9, "km"] = np.nan
    frame.loc[::7, "fuel"] = None
    frame.to_csv(folder / "cars.csv", index=False)
    model = folder / "cars.model"
    fit = ("fit", folder / "cars.csv", "--target", "price", "--out", model, *QUICK)
    assert run(*fit, "--test-size", "0").code == 0
    predicted = run("predict", model, folder / "cars.csv", "--out", folder / "predicted.csv")
    assert predicted.code == 0, predicted.err
    return folder


def cells(frame):
    """The table as an ONNX runtime takes it, by what `export` says of each input."""
    days = (frame["built"] - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
    columns = {
        "km": frame["km"].to_numpy(float),
        "fuel": frame["fuel"].fillna("").to_numpy(object),
        "built": days.to_numpy(float),
    }
    return {name: values[:, None] for name, values in columns.items()}


def test_the_file_predicts_from_the_columns_of_the_table(folder):
    ran = run("export", folder / "cars.model", folder / "cars.onnx", "--json")
    assert ran.code == 0, ran.err
    said = {one["name"]: (one["type"], one["shape"]) for one in ran.json["inputs"]}
    assert said == {"km": ("double", [None, 1]), "fuel": ("string", [None, 1]),
                    "built": ("double", [None, 1])}  # fmt: skip
    assert [one["name"] for one in ran.json["outputs"]] == ["prediction"]
    assert "ONNX cannot read dates: the input 'built'" in " ".join(ran.json["warnings"])
    session = onnxruntime.InferenceSession(folder / "cars.onnx")
    inputs = cells(pd.read_csv(folder / "cars.csv", parse_dates=["built"]))
    predicted = pd.read_csv(folder / "predicted.csv")["prediction"].to_numpy()
    (values,) = session.run(None, inputs)
    np.testing.assert_allclose(values.ravel(), predicted, rtol=1e-5)
    turned = {**inputs, "km": inputs["km"][::-1]}  # another table gives other predictions
    assert not np.allclose(session.run(None, turned)[0].ravel(), predicted, rtol=1e-5)


def test_it_says_what_the_file_takes_and_gives(folder, tmp_path):
    ran = run("export", folder / "cars.model", tmp_path / "c.onnx", "--dtype", "float32")
    assert ran.code == 0, ran.err
    assert "takes fuel: string; missing: the empty string" in ran.out
    assert "gives prediction: float" in ran.out
    assert "cannot read dates" in ran.err


def test_what_cannot_be_written_is_refused_in_one_sentence(folder, tmp_path, monkeypatch):
    table, model = folder / "cars.csv", folder / "cars.model"
    for arguments, words in (
        ((model, tmp_path / "cars.pb"), "cars.pb is not an .onnx file"),
        ((model, tmp_path / "none" / "c.onnx"), "there is no folder"),
        ((table, tmp_path / "c.onnx"), "is foreign"),
        ((model, tmp_path / "c.onnx", "--dtype", "float8"), "dtype='float8' is unknown"),
    ):
        ran = run("export", *arguments)
        assert (ran.code, ran.err.count("\n"), words in ran.err) == (2, 1, True), ran.err
    # Without the extra it is named, and nothing is written.
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delitem(sys.modules, "dladmm.export.onnx_graph", raising=False)
    ran = run("export", model, tmp_path / "c.onnx")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "pip install 'dladmm[onnx]'" in ran.err
    assert not any(tmp_path.iterdir())
