"""How the time of a step of restored sweeps grows with the width, and Adam's on the same rows.

The products of a gradient grow as the square of the width. What restored sweeps do besides must not
grow faster: their metric is of low rank.
"""

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from dladmm.bench.iteration import fitted_exponent
from dladmm.core.problem import Problem
from dladmm.experiments import baselines
from dladmm.experiments.machine import describe_machine
from dladmm.experiments.setup import Setup
from dladmm.experiments.timing import timed

WIDTHS = (500, 1_000, 2_000, 4_000)  # of two hidden layers
SAMPLES, BATCH, BATCHES = 10_000, 512, 32  # at full batch; of a mini-batch, and of an epoch
THROWN_AWAY = 2  # `next`s that compile, and in which the moments are new
RATE = 1e-3
Starts = dict[str, Callable[..., baselines.Trainer]]
MINI: Starts = {
    "restored": partial(baselines.restored_batches, size=BATCH, per_epoch=1),
    "adam": partial(baselines.mini_batch, name="adam", rate=RATE, size=BATCH, per_epoch=1),
}
FULL: Starts = {
    "restored": baselines.restored,
    "adam": partial(baselines.full_batch, name="adam", rate=RATE),
}


def bench_restored_growth(
    repeats: int,
    widths: Sequence[int] = WIDTHS,
    samples: int = SAMPLES,
    batches: int = BATCHES,
    show: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Seconds per step over the widths, the exponents they follow, and restored over Adam."""
    modes = {
        "mini-batch": _series(MINI, widths, BATCH * batches, batches, repeats, show),
        "full batch": _series(FULL, widths, samples, 1, repeats, show),
    }
    machine = describe_machine()
    return {"batch": BATCH, "samples": samples, "modes": modes, "machine": machine}


def _series(
    starts: Starts,
    widths: Sequence[int],
    samples: int,
    steps: int,
    repeats: int,
    show: Callable[[str], None],
) -> dict[str, Any]:
    """One row per width, in which the methods are measured one after the other; a `next` of theirs
    is so many steps."""
    rows = []
    for width in widths:
        c = learnable(samples, width)
        row: dict[str, Any] = {"width": width}
        row |= {name: step_seconds(start, c, repeats) / steps for name, start in starts.items()}
        row["ratio"] = row["restored"] / row["adam"]
        times = ", ".join(f"{name} {row[name]:.4f} s" for name in starts)
        show(f"{samples // steps:>6,} rows x {width:>5,}: {times}, ratio {row['ratio']:.2f}")
        rows.append(row)
    exponents = {name: fitted_exponent(widths, [row[name] for row in rows]) for name in starts}
    return {"rows": rows, "exponents": exponents}


def step_seconds(start: Callable[..., baselines.Trainer], c: Setup, repeats: int) -> float:
    """The median time of a `next`, once everything is compiled."""
    trainer = start(c.problem, c.arrays, c.weights(0), 0)
    clock = [point.seconds for point in timed(trainer, c, THROWN_AWAY + repeats, False)]
    return statistics.median(after - before for before, after in pairwise(clock[1:]))


def learnable(samples: int, width: int) -> Setup:
    """784 inputs between 0 and 1 whose class a random linear map tells; few rows to look at."""
    rng = np.random.default_rng(0)
    x = rng.random((samples, 784), dtype=np.float32)
    classes = ((x - 0.5) @ rng.standard_normal((784, 10), dtype=np.float32)).argmax(1)
    y = np.eye(10, dtype=np.float32)[classes]
    problem = Problem.dense((784, width, width, 10), "relu", "log_loss")
    return Setup(problem, (x, y, None), (x[:100], y[:100]))
