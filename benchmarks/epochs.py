"""Test accuracy of restored mini-batches after each of a few epochs: 784-300-300-10, three seeds.

No target and no other racer: what a user has after one, two and three epochs by the defaults.
"""

import argparse
import json
import statistics
from itertools import islice
from pathlib import Path
from typing import Any

from dladmm.core.restored.method import MiniBatch
from dladmm.data.datasets import load_dataset
from dladmm.experiments.baselines import restored_batches
from dladmm.experiments.machine import describe_machine
from dladmm.experiments.setup import image_setup
from dladmm.io.files import write_file

HIDDEN, SEEDS = (300, 300), 3


def accuracies(data: str, epochs: int, data_dir: Path | None) -> dict[str, Any]:
    """After each epoch, of each seed."""
    c = image_setup(load_dataset(data, data_dir), None, HIDDEN)
    size = MiniBatch(c.problem, "auto", 0).prepare(c.arrays).size
    curves = []
    for seed in range(SEEDS):
        trainer = restored_batches(
            c.problem, c.arrays, c.weights(seed), seed, size=size, per_epoch=1
        )
        curves.append([float(c.on_test(m.params).accuracy) for m in islice(trainer, epochs)])
    return {"size": size, "curves": curves}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, help="such as docs/results/epochs.json")
    options = parser.parse_args()
    names = ("mnist", "fashion-mnist")
    found = {name: accuracies(name, options.epochs, options.data_dir) for name in names}
    for name, one in found.items():
        medians = [statistics.median(v) for v in zip(*one["curves"], strict=True)]
        print(f"{name}: {', '.join(f'{v:.2%}' for v in medians)}")
    if options.out:
        write_file(
            options.out, json.dumps({"data": found, "machine": describe_machine()}, indent=1)
        )


if __name__ == "__main__":
    main()
