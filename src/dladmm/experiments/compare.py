"""Methods side by side: curves over iterations and over seconds, from the same initial weights.

Everything is recorded the same way: the network after each iteration and the seconds of training
until then; losses and accuracies are computed from the networks afterwards, off the clock.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from dladmm.core.lagrangian import Evaluation
from dladmm.core.options import Options, Progress, Result, Status
from dladmm.core.solve import solve
from dladmm.core.state import Params
from dladmm.experiments import baselines, paper
from dladmm.experiments.course import Course
from dladmm.experiments.laps import timed
from dladmm.files import write_atomically

# The paper's rates where it gives one; the others' are optax's usual ones.
RATES = paper.RATES | {
    "momentum": 1e-3,
    "nesterov": 1e-3,
    "rmsprop": 1e-3,
    "amsgrad": 1e-3,
    "lbfgs": 1.0,
}
LIBRARY: dict[str, dict[str, Any]] = {
    "restored": {"method": "restored"},
    "dladmm": {"method": "dladmm", "rho": 0.1, "nu": 1.0},
    "dladmm-paper": paper.TEXT | {"rho": 1e-6, "rho_schedule": "paper"},
    "admm": {"method": "admm", "rho": 1.0},
}


@dataclass(frozen=True)
class Contestant:
    """A method of the library with its options, or an optimiser with its rate."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    rate: float | None = None

    @property
    def label(self) -> str:
        return self.name if self.rate is None else f"{self.name} {self.rate:g}"


def contestant(text: str) -> Contestant:
    """`restored`, `adam` or `adam=3e-3`; ValueError names what is known."""
    name, _, rate = text.strip().partition("=")
    if name in LIBRARY and not rate:
        return Contestant(name, options=LIBRARY[name])
    if name in RATES:
        try:
            value = float(rate) if rate else RATES[name]
        except ValueError:
            value = 0.0
        if value > 0:
            return Contestant(name, rate=value)
    raise ValueError(
        f"method {text!r} is unknown; expected one of {', '.join([*LIBRARY, *RATES])},"
        " the optimisers with a rate if wanted, such as adam=3e-3"
    )


Told = Callable[[int], None]


class Laps(NamedTuple):
    """Per iteration: seconds until then, the network on training and test rows; and if the method
    is one of the library's, all that `solve` returned and the last network before any breakdown."""

    seconds: list[float]
    training: list[Evaluation]
    test: list[Evaluation]
    result: Result | None = None
    network: Params | None = None


def curve(
    who: Contestant, course: Course, seed: int, iterations: int, tell: Told
) -> dict[str, Any]:
    """One run: per iteration seconds, loss and accuracies; compilation is timed apart."""
    run = library_run if who.rate is None else _gradient_run
    began = time.perf_counter()
    run(who, course, seed, 1, lambda k: None)
    cold = time.perf_counter() - began
    laps = run(who, course, seed, iterations, tell)
    return {
        "method": who.label,
        "seed": seed,
        "seconds": laps.seconds,
        "train_loss": [float(e.loss) for e in laps.training],
        "train_accuracy": [float(e.accuracy) for e in laps.training],
        "test_loss": [float(e.loss) for e in laps.test],
        "test_accuracy": [float(e.accuracy) for e in laps.test],
        "compile_seconds": max(cold - laps.seconds[0], 0.0) if laps.seconds else cold,
    }


def _gradient_run(who: Contestant, course: Course, seed: int, iterations: int, tell: Told) -> Laps:
    start = course.weights(seed)
    trainer = baselines.full_batch(
        course.problem, course.arrays, start, seed, name=who.name, rate=who.rate or 1.0
    )
    laps = []
    for lap in timed(trainer, course, iterations, with_training=True):
        laps.append(lap)
        tell(len(laps))
    training = [lap.training for lap in laps if lap.training is not None]
    return Laps([lap.seconds for lap in laps], training, [lap.test for lap in laps])


def library_run(who: Contestant, course: Course, seed: int, iterations: int, tell: Told) -> Laps:
    """A method of the library from the course's weights, its networks evaluated afterwards."""
    networks: list[Params] = []

    def keep(progress: Progress) -> None:
        networks.append(jax.tree.map(np.asarray, progress.params))
        tell(progress.iteration)

    x, y, weights = course.arrays
    options = Options(
        **who.options,
        max_iter=iterations,
        tol=0,
        seed=seed,
        evaluate_every=10**9,  # the networks are evaluated afterwards
        dtype=str(x.dtype),
    )
    result = solve(
        course.problem, x, y, sample_weight=weights, options=options,
        params=course.weights(seed), callback=keep,
    )  # fmt: skip
    not_interrupted(result)
    training = [course.on_training(params) for params in networks]
    test = [course.on_test(params) for params in networks]
    last = networks[-1] if networks else result.params
    return Laps(result.history.get("seconds", []), training, test, result, last)


def not_interrupted(result: Result) -> None:
    """Pass on the Ctrl-C that `solve` ended with: half a run is not to be recorded as one."""
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt


def compare(
    course: Course,
    contestants: list[Contestant],
    *,
    seeds: int,
    iterations: int,
    folder: Path,
    tell: Callable[[str, int], None] = lambda label, k: None,
) -> list[dict[str, Any]]:
    """Every contestant from every seed; a run whose record is in `folder` is not run again."""
    folder.mkdir(parents=True, exist_ok=True)
    runs = []
    for seed in range(seeds):
        for who in contestants:
            file = folder / f"{who.label.replace(' ', '-')}-seed{seed}.json"
            asked = {"settings": settings(course, iterations) | {"options": who.options}}
            kept = json.loads(file.read_text()) if file.exists() else {}
            if kept.get("settings") != asked["settings"]:
                told = partial(tell, f"{who.label}, seed {seed}")
                kept = curve(who, course, seed, iterations, told) | asked
                with write_atomically(file) as part:
                    part.write_text(json.dumps(kept))
            runs.append(kept)
    return runs


def settings(course: Course, iterations: int) -> dict[str, Any]:
    """What a record must agree in to stand for a run."""
    problem = course.problem
    return {
        "samples": len(course.arrays[0]),
        "rows": [
            zlib.crc32(np.ascontiguousarray(v).data) for v in (*course.arrays[:2], *course.test)
        ],
        "sizes": [problem.layers[0].n_in, *(layer.n_out for layer in problem.layers)],
        "activations": [repr(f) for f in problem.activations],
        "loss": repr(problem.loss),
        "init": course.init,
        "iterations": iterations,
    }
