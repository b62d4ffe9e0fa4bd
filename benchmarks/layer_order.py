"""Layers in groups that work at the same time beside the sweep: L_rho and the network's own loss.

    XLA_FLAGS=--xla_force_host_platform_device_count=3 \\
        python benchmarks/layer_order.py --out docs/results/layer_order.json

MNIST in the quick setting of `dladmm reproduce`: 2,000 images, hidden layers 100-100, three seeds;
after as many iterations as there, and after twice as many.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from dladmm import Options, solve
from dladmm.data.datasets import load_dataset
from dladmm.experiments.machine import describe_machine
from dladmm.experiments.setup import image_setup
from dladmm.io.files import write_file
from dladmm.paper.settings import QUICK

ONCE = QUICK.iterations


def run(setup: Any, groups: int | None, seed: int) -> dict[str, Any]:
    """One fit of twice the iterations: what it has after each half, and how often L_rho rose."""
    # Counted from 0: the network's loss is measured in the last iteration of either half.
    options = Options(
        method="dladmm", engine="jax", layer_devices=groups, seed=seed, max_iter=2 * ONCE, tol=None,
        evaluate_every=ONCE - 1, dtype="float32",
    )  # fmt: skip
    result = solve(setup.problem, *setup.arrays[:2], options=options)
    halves = {
        name: [result.history[name][k * ONCE - 1] for k in (1, 2)]
        for name in ("lagrangian", "train_loss")
    }
    return halves | {"rises": result.certificate.rises}


def main(out: Path | None) -> None:
    setup = image_setup(load_dataset("mnist"), QUICK.samples["mnist"], QUICK.hidden)
    rows = []
    for groups in (None, 1, 2, 3):
        runs = [run(setup, groups, seed) for seed in range(QUICK.seeds)]
        means = {
            name: np.mean([one[name] for one in runs], axis=0).tolist()
            for name in ("lagrangian", "train_loss")
        }
        rows.append({"groups": groups, **means, "rises": sum(one["rises"] for one in runs)})
        print(json.dumps(rows[-1]), flush=True)
    record = {"iterations": [ONCE, 2 * ONCE], "rows": rows, "machine": describe_machine()}
    if out:
        write_file(out, json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    main(parser.parse_args().out)
