"""Preprocessing: each formula on cells worked out by hand, and every sentence it says."""

import json

import numpy as np
import pytest

from dladmm.data.columns import Column, Table, column_from_array, table_from_arrays
from dladmm.data.preprocessing import TablePreprocessor


def text(*cells):
    return np.array(cells, dtype=object)


def table(**columns):
    made = tuple(column_from_array(name, np.asarray(v)) for name, v in columns.items())
    return Table(made, len(made[0].values))


Y = np.array(["p", "q", "p", "q"])


def fitted(**columns):
    return TablePreprocessor.fit(table(**columns, y=Y), "y")


def test_numbers_are_imputed_by_the_median_and_standardised():
    n = [1.0, np.nan, 3.0, 8.0]
    learned = fitted(n=n)
    filled = np.array([1.0, 3.0, 3.0, 8.0])
    expected = (filled - filled.mean()) / filled.std()
    np.testing.assert_allclose(learned.transform(table(n=n))[:, 0], expected)
    one = learned.transform(table(n=[np.nan]))
    np.testing.assert_allclose(one, [[(3 - filled.mean()) / filled.std()]])


def test_booleans_are_zero_and_one():
    learned = fitted(b=[True, False, True, True])
    np.testing.assert_array_equal(learned.transform(table(b=[False, True])), [[0], [1]])


def test_categories_are_one_hot_and_a_missing_one_has_its_own_input():
    learned = fitted(c=text("b", "a", None, "b"))
    assert learned.input_names == ["c=a", "c=b", "c=(missing)"]
    inputs = learned.transform(table(c=text("a", "b", None)))
    np.testing.assert_array_equal(inputs, np.eye(3))


def test_a_missing_category_that_training_had_not_is_the_most_frequent():
    learned = fitted(c=text("a", "b", "b", "b"))
    np.testing.assert_array_equal(learned.transform(table(c=text(None))), [[0, 1]])


def test_an_unseen_category_is_all_zeros_and_said():
    learned = fitted(c=text("a", "b", "b", "b"))
    with pytest.warns(UserWarning, match="column 'c' has the category 'z', unseen in training"):
        inputs = learned.transform(table(c=text("z", "a")))
    np.testing.assert_array_equal(inputs, [[0, 0], [1, 0]])


@pytest.mark.parametrize(
    "cells",
    [
        ("1970-01-02", "1970-01-04", None, "1970-01-05T12:00:00"),
        ("02.01.1970", "14.01.1970", None, "30.01.1970"),
        ("01/02/1970", "01/14/1970", None, "01/30/1970"),
    ],
)
def test_dates_become_days(cells):
    learned = fitted(d=text(*cells))
    (spec,) = learned.columns
    days = {"1970-01-02": [1, 3, 3, 4.5]}.get(cells[0], [1, 13, 13, 29])
    assert (spec.kind, spec.fill) == ("date", np.median([days[0], days[1], days[3]]))
    np.testing.assert_allclose(spec.mean, np.mean(days))
    inputs = learned.transform(table(d=text(*cells)))
    np.testing.assert_allclose(inputs[:, 0], (np.array(days) - np.mean(days)) / np.std(days))


def test_ambiguous_dates_are_said():
    with pytest.warns(UserWarning, match="could be .*read as %m/%d/%Y"):
        fitted(d=text("01/02/1970", "02/03/1970", "05/06/1970", "01/02/1970"))


def test_dates_are_the_same_from_text_and_from_datetimes():
    learned = fitted(d=text("2020-01-01", "2020-01-03", "2021-01-01", "2022-05-05"))
    moments = np.array(["2020-01-03", "2022-05-05"], "datetime64[D]")
    np.testing.assert_array_equal(
        learned.transform(table(d=moments)),
        learned.transform(table(d=text("2020-01-03", "2022-05-05"))),
    )


