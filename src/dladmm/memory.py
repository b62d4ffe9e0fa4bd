"""The bytes a run will hold and exchange, before it begins, and what the machine has free."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from dladmm.core.options import Options
from dladmm.core.problem import Problem
from dladmm.core.samples import BLOCK_ROWS, blocks_for
from dladmm.core.step_rules import step_rule
from dladmm.core.units import unit_parts

BATCH_ADVICE = 1024


def run_bytes(problem: Problem, n_samples: int, options: Options) -> int:
    """What a run holds at its peak, within a few percent for large ones.

    Rows: x and y, and for the relaxed methods z, a, p, u and a part of one product. Besides: the
    network and its moments, and the temporaries of one block of rows.
    """
    widths = [layer.n_out for layer in problem.layers]
    n_in, n_out = problem.layers[0].n_in, widths[-1]
    rows = n_samples + blocks_for(n_samples)[1]
    weights = sum(layer.n_in * layer.n_out for layer in problem.layers)
    if options.method == "restored":
        moments = sum((layer.n_in + 1) ** 2 + layer.n_out**2 for layer in problem.layers)
        # Two measurements are alive at once: the last accepted one and the one being tried.
        fixed = 2 * (moments + 2 * weights) + 3 * moments
        block = options.batch_size or min(rows, BLOCK_ROWS)
        kept = 0 if options.batch_size else rows * (n_in + n_out)
        numbers: float = kept + fixed + block * (n_in + 3 * sum(widths))
    else:
        rule = step_rule(options.step_rule)
        hidden = sum(widths[:-1])
        # Ten of the output's width: z, p, y, u, and what the steps on u and z_L compute on the way.
        per_row: float = n_in + 3 * hidden + 10 * n_out
        block = min(rows, BLOCK_ROWS) * 4 * max(widths)
        # With one theta for all, and in the baseline, temporaries are of all samples at once; how
        # many live together is the compiler's choice, so their factors are fitted to its account.
        if options.method == "admm":
            per_row, block = per_row + n_in / 2 + 3.5 * hidden, 0
        elif rule.scalar:
            per_row, block = per_row + 3.2 * hidden, 0
        else:
            by_parts = problem.layers[1 if n_samples >= n_in else 0 :]  # the first has x^T x
            per_row += max((-(-v.n_out // unit_parts(v, rule)) for v in by_parts), default=0)
        numbers = rows * per_row + n_in**2 + 6 * weights + block
    return int(numbers * np.dtype(options.dtype).itemsize)


def exchanged_bytes(problem: Problem, options: Options) -> int:
    """What the all-reduces of one iteration add up over devices, but for some scalars.

    It does not depend on the number of samples. Restored sweeps: per trial of a step, of which one
    suffices nearly always; over mini-batches, per batch, one that renews the metric. The paper's
    method with an l2 regulariser or none.
    """
    numbers = 0
    for l, layer in enumerate(problem.layers):
        n_in, n_out = layer.n_in, layer.n_out
        if options.method == "restored":  # the gradient and its squares, the moments of a and r
            gradients = 1 if options.batch_size else 2
            numbers += gradients * n_out * (n_in + 1) + (n_in + 1) ** 2 + n_out**2
        elif options.method == "dladmm":  # b twice; W and |A(G)|^2 twice, W_1 once
            numbers += 2 * n_out + (n_out * n_in if l == 0 else 2 * n_out * (n_in + 1))
        else:  # means of a and z, the Gram matrix, and the products with z
            numbers += n_in + n_out + n_in**2 + n_out * n_in
    return int(numbers * np.dtype(options.dtype).itemsize)


def advice(problem: Problem, n_samples: int, options: Options) -> str | None:
    """One sentence where the run does not fit into what is free, and what to do; else None."""
    free = available_bytes()
    needed = run_bytes(problem, n_samples, options)
    if free is None or needed <= free:
        return None
    others = {
        "method='restored'": replace(options, method="restored"),
        f"batch_size={BATCH_ADVICE}": replace(options, method="restored", batch_size=BATCH_ADVICE),
    }
    fits = [
        f"{name} needs about {gib(run_bytes(problem, n_samples, other))}"
        for name, other in others.items()
        if run_bytes(problem, n_samples, other) < needed
    ]
    instead = "; ".join(fits) or "use fewer rows or smaller layers"
    return f"this fit needs about {gib(needed)} of memory and {gib(free)} is free; {instead}"


def gib(n_bytes: float) -> str:
    return f"{n_bytes / 2**30:.1f} GiB"


def available_bytes() -> int | None:
    """Memory that a new allocation can have; None where the system does not tell."""
    return kernel_figure("/proc/meminfo", "MemAvailable") or None


def kernel_figure(path: str, name: str) -> int:
    """A `name: value kB` entry of a file under /proc, in bytes; 0 where the system has none."""
    for line in file_lines(path):
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return 0


def file_lines(path: str) -> list[str]:
    file = Path(path)
    return file.read_text().splitlines() if file.exists() else []
