"""What messages in fewer bits between groups of layers cost in accuracy, and what they save.

    XLA_FLAGS=--xla_force_host_platform_device_count=3 \\
        python benchmarks/layer_messages.py --out docs/results/layer_messages.json

The quick setting of `dladmm reproduce`: 2,000 images, hidden layers 100-100, 50 iterations, three
seeds, 1,000 test images; each of the three layers is a group.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from dladmm import Options, solve
from dladmm.core.methods import method_for
from dladmm.core.relaxed.layer_messages import MESSAGES
from dladmm.data.datasets import load_dataset
from dladmm.experiments.machine import describe_machine
from dladmm.experiments.setup import image_setup
from dladmm.io.files import write_atomically
from dladmm.paper.settings import DATA, QUICK

GROUPS, RULE = 3, "over-relaxed"


def run(setup: Any, messages: str, seed: int) -> dict[str, float]:
    """One fit: its accuracy on test images, and how often L_rho rose."""
    options = Options(
        method="dladmm", step_rule=RULE, layer_devices=GROUPS, layer_messages=messages, seed=seed,
        max_iter=QUICK.iterations, tol=None, dtype="float32",
    )  # fmt: skip
    result = solve(setup.problem, *setup.arrays[:2], options=options)
    x, y = (v[: QUICK.test_samples] for v in setup.test)
    measured = type(setup)(setup.problem, setup.arrays, (x, y)).on_test(result.params)
    return {"accuracy": float(measured.accuracy), "rises": result.certificate.rises}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=",".join(DATA))
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    rows = []
    for name in asked.data.split(","):
        setup = image_setup(load_dataset(name), QUICK.samples[name], QUICK.hidden)
        for messages in MESSAGES:
            options = Options(method="dladmm", layer_devices=GROUPS, layer_messages=messages)
            method: Any = method_for(setup.problem, options)
            runs = [run(setup, messages, seed) for seed in range(QUICK.seeds)]
            row = {
                "data": name,
                "messages": messages,
                "bytes_per_sample": method.message_bytes(4),
                "accuracy": float(np.mean([one["accuracy"] for one in runs])),
                "accuracies": [one["accuracy"] for one in runs],
                "rises": sum(one["rises"] for one in runs),
            }
            rows.append(row)
            print(json.dumps(row), flush=True)
    record = {"groups": GROUPS, "rule": RULE, "rows": rows, "machine": describe_machine()}
    if asked.out:
        with write_atomically(asked.out) as part:
            part.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
