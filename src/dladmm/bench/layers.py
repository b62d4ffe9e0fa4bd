"""Layers in groups that work at the same time: seconds per iteration over groups and depth, beside
the sequential sweep on one core and the cost models of these groups and of a pipeline."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from dladmm.bench.bound import seconds_bound
from dladmm.core.problem import Problem
from dladmm.core.relaxed.layer_groups import balanced_groups
from dladmm.experiments.machine import describe_machine

OUTPUTS = 10
# Parts that a pipeline cuts its batch into, for each of its stages: what GPipe advises.
PARTS_PER_STAGE = 4


def even_speedup(problem: Problem, groups: int) -> float:
    """How many times as fast groups can be that wait for none but the one with the most work."""
    costs = [layer.positions * layer.n_weights for layer in problem.layers]
    most = max(sum(costs[l] for l in group.layers) for group in balanced_groups(problem, groups))
    return sum(costs) / most


def pipeline_speedup(problem: Problem, groups: int, parts: int | None = None) -> float:
    """The same of a pipeline, backpropagation over these groups with the batch in parts: of
    parts + groups - 1 rounds groups - 1 pass before the last group has work and after the first
    has none."""
    parts = PARTS_PER_STAGE * groups if parts is None else parts
    return even_speedup(problem, groups) * parts / (parts + groups - 1)


def bench_layers(
    samples: int,
    width: int,
    depths: Sequence[int],
    groups: Sequence[int],
    iterations: int,
    messages: str = "exact",
    show: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Hidden layers of so many units, each group a process on a core; one group is the sweep."""
    rows = []
    for depth in depths:
        sizes = [*[width] * (depth + 1), OUTPUTS]
        problem = Problem.dense(sizes)
        run = {"method": "dladmm", "samples": samples, "sizes": sizes, "iterations": iterations}
        alone = seconds_bound(1, **run)
        for count in groups:
            more = {"layer_devices": count, "layer_messages": messages}
            seconds = alone if count == 1 else seconds_bound(count, **run, **more)
            row = {
                "depth": depth,
                "groups": count,
                "seconds": seconds,
                "speedup": alone / seconds,
                "even": even_speedup(problem, count),
                "pipeline": pipeline_speedup(problem, count),
            }
            rows.append(row)
            show(line(row))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "samples": samples,
        "width": width,
        "messages": messages,
        "cores": cores,
        "rows": rows,
        "machine": describe_machine(),
    }


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    return (
        f"  {row['depth']:>6} {row['groups']:>6} {row['seconds']:>10.3f} s {row['speedup']:>9.2f} x"
        f" {row['even']:>9.2f} x {row['pipeline']:>9.2f} x"
    )


COLUMNS = {"layers": 6, "groups": 6, "iteration": 12, "measured": 11, "even": 11, "pipeline": 11}
HEADER = "  " + " ".join(f"{name:>{width}}" for name, width in COLUMNS.items())
