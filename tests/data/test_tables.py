"""Tables: three formats give the same columns; what cannot be read is refused in one sentence."""

import bz2
import csv
import datetime
import gzip
import io
import lzma
import sys
import warnings
import zipfile
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from dladmm.data.chunks import chunks_of
from dladmm.data.columns import column_from_series, table_from_arrays
from dladmm.data.preprocessing import TablePreprocessor
from dladmm.data.tables import read_table

HEADER = 'größe,"say ""hi"", ok",città,sì\n'


def written(folder, text, name="t.csv", encoding="utf-8"):
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


def test_csv_with_quotes_non_ascii_headers_and_missing_cells(tmp_path):
    rows = '1,"a, ""b""",Zürich,True\n,x,,False\n3,"two\nlines",東京,\n'
    table = read_table(written(tmp_path, HEADER + rows))
    assert table.names == ["größe", 'say "hi", ok', "città", "sì"]
    assert [c.kind for c in table.columns] == ["number", "text", "text", "boolean"]
    np.testing.assert_array_equal(table.columns[0].values, [1, np.nan, 3])
    assert table.columns[1].values.tolist() == ['a, "b"', "x", "two\nlines"]
    assert table.columns[2].values.tolist() == ["Zürich", None, "東京"]
    np.testing.assert_array_equal(table.columns[3].values, [1, 0, np.nan])


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path):
    assert read_table(written(tmp_path, "a,b\n1,2\n", encoding="utf-8-sig")).names == ["a", "b"]


def test_text_columns_keep_what_is_written(tmp_path):
    path = written(tmp_path, "code,n\n007,1\n,2\n")
    assert read_table(path, text_columns=["code"]).columns[0].values.tolist() == ["007", None]
    assert read_table(path, ()).columns[0].kind == "number"


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["02139", "10001", ""], "text"),  # postcodes
        (["007", "042", "123"], "text"),
        (["0", "1", "1"], "number"),  # nothing is filled up
        (["00", "7", "12"], "number"),  # nor here, where lengths differ
        (["0.50", "1.25", "0.75"], "number"),
        (["2139", "1000", "9999"], "number"),
    ],
)
def test_numbers_filled_up_with_zeros_are_names(tmp_path, cells, kind):
    path = written(tmp_path, "n,code\n" + "".join(f"{k},{cell}\n" for k, cell in enumerate(cells)))
    whole = read_table(path).column("code")
    (chunk,) = chunks_of(str(path), "n", None).tables(slice(0, 3))
    assert (whole.kind, chunk.column("code").kind) == (kind, kind)
    if kind == "text":
        assert whole.values.tolist() == [cell or None for cell in cells]


def test_parquet_and_csv_give_the_same_columns(tmp_path):
    frame = pd.DataFrame(
        {
            "n": [1.5, None, 3.0],
            "i": [1, 2, 3],
            "t": ["a", None, "ç"],
            "b": [True, False, True],
        }
    )
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    one, two = read_table(tmp_path / "t.parquet"), read_table(tmp_path / "t.csv")
    for left, right in zip(one.columns, two.columns, strict=True):
        assert (left.name, left.kind) == (right.name, right.kind)
        np.testing.assert_array_equal(left.values, right.values)


@pytest.mark.parametrize(
    ("cells", "kind", "values"),
    [
        (pd.Series([1, None], dtype="Int64"), "number", [1, np.nan]),
        (pd.Series([True, None], dtype="boolean"), "boolean", [1, np.nan]),
        (pd.Series([Decimal("1.5"), None]), "number", [1.5, np.nan]),
        (pd.Series([3, 4], dtype="category"), "text", ["3", "4"]),
        (pd.Series(pd.to_datetime(["1970-01-03T12:00", None])), "date", [2.5, np.nan]),
        (pd.Series(pd.to_datetime(["1970-01-02T01:00+01:00"], utc=True)), "date", [1.0]),
        (pd.Series([datetime.date(1970, 1, 11), None]), "date", [10, np.nan]),
        (pd.Series(pd.to_timedelta(["36h"])), "number", [1.5]),
        (pd.Series([1, "a", None], dtype=object), "text", ["1", "a", None]),
        (pd.Series([10**400], dtype=object), "number", [np.inf]),
    ],
)
def test_each_type_of_pandas_becomes_its_kind(cells, kind, values):
    column = column_from_series("c", cells)
    assert column.kind == kind
    np.testing.assert_array_equal(column.values, np.array(values, dtype=column.values.dtype))


def test_npz_has_numbered_columns_and_y(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.zeros((4, 2, 3), np.float32), y=np.array(list("abab")))
    table = read_table(tmp_path / "t.npz")
    assert table.names == ["x0", "x1", "x2", "x3", "x4", "x5", "y"]
    assert table.column("y").values.tolist() == ["a", "b", "a", "b"]
    np.savez(tmp_path / "u.npz", X=np.zeros((4, 2)))
    assert read_table(tmp_path / "u.npz").names == ["x0", "x1"]


