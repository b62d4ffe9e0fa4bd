"""The race on digits, small: what is counted, and that finished runs are kept."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from command_line import run

from dladmm.bench import race as racing
from dladmm.bench import racers as field
from dladmm.bench.race import measured, race
from dladmm.bench.racers import Racer
from dladmm.data.datasets import load_dataset
from dladmm.experiments import timing
from dladmm.experiments.baselines import Made, full_batch
from dladmm.experiments.setup import image_setup
from dladmm.experiments.tasks import Target, image_task
from dladmm.experiments.torch_rivals import TorchRival

pytestmark = pytest.mark.float32

DIGITS = load_dataset("digits")


def to_accuracy(accuracy, samples=200, hidden=(8,)):
    task = image_task(DIGITS, samples, hidden)
    return replace(task, targets=(Target("test_accuracy", accuracy),))


def to_losses(*losses, samples=200, hidden=(8,)):
    return image_task(DIGITS, samples, hidden, losses=losses)


@pytest.fixture
def short(monkeypatch):
    """Two racers of each kind instead of all, and none is out for being slow."""
    monkeypatch.setattr(racing, "SLACK", math.inf)
    full = field.full_racers()
    monkeypatch.setattr(racing, "full_racers", lambda python: [full[0], full[3]])
    monkeypatch.setattr(racing, "mini_racers", lambda c: field.mini_racers(c)[:2])


def test_the_full_batch_race_is_to_adams_last_loss(short):
    task = to_losses(samples=300, hidden=(16,))
    figures = race(task, seeds=1, mini=False, iterations=30)
    adam, ours = figures["runs"]
    assert adam["racer"] == "adam 0.001"
    (of_adam,), (of_ours,) = adam["reached"], ours["reached"]
    assert of_adam["target"] == of_ours["target"] == adam["curve"][-1]["train_loss"]
    assert of_adam["iteration"] == 30
    assert of_ours["iteration"] < 30
    assert ours["curve"][-1]["train_loss"] <= of_ours["target"] < ours["curve"][-2]["train_loss"]
    assert [row["racer"] for row in figures["table"]] == ["adam 0.001", "restored"]
    assert figures["machine"]["cores"]


def test_several_losses_are_reached_one_after_the_other_in_one_run(short):
    figures = race(to_losses(0.2, 1.5, 1.0), seeds=1, mini=False, iterations=40)
    adam, ours = figures["runs"]
    assert [one["target"] for one in ours["reached"]] == [1.5, 1.0, 0.2]
    for one in ours["reached"]:
        ahead = [point for point in ours["curve"] if point["iteration"] < one["iteration"]]
        assert all(point["train_loss"] > one["target"] for point in ahead)
        at = ours["curve"][len(ahead)]
        assert at["train_loss"] <= one["target"]
        assert (at["seconds"], at["test_accuracy"]) == (one["seconds"], one["test_accuracy"])
    assert ours["curve"][-1]["iteration"] == ours["reached"][-1]["iteration"] < 40
    assert adam["reached"][-1]["seconds"] is None
    assert adam["curve"][-1]["iteration"] == 40
    assert [row["target"] for row in figures["table"]] == [1.5, 1.0, 0.2] * 2
    groups = [(row["target"], row["group"]) for row in figures["best"]]
    assert groups == [(t, g) for t in (1.5, 1.0, 0.2) for g in ("constant rate", "restored")]


def test_who_trains_for_longer_than_the_limit_is_out(short, monkeypatch):
    clock = iter(np.arange(1e6))
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(clock))
    figures = race(to_losses(1e-9), seeds=1, mini=False, iterations=40, limit_seconds=5.5)
    assert [run["curve"][-1]["seconds"] for run in figures["runs"]] == [6, 6]
    assert [row["seconds"] for row in figures["table"]] == [None, None]


def test_a_target_out_of_reach_is_never(short):
    figures = race(to_accuracy(1.01), seeds=1, mini=True, iterations=1)
    assert [row["seconds"] for row in figures["table"]] == [None, None]
    assert all(run["curve"][-1]["iteration"] == 1 for run in figures["runs"])


def test_the_fastest_of_each_group_is_named_and_a_group_that_never_arrives_is_too():
    rows = [
        ("a 1", "one", 2.0, False),
        ("a 2", "one", 1.0, False),
        ("a 3", "one", None, False),
        ("b", "two", None, False),
        ("c", "three", 0.5, True),
    ]
    keys = ("racer", "group", "seconds", "ours")
    table = [dict(zip(keys, row, strict=True)) | {"target": 0.9} for row in rows]
    best = racing._best(table)
    assert [(row["group"], row["racer"], row["ours_takes"]) for row in best] == [
        ("one", "a 2", 0.5), ("two", None, None), ("three", "c", None),
    ]  # fmt: skip


def test_the_field_has_ours_once_and_every_group():
    racers = field.mini_racers(image_setup(DIGITS, None, (8,)))
    names = [racer.name for racer in racers]
    assert len(names) == len(set(names))
    # An eighth of 1,347 rows, as a power of two, is what batch_size="auto" takes.
    assert [racer.name for racer in racers if racer.ours] == ["restored /128"]
    groups = {racer.group for racer in racers} - {"preconditioned"}  # is there if it is installed
    assert groups == {
        "restored", "constant rate", "tuned", "scheduled", "rate-free",
        "rate-free, over a given number of epochs",
    }  # fmt: skip
    assert [racer.name for racer in field.full_racers() if racer.ours] == ["restored"]


def test_who_is_not_installed_is_named(short, monkeypatch):
    there, gone = (TorchRival(name, "g", None, package=name) for name in ("torch", "no_such"))
    monkeypatch.setattr(field, "TORCH_RIVALS", (there, gone))
    assert {racer.name for racer in field._torch_racers()} == {
        "torch 0.001 /256", "torch 0.001 /512", "torch 0.003 /256", "torch 0.003 /512",
    }  # fmt: skip
    figures = race(to_accuracy(0.97), seeds=1, mini=True, iterations=1)
    assert figures["left_out"] == ["no_such"]


def test_finished_runs_are_not_run_again(short, tmp_path, monkeypatch):
    settings = {"seeds": 1, "mini": True}
    first = race(to_accuracy(1.01), **settings, iterations=1, records=tmp_path)
    assert len(list(tmp_path.glob("*.json"))) == 2
    monkeypatch.setattr(racing, "measured", None)  # a run would fail
    again = race(to_accuracy(1.01), **settings, iterations=1, records=tmp_path)
    assert again["runs"] == first["runs"]
    with pytest.raises(TypeError):  # another limit is another run
        race(to_accuracy(1.01), **settings, iterations=2, records=tmp_path)


def test_a_run_that_ended_at_an_easier_target_is_run_again(short, tmp_path, monkeypatch):
    settings = {"seeds": 1, "mini": False, "iterations": 40, "only": ("restored",)}
    race(to_losses(1.5), **settings, records=tmp_path)
    monkeypatch.setattr(racing, "measured", None)
    race(to_losses(1.8), **settings, records=tmp_path)
    with pytest.raises(TypeError):
        race(to_losses(0.2), **settings, records=tmp_path)


def test_the_clock_leaves_out_evaluation(monkeypatch):
    c = image_setup(DIGITS, 100, (4,))
    clock = iter(np.arange(100.0))
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(clock))
    still = Racer("still", lambda problem, arrays, params, seed: iter([Made(params)] * 9))
    kept = list(measured(still, c, 0, 3, with_loss=True))
    # Each `next` lies between two readings one second apart; evaluations read no clock.
    assert [point["seconds"] for point in kept] == [1.0, 2.0, 3.0]
    assert {"train_loss", "test_accuracy"} <= kept[0].keys()


def test_a_trainer_with_a_clock_of_its_own_is_believed():
    c = image_setup(DIGITS, 100, (4,))
    own = Racer("own", lambda problem, arrays, params, seed: iter([Made(params, None, 7.0)] * 9))
    assert [point["seconds"] for point in measured(own, c, 0, 3, with_loss=False)] == [7, 14, 21]


def test_what_compiles_in_the_second_step_is_not_on_the_clock():
    c = image_setup(DIGITS, 100, (5,))  # no other test's network
    compiled = []
    jit_cache = lambda: compiled.append(field.baselines.gradient_step._cache_size())  # noqa: E731

    def watched(*given):
        for made in full_batch(*given, name="lbfgs", rate=1.0):
            jit_cache()
            yield made

    list(measured(Racer("l-bfgs", watched), c, 0, 4, with_loss=False))
    cold, warm = compiled[: racing.THROWN_AWAY], compiled[racing.THROWN_AWAY :]
    assert cold[1] > cold[0]  # the control: it does compile again
    assert set(warm) == {cold[1]}


def test_some_racers_only(short):
    settings = {"seeds": 1, "iterations": 2}
    mini = race(to_accuracy(0.97), **settings, mini=True, only=("restored",))
    assert [row["racer"] for row in mini["table"]] == ["restored /128"]
    full = race(to_losses(), **settings, mini=False, only=("restored",))
    assert [row["racer"] for row in full["table"]] == ["adam 0.001", "restored"]
    fixed = race(to_losses(0.1), **settings, mini=False, only=("restored",))
    assert [row["racer"] for row in fixed["table"]] == ["restored"]
    with pytest.raises(ValueError, match="'rest-' is unknown"):
        race(to_accuracy(0.97), **settings, mini=True, only=("rest-",))


def test_the_training_loss_of_a_point_is_its_networks(short):
    c = image_setup(DIGITS, 100, (4,))
    for racer in field.full_racers():
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
    for wrong in (
        ("--seeds", "0"), ("--limit-seconds", "0"), ("--targets", "-1"), ("--targets", "x"),
        ("--targets", "0.1", "--mini"), ("--task", "nothing"), ("--mini", "--kfac-python", "x"),
    ):  # fmt: skip
        refused = run("bench", "race", "--data", "digits", *wrong)
        assert (refused.code, refused.err.count("\n")) == (2, 1), refused.err


def test_the_table_has_a_part_for_each_target_and_says_never(short):
    ran = run(
        "bench", "race", "--data", "digits", "--samples", "200", "--hidden", "8", "--seeds", "1",
        "--iterations", "5", "--targets", "1.9,0.001",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    easy, hard = ran.out.split("digits, 200 rows, hidden layers 8, to train loss ")[1:]
    assert easy.startswith("1.9: medians")
    assert "best of restored: restored" in easy
    assert "best of restored: never" in hard
