"""How close one iteration comes to the time of its matrix products, what memory it takes, and how
its time grows with samples and with width."""

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dladmm.bench.products import floor_seconds, products_of
from dladmm.core.data import Data, padded_data
from dladmm.core.initial import initial_params
from dladmm.core.params import Params
from dladmm.core.problem import Problem
from dladmm.core.relaxed.method import iterate
from dladmm.core.relaxed.state import Rows, State, state_from_params
from dladmm.core.relaxed.step_rules import STEP_RULES, StepRule, SweepOptions
from dladmm.core.relaxed.sweep import dladmm_sweep
from dladmm.engine.arrays import load_jax
from dladmm.engine.limits import kernel_figure
from dladmm.engine.process import return_freed_memory
from dladmm.experiments.machine import describe_machine
from dladmm.network.presets import preset

load_jax()  # which knows our trees from here on


RHO, NU = 1.5, 1.0
# The sizes over which the growth is measured.
SAMPLES = (11_000, 22_000, 33_000, 44_000, 55_000)
WIDTHS = (200, 400, 600, 800, 1_000)
IMAGE = (28, 28, 1)  # what a network by name reads
VECTORS = STEP_RULES["closed-form"]
COMPARED = ("closed-form", "matrix", "over-relaxed")


def bench_iteration(
    n_samples: int,
    hidden: Sequence[int],
    repeats: int = 5,
    n_in: int = 784,
    n_out: int = 10,
    network: str | None = None,
) -> dict[str, Any]:
    """Seconds per iteration, the floor of its products, their ratio, memory and compile time.

    Iterations and floor are measured in one process, one after the other, best and median of
    `repeats`; the data are random, since the products do not care. `network`: one by name, for
    images of IMAGE, in place of a dense one.
    """
    sizes = (n_in, *hidden, n_out)
    problem = Problem.dense(sizes)
    if network is not None:
        problem = Problem.of_network(preset(network, IMAGE, n_out))
    products = products_of(problem, n_samples)
    run = timed_run(problem, n_samples, VECTORS, repeats)
    floor = floor_seconds(products, n_samples, repeats)
    flops = sum(product.flops for product in products)
    floor_total = sum(floor.values())
    return {
        "n_samples": n_samples,
        "sizes": list(sizes) if network is None else None,
        "network": network,
        **run,
        "floor_seconds": floor_total,
        "ratio": run["seconds_per_iteration"] / floor_total,
        "gflops": flops / floor_total / 1e9,
        "products": [
            {"why": p.why, "m": p.m, "k": p.k, "n": p.n, "count": p.count, "seconds": floor[p.why]}
            for p in products
        ],
        "machine": describe_machine(),
    }


def bench_rules(
    n_samples: int, hidden: Sequence[int], repeats: int = 5, n_in: int = 784, n_out: int = 10
) -> dict[str, Any]:
    """What an iteration takes with each of the step rules that are compared, beside the vectors."""
    problem = Problem.dense((n_in, *hidden, n_out))
    runs = {name: timed_run(problem, n_samples, STEP_RULES[name], repeats) for name in COMPARED}
    vectors = runs[COMPARED[0]]["seconds_per_iteration"]
    return {
        "n_samples": n_samples,
        "sizes": [n_in, *hidden, n_out],
        "rules": {
            name: run | {"over_vectors": run["seconds_per_iteration"] / vectors}
            for name, run in runs.items()
        },
        "machine": describe_machine(),
    }


def timed_run(problem: Problem, n_samples: int, rule: StepRule, repeats: int) -> dict[str, float]:
    """Seconds, memory and compile time of iterations by this rule on random data."""
    options = SweepOptions(rule, "newton")
    data, state = random_run(problem, n_samples)
    penalties = (jnp.float32(RHO), jnp.float32(NU), jnp.asarray(False))
    began = time.perf_counter()
    variables = (state.rows, state.params)
    compiled = iterate.lower(dladmm_sweep, problem, options, data, *variables, *penalties).compile()
    compile_seconds = time.perf_counter() - began
    del data, state, variables
    # The backend's and the compiler's memory is not the run's: both are there by now.
    return_freed_memory()  # what the run takes from it again would not be counted
    held = kernel_figure("/proc/self/status", "VmRSS")
    _reset_peak()
    data, state = random_run(problem, n_samples)
    rows, params = state.rows, state.params
    del state
    state_bytes = sum(v.nbytes for v in jax.tree.leaves((data.x, data.y, rows, params)))

    def step(rows: Rows, params: Params) -> tuple[Rows, Params, float]:
        began = time.perf_counter()
        rows, params, records = compiled(data, rows, params, *penalties)
        records.block_until_ready()
        return rows, params, time.perf_counter() - began

    rows, params, _ = step(rows, params)  # the first run maps the memory
    times = []
    for _ in range(repeats):
        rows, params, seconds = step(rows, params)
        times.append(seconds)
    peak = kernel_figure("/proc/self/status", "VmHWM") - held
    return {
        "seconds_per_iteration": min(times),
        "median_seconds_per_iteration": statistics.median(times),
        "compile_seconds": compile_seconds,
        "peak_bytes": peak,
        "state_bytes": state_bytes,
        "memory_ratio": peak / state_bytes,
    }


def random_run(problem: Problem, n_samples: int) -> tuple[Data, State]:
    """Data of the right shape and the state of a forward pass, padded as `solve` pads."""
    rng, (n_out,) = np.random.default_rng(0), problem.out_shape
    x = rng.random((n_samples, *problem.in_shape), dtype=np.float32)
    y = np.eye(n_out, dtype=np.float32)[rng.integers(0, n_out, n_samples)]
    data = jax.block_until_ready(padded_data(problem, (x, y, None), with_gram=True))
    del x, y  # what was copied on its way is gone before the state is there
    params = initial_params(problem, "he", 0, jnp.dtype("float32"))
    return data, jax.block_until_ready(state_from_params(problem, params, data, True))


def _reset_peak() -> None:
    """Start the process's peak anew (Linux); elsewhere the peak since its start is reported."""
    clear = Path("/proc/self/clear_refs")
    if clear.exists():
        clear.write_text("5")


def fitted_exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """The slope of log seconds over log size, by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def bench_growth(
    repeats: int,
    samples: Sequence[int] = SAMPLES,
    widths: Sequence[int] = WIDTHS,
    show: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Two series, each with the other size at its largest; the exponents of both."""
    samples, widths = sorted(samples), sorted(widths)

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
    by_samples, by_width = (
        [row["seconds_per_iteration"] for row in rows] for rows in (over_samples, over_widths)
    )
    return {
        "over_samples": over_samples,
        "over_widths": over_widths,
        "samples_exponent": fitted_exponent(samples, by_samples),
        "width_exponent": fitted_exponent(widths, by_width),
        "machine": describe_machine(),
    }