def test_constant_columns_have_scale_one_and_are_said_together():
    with pytest.warns(UserWarning, match="columns 'a', 'b' are constant") as said:
        learned = fitted(a=[0.1] * 4, b=text("x", "x", "x", "x"), c=[1.0, 2, 3, 4])
    assert len(said) == 1
    assert learned.columns[0].scale == 1
    inputs = learned.transform(table(a=[0.1], b=text("x"), c=[2.5]))
    np.testing.assert_allclose(inputs, [[0, 1, 0]], atol=1e-15)


def test_columns_are_matched_by_name_and_said():
    learned = fitted(a=[1.0, 2, 3, 5], b=[4.0, 3, 2, 0])
    straight = learned.transform(table(a=[7.0], b=[8.0]))
    with pytest.warns(UserWarning, match="in another order"):
        swapped = learned.transform(table(b=[8.0], a=[7.0]))
    np.testing.assert_array_equal(straight, swapped)
    with pytest.warns(UserWarning, match="column 'c' is unknown to the model, ignored"):
        learned.transform(table(a=[7.0], c=[1.0], b=[8.0]))
    learned.transform(table(a=[7.0], b=[8.0], y=["p"]))  # the target itself is no surprise


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"d": text("2020-01-01")}, "column 'n' of the model is missing; expected 'n', 'd'"),
        ({"n": text("one"), "d": text(None)}, "column 'n' has the text 'one' in row 1"),
        ({"n": [np.inf], "d": text(None)}, "column 'n' is infinite in row 1"),
        ({"n": [1.0], "d": text("soon")}, "column 'd' has the text 'soon' in row 1"),
        ({"n": [1.0], "d": [3.5]}, "column 'd' has a number in row 1; expected dates"),
    ],
)
def test_rows_that_do_not_fit_the_model_are_refused(given, words):
    dates = text("2020-01-01", "2020-01-02", "2020-02-02", "2021-01-01")
    learned = fitted(n=[1.0, 2, 3, 4], d=dates)
    with pytest.raises(ValueError, match=words):
        learned.transform(table(**given))


def test_what_cannot_be_trained_on_is_refused():
    with pytest.raises(ValueError, match=r"'n' is infinite in row 2 \(1 in all\)"):
        fitted(n=[1.0, -np.inf, 2, 3])
    with pytest.raises(ValueError, match="numbers whose squares can be added"):
        fitted(n=[1e308, -1e308, 2, 3])
    with pytest.raises(ValueError, match="has the target 'y' only"):
        fitted()


def test_odd_columns_are_said():
    with pytest.warns(
        UserWarning, match="'n' is taken as categories, not numbers, because of 'wide'"
    ):
        fitted(n=text("1", "2", "wide", "3"))
    with pytest.warns(UserWarning, match="'n' has no values at all"):
        fitted(n=[np.nan] * 4)
    many = table(c=text(*(f"id{i}" for i in range(150))), y=np.arange(150) % 2)
    with pytest.warns(UserWarning, match="column 'c' has") as said:
        assert len(TablePreprocessor.fit(many, "y").input_names) == 101  # the rest is one
    first, second = (str(warning.message) for warning in said)
    assert "150 categories; the 100 most frequent are told apart" in first
    assert "column 'c' has another value in each row" in second
    assert "--drop c leaves it out" in second


def test_known_categories_given_as_numbers_or_booleans_are_still_known():
    learned = fitted(c=text("1", "x", "True", "1"))
    inputs = learned.transform(Table((Column("c", "number", np.array([1])),), 1))
    assert inputs.argmax() == learned.columns[0].categories.index("1")
    inputs = learned.transform(table(c=[True]))
    assert inputs.argmax() == learned.columns[0].categories.index("True")


