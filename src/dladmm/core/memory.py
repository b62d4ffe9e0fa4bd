"""Whether a run fits into memory, before it begins."""

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from dladmm.core.choice import why_jax
from dladmm.core.methods import method_for
from dladmm.core.options import Options, precision
from dladmm.core.problem import Problem
from dladmm.engine.limits import available_bytes

BATCH_ADVICE = 1024
# What a run that does not fit may be changed to.
RESTORED: dict[str, Any] = {"method": "restored", "layer_devices": None}
ADVICE: dict[str, dict[str, Any]] = {
    "engine='numpy'": {"engine": "numpy"},
    "step_rule='closed-form'": {"step_rule": "closed-form"},
    "method='restored'": RESTORED,
    f"batch_size={BATCH_ADVICE}": RESTORED | {"batch_size": BATCH_ADVICE},
    f"batch_size={BATCH_ADVICE} with engine='numpy'": RESTORED
    | {"batch_size": BATCH_ADVICE, "engine": "numpy"},
}


def run_bytes(problem: Problem, n_samples: int, options: Options) -> int:
    """What a run with these options holds at its peak, as its method estimates it."""
    dtype = precision(options.dtype, n_samples * prod(problem.in_shape))
    return method_for(problem, options).run_bytes(n_samples, np.dtype(dtype).itemsize)


def check_fits(problem: Problem, n_samples: int, options: Options, copied: int = 0) -> None:
    """ValueError, with the way out, where a run does not fit into what this process can have.

    `copied`: what its rows take besides, before it begins.
    """
    sentence = advice(problem, n_samples, options, copied)
    if sentence:
        raise ValueError(sentence)


def advice(problem: Problem, n_samples: int, options: Options, copied: int = 0) -> str | None:
    """One sentence where the run does not fit into what is free, and what to do; else None."""

    def fits(options: Options) -> tuple[bool, int]:
        needed = copied + run_bytes(problem, n_samples, options)
        free = available_bytes(options.engine == "jax")
        return free is None or needed <= free, needed

    fitting, needed = fits(options)
    if fitting:
        return None
    free = available_bytes(options.engine == "jax") or 0
    others = {
        name: fits(replace(options, **how))
        for name, how in ADVICE.items()
        if replace(options, **how) != options
        and not (how.get("engine") == "numpy" and why_jax(method_for(problem, options), options))
    }
    # What fits, or at least what is less.
    helps = {name: size for name, (enough, size) in others.items() if enough} or {
        name: size for name, (_, size) in others.items() if size < needed
    }
    ways = [f"{name} needs about {gib(size)}" for name, size in helps.items()]
    instead = "; ".join(ways) or "use fewer rows or smaller layers"
    return f"this fit needs about {gib(needed)} of memory and {gib(free)} is free; {instead}"


def gib(n_bytes: float) -> str:
    return f"{n_bytes / 2**30:.1f} GiB"
