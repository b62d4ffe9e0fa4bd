"""The demonstration: handwritten digits, the paper's method, a certificate."""

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dladmm.callbacks.progress import ProgressBar
from dladmm.core.options import Options
from dladmm.core.problem import sizes_of
from dladmm.core.results import Progress, Result
from dladmm.core.solve import solve
from dladmm.data.datasets import load_dataset
from dladmm.experiments.plots import plot_run
from dladmm.experiments.setup import image_setup

# rho > 2H = 1 and the dual from the gradient: every condition of Theorem 1 that can be met.
OPTIONS = Options(method="dladmm", rho=1.5, nu=1.0, max_iter=500, tol=None, dtype="float32")
HIDDEN = (128, 128)


def run_demo(figure: Path, quiet: bool = False) -> tuple[Result, dict[str, Any]]:
    """Train on three quarters of the digits; the result and a record of plain values."""
    setup = image_setup(load_dataset("digits"), None, HIDDEN)
    x, y, _ = setup.arrays
    test_accuracy: list[float] = []

    with ProgressBar("digits", OPTIONS.max_iter, disable=quiet) as bar:

        def evaluated(iteration: Progress) -> None:
            bar(iteration)
            sampled = math.isfinite(iteration.row["train_loss"])
            accuracy = setup.on_test(iteration.params).accuracy if sampled else math.nan
            test_accuracy.append(float(accuracy))

        result = solve(setup.problem, x, y, options=OPTIONS, callback=evaluated)

    accuracy = float(setup.on_test(result.params).accuracy)
    history = {**result.history, "test_accuracy": test_accuracy}
    plot_run(history, figure, f"dlADMM on handwritten digits: {accuracy:.1%} of the test set")
    return result, {
        "status": str(result.status),
        "n_iter": result.n_iter,
        "seconds": result.history["seconds"][-1],
        "train_accuracy": result.history["train_accuracy"][-1],
        "test_accuracy": accuracy,
        "train_loss": result.history["train_loss"][-1],
        "network": sizes_of(setup.problem.layers),
        "options": asdict(OPTIONS),
        "certificate": result.certificate.to_dict(),
        "figure": str(figure.resolve()),
    }
