"""Restored sweeps with closed targets beside first-order ones: docs/researchers.md.

Full batch, 5,000 MNIST images, 784-100-100-10, 40 iterations: when the training loss is 0.01, and
the test accuracy then and at the end. Mini-batches of 512 of all images, 784-300-300-10: epochs
until the test accuracy is 98.0 % on MNIST and 88.5 % on Fashion-MNIST, looked at eight times an
epoch. Three seeds. Needs DLADMM_DATA or a download of the data sets.

    python benchmarks/closed_targets.py --out docs/results/closed_targets.json
"""

import argparse
import json
from functools import partial
from pathlib import Path

from dladmm.bench.race import ACCURACIES, PER_EPOCH, RESTORED_BATCH
from dladmm.core.methods import method_for
from dladmm.core.options import Options
from dladmm.data.datasets import load_dataset
from dladmm.experiments.baselines import restored_batches
from dladmm.experiments.compare import library_run
from dladmm.experiments.machine import describe_machine
from dladmm.experiments.setup import image_setup
from dladmm.experiments.timing import timed
from dladmm.io.files import write_file

TARGETS, SEEDS = ("first-order", "closed"), (0, 1, 2)
IMAGES, HIDDEN, ITERATIONS, LOSS = 5_000, (100, 100), 40, 0.01
WIDE, EPOCHS = (300, 300), 4


def full_batch(setup, targets, seed):
    """When the loss is there, and accuracies; whether the true loss ever rose."""
    options = {"method": "restored", "targets": targets, "stop_at_noise": False}
    points, result, _ = library_run(options, setup, seed, ITERATIONS, lambda k: None)
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
    start = partial(restored_batches, size=RESTORED_BATCH, per_epoch=PER_EPOCH)
    trainer = start(problem, setup.arrays, setup.weights(seed), seed)
    for k, point in enumerate(timed(trainer, setup, EPOCHS * PER_EPOCH, False), 1):
        if float(point.test.accuracy) >= accuracy:
            return k / PER_EPOCH
    return None


def main(out):
    report = {"full_batch": {}, "epochs": {}, "machine": describe_machine()}
    few = image_setup(load_dataset("mnist"), IMAGES, HIDDEN)
    for targets in TARGETS:
        report["full_batch"][targets] = [full_batch(few, targets, seed) for seed in SEEDS]
        print(targets, report["full_batch"][targets], flush=True)
    for data in ("mnist", "fashion-mnist"):
        setup = image_setup(load_dataset(data), None, WIDE)
        report["epochs"][data] = {
            targets: [mini_batches(setup, targets, seed, ACCURACIES[data]) for seed in SEEDS]
            for targets in TARGETS
        }
        print(data, report["epochs"][data], flush=True)
    write_file(out, json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    main(parser.parse_args().out)
