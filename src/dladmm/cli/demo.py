"""The demonstration: handwritten digits, the paper's method, a certificate."""

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from dladmm.callbacks.progress import ProgressBar
from dladmm.core.evaluate import evaluate
from dladmm.core.options import Options
from dladmm.core.problem import Problem
from dladmm.core.results import Progress, Result
from dladmm.core.solve import solve
from dladmm.experiments.plots import plot_run

# rho > 2H = 1 and the dual from the gradient: every condition of Theorem 1 that can be met.
OPTIONS = Options(method="dladmm", rho=1.5, nu=1.0, max_iter=500, tol=None, dtype="float32")
HIDDEN = (128, 128)


def run_demo(figure: Path, quiet: bool = False) -> tuple[Result, dict[str, Any]]:
    """Train on three quarters of the digits; the result and a record of plain values."""
    images, digits = load_digits(return_X_y=True)
    one_hot = np.eye(10, dtype=np.float32)[digits]
    x, x_test, y, y_test = train_test_split(
        images.astype(np.float32) / 16, one_hot, test_size=0.25, stratify=digits, random_state=0
    )
    problem = Problem.dense((x.shape[1], *HIDDEN, 10))
    test_accuracy: list[float] = []

    with ProgressBar("digits", OPTIONS.max_iter, disable=quiet) as bar:

        def evaluated(iteration: Progress) -> None:
            bar(iteration)
            sampled = math.isfinite(iteration.row["train_loss"])
            measured = evaluate(problem, iteration.params, x_test, y_test) if sampled else None
            test_accuracy.append(float(measured.accuracy) if measured else math.nan)

        result = solve(problem, x, y, options=OPTIONS, callback=evaluated)

    accuracy = float(evaluate(problem, result.params, x_test, y_test).accuracy)
    history = {**result.history, "test_accuracy": test_accuracy}
    plot_run(history, figure, f"dlADMM on handwritten digits: {accuracy:.1%} of the test set")
    return result, {
        "status": str(result.status),
        "n_iter": result.n_iter,
        "seconds": result.history["seconds"][-1],
        "train_accuracy": result.history["train_accuracy"][-1],
        "test_accuracy": accuracy,
        "train_loss": result.history["train_loss"][-1],
        "network": [x.shape[1], *HIDDEN, 10],
        "options": asdict(OPTIONS),
        "certificate": result.certificate.to_dict(),
        "figure": str(figure.resolve()),
    }