def test_marks_among_numbers_and_dates_are_missing_and_counted():
    numbers = text("1", "?", "3", "8")
    with pytest.warns(UserWarning, match=r"column 'n' has '\?' in 1 of 4 rows, taken as missing"):
        learned = fitted(n=numbers)
    assert (learned.columns[0].kind, learned.columns[0].fill) == ("number", 3)
    with pytest.warns(UserWarning, match="taken as missing"):
        inputs = learned.transform(table(n=text("-", "3")))
    np.testing.assert_array_equal(inputs[0], inputs[1])
    with pytest.warns(UserWarning, match="column 'd' has '-', 'n/a' in 2 of 4 rows"):
        learned = fitted(d=text("01 Apr 2020", "-", "n/a", "03 Apr 2020"))
    assert learned.columns[0].date_format == "%d %b %Y"


@pytest.mark.parametrize(
    ("cells", "values", "words"),
    [
        (("12 %", "5%", "7.5 %", "1 %"), (12, 5, 7.5, 1), "numbers with the unit '%'"),
        (("$5", "-$1,000.50", "($2)", "7"), (5, -1000.5, -2, 7), "numbers with the unit '\\$'"),
        (("1.234 €", "2.500 €", "7 €", "0 €"), (1234, 2500, 7, 0), "'€' and ',' as the decimal"),
        (("10,26", "1,5", "2", "0,75"), (10.26, 1.5, 2, 0.75), "numbers with ',' as the decimal"),
    ],
)
def test_units_and_decimal_commas_are_read_and_remembered(cells, values, words):
    with pytest.warns(UserWarning, match=words):
        learned = fitted(n=text(*cells))
    again = TablePreprocessor.from_dict(json.loads(json.dumps(learned.to_dict())))
    assert again.text_columns == ["n", "y"]
    expected = (np.array(values) - np.mean(values)) / np.std(values)
    np.testing.assert_allclose(again.transform(table(n=text(*cells)))[:, 0], expected)
    np.testing.assert_allclose(again.transform(table(n=np.array(values, float)))[:, 0], expected)
    with pytest.raises(ValueError, match="has the unit '£' in row 1; expected numbers"):
        again.transform(table(n=text("£5")))


def test_text_that_reads_as_numbers_is_numbers_unless_it_is_declared_or_a_name():
    assert fitted(n=text("1", "2", "1", "4")).columns[0].kind == "number"
    with pytest.warns(UserWarning, match="has leading zeros, such as '007'"):
        assert fitted(n=text("007", "2", "1", "4")).columns[0].kind == "category"
    with pytest.warns(UserWarning, match="has 'Basic' and 'basic ', which differ in capitals or"):
        fitted(n=text("Basic", "basic ", "Plus", "Plus"))
    declared = Column("n", "text", text("1", "2", "1", "4"), declared=True)
    both = Table((declared, *table(y=Y).columns), 4)
    assert TablePreprocessor.fit(both, "y").columns[0].kind == "category"


def test_categories_beyond_the_first_hundred_are_one_input():
    cells = [f"c{i}" for i in range(130)] * 2
    many = table(c=text(*cells), y=np.arange(260) % 2)
    with pytest.warns(UserWarning, match="130 categories; the 100 most frequent are told apart"):
        learned = TablePreprocessor.fit(many, "y")
    assert learned.input_names[-1] == "c=(other)"
    inputs = learned.transform(many)  # without a word about unseen ones
    np.testing.assert_array_equal(inputs.sum(axis=1), 1)
    assert inputs[:, -1].sum() == 60
    again = TablePreprocessor.from_dict(json.loads(json.dumps(learned.to_dict())))
    np.testing.assert_array_equal(again.transform(many), inputs)


