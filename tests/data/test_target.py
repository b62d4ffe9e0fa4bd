"""The target: task inference, classes in their own type, standardised numbers."""

import json

import numpy as np
import pytest

from dladmm.data.columns import column_from_array
from dladmm.data.target import Target, fit_target, inferred_task


def column(values):
    return column_from_array("y", np.asarray(values))


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["a", "b", "a"], "classification"),
        ([True, False, True], "classification"),
        ([0, 1, 1], "classification"),
        ([0.0, 1.0, 0.0], "classification"),
        (list(range(20)) * 5, "classification"),
        (list(range(21)) * 9, "regression"),
        ([1, 2, 3, 4, 5], "regression"),
        ([0.5, 1.5, 0.5], "regression"),
    ],
)
def test_the_task_is_inferred(values, task):
    assert inferred_task(column(values)) == task


@pytest.mark.parametrize(
    ("values", "kind", "classes"),
    [
        (["b", "a", "b", "a"], "str", ("a", "b")),
        ([True, False, True, False], "bool", (False, True)),
        ([7, -1, 7, -1], "int", (-1, 7)),
        ([1.0, 2.0, 1.0, 2.0], "float", (1.0, 2.0)),
    ],
)
def test_classes_keep_their_type(values, kind, classes):
    target = fit_target(column(values))
    again = Target.from_dict(json.loads(json.dumps(target.to_dict())))
    assert again == target
    assert (target.class_type, target.classes) == (kind, classes)
    assert [type(c) for c in again.classes] == [type(c) for c in classes]
    assert target.encode(column(values)).tolist() == values


def test_numbers_are_standardised_and_come_back():
    y = np.array([10.0, 30.5, 20.0, -4.0])
    target = fit_target(column(y))
    z = target.encode(column(y))
    np.testing.assert_allclose([z.mean(), z.std()], [0, 1], atol=1e-12)
    np.testing.assert_allclose(target.decode(z), y)
    plain = fit_target(column(y), standardise=False)
    np.testing.assert_array_equal(plain.encode(column(y)), y)


@pytest.mark.parametrize(
    ("values", "task", "words"),
    [
        (["a", "a"], None, "one class only, 'a'"),
        ([3, 3], None, "one class only, 3"),
        (np.array([None, None], object), None, "missing in all rows"),
        ([np.nan, np.nan], None, "missing in all rows"),
        ([1.5, np.inf], None, "infinite in 1 rows"),
        ([0.5, 1.5], "classification", "has the value 0.5; expected whole numbers"),
        (["a", "b"], "regression", "is text; expected numbers for a regression"),
        (["a", "b"], "ranking", "task='ranking' is unknown"),
        (np.array(["2020-01-01", "2020-01-02"], "datetime64[D]"), None, "is a date"),
        ([1e308, -1e308], "regression", "squares can be added"),
    ],
)
def test_targets_that_cannot_be_learned_are_refused(values, task, words):
    with pytest.raises(ValueError, match=words):
        fit_target(column(values), task)


def objects(*cells):
    return column_from_array("y", np.array(cells, dtype=object))


@pytest.mark.parametrize(
    ("cells", "mean", "unit"),
    [
        (("$10,260.00", "$5.50", "$1,000", "$7"), 2818.125, "$"),
        (("10,26", "1,5", "2", "0,24"), 3.5, ""),
        (("12 %", "7.5 %", "1 %", "3.5 %"), 6, "%"),
    ],
)
def test_numbers_with_units_are_a_regression(cells, mean, unit):
    with pytest.warns(UserWarning, match="the target 'y' is read as numbers"):
        target = fit_target(objects(*cells))
    assert (target.task, target.unit) == ("regression", unit)
    assert target.mean == pytest.approx(mean)
    again = Target.from_dict(json.loads(json.dumps(target.to_dict())))
    z = again.encode(objects(*cells))
    np.testing.assert_allclose([z.mean(), z.std()], [0, 1], atol=1e-12)
    assert fit_target(objects(*cells * 2), "classification").class_type == "str"


def test_rows_without_a_target_are_counted_and_whole_numbers_stay_whole():
    with pytest.warns(UserWarning, match="missing in 1 of 5 rows, which are left out"):
        target = fit_target(column([1.0, 2.0, np.nan, 1.0, 2.0]))
    assert (target.class_type, target.classes) == ("int", (1, 2))
    assert target.encode(column([2.0, 1.0])).tolist() == [2, 1]
    assert target.answered(column([2.0, np.nan])).tolist() == [True, False]
    with pytest.warns(UserWarning, match="the target 'y' is") as said:
        target = fit_target(objects("0", "1", "?", "0", "1"))
    assert "missing in 1 of 5 rows" in str(said[1].message)
    assert target.classes == (0, 1)


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ([*(f"{i}.5" for i in range(30)), "5 kg"], r"31 different texts, most .*'0.5', '5 kg'"),
        ([*(f"${i}.5" for i in range(30)), "€5"], "31 different texts, most of them numbers"),
        ([f"{1 + i % 28:02} Apr 20{i:02}" for i in range(30)], "is a date"),
        ([f"name {chr(97 + i)}" for i in range(26)], "26 different texts, in 26 rows"),
    ],
)
def test_hundreds_of_classes_are_not_made_of_numbers_or_names(cells, words):
    with pytest.raises(ValueError, match=words):
        fit_target(objects(*cells))
    with pytest.warns(UserWarning, match="one row only"):
        assert len(fit_target(objects(*cells), "classification").classes) == len(cells)


def test_rare_classes_and_constant_numbers_are_said():
    with pytest.warns(UserWarning, match="one row only of the class 'c'"):
        fit_target(column(["a", "a", "b", "b", "c"]))
    with pytest.warns(UserWarning, match="is always 0.5"):
        assert fit_target(column([0.5, 0.5])).scale == 1


def test_a_target_filled_up_with_zeros_is_classes_where_they_are_few():
    def target(codes, **more):
        return fit_target(column(np.array([f"{code:04d}" for code in codes], object)), **more)

    assert target([7, 12, 7, 12]).classes == ("0007", "0012")
    with pytest.warns(UserWarning, match="is read as numbers"):
        assert target(range(50)).task == "regression"
    with pytest.warns(UserWarning, match="is read as numbers"):
        assert target([7, 12, 7, 12], task="regression").mean == 9.5
