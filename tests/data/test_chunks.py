"""Pieces of a file become the rows that the whole table would have become, and no others."""

import gzip
import json
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from command_line import run
from tolerances import FLOAT32_ROUNDING

from dladmm.cli.loading import encoded as encoded_whole
from dladmm.data.chunks import chunks_of, encoded, joined, learned, rows_to_learn
from dladmm.data.columns import table_from_arrays
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


def chunks(file, target="kind"):
    return chunks_of(str(file), str(target), None)


def everything(some):
    return slice(0, some.n_rows)


def test_a_row_group_is_a_table_and_only_wanted_rows_of_it_are_given(file):
    some = chunks(file)
    assert [table.n_rows for table in some.tables(everything(some))] == [50, 50, 50, 50, 30]
    assert [table.n_rows for table in some.tables(slice(95, 160))] == [5, 50, 10]
    whole = read_table(file)
    again = joined(list(some.tables(slice(95, 160))))
    assert again.names == whole.names
    assert list(again.column("where").values) == list(whole.column("where").values[95:160])


def test_encoded_rows_are_those_of_the_whole_table(file, tmp_path):
    some = chunks(file)
    preprocessing = learned(some, "kind")
    assert preprocessing == TablePreprocessor.fit(read_table(file), "kind")
    X, y = encoded(some, preprocessing, everything(some), tmp_path / "inputs.npy")
    assert isinstance(X, np.memmap)
    expected_X, expected_y = encoded_whole(preprocessing, read_table(file))
    np.testing.assert_allclose(X, expected_X, rtol=FLOAT32_ROUNDING, atol=FLOAT32_ROUNDING)
    np.testing.assert_array_equal(y, expected_y)
    part, y_part = encoded(some, preprocessing, slice(45, 120), None)
    np.testing.assert_array_equal(part, X[45:120])
    np.testing.assert_array_equal(y_part, y[45:120])


def test_columns_are_learned_from_the_first_rows_and_classes_from_all(file):
    some = chunks(file)
    first = joined(list(some.tables(slice(0, 60))))
    rare = learned(some, "kind", rows=60)
    assert rare.columns == TablePreprocessor.fit(first, "kind").columns
    assert rare.target.classes == ("a", "b")


def test_a_row_group_may_be_the_whole_file(file, monkeypatch):
    monkeypatch.setattr("dladmm.data.chunks.PARQUET_ROWS", 20)
    some = chunks(file)
    assert [table.n_rows for table in some.tables(slice(95, 160))] == [5, 20, 20, 10, 10]
    again = joined(list(some.tables(slice(95, 160))))
    assert list(again.column("where").values) == list(
        read_table(file).column("where").values[95:160]
    )


def test_how_many_rows_are_learned_from_depends_on_the_table_alone():
    numbers = (100, 10_000, 40_000, 160_000, 10**9)
    assert [rows_to_learn(n) for n in numbers] == [100, 10_000, 10_000, 20_000, 200_000]


def test_a_file_sorted_by_its_target_is_learned_from_its_first_rows(tmp_path):
    frame = pd.DataFrame({"x": np.arange(60.0), "kind": ["a"] * 50 + ["b"] * 10})
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=20)
    preprocessing = learned(chunks(tmp_path / "t.parquet"), "kind", rows=20)
    assert preprocessing.target.classes == ("a", "b")
    assert preprocessing.columns[0].mean == pytest.approx(9.5)


def test_a_row_group_without_a_cell_does_not_say_what_its_column_is(tmp_path):
    frame = pd.DataFrame({"where": [None] * 20 + ["Rom", "Köln"] * 10, "y": np.arange(40.0)})
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=20)
    some = chunks(tmp_path / "t.parquet", "y")
    assert joined(list(some.tables(everything(some)))).column("where").kind == "text"


