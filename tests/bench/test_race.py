"""The race on digits, small: what is counted, and that finished runs are kept."""

import json
import math

import numpy as np
import pytest
from command_line import run

from dladmm.bench import race as racing
from dladmm.bench.race import Racer, measured, race
from dladmm.data.datasets import load_dataset
from dladmm.experiments import timing
from dladmm.experiments.baselines import Made
from dladmm.experiments.setup import image_setup

pytestmark = pytest.mark.float32


@pytest.fixture
def short(monkeypatch):
    """Two racers of each kind instead of all, and none is out for being slow."""
    monkeypatch.setattr(racing, "SLACK", math.inf)
    full, mini = racing.full_racers(), racing.mini_racers()
    monkeypatch.setattr(racing, "full_racers", lambda: [full[0], full[3]])
    monkeypatch.setattr(racing, "mini_racers", lambda dense: [mini[0], mini[1]])


def test_the_full_batch_race_is_to_adams_last_loss(short):
    figures = race(
        load_dataset("digits"), samples=300, hidden=(16,), seeds=1, mini=False, iterations=30
    )
    adam, ours = figures["runs"]
    assert adam["racer"] == "adam 0.001"
    assert adam["target"] == ours["target"] == adam["curve"][-1]["train_loss"]
    assert adam["iteration"] == 30
    assert ours["iteration"] < 30
    assert ours["curve"][-1]["train_loss"] <= ours["target"] < ours["curve"][-2]["train_loss"]
    assert [row["racer"] for row in figures["table"]] == ["adam 0.001", "restored"]
    assert figures["machine"]["cores"]


def test_a_target_out_of_reach_is_never(short, monkeypatch):
    monkeypatch.setitem(racing.ACCURACIES, "digits", 1.01)
    figures = race(
        load_dataset("digits"), samples=200, hidden=(8,), seeds=1, mini=True, iterations=1
    )
    assert [row["seconds"] for row in figures["table"]] == [None, None]
    assert all(run["curve"][-1]["iteration"] == 1 for run in figures["runs"])


def test_the_fastest_of_each_group_is_named_and_a_group_that_never_arrives_is_too():
    table = [
        {"racer": "a 1", "group": "one", "seconds": 2.0},
        {"racer": "a 2", "group": "one", "seconds": 1.0},
        {"racer": "a 3", "group": "one", "seconds": None},
        {"racer": "b", "group": "two", "seconds": None},
    ]
    assert racing._best(table) == {"one": "a 2", "two": None}
    names = [racer.name for racer in racing.mini_racers()]
    assert len(names) == len(set(names))
    assert {racer.group for racer in racing.mini_racers()} == {
        "restored", "constant rate", "tuned", "scheduled", "rate-free",
    }  # fmt: skip


def test_finished_runs_are_not_run_again(short, tmp_path, monkeypatch):
    settings = {"samples": 200, "hidden": (8,), "seeds": 1, "mini": True, "iterations": 1}
    first = race(load_dataset("digits"), **settings, records=tmp_path)
    assert len(list(tmp_path.glob("*.json"))) == 2
    monkeypatch.setattr(racing, "measured", None)  # a run would fail
    again = race(load_dataset("digits"), **settings, records=tmp_path)
    assert again["runs"] == first["runs"]
    with pytest.raises(TypeError):  # another limit is another run
        race(load_dataset("digits"), **settings | {"iterations": 2}, records=tmp_path)


def test_the_clock_leaves_out_evaluation(monkeypatch):
    c = image_setup(load_dataset("digits"), 100, (4,))
    clock = iter(np.arange(100.0))
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(clock))
    still = Racer("still", lambda problem, arrays, params, seed: iter([Made(params)] * 9))
    kept = list(measured(still, c, 0, 3, with_loss=True))
    # Each `next` lies between two readings one second apart; evaluations read no clock.
    assert [point["seconds"] for point in kept] == [1.0, 2.0, 3.0]
    assert {"train_loss", "test_accuracy"} <= kept[0].keys()


def test_some_racers_only(short):
    settings = {"samples": 200, "hidden": (8,), "seeds": 1, "iterations": 2}
    mini = race(load_dataset("digits"), **settings, mini=True, only=("restored",))
    assert [row["racer"] for row in mini["table"]] == ["restored /512"]
    full = race(load_dataset("digits"), **settings, mini=False, only=("restored",))
    assert [row["racer"] for row in full["table"]] == ["adam 0.001", "restored"]
    with pytest.raises(ValueError, match="'rest-' is unknown"):
        race(load_dataset("digits"), **settings, mini=True, only=("rest-",))


def test_the_training_loss_of_a_point_is_its_networks(short):
    c = image_setup(load_dataset("digits"), 100, (4,))
    for racer in racing.full_racers():
        kept = list(measured(racer, c, 0, 3, with_loss=True))
        trainer = racer.start(c.problem, c.arrays, c.weights(0), 0)
        for point, made in zip(kept, trainer, strict=False):
            expected = float(c.on_training(made.params).loss)
            assert point["train_loss"] == pytest.approx(expected, rel=1e-4)
        assert kept[0]["train_loss"] != pytest.approx(kept[1]["train_loss"], rel=1e-4)


def test_from_a_shell_with_a_picture(short, tmp_path):
    picture = tmp_path / "race.png"
    ran = run(
        "bench", "race", "--data", "digits", "--samples", "200", "--hidden", "8", "--seeds", "1",
        "--iterations", "5", "--picture", picture, "--json",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["table"][1]["racer"] == "restored"
    assert picture.read_bytes().startswith(b"\x89PNG")
    refused = run("bench", "race", "--data", "digits", "--seeds", "0")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
