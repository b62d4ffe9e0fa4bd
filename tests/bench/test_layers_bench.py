"""What `dladmm bench layers` says beside its measurements, and a real one of a moment."""

from types import SimpleNamespace

import pytest
from command_line import run

from dladmm.bench import layers
from dladmm.core.problem import Problem

EIGHT = Problem.dense([20] * 9)  # eight layers alike


def test_even_groups_are_as_many_times_as_fast_and_others_as_the_largest_allows():
    assert [layers.even_speedup(EIGHT, groups) for groups in (1, 2, 4, 8)] == [1, 2, 4, 8]
    assert layers.even_speedup(EIGHT, 3) == pytest.approx(8 / 3)  # 3, 3 and 2 layers


def test_a_pipeline_loses_its_bubble():
    # Of 4 + 2 - 1 rounds each of two stages works in 4; one part alone is no pipeline at all.
    assert layers.pipeline_speedup(EIGHT, 2, parts=4) == pytest.approx(2 * 4 / 5)
    assert layers.pipeline_speedup(EIGHT, 4, parts=1) == pytest.approx(1)
    assert layers.pipeline_speedup(EIGHT, 4) == pytest.approx(4 * 16 / 19)
    assert layers.pipeline_speedup(EIGHT, 1) == 1


def test_one_group_is_measured_as_the_sweep_itself_and_once(monkeypatch):
    asked = []

    def seconds(count, **run):
        asked.append((count, run.get("layer_devices")))
        return 6.0 / count

    monkeypatch.setattr(layers, "seconds_bound", seconds)
    figures = layers.bench_layers(100, 10, [3, 5], [1, 2, 3], 2)
    assert asked == [(1, None), (2, 2), (3, 3)] * 2
    assert [row["speedup"] for row in figures["rows"]] == [1, 2, 3] * 2
    assert [row["depth"] for row in figures["rows"]] == [3, 3, 3, 5, 5, 5]
    lengths = {len(text) for text in (layers.HEADER, *map(layers.line, figures["rows"]))}
    assert len(lengths) == 1  # a table


@pytest.mark.slow
def test_a_measurement_in_processes_of_one_core_each():
    sizes = ("--samples", 100, "--width", 6, "--depth", "2", "--groups", "1,2")
    found = run("bench", "layers", *sizes, "--iterations", 1, "--json")
    assert found.code == 0, found.err
    assert [row["groups"] for row in found.json["rows"]] == [1, 2]
    assert all(row["seconds"] > 0 for row in found.json["rows"])


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (("--samples", "0"), "--samples 0 is not valid"),
        (("--messages", "4bit"), "--messages '4bit' is unknown"),
        (("--depth", "2", "--groups", "4"), "--groups 4 has more groups than 3 layers"),
    ],
)
def test_what_cannot_be_measured_is_refused(option, words):
    found = run("bench", "layers", *option)
    assert (found.code, words in found.err) == (2, True), SimpleNamespace(**vars(found))
