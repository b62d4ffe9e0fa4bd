"""The paper's evaluation, small: on digits, and in records made up, whole and of known verdicts."""

from dataclasses import asdict, replace

import numpy as np

from dladmm.data.datasets import load_dataset
from dladmm.paper import reproduce as making
from dladmm.paper import settings as paper
from dladmm.paper.settings import Scale

SCALE = Scale(
    name="tiny",
    samples={"mnist": 100, "fashion-mnist": 100},
    test_samples=90,
    width=6,
    seeds=2,
    grid_samples=80,
    grid_iterations=3,
    neurons=(3, 6),
    sizes={"mnist": (50, 100), "fashion-mnist": (50, 100)},
    timed_iterations=2,
    iterations=20,
    convergence_iterations=20,
)
MACHINE = {
    "processor": "a processor", "cores": 2, "memory_gib": 1.0, "python": "3", "jax": "0",
    "numpy": "2", "optax": "0", "dladmm": "0", "date": "2026-01-01",
}  # fmt: skip
ITERATIONS = np.arange(1, SCALE.iterations + 1)


def on_digits(monkeypatch):
    """Whatever is reproduced: digits under the images' names, and few optimisers."""
    one = load_dataset("digits")
    monkeypatch.setattr(making, "_dataset", lambda name, folder: replace(one, name=name))
    monkeypatch.setattr(paper, "GRIDS", {"sgd": (0.1, 1e30), "adam": (0.01, 0.03)})
    for scale in ("QUICK", "FULL"):
        monkeypatch.setattr(paper, scale, SCALE)


def record(piece, runs):
    marked = {name: run | {"machine": MACHINE} for name, run in runs.items()}
    return {"piece": piece, "scale": asdict(SCALE), "runs": marked}


def convergence(piece, wave, names=tuple(paper.VARIANTS)):
    values = (1e3 * 0.8**ITERATIONS * (1 + wave * (ITERATIONS % 2))).tolist()
    run = {"options": {}, "history": {"lagrangian": values, "residual": values}}
    return record(piece, {f"{data} {name}": run for data in paper.DATA for name in names})


def rising_to(level, speed):
    """Two seeds that approach a level."""
    curve = level * (1 - np.exp(-speed * ITERATIONS))
    return [
        {
            "seed": seed,
            "train_accuracy": (curve - 0.001 * seed).tolist(),
            "test_accuracy": (curve - 0.01 - 0.001 * seed).tolist(),
            "train_loss": (1 - curve).tolist(),
            "weights_moved": [1e-9, 2e-5, 0.3],
            "history": {"risk": (1e-3 * (1 - curve)).tolist()},
        }
        for seed in (0, 1)
    ]


def accuracies(piece):
    runs = {f"dladmm {name}": {"curves": rising_to(0.94, 0.7)} for name in paper.VARIANTS}
    sagging = rising_to(0.81, 1.0)
    for curve in sagging:
        curve["train_accuracy"][-1] -= 0.02
    runs |= {"admm": {"curves": sagging}, "restored": {"curves": rising_to(0.97, 1.0)}}
    for name, grid in paper.GRIDS.items():
        rates = [{"rate": r, "train_accuracy": 0.5 + r / 100, "train_loss": 1.0} for r in grid]
        runs[f"{name} grid"] = {"rates": rates}
        runs[f"{name} best"] = {"rate": grid[-1], "curves": rising_to(0.95, 0.5)}
        if name in paper.RATES:
            level = 0.96 if name == "adam" else 0.5
            runs[f"{name} paper"] = {"rate": paper.RATES[name], "curves": rising_to(level, 0.6)}
    runs["sgd summed"] = {"rate": 1e-4, "curves": rising_to(0.6, 0.6)}
    runs["lbfgs"] = {"rate": 1.0, "curves": rising_to(0.95, 0.6)}
    return record(piece, runs)


def times(piece):
    sizes = SCALE.neurons if piece == "table2" else SCALE.sizes["mnist"]
    runs = {}
    for data in paper.DATA:
        for size in sizes:
            seconds = {"seconds": size / 100, "times": 4 * [size / 100], "zl_iterations": 3.0}
            rows = [{"rho": rho, **seconds} for rho in paper.RHOS]
            runs[f"{data} {size}"] = {"samples": size, "neurons": size, "rows": rows}
    return record(piece, runs)


RECORDS = {
    "fig3": convergence("fig3", 0.0),
    "fig4": convergence("fig4", 0.9, (*paper.VARIANTS, *paper.BETWEEN)),
    "fig5": accuracies("fig5"),
    "fig6": accuracies("fig6"),
    "table2": times("table2"),
    "table3": times("table3"),
}
