"""Whether a run fits into memory, before it begins, and what the machine has free."""

from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from dladmm.core.methods import method_for
from dladmm.core.options import Options, precision
from dladmm.core.problem import Problem

BATCH_ADVICE = 1024
# What a run that does not fit may be changed to.
ADVICE: dict[str, dict[str, Any]] = {
    "method='restored'": {"method": "restored"},
    f"batch_size={BATCH_ADVICE}": {"method": "restored", "batch_size": BATCH_ADVICE},
}


def run_bytes(problem: Problem, n_samples: int, options: Options) -> int:
    """What a run with these options holds at its peak, as its method estimates it."""
    dtype = precision(options.dtype, n_samples * prod(problem.in_shape))
    return method_for(problem, options).run_bytes(n_samples, np.dtype(dtype).itemsize)


def advice(problem: Problem, n_samples: int, options: Options) -> str | None:
    """One sentence where the run does not fit into what is free, and what to do; else None."""
    free = available_bytes()
    needed = run_bytes(problem, n_samples, options)
    if free is None or needed <= free:
        return None
    others = {
        name: run_bytes(problem, n_samples, replace(options, **how)) for name, how in ADVICE.items()
    }
    fits = [f"{name} needs about {gib(size)}" for name, size in others.items() if size < needed]
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
