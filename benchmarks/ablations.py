"""Ablations of restored sweeps on a validation split, as Markdown tables.

Full batch: iterations to a training loss and validation accuracy there. Mini-batches: validation
accuracy after each epoch. Needs DLADMM_DATA or a download of MNIST and Fashion-MNIST.
"""

import statistics
import sys
from contextlib import contextmanager

import jax
import numpy as np

from dladmm import Options, Problem, solve
from dladmm.core import initial
from dladmm.core.evaluate import evaluate
from dladmm.core.restored import full_batch as restored
from dladmm.core.restored import mini_batch
from dladmm.data.datasets import load_dataset
from dladmm.experiments.machine import describe_machine

SEEDS, TARGETS, HELD_OUT = range(3), (0.1, 0.03), 5_000
FULL = {
    "default": {},
    "delta 1": {"DELTA": 1.0},
    "delta 10": {"DELTA": 10.0},
    "no output metric": {"EPSILON": 1e6},
    "epsilon 0.03": {"EPSILON": 0.03},
    "epsilon 0.3": {"EPSILON": 0.3},
    "first layer 1": {"FIRST_LAYER": 1.0},
    "moments of 1 sample per unit": {"SAMPLES_PER_UNIT": 1},
    "any step, not powers of sqrt(2)": {"on_grid": lambda factor: factor},
}
MINI = {
    "default": {},
    "delta 3": {"DELTA": 3.0},
    "epsilon 0.3": {"EPSILON": 0.3},
    "memory 0.9": {"MEMORY": 0.9},
    "radius 2": {"RADIUS": 2.0},
}


@contextmanager
def changed(module, settings):
    """Constants of a module, or the first layer's, with other values for a while."""
    homes = {name: initial if name == "FIRST_LAYER" else module for name in settings}
    before = {name: getattr(homes[name], name) for name in settings}
    for name, value in settings.items():
        setattr(homes[name], name, value)
    jax.clear_caches()
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(homes[name], name, value)
        jax.clear_caches()


def split(name, n):
    data = load_dataset(name)
    one_hot = np.eye(10, dtype=np.float32)[data.y_train]
    x = data.x_train
    return x[:n], one_hot[:n], x[-HELD_OUT:], one_hot[-HELD_OUT:]


def full(name):
    x, y, *held_out = split(name, 5_000)
    problem = Problem.dense((784, 100, 100, 10))
    reached = []
    for seed in SEEDS:
        hit = {}

        def watch(progress, hit=hit):
            for target in TARGETS:
                if target not in hit and progress.row["train_loss"] <= target:
                    accuracy = evaluate(problem, progress.params, *held_out).accuracy
                    hit[target] = (progress.iteration, float(accuracy))
            return len(hit) == len(TARGETS)

        options = Options(method="restored", max_iter=60, tol=None, seed=seed)
        solve(problem, x, y, options=options, callback=watch)
        reached.append(hit)
    cells = []
    for target in TARGETS:
        hits = [hit[target] for hit in reached if target in hit]
        if len(hits) < len(reached):
            cells.append("never")
        else:
            iterations = statistics.median(k for k, _ in hits)
            cells.append(f"{iterations} ({statistics.mean(a for _, a in hits):.2%})")
    return cells


def mini(name):
    x, y, *held_out = split(name, 55_000)
    problem = Problem.dense((784, 300, 300, 10))
    accuracies = []

    def watch(progress):
        accuracies.append(float(evaluate(problem, progress.params, *held_out).accuracy))

    options = Options(method="restored", batch_size=512, max_iter=3, tol=None)
    solve(problem, x, y, options=options, callback=watch)
    return [f"{accuracy:.2%}" for accuracy in accuracies]


def table(title, columns, variants, module, run):
    print(f"**{title}**\n")
    print("| | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for label, settings in variants.items():
        with changed(module, settings):
            cells = [cell for name in ("mnist", "fashion-mnist") for cell in run(name)]
        print(f"| {label} | " + " | ".join(cells) + " |", flush=True)
    print()


if __name__ == "__main__":
    parts = sys.argv[1:] or ["full", "mini"]
    if "full" in parts:
        columns = [f"{name} to {t:g}" for name in ("MNIST", "Fashion") for t in TARGETS]
        table("Full batch, iterations (accuracy there)", columns, FULL, restored, full)
    if "mini" in parts:
        columns = [f"{name} epoch {k}" for name in ("MNIST", "Fashion") for k in (1, 2, 3)]
        table("Mini-batches of 512, 784-300-300-10, one seed", columns, MINI, mini_batch, mini)
    print(describe_machine())
