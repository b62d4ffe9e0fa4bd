"""Row groups of a Parquet file become the rows that the whole table would have become."""

import json

import numpy as np
import pandas as pd
import pytest
from command_line import run
from tolerances import FLOAT32_ROUNDING

from dladmm.command_steps import prepared
from dladmm.data import spool
from dladmm.data.preprocessing import TablePreprocessor
from dladmm.data.tables import read_table

pytestmark = pytest.mark.float32

N = 230


@pytest.fixture
def file(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=N)
    frame = pd.DataFrame(
        {
            "x": np.where(rng.random(N) < 0.1, np.nan, x),
            "where": rng.choice(["Köln", "Rom"], N),
            "kind": np.where(x > 0, "a", "b"),
        }
    )
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=50)
    return tmp_path / "t.parquet"


def test_a_row_group_is_a_table(file):
    assert [table.n_rows for table in spool.row_groups(file)] == [50, 50, 50, 50, 30]
    whole = read_table(file)
    again = spool.joined(list(spool.row_groups(file)))
    assert again.names == whole.names
    assert list(again.column("where").values) == list(whole.column("where").values)


def test_spooled_rows_are_those_of_the_whole_table(file, tmp_path):
    preprocessing = spool.learned(file, "kind")
    assert preprocessing == TablePreprocessor.fit(read_table(file), "kind")
    X, y = spool.spooled(file, preprocessing, tmp_path)
    assert isinstance(X, np.memmap)
    expected_X, expected_y = prepared(preprocessing, read_table(file))
    np.testing.assert_allclose(X, expected_X, rtol=FLOAT32_ROUNDING, atol=FLOAT32_ROUNDING)
    np.testing.assert_array_equal(y, expected_y)


def test_columns_are_learned_from_the_first_row_groups_and_classes_from_all(file, monkeypatch):
    monkeypatch.setattr(spool, "LEARN_ROWS", 60)
    first_two = spool.joined(list(spool.row_groups(file))[:2])
    rare = spool.learned(file, "kind")
    assert rare.columns == TablePreprocessor.fit(first_two, "kind").columns
    assert rare.target.classes == ("a", "b")


def test_a_parquet_file_is_trained_by_batches_from_a_shell(file, tmp_path):
    asked = [
        "fit",
        file,
        "--target",
        "kind",
        "--hidden",
        "8",
        "--batch-size",
        "32",
        "--max-iter",
        "15",
    ]
    ran = run(*asked, "--max-iter", "15", "--out", tmp_path / "m", "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["train_score"] > 0.9
    predicted = run("predict", tmp_path / "m", file, "--out", tmp_path / "p.csv", "--json")
    assert predicted.json["rows"] == N
    for wrong in (["--target", "kinds"], []):
        refused = run("fit", file, *wrong, "--batch-size", "32", "--out", tmp_path / "none")
        assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert not (tmp_path / "none").exists()