def test_ids_are_said_and_dropped_on_request():
    rows = 30
    columns = {"n": np.arange(rows) % 7, "id": np.arange(rows), "y": np.arange(rows) % 2}
    with pytest.warns(UserWarning, match="column 'id' has another value in each row.*--drop id"):
        TablePreprocessor.fit(table(**columns), "y")
    learned = TablePreprocessor.fit(table(**columns), "y", drop=["id"])
    assert learned.input_names == ["n"]
    assert learned.transform(table(**columns)).shape == (rows, 1)  # a dropped column is no surprise
    assert TablePreprocessor.from_dict(learned.to_dict()) == learned
    with pytest.raises(ValueError, match="there is no column 'idd'; expected perhaps 'id'"):
        TablePreprocessor.fit(table(**columns), "y", drop=["idd"])


def test_rows_without_a_target_are_not_learned_from():
    columns = table(n=[1.0, 3.0, 100.0], y=[0.5, 1.5, np.nan])
    with pytest.warns(UserWarning, match="'y' is missing in 1 of 3 rows, which are left out"):
        learned = TablePreprocessor.fit(columns, "y")
    assert (learned.columns[0].mean, learned.target.mean) == (2, 1)


def test_a_category_that_only_left_out_rows_have_is_missing_in_all_others():
    columns = table(c=text(None, None, "a"), n=[1.0, 2.0, 3.0], y=[0.5, 1.5, np.nan])
    with pytest.warns(UserWarning, match="'(y|c)' is") as said:
        learned = TablePreprocessor.fit(columns, "y")
    assert [str(w.message)[:12] for w in said] == ["the target '", "column 'c' i"]
    assert learned.input_names == ["c=(missing)", "n"]


def test_what_0_1_wrote_is_still_read():
    number = {"name": "n", "kind": "number", "mean": 1.0, "scale": 2.0, "fill": 3.0}
    rest = {"date_format": None, "categories": [], "fill_category": None}
    target = {"name": "y", "task": "regression", "class_type": None, "classes": []}
    plain = {
        "format": 1,
        "source": "table",
        "columns": [number | rest],
        "target": target | {"mean": 0.0, "scale": 1.0},
    }
    learned = TablePreprocessor.from_dict(plain)
    np.testing.assert_array_equal(learned.transform(table(n=[5.0, np.nan])), [[2], [1]])


def test_json_and_back_is_the_same_preprocessing():
    with pytest.warns(UserWarning, match="constant"):
        learned = fitted(
            n=[1.0, 2, 3, np.nan],
            c=text("ä", None, "b", "b"),
            d=text("2020-01-01", None, "2020-02-02", "2021-01-01"),
            k=[1, 1, 1, 1],
        )
    plain = json.loads(json.dumps(learned.to_dict(), allow_nan=False))
    assert TablePreprocessor.from_dict(plain) == learned
    with pytest.raises(ValueError, match="preprocessing has format 3; expected 2"):
        TablePreprocessor.from_dict({**plain, "format": 3})
    with pytest.raises(ValueError, match="preprocessing is not readable"):
        TablePreprocessor.from_dict({**plain, "target": {}})


def test_pixels_stay_as_they_are_in_float32():
    X = np.linspace(0, 1, 12, dtype=np.float32).reshape(4, 3)
    learned = TablePreprocessor.fit(table_from_arrays(X, Y), "y", standardise=False)
    inputs = learned.transform(table_from_arrays(X))
    assert inputs.dtype == np.float32
    np.testing.assert_array_equal(inputs, X)
    assert all((spec.mean, spec.scale) == (0, 1) for spec in learned.columns)


def test_small_types_do_not_cost_digits():
    n = np.array([1000, 1001, 1002, 1003], dtype=np.float16)
    learned = fitted(n=n)
    inputs = learned.transform(table(n=n))
    assert inputs.dtype == np.float64
    np.testing.assert_allclose(inputs[:, 0], np.array([-1.5, -0.5, 0.5, 1.5]) / np.sqrt(1.25))


def test_labels_that_look_like_numbers_are_read_as_they_are_written():
    learned = TablePreprocessor.fit(table(n=[1.0, 2, 3, 4], y=text("1", "x", "1", "x")), "y")
    assert learned.text_columns == ["y"]