def test_an_npz_with_pickled_objects_is_refused_unread(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.array([[object()]], dtype=object), y=np.zeros(1))
    with pytest.raises(ValueError, match="cannot be read as NPZ: Object arrays"):
        read_table(tmp_path / "t.npz")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("t.csv", "", "is empty"),
        ("t.csv", "a,b\n", "has no rows"),
        ("t.csv", "a,a\n1,2\n", "more than one column named 'a'"),
        ("t.csv", "a,b\n1,2,3\n", "cannot be read"),
        ("t.csv", "a,b\n1,2\n1,2,3\n", "cannot be read"),
        ("t.parquet", "a,b\n1,2\n", "cannot be read as Parquet"),
        ("t.npz", "a,b\n1,2\n", "cannot be read as NPZ"),
        ("t.xlsx", "a,b\n1,2\n", "cannot be read as Excel"),
        ("t.csv.gz", "a,b\n1,2\n", "cannot be read: Not a gzipped file"),
        ("t.csv.xz", "a,b\n1,2\n", "cannot be read: Input format not supported"),
        ("t.doc", "a,b\n1,2\n", "is not a table; expected a file ending in .csv"),
    ],
)
def test_what_is_no_table_is_refused_by_name(tmp_path, name, text, words):
    with pytest.raises(ValueError, match=words) as refused:
        read_table(written(tmp_path, text, name))
    assert name in str(refused.value)


CELLS = [("größe", "preis €", "wo"), ("1.5", "2", "Köln, Süd"), ("-3.25", "4", 'a "b"\nc')]


def as_text(separator, decimal="."):
    text = io.StringIO()
    csv.writer(text, delimiter=separator).writerows(
        [cell.replace(".", decimal) for cell in row] for row in CELLS
    )
    return text.getvalue()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16", "utf-16-le"])
@pytest.mark.parametrize(
    ("separator", "decimal"), [(",", "."), (";", ","), ("\t", "."), ("|", ",")]
)
def test_how_a_text_file_is_written_is_found_out_and_said(tmp_path, encoding, separator, decimal):
    path = written(tmp_path, as_text(separator, decimal), encoding=encoding)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        table = read_table(path)
    assert table.names == list(CELLS[0])
    assert table.columns[0].values.tolist() == [1.5, -3.25]
    assert table.columns[2].values.tolist() == ["Köln, Süd", 'a "b"\nc']
    words = " ".join(str(warning.message) for warning in said)
    assert ("between cells" in words) == (separator != ",")
    assert ("',' as the decimal mark" in words) == (decimal == ",")
    assert (f"{encoding} as the encoding" in words) == (not encoding.startswith("utf-8"))


def test_a_letter_that_is_not_utf8_may_come_late(tmp_path):
    text = "a,b\n" + "1,x\n" * 400_000 + "2,é\n"
    with pytest.warns(UserWarning, match="cp1252"):
        table = read_table(written(tmp_path, text, encoding="latin-1"))
    assert table.columns[1].values[-1] == "é"


@pytest.mark.parametrize(
    ("name", "packed"),
    [
        ("t.csv.gz", gzip.compress),
        ("t.csv.bz2", bz2.compress),
        ("t.csv.xz", lzma.compress),
        ("t.txt.gz", gzip.compress),
        ("T.CSV", bytes),
    ],
)
def test_compressed_files_are_read(tmp_path, name, packed):
    (tmp_path / name).write_bytes(packed(as_text(",").encode()))
    assert read_table(tmp_path / name).names == list(CELLS[0])


def test_an_archive_of_one_file_is_read(tmp_path):
    for name in ("t.csv.zip", "t.zip"):
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("inner.csv", as_text(","))
        assert read_table(tmp_path / name).names == list(CELLS[0])


def test_separators_in_doubt(tmp_path):
    with pytest.warns(UserWarning, match="';' between cells, ',' as the decimal mark"):
        table = read_table(written(tmp_path, "length, cm;width, cm\n1,5;2,5\n3,5;4,5\n"))
    assert table.names == ["length, cm", "width, cm"]
    with pytest.warns(UserWarning, match="spaces between cells"):
        table = read_table(written(tmp_path, "a b  c\n1 2   3\n4 5 6\n", "t.txt"))
    assert table.columns[2].values.tolist() == [3, 6]
    with pytest.warns(UserWarning, match="';' between cells"):
        assert read_table(written(tmp_path, "sep=;\r\na;b\r\n1;2\r\n")).names == ["a", "b"]
    spaced = read_table(written(tmp_path, 'a, b, c\n1, x, "2,5"\n3, ?, "4,5"\n'))
    assert spaced.names == ["a", "b", "c"]
    assert spaced.columns[1].values.tolist() == ["x", "?"]
    assert read_table(written(tmp_path, "a, b,c\n1, x,2\n")).names == ["a", " b", "c"]
    one = read_table(written(tmp_path, "only\nhello world\nbye\n"))
    assert one.names == ["only"]
    thousands = "a;b\n1,234;1\n5,678;2\n"  # no cell says which mark is the decimal one
    with pytest.warns(UserWarning, match="is read with ';' between cells$"):
        assert read_table(written(tmp_path, thousands)).columns[0].kind == "text"


