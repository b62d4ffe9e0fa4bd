"""Restored sweeps with closed targets beside first-order ones: docs/researchers.md.

full_batch: 5,000 MNIST images, 784-100-100-10, 40 iterations: when the training loss is 0.01, and
the test accuracy then and at the end. epochs: mini-batches of 512 of all images, 784-300-300-10:
epochs until the test accuracy is 98.0 % on MNIST and 88.5 % on Fashion-MNIST, looked at eight times
an epoch. activations: full batch again, by each of six. shares: full batch with steps of a of other
sizes, up to 60 iterations. The last two choose: they are scored on 5,000 other training images.
Three seeds. A part that is not asked for stays in the record as it is. Needs DLADMM_DATA or a
download of the data sets.

    python benchmarks/closed_targets.py --out docs/results/closed_targets.json [--parts shares]
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import jax

from dladmm import Problem
from dladmm.bench.racers import PER_EPOCH
from dladmm.core.methods import method_for
from dladmm.core.options import Options
from dladmm.core.restored import point
from dladmm.data.datasets import load_dataset
from dladmm.experiments.baselines import restored_batches
from dladmm.experiments.compare import library_run
from dladmm.experiments.machine import describe_machine
from dladmm.experiments.setup import image_setup
from dladmm.experiments.tasks import ACCURACIES
from dladmm.experiments.timing import timed
from dladmm.io.files import write_file
from dladmm.terms.activations import activations

TARGETS, SEEDS = ("first-order", "closed"), (0, 1, 2)
IMAGES, HIDDEN, ITERATIONS, LOSS = 5_000, (100, 100), 40, 0.01
WIDE, EPOCHS = (300, 300), 4
BATCH = 512
SIX = ("relu", "leaky_relu", "tanh", "sigmoid", "sign", "quantized_relu")
SHARES, LONGER = (0.1, 0.3, 1.0), 60


def full_batch(setup, targets, seed, iterations=ITERATIONS):
    """When the loss is there, and accuracies; whether the true loss ever rose."""
    options = {"method": "restored", "targets": targets, "stop_at_noise": False}
    points, result, _ = library_run(options, setup, seed, iterations, lambda k: None)
    there = next((k for k, p in enumerate(points) if float(p.train.loss) <= LOSS), None)
    return {
        "iterations": None if there is None else there + 1,
        "test_accuracy": None if there is None else float(points[there].test.accuracy),
        "last_test_accuracy": float(points[-1].test.accuracy),
        "last_loss": float(points[-1].train.loss),
        "rises": result.certificate.rises,
    }


def mini_batches(setup, targets, seed, accuracy):
    """Epochs until a test accuracy; None where it was not reached."""
    problem = method_for(setup.problem, Options(method="restored", targets=targets)).problem
    start = partial(restored_batches, size=BATCH, per_epoch=PER_EPOCH)
    trainer = start(problem, setup.arrays, setup.weights(seed), seed)
    for k, lap in enumerate(timed(trainer, setup, EPOCHS * PER_EPOCH, False), 1):
        if float(lap.test.accuracy) >= accuracy:
            return k / PER_EPOCH
    return None


def to_choose_by():
    """The same images, and as test images the last of the training images."""
    data = load_dataset("mnist")
    held_out = {"x_test": data.x_train[-IMAGES:], "y_test": data.y_train[-IMAGES:]}
    return image_setup(replace(data, **held_out), IMAGES, HIDDEN)


def over_targets():
    few = image_setup(load_dataset("mnist"), IMAGES, HIDDEN)
    return {targets: [full_batch(few, targets, seed) for seed in SEEDS] for targets in TARGETS}


def over_epochs():
    def of(data):
        setup = image_setup(load_dataset(data), None, WIDE)
        ACCURACIES["dense"][data]
        return {
            targets: [
                mini_batches(setup, targets, seed, ACCURACIES["dense"][data]) for seed in SEEDS
            ]
            for targets in TARGETS
        }

    return {data: of(data) for data in ("mnist", "fashion-mnist")}


def over_activations():
    """What has no slope to use takes closed targets in any case."""
    setup = to_choose_by()
    sizes = (setup.arrays[0].shape[1], *HIDDEN, setup.arrays[1].shape[1])

    def of(name):
        own = replace(setup, problem=Problem.dense(sizes, name, "log_loss"))
        kinds = TARGETS if activations.get(name).uses_slope else ("closed",)
        found = {targets: [full_batch(own, targets, seed) for seed in SEEDS] for targets in kinds}
        print(name, found, flush=True)
        return found

    return {name: of(name) for name in SIX}


def over_shares():
    setup, found = to_choose_by(), {}
    for share in SHARES:
        with mock.patch.object(point, "SHARE", share):
            jax.clear_caches()  # programs have the share in them
            found[str(share)] = [full_batch(setup, "closed", seed, LONGER) for seed in SEEDS]
    return found


PARTS: dict[str, Callable[[], Any]] = {
    "full_batch": over_targets,
    "epochs": over_epochs,
    "activations": over_activations,
    "shares": over_shares,
}


def main(out, parts):
    record = json.loads(out.read_text()) if out.exists() else {}
    machines = record.pop("machines", {})
    for name in parts:
        record[name], machines[name] = PARTS[name](), describe_machine()
        print(name, record[name], flush=True)
        write_file(out, json.dumps(record | {"machines": machines}, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--parts", default=",".join(PARTS), help="of " + ", ".join(PARTS))
    asked = parser.parse_args()
    main(asked.out, asked.parts.split(","))
