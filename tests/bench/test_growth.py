"""The growth of restored sweeps with the width: which steps are counted, and the exponent."""

import pytest
from command_line import run

from dladmm.bench import growth
from dladmm.bench.growth import bench_restored_growth, learnable, step_seconds
from dladmm.experiments.baselines import Made, full_batch

pytestmark = pytest.mark.float32


def constant(seconds):
    """A trainer that says how long its steps took, so many seconds per weight of the second layer;
    the first two take longer, as compilation does."""

    def start(problem, arrays, params, seed):
        each = seconds * params.W[1].size
        yield from (Made(params, None, s) for s in (1000, 500))
        while True:
            yield Made(params, None, each)

    return start


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    monkeypatch.setattr(growth, "BATCH", 8)


def test_the_exponent_is_of_the_steps_after_compilation(monkeypatch):
    starts = {"restored": constant(3.0), "adam": constant(2.0)}
    monkeypatch.setattr(growth, "MINI", starts)
    monkeypatch.setattr(growth, "FULL", starts)
    figures = bench_restored_growth(3, widths=(4, 8, 16), samples=50, batches=2)
    for mode, steps in (("mini-batch", 2), ("full batch", 1)):
        series = figures["modes"][mode]
        assert [row["restored"] for row in series["rows"]] == pytest.approx(
            [3 * width**2 / steps for width in (4, 8, 16)]
        )
        assert [row["ratio"] for row in series["rows"]] == pytest.approx([1.5] * 3)
        assert series["exponents"] == pytest.approx({"restored": 2, "adam": 2})


def test_the_rows_can_be_learned():
    c = learnable(200, 50)
    trainer = full_batch(c.problem, c.arrays, c.weights(0), 0, name="adam", rate=1e-2)
    losses = [float(next(trainer).before.loss) for _ in range(30)]
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.slow
@pytest.mark.parametrize("start", [*growth.MINI.values(), *growth.FULL.values()])
def test_real_steps_are_measured(start):
    assert step_seconds(start, learnable(200, 6), 1) > 0


def test_from_a_shell(monkeypatch):
    starts = {"restored": constant(3.0), "adam": constant(2.0)}
    monkeypatch.setattr(growth, "MINI", starts)
    monkeypatch.setattr(growth, "FULL", starts)
    ran = run("bench", "growth", "--method", "restored", "--widths", "4,8", "--repeats", "1")
    assert ran.code == 0, ran.err
    assert "mini-batch: restored grows as width^2.000" in ran.out
    assert "full batch: adam grows as width^2.000" in ran.out
    for wrong in (
        ("--method", "admm"), ("--widths", "4,4"), ("--method", "restored", "--widths", "4"),
        ("--method", "restored", "--samples", "4,8"), ("--samples", "4"), ("--repeats", "0"),
    ):  # fmt: skip
        refused = run("bench", "growth", *wrong)
        assert (refused.code, refused.err.count("\n")) == (2, 1), refused.err
