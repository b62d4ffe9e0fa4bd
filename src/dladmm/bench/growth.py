"""How the time of an iteration grows with samples and with width: exponents of a power law."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dladmm.bench.iteration import bench_iteration
from dladmm.experiments.machine import describe_machine

SAMPLES = (11_000, 22_000, 33_000, 44_000, 55_000)
WIDTHS = (200, 400, 600, 800, 1_000)


def fitted_exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """The slope of log seconds over log size, by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def bench_growth(
    samples: Sequence[int] = SAMPLES,
    widths: Sequence[int] = WIDTHS,
    repeats: int = 3,
    show: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Two series, each with the other size at its largest; the exponents of both."""

    def measure(n_samples: int, width: int) -> dict[str, Any]:
        figures = bench_iteration(n_samples, (width, width), repeats)
        show(
            f"{n_samples:>7,} samples x {width:>5,} neurons:"
            f" {figures['seconds_per_iteration']:.3f} s, ratio {figures['ratio']:.2f}"
        )
        kept = ("seconds_per_iteration", "floor_seconds", "ratio", "memory_ratio")
        return {"n_samples": n_samples, "width": width, **{key: figures[key] for key in kept}}

    over_samples = [measure(n, widths[-1]) for n in samples]
    over_widths = [measure(samples[-1], width) for width in widths[:-1]] + over_samples[-1:]

    def seconds(rows: list[dict[str, Any]]) -> list[float]:
        return [row["seconds_per_iteration"] for row in rows]

    return {
        "over_samples": over_samples,
        "over_widths": over_widths,
        "samples_exponent": fitted_exponent(samples, seconds(over_samples)),
        "width_exponent": fitted_exponent(widths, seconds(over_widths)),
        "machine": describe_machine(),
    }