@pytest.fixture
def text_table(tmp_path):
    """Newlines in quotes, whole numbers that go on with fractions, numbers that go on with text."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(
        {
            "note": rng.choice(["plain", 'two\nlines, "quoted"', "\n"], N),
            "size": [str(i) if i < 100 else f"{i}.5" for i in range(N)],
            "width": [str(i % 9) if i != 200 else "?" for i in range(N)],
            "code": [str(i % 9) if i < 150 else "x7" for i in range(N)],
            "flag": [("True", "", "False")[i % 3] if i > 90 else "" for i in range(N)],
            "kind": rng.choice(["a", "b"], N),
        }
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


@pytest.mark.parametrize("rows", [7, 40, 1000])
def test_a_text_file_by_chunks_is_the_whole_table(text_table, monkeypatch, rows):
    monkeypatch.setattr("dladmm.data.chunks.TEXT_ROWS", rows)
    some, whole = chunks(text_table), read_table(text_table)
    assert some.n_rows == N
    for part in (slice(0, N), slice(37, 190)):
        again, expected = joined(list(some.tables(part))), whole.take(part)
        assert again.names == expected.names
        for one, other in zip(again.columns, expected.columns, strict=True):
            assert (one.kind, list(one.missing)) == (other.kind, list(other.missing))
            there = ~one.missing
            np.testing.assert_array_equal(one.values[there], other.values[there])
    with pytest.warns(UserWarning, match="column '") as of_chunks:
        preprocessing = learned(some, "kind")
    with pytest.warns(UserWarning, match="column '") as of_whole:
        assert preprocessing == TablePreprocessor.fit(whole, "kind")
    assert {str(w.message) for w in of_chunks} == {str(w.message) for w in of_whole}
    X, y = encoded(some, preprocessing, slice(37, 190), None, np.float64)
    with pytest.warns(UserWarning, match="taken as missing"):
        np.testing.assert_array_equal(X, preprocessing.transform(whole)[37:190])
    assert y.tolist() == whole.column("kind").values[37:190].tolist()


def test_text_and_parquet_are_trained_alike_by_batches_from_a_shell(file, tmp_path):
    pd.read_parquet(file).to_csv(tmp_path / "t.csv.gz", index=False)
    asked = ("--target", "kind", "--hidden", "8", "--batch-size", "32", "--max-iter", "3", "--json")
    of_text, of_parquet = (
        run("fit", data, *asked, "--out", tmp_path / "m").json
        for data in (tmp_path / "t.csv.gz", file)
    )
    for key in ("train_loss", "train", "held_out"):
        assert of_text[key] == of_parquet[key]


def test_rows_are_forgotten_while_a_text_file_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("dladmm.data.chunks.TEXT_ROWS", 1000)
    rows = 60_000
    words = [f"word {i}" for i in range(rows)]  # Python counts the bytes of text, not pandas' own
    pd.DataFrame({"a": words, "b": words, "y": words}).to_csv(tmp_path / "t.csv", index=False)

    def peak(read):
        tracemalloc.start()
        assert read() == rows
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    def by_chunks():
        return sum(table.n_rows for table in chunks(tmp_path / "t.csv").tables(slice(0, rows)))

    assert peak(by_chunks) < peak(lambda: read_table(tmp_path / "t.csv").n_rows) / 2


def test_only_some_rows_are_encoded_and_learned_from(file):
    some = chunks(file)
    kept = np.arange(N) % 3 > 0
    preprocessing = learned(some, "kind", among=kept)
    assert preprocessing == TablePreprocessor.fit(read_table(file).take(kept), "kind")
    X, y = encoded(some, preprocessing, kept, None, np.float64)
    expected_X, expected_y = encoded_whole(preprocessing, read_table(file).take(kept))
    np.testing.assert_array_equal(X, expected_X)
    np.testing.assert_array_equal(y, expected_y)


def test_a_file_without_rows_is_refused_by_chunks_too(tmp_path):
    empty = pd.DataFrame({"x": [], "kind": []})
    empty.to_parquet(tmp_path / "t.parquet")
    empty.to_csv(tmp_path / "t.csv", index=False)
    np.save(tmp_path / "x.npy", np.zeros((0, 2)))
    np.save(tmp_path / "y.npy", np.zeros(0))
    for name, target in (("t.parquet", "kind"), ("t.csv", "kind"), ("x.npy", tmp_path / "y.npy")):
        asked = ("--target", target, "--batch-size", "8", "--out", tmp_path / "m")
        refused = run("fit", tmp_path / name, *asked)
        assert (refused.code, refused.err.count("\n")) == (2, 1), refused.err
        assert f"{name} has no rows; expected at least one" in refused.err


IMAGES, LABELS = (N, 3, 2), (N,)


def write_arrays(folder, kind):
    """Images and labels as two files of this kind; what they hold."""
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 256, IMAGES, np.uint8), rng.integers(0, 3, LABELS, np.uint8)
    paths = []
    for name, array in (("images", x), ("labels", y)):
        sizes = b"".join(n.to_bytes(4, "big") for n in array.shape)
        content = bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()
        path = folder / {"npy": f"{name}.npy", "idx": f"{name}.idx", "gz": f"{name}-ubyte.gz"}[kind]
        if kind == "npy":
            np.save(path, array)
        else:
            path.write_bytes(gzip.compress(content) if kind == "gz" else content)
        paths.append(path)
    return paths, x, y


@pytest.mark.parametrize("kind", ["npy", "idx", "gz"])
def test_rows_of_array_files_are_those_of_the_whole_arrays(tmp_path, monkeypatch, kind):
    monkeypatch.setattr("dladmm.data.chunks.CHUNK_ROWS", 40)
    (images, labels), x, y = write_arrays(tmp_path, kind)
    some = chunks(images, labels)
    whole = table_from_arrays(x, y)
    preprocessing = learned(some, "y")
    assert preprocessing == TablePreprocessor.fit(whole, "y")
    expected_X, expected_y = encoded_whole(preprocessing, whole)
    X, got_y = encoded(some, preprocessing, slice(37, 190), None)
    np.testing.assert_allclose(X, expected_X[37:190], rtol=FLOAT32_ROUNDING, atol=FLOAT32_ROUNDING)
    np.testing.assert_array_equal(got_y, expected_y[37:190])


def test_a_gzipped_file_is_streamed_and_forgotten(tmp_path):
    rows, width = 20_000, 500
    sizes = b"".join(n.to_bytes(4, "big") for n in (rows, width))
    content = bytes([0, 0, 8, 2]) + sizes + bytes(rows * width)
    (tmp_path / "x-ubyte.gz").write_bytes(gzip.compress(content, 1))
    np.save(tmp_path / "y.npy", np.arange(rows))
    del content
    some = chunks(tmp_path / "x-ubyte.gz", tmp_path / "y.npy")
    tracemalloc.start()
    found = sum(table.n_rows for table in some.tables(slice(19_000, 20_000)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == 1000
    assert peak < rows * width / 2


@pytest.mark.parametrize("kind", ["npy", "idx", "gz"])
def test_array_files_are_trained_and_predicted_from_a_shell(tmp_path, kind):
    (images, labels), *_ = write_arrays(tmp_path, kind)
    asked = ("--hidden", "4", "--max-iter", "3", "--out", tmp_path / "m", "--json")
    ran = run("fit", images, "--target", labels, *asked)
    assert ran.code == 0, ran.err
    assert ran.json["network"] == [6, 4, 3]
    predicted = run("predict", tmp_path / "m", images, "--out", tmp_path / "p.csv", "--json")
    assert predicted.json["rows"] == N


def test_array_files_that_do_not_fit_each_other_are_refused(tmp_path):
    (images, labels), *_ = write_arrays(tmp_path, "npy")
    np.save(tmp_path / "short.npy", np.zeros(3))
    (tmp_path / "cut.idx").write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 9, 1]))
    (tmp_path / "not.npy").write_text("text")
    for target, words in (
        (None, "--target is missing; expected a .npy or IDX file"),
        (tmp_path / "short.npy", "has 3 rows; expected 230"),
        (tmp_path / "cut.idx", "is truncated: it has 9 bytes; expected 17"),
        (tmp_path / "not.npy", "cannot be read as NPY"),
        (tmp_path / "gone.npy", "cannot be read as NPY: No such file"),
    ):
        asked = () if target is None else ("--target", target)
        refused = run("fit", images, *asked, "--out", tmp_path / "none")
        assert (refused.code, refused.err.count("\n")) == (2, 1), refused.err
        assert words in refused.err
    assert labels.exists()


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
