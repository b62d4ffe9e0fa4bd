"""Methods side by side: curves over iterations and over seconds, from the same initial weights.

Everything is recorded the same way: the network after each iteration and the seconds of training
until then; losses and accuracies are computed from the networks afterwards, off the clock.
"""

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

from dladmm.core.evaluate import Evaluation
from dladmm.core.options import Options
from dladmm.core.params import Params
from dladmm.core.problem import described_layers
from dladmm.core.results import Progress, Result, Status
from dladmm.core.solve import solve
from dladmm.experiments import baselines
from dladmm.experiments.setup import Setup
from dladmm.experiments.timing import timed
from dladmm.io.files import write_atomically

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
PAPER_TEXT: dict[str, Any] = {"method": "dladmm", "nu": 1e-6, **AS_IT_IS}
LIBRARY: dict[str, dict[str, Any]] = {
    "restored": {"method": "restored"},
    "dladmm": {"method": "dladmm", "rho": 0.1, "nu": 1.0},
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


class Curve(NamedTuple):
    """Per iteration: seconds until then, the network on training and test rows; and if the method
    is one of the library's, all that `solve` returned and the last network before any breakdown."""

    seconds: list[float]
    training: list[Evaluation]
    test: list[Evaluation]
    result: Result | None = None
    network: Params | None = None


def curve_of(
    who: Contestant, setup: Setup, seed: int, iterations: int, show: Show
) -> dict[str, Any]:
    """One run: per iteration seconds, loss and accuracies; compilation is timed apart."""
    run = library_run if who.rate is None else _gradient_run
    began = time.perf_counter()
    run(who, setup, seed, 1, lambda k: None)
    cold = time.perf_counter() - began
    curve = run(who, setup, seed, iterations, show)
    return {
        "method": who.label,
        "seed": seed,
        "seconds": curve.seconds,
        "train_loss": [float(e.loss) for e in curve.training],
        "train_accuracy": [float(e.accuracy) for e in curve.training],
        "test_loss": [float(e.loss) for e in curve.test],
        "test_accuracy": [float(e.accuracy) for e in curve.test],
        "compile_seconds": max(cold - curve.seconds[0], 0.0) if curve.seconds else cold,
    }


def _gradient_run(who: Contestant, setup: Setup, seed: int, iterations: int, show: Show) -> Curve:
    start = setup.weights(seed)
    trainer = baselines.full_batch(
        setup.problem, setup.arrays, start, seed, name=who.name, rate=who.rate or 1.0
    )
    curve = []
    for point in timed(trainer, setup, iterations, with_training=True):
        curve.append(point)
        show(len(curve))
    training = [point.training for point in curve if point.training is not None]
    return Curve([point.seconds for point in curve], training, [point.test for point in curve])


def library_run(who: Contestant, setup: Setup, seed: int, iterations: int, show: Show) -> Curve:
    """A method of the library from the setup's weights, its networks evaluated afterwards."""
    networks: list[Params] = []

    def keep(progress: Progress) -> None:
        networks.append(jax.tree.map(np.asarray, progress.params))
        show(progress.iteration)

    x, y, weights = setup.arrays
    options = Options(
        **who.options,
        max_iter=iterations,
        tol=None,
        seed=seed,
        evaluate_every=10**9,  # the networks are evaluated afterwards
        dtype=str(x.dtype),
    )
    result = solve(
        setup.problem, x, y, sample_weight=weights, options=options,
        params=setup.weights(seed), callback=keep,
    )  # fmt: skip
    not_interrupted(result)
    training = [setup.on_training(params) for params in networks]
    test = [setup.on_test(params) for params in networks]
    last = networks[-1] if networks else result.params
    return Curve(result.history.get("seconds", []), training, test, result, last)


def not_interrupted(result: Result) -> None:
    """Pass on the Ctrl-C that `solve` ended with: half a run is not to be recorded as one."""
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt


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
                with write_atomically(file) as part:
                    part.write_text(json.dumps(kept))
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
