"""What a fit by JAX spends on anything but iterating, once its programs are compiled."""

import time
import warnings
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from dladmm.data.datasets import load_dataset
from dladmm.estimators.classifier import DLADMMClassifier
from dladmm.experiments.machine import describe_machine

ITERATIONS = 20


def bench_overhead(
    repeats: int, methods: tuple[str, ...] = ("restored", "dladmm")
) -> dict[str, Any]:
    """Digits. The time of k iterations is overhead + k t: 2 T(k) - T(2k) is the overhead.

    T is the best of several fits after a first one, whose extra time is the compilation.
    """
    data = load_dataset("digits")

    def seconds(method: str, iterations: int) -> float:
        model = DLADMMClassifier(
            method=method, max_iter=iterations, tol=None, random_state=0, engine="jax",
        )  # fmt: skip
        began = time.perf_counter()
        model.fit(data.x_train, data.y_train)
        return time.perf_counter() - began

    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for method in methods:
            cold = seconds(method, ITERATIONS)
            short = min(seconds(method, ITERATIONS) for _ in range(repeats))
            long = min(seconds(method, 2 * ITERATIONS) for _ in range(repeats))
            rows.append(
                {
                    "method": method,
                    "overhead_seconds": 2 * short - long,
                    "seconds_per_iteration": (long - short) / ITERATIONS,
                    "compile_seconds": cold - short,
                }
            )
    return {"rows": rows, "iterations": ITERATIONS, "machine": describe_machine()}
