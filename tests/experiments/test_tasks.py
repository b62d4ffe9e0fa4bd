"""The work of the races: how rows are split, what is to be reached, and by which rule."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score

from dladmm import forward
from dladmm.data.datasets import load_dataset
from dladmm.experiments import tasks
from dladmm.experiments.tasks import Target, image_task, score_of_rule, table_task, target_of_rule

pytestmark = pytest.mark.float32

RECORD = Path(__file__).parents[2] / "docs" / "results" / "race-targets.json"


def table(rows=1000):
    """The first column numbers the rows; the class is told by the second and third."""
    rng = np.random.default_rng(5)
    size = rng.normal(3, 2, rows)
    colour = rng.choice(["red", "green", "blue"], rows)
    price = 100 + 7 * size + 20 * (colour == "red")
    grade = np.where(price > np.median(price), "dear", "cheap")
    return pd.DataFrame({"row": np.arange(rows) / 2, "size": size, "colour": colour, "price": price,
                         "grade": grade})  # fmt: skip


def rows_of(x, column, mean, scale):
    return set(np.round((x[:, column] * scale + mean) * 2).astype(int).tolist())


def test_a_table_is_split_once_into_three_parts_without_a_row_in_two():
    frame = table()
    test = table_task("t", frame, "price", "regression").setup
    validation = table_task("t", frame, "price", "regression", judged="validation").setup
    x = test.arrays[0]
    np.testing.assert_array_equal(x, validation.arrays[0])
    assert [len(x), len(validation.test[0]), len(test.test[0])] == [640, 160, 200]
    # Columns are on the scale of the rows trained on: 0 and 1 there, and nearly so elsewhere.
    np.testing.assert_allclose([x[:, 0].mean(), x[:, 0].std()], [0, 1], atol=1e-5)
    order = np.random.default_rng(0).permutation(1000)
    mean, scale = frame["row"][order[:640]].mean(), frame["row"][order[:640]].std(ddof=0)
    parts = [rows_of(part, 0, mean, scale) for part in (x, validation.test[0], test.test[0])]
    assert set.union(*parts) == set(range(1000))
    assert sum(map(len, parts)) == 1000


def test_classes_of_a_table_are_one_hot_and_those_of_its_rows():
    frame = table()
    setup = table_task("t", frame, "grade", "classification").setup
    order = np.random.default_rng(0).permutation(1000)
    np.testing.assert_array_equal(setup.arrays[1].argmax(1), frame["grade"][order[:640]] == "dear")
    assert setup.problem.loss.classifies
    assert setup.score_name == "accuracy"


def test_the_score_of_numbers_is_scikit_learns_r2():
    setup = table_task("t", table(), "price", "regression", hidden=(5,)).setup
    params = setup.weights(0)
    x, y = setup.test
    expected = r2_score(y, np.asarray(forward(setup.problem, params, x)))
    assert setup.score(setup.on_test(params)) == pytest.approx(expected, abs=1e-5)
    assert setup.score_name == "r2"


def test_a_target_is_reached_from_its_own_side():
    assert Target("test_r2", 0.9).reached({"test_r2": 0.9})
    assert not Target("test_r2", 0.9).reached({"test_r2": 0.89})
    falling = Target("train_loss", 0.1, falls=True)
    assert falling.reached({"train_loss": 0.1})
    assert not falling.reached({"train_loss": 0.11})
    assert not any(
        one.reached({"train_loss": np.nan}) for one in (falling, Target("train_loss", 0))
    )


def test_the_targets_are_those_of_the_rule():
    kept = json.loads(RECORD.read_text())["tasks"]
    assert tasks.TARGETS.keys() == tasks.TASKS.keys() == kept.keys()
    for name, target in tasks.TARGETS.items():
        assert target == kept[name]["target"] == target_of_rule(kept[name]["scores"])
    assert target_of_rule([0.9, 0.98, 0.999]) == 0.98
    assert target_of_rule([0.9849, 0.5, 1.0]) == 0.98


def test_the_rule_trains_from_seeds_that_no_race_has_and_looks_at_the_rows_judged_on():
    task = image_task(load_dataset("digits"), 300, (8,))
    scores = score_of_rule(task, epochs=3)
    assert len(set(scores)) == len(tasks.RULE_SEEDS) == 3
    assert min(tasks.RULE_SEEDS) >= 100
    flipped = task.setup.test[0], np.roll(task.setup.test[1], 1, axis=1)
    other = replace(task, setup=replace(task.setup, test=flipped))
    assert score_of_rule(other, epochs=3) != scores


def test_an_accuracy_that_nobody_chose_is_refused():
    with pytest.raises(ValueError, match="there is no accuracy to race to on digits"):
        image_task(load_dataset("digits"), 100, (8,), "resnet-small")


def test_a_task_that_nobody_knows_is_refused():
    with pytest.raises(ValueError, match="'sum' is unknown; expected one of deep-narrow, diam"):
        tasks.task_named("sum")
