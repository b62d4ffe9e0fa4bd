"""DLADMMClassifier against MLPClassifier, both with their defaults, on the digits.

A second fit in one process, threads pinned alike, best of several, one after the other in one run;
the first fit's extra time is compilation and is reported beside it. Prints one JSON object.
"""

import argparse
import json
import os
import time
import warnings

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--seeds", type=int, default=3, help="how many, from 0 on")
parser.add_argument("--repeats", type=int, default=3, help="best of this many")
GIVEN = parser.parse_args()
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NPROC"):
    os.environ[variable] = str(GIVEN.threads)  # before NumPy and JAX size their pools

from sklearn.datasets import load_digits  # noqa: E402
from sklearn.exceptions import ConvergenceWarning  # noqa: E402
from sklearn.model_selection import train_test_split  # noqa: E402
from sklearn.neural_network import MLPClassifier  # noqa: E402

from dladmm import DLADMMClassifier  # noqa: E402
from dladmm.experiments.machine import describe_machine  # noqa: E402


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    X, y = load_digits(return_X_y=True)
    rows = []
    first = None
    for seed in range(GIVEN.seeds):
        X_train, X_test, y_train, y_test = train_test_split(
            X, y, test_size=0.25, stratify=y, random_state=seed
        )
        for make in (DLADMMClassifier, MLPClassifier):
            if first is None:
                began = time.perf_counter()
                DLADMMClassifier(random_state=seed).fit(X_train, y_train)
                first = time.perf_counter() - began
            seconds = []
            for _ in range(GIVEN.repeats):
                began = time.perf_counter()
                model = make(random_state=seed).fit(X_train, y_train)
                seconds.append(time.perf_counter() - began)
            rows.append(
                {
                    "estimator": make.__name__,
                    "seed": seed,
                    "seconds": min(seconds),
                    "n_iter": model.n_iter_,
                    "test_accuracy": model.score(X_test, y_test),
                }
            )
    ours, theirs = rows[0::2], rows[1::2]
    mean = lambda rows, key: sum(row[key] for row in rows) / len(rows)  # noqa: E731
    report = {
        "time_ratio": mean(ours, "seconds") / mean(theirs, "seconds"),
        "accuracy": {"dladmm": mean(ours, "test_accuracy"), "mlp": mean(theirs, "test_accuracy")},
        "compile_seconds": first - ours[0]["seconds"],
        "threads": GIVEN.threads,
        "rows": rows,
        "machine": describe_machine(),
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
