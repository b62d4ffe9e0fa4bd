"""Both engines on the same fits, each in a process of its own: where compiling begins to pay."""

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dladmm.core.choice import ITERATIONS, chosen_engine
from dladmm.core.method import Method
from dladmm.core.methods import method_for
from dladmm.core.options import Options
from dladmm.core.problem import Problem
from dladmm.experiments.machine import describe_machine

# Rows, inputs and hidden layers, from a small table to images.
GRID: tuple[tuple[int, int, tuple[int, ...]], ...] = (
    (500, 20, (50,)),
    (1_300, 64, (100,)),
    (5_000, 64, (100,)),
    (5_000, 200, (100, 100)),
    (5_000, 784, (100,)),
    (10_000, 784, (300,)),
    (20_000, 784, (300,)),
    (20_000, 784, (300, 300)),
)
CLASSES = 10
NOTHING_KEPT = os.environ | {"DLADMM_CACHE": "off"}  # else JAX would read what it compiled before


def bench_engines(
    grid: Sequence[tuple[int, int, tuple[int, ...]]] = GRID,
    show: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Seconds of a first and a second fit by each engine, loading included, and what "auto" takes.

    Every fit makes as many iterations as "auto" thinks a run makes.
    """
    rows = []
    for n, inputs, hidden in grid:
        taken = _taken(n, inputs, hidden)
        row: dict[str, Any] = {"samples": n, "inputs": inputs, "hidden": hidden, "auto": taken}
        for engine in ("numpy", "jax"):
            given = json.dumps([engine, n, inputs, hidden])
            command = [sys.executable, "-m", "dladmm.bench.engines", given]
            ran = subprocess.run(
                command, capture_output=True, text=True, check=True, env=NOTHING_KEPT
            )
            row[engine] = dict(zip(("cold", "warm"), json.loads(ran.stdout), strict=True))
        best = min(row[engine]["cold"] for engine in ("numpy", "jax"))
        row["auto_over_best"] = row[taken]["cold"] / best
        rows.append(row)
        show(f"{n:,} x {inputs}-{hidden}: auto takes {taken}, {row['auto_over_best']:.2f} x best")
    return {
        "rows": rows,
        "iterations": ITERATIONS,
        "crossing": Method.crossing,
        "machine": describe_machine(),
    }


def _taken(n: int, inputs: int, hidden: tuple[int, ...]) -> str:
    problem, options = Problem.dense((inputs, *hidden, CLASSES)), Options()
    return chosen_engine(method_for(problem, options), options, n).name


def _fits(engine: str, n: int, inputs: int, hidden: Sequence[int]) -> list[float]:
    """Seconds of two fits of made-up rows; the first loads its engine."""
    from dladmm.estimators.classifier import DLADMMClassifier

    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, inputs)).astype(np.float32)
    teacher = rng.normal(size=(inputs, 2 * CLASSES))
    y = np.argmax(np.maximum(X @ teacher, 0) @ rng.normal(size=(2 * CLASSES, CLASSES)), axis=1)
    seconds = []
    for _ in range(2):
        model = DLADMMClassifier(
            tuple(hidden), max_iter=ITERATIONS, tol=None, engine=engine, random_state=0
        )
        began = time.perf_counter()
        model.fit(X, y)
        seconds.append(time.perf_counter() - began)
    return seconds


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(_fits(*json.loads(sys.argv[1]))))
