"""Methods side by side: curves over iterations and over seconds, from the same initial weights.

Everything is recorded the same way: the network after each iteration and the seconds of training
until then; losses and accuracies are computed from the networks afterwards, off the clock.
"""

import json
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from dladmm.core.options import Options
from dladmm.core.params import Params
from dladmm.core.problem import described_layers
from dladmm.core.results import Callback, Progress, Result, Status
from dladmm.core.solve import solve
from dladmm.engine.arrays import load_jax
from dladmm.experiments import baselines
from dladmm.experiments.setup import Setup
from dladmm.experiments.timing import Measurement, series, timed
from dladmm.io.files import write_file

load_jax()  # which knows our trees from here on


# Learning rates of the paper's Section 5.1.3; where it gives none, optax's usual ones.
PAPER_RATES = {"sgd": 1e-6, "adagrad": 1e-3, "adadelta": 0.1, "adam": 1e-3}
RATES = PAPER_RATES | {
    "momentum": 1e-3,
    "nesterov": 1e-3,
    "rmsprop": 1e-3,
    "amsgrad": 1e-3,
    "lbfgs": 1.0,
}
# dlADMM as the paper's text has it. A run that breaks down is recorded as such: none is restarted
# with another rho.
AS_IT_IS: dict[str, Any] = {"max_recoveries": 0}
VECTOR: dict[str, Any] = {"method": "dladmm", "step_rule": "closed-form"}  # theta, tau as there
PAPER_TEXT: dict[str, Any] = VECTOR | {"nu": 1e-6, **AS_IT_IS}
LIBRARY: dict[str, dict[str, Any]] = {
    "restored": {"method": "restored"},
    "dladmm": {"method": "dladmm", "rho": 1e-3, "nu": 1e-3, "step_rule": "over-relaxed"},
    "dladmm-vector": VECTOR | {"rho": 0.1, "nu": 1.0},
    "dladmm-paper": PAPER_TEXT | {"rho": 1e-6, "rho_schedule": "paper"},
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


Show = Callable[[int], None]  # how many iterations are made
NEVER = 10**9  # iterations between two evaluations


def curve_of(
    who: Contestant, setup: Setup, seed: int, iterations: int, show: Show
) -> dict[str, Any]:
    """One run: per iteration seconds, loss and accuracies; compilation is timed apart."""

    def run(count: int, show: Show) -> list[Measurement]:
        if who.rate is None:
            return library_run(who.options, setup, seed, count, show)[0]
        return gradient_run(setup, who.name, [(who.rate, seed)], count, show)

    began = time.perf_counter()
    run(1, lambda k: None)
    cold = time.perf_counter() - began
    points = run(iterations, show)
    return {
        "method": who.label,
        "seed": seed,
        "seconds": [point.seconds for point in points],
        **{name: values.tolist() for name, values in series(points).items()},
        "compile_seconds": max(cold - points[0].seconds, 0.0) if points else cold,
    }


def gradient_run(
    setup: Setup, name: str, pairs: Sequence[tuple[float, int]], iterations: int, show: Show
) -> list[Measurement]:
    """An optimiser for each (rate, seed); several are one vectorised program, with one clock."""
    given = (setup.problem, setup.arrays)
    starts, rates = [setup.weights(seed) for _, seed in pairs], [rate for rate, _ in pairs]
    if len(pairs) == 1:
        trainer = baselines.full_batch(*given, starts[0], 0, name=name, rate=rates[0])
    else:
        trainer = baselines.full_batches(*given, starts, rates, name)
    points = []
    for point in timed(trainer, setup, iterations, with_training=True):
        points.append(point)
        show(len(points))
    return points


def library_run(
    options: Mapping[str, Any], setup: Setup, seed: int, iterations: int, show: Show
) -> tuple[list[Measurement], Result, Params]:
    """A method of the library, its networks evaluated afterwards: their measurements, all that
    `solve` returned, and the last network before any breakdown."""
    networks: list[Params] = []

    def keep(progress: Progress) -> None:
        networks.append(jax.tree.map(np.asarray, progress.params))
        show(progress.iteration)

    result = solved(options, setup, seed, iterations, keep)
    measured = zip(result.history.get("seconds", []), networks, strict=True)
    points = [Measurement(s, setup.on_test(one), setup.on_training(one)) for s, one in measured]
    return points, result, networks[-1] if networks else result.params


def solved(
    options: Mapping[str, Any],
    setup: Setup,
    seed: int,
    iterations: int,
    callback: Callback | None = None,
    evaluate_every: int = NEVER,
) -> Result:
    """So many iterations of a method of the library from the setup's weights.

    The Ctrl-C that `solve` ended with is passed on: half a run is not to be recorded as one.
    """
    x, y, weights = setup.arrays
    own: dict[str, Any] = {"max_iter": iterations, "seed": seed, "evaluate_every": evaluate_every}
    result = solve(
        setup.problem, x, y, sample_weight=weights, params=setup.weights(seed), callback=callback,
        options=Options(**options, **own, tol=None, dtype=str(x.dtype)),
    )  # fmt: skip
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result


def compare(
    setup: Setup,
    contestants: list[Contestant],
    *,
    seeds: int,
    iterations: int,
    folder: Path,
    show: Callable[[str, int], None] = lambda label, k: None,
) -> list[dict[str, Any]]:
    """Every contestant from every seed; a run whose record is in `folder` is not run again."""
    folder.mkdir(parents=True, exist_ok=True)
    runs = []
    for seed in range(seeds):
        for who in contestants:
            file = folder / f"{who.label.replace(' ', '-')}-seed{seed}.json"
            asked = {"settings": settings(setup, iterations) | {"options": who.options}}
            kept = json.loads(file.read_text()) if file.exists() else {}
            if kept.get("settings") != asked["settings"]:
                show_run = partial(show, f"{who.label}, seed {seed}")
                kept = curve_of(who, setup, seed, iterations, show_run) | asked
                write_file(file, json.dumps(kept))
            runs.append(kept)
    return runs


def settings(setup: Setup, iterations: int) -> dict[str, Any]:
    """What a record must agree in to stand for a run."""
    problem = setup.problem
    return {
        "samples": len(setup.arrays[0]),
        "rows": [
            zlib.crc32(np.ascontiguousarray(v).data) for v in (*setup.arrays[:2], *setup.test)
        ],
        "layers": described_layers(problem.layers),
        "activations": [repr(f) for f in problem.activations],
        "loss": repr(problem.loss),
        "init": setup.init,
        "iterations": iterations,
    }
