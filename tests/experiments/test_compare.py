"""Methods side by side: the same start, the same records, nothing run twice."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from command_line import run

from dladmm.data.datasets import load_dataset
from dladmm.experiments import compare as comparing
from dladmm.experiments.compare import Contestant, compare, contestant
from dladmm.experiments.setup import image_setup

pytestmark = pytest.mark.float32


@pytest.fixture
def setup():
    return image_setup(load_dataset("digits"), 200, (8,))


def test_contestants_are_named_with_a_rate_if_wanted():
    assert contestant("adam").rate == 1e-3
    assert contestant("adam=0.01").label == "adam 0.01"
    assert contestant("dladmm-paper").options["rho_schedule"] == "paper"
    for wrong in ("adamm", "adam=fast", "adam=-1", "restored=0.1", ""):
        with pytest.raises(ValueError, match="is unknown; expected one of restored"):
            contestant(wrong)


def test_every_method_is_recorded_alike_and_learns(setup, tmp_path):
    names = ("restored", "dladmm", "dladmm-vector", "admm", "adam=0.01", "sgd=0.5")
    runs = compare(setup, [contestant(n) for n in names], seeds=1, iterations=12, folder=tmp_path)
    labels = ["restored", "dladmm", "dladmm-vector", "admm", "adam 0.01", "sgd 0.5"]
    assert [r["method"] for r in runs] == labels
    start = float(setup.on_training(setup.weights(0)).loss)
    for r in runs:
        assert {len(r[k]) for k in ("seconds", "train_loss", "test_accuracy")} == {12}
        assert np.all(np.diff(r["seconds"]) >= 0)
        assert r["train_loss"][-1] < start


def test_a_record_stands_for_its_run_unless_the_settings_differ(setup, tmp_path, monkeypatch):
    who = [Contestant("sgd", rate=0.1)]
    first = compare(setup, who, seeds=1, iterations=3, folder=tmp_path)
    monkeypatch.setattr(comparing, "curve_of", lambda *a: {"ran": True})
    assert compare(setup, who, seeds=1, iterations=3, folder=tmp_path) == first
    assert compare(setup, who, seeds=1, iterations=4, folder=tmp_path)[0]["ran"]
    other = [Contestant("sgd", options={"rho": 2.0}, rate=0.1)]  # the same label, other options
    assert compare(setup, other, seeds=1, iterations=3, folder=tmp_path)[0]["ran"]


def test_from_a_shell_on_a_table_of_numbers(tmp_path):
    rng = np.random.default_rng(0)
    rows = ["a,b,price"] + [f"{a:.3f},{b:.3f},{a + b * b:.3f}" for a, b in rng.normal(size=(80, 2))]
    (tmp_path / "t.csv").write_text("\n".join(rows))
    asked = [
        "compare", tmp_path / "t.csv", "--target", "price", "--out", tmp_path / "out",
        "--hidden", "6", "--iterations", "4",
    ]  # fmt: skip
    ran = run(*asked, "--methods", "restored,adam=0.01", "--json")
    assert ran.code == 0, ran.err
    rows = json.loads(ran.out)["rows"]
    assert [row["method"] for row in rows] == ["restored", "adam 0.01"]
    assert rows[0]["test_accuracy"] is None
    assert (tmp_path / "out" / "compare.png").read_bytes().startswith(b"\x89PNG")
    assert "restored" in run(*asked, "--methods", "restored,adam=0.01").out
    refused = run(*asked, "--methods", "sgdd")
    assert (refused.code, refused.err.count("\n")) == (2, 1)


def test_a_missing_extra_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optax", None)
    for name in ("baselines", "compare"):
        monkeypatch.delitem(sys.modules, f"dladmm.experiments.{name}", raising=False)
        monkeypatch.delattr(f"dladmm.experiments.{name}", raising=False)
    refused = run("compare", "digits", "--out", tmp_path)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "pip install 'dladmm[compare]'" in refused.err


def test_other_rows_of_the_same_shape_are_run_anew(setup, tmp_path):
    who = [Contestant("sgd", rate=0.1)]
    first = compare(setup, who, seeds=1, iterations=2, folder=tmp_path)
    x, y, _ = setup.arrays
    other = replace(setup, arrays=(x[::-1].copy(), y, None))
    assert compare(other, who, seeds=1, iterations=2, folder=tmp_path) != first