def test_long_headers_and_cells_are_read(tmp_path):
    names = [f"a column with a name of its own {j}" for j in range(10_000)]
    text = ";".join(names) + "\n" + ";".join(["1,5"] * len(names)) + "\n"
    with pytest.warns(UserWarning, match="';' between cells, ',' as the decimal mark"):
        assert read_table(written(tmp_path, text)).names == names
    long = read_table(written(tmp_path, f"a,b\n1,{'x' * 300_000}\n2,y\n"))
    assert [len(cell) for cell in long.column("b").values] == [300_000, 1]


def test_a_column_without_a_name_has_the_name_pandas_gives_it(tmp_path):
    path = written(tmp_path, ",a\n007,1\n")
    assert read_table(path).names == ["Unnamed: 0", "a"]
    assert read_table(path, ["Unnamed: 0"]).columns[0].values.tolist() == ["007"]


def test_excel_gives_the_columns_of_csv(tmp_path):
    frame = pd.DataFrame(
        {
            "n": [1.5, None, 3.0],
            "i": [1, 2, 3],
            "t": ["a", None, "ç"],
            "b": [True, False, True],
            "d": pd.to_datetime(["1970-01-02", "1970-01-03", None]),
        }
    )
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    table = read_table(tmp_path / "t.xlsx")
    kinds = [column.kind for column in table.columns]
    assert kinds == ["number", "number", "text", "boolean", "date"]
    np.testing.assert_array_equal(table.column("n").values, [1.5, np.nan, 3])
    np.testing.assert_array_equal(table.column("d").values, [1, 2, np.nan])
    pd.DataFrame([[1, 2]], columns=["a", "a"]).to_excel(tmp_path / "t.xlsx", index=False)
    with pytest.raises(ValueError, match="more than one column named 'a'"):
        read_table(tmp_path / "t.xlsx")


def test_excel_without_its_extra_names_it(tmp_path, monkeypatch):
    pd.DataFrame({"a": [1]}).to_excel(tmp_path / "t.xlsx", index=False)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(ImportError, match=r"pip install 'dladmm\[excel\]'"):
        read_table(tmp_path / "t.xlsx")


def test_parquet_without_its_extra_names_it(tmp_path, monkeypatch):
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "t.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    for read in (read_table, lambda path: chunks_of(str(path), "a", None)):
        with pytest.raises(ImportError, match=r"t\.parquet; pip install 'dladmm\[parquet\]'"):
            read(tmp_path / "t.parquet")


def test_missing_files_and_folders_are_refused(tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        read_table(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(ValueError, match="is a folder"):
        read_table(tmp_path / "folder.csv")


def test_duplicate_names_in_parquet_are_refused(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), tmp_path / "t.pq")
    with pytest.raises(ValueError, match="more than one column named 'a'"):
        read_table(tmp_path / "t.pq")


def test_wrong_arrays_are_refused():
    with pytest.raises(ValueError, match=r"X has shape \(3,\); expected a matrix"):
        table_from_arrays(np.zeros(3))
    with pytest.raises(ValueError, match=r"y has shape \(2,\); expected \(3,\)"):
        table_from_arrays(np.zeros((3, 1)), np.zeros(2))
    with pytest.raises(ValueError, match="is of type complex128"):
        table_from_arrays(np.zeros((3, 1), complex))


def test_a_missing_column_names_close_matches():
    table = table_from_arrays(np.zeros((1, 3)))
    with pytest.raises(ValueError, match="there is no column 'X1'; expected perhaps 'x1'"):
        table.column("X1")
    with pytest.raises(ValueError, match="expected one of 'x0', 'x1', 'x2'"):
        table.column("species")


@pytest.mark.parametrize(("price", "km"), [("7.840,66 €", 237_615), ("7,840.66 €", 237.615)])
def test_money_says_which_decimal_mark_a_file_has(tmp_path, price, km):
    """A thousand kilometres are not one where the prices beside them have a decimal comma."""
    path = written(tmp_path, "km;price\n" + f"237.615;{price}\n512;{price}\n" * 20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        preprocessing = TablePreprocessor.fit(read_table(path), "price")
        inputs = preprocessing.transform(read_table(path))
    (spec,) = preprocessing.columns
    assert inputs[0, 0] * spec.scale + spec.mean == pytest.approx(km)
    assert inputs[1, 0] * spec.scale + spec.mean == pytest.approx(512)
