"""The first fit of a process, and a grid search, against `MLPClassifier`, both with their defaults.

    python benchmarks/first_fit.py --out docs/results/first_fit.json

Every figure is of a process of its own, ours and theirs in turn, and the median of several. Seconds
of `fit` are the first of their process; `process` counts imports, loading the data, fit and score.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

OURS, THEIRS = "DLADMMClassifier", "MLPClassifier"
ROUNDS = 5
FITS: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("digits", (100,)),  # the defaults of both
    ("digits", (60, 40)),
    ("breast_cancer", (100,)),
)
GRID = [(20,), (50,), (100,)]
SEARCHES = [(data, jobs) for data in ("breast_cancer", "digits") for jobs in (1, 2)]


def loaded(name: str) -> tuple[Any, Any]:
    from sklearn import datasets
    from sklearn.preprocessing import StandardScaler

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    # In units that suit MLPClassifier; ours finds its own.
    return (X / 16 if name == "digits" else StandardScaler().fit_transform(X)), y


def estimator(name: str) -> type:
    if name == OURS:
        from dladmm import DLADMMClassifier

        return DLADMMClassifier
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier


def one_fit(name: str, data: str, hidden: list[int], seed: int, **settings: Any) -> dict[str, Any]:
    """What a script of a user does; the clock starts with it."""
    make = estimator(name)
    from sklearn.model_selection import train_test_split

    X, y = loaded(data)
    X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=seed)
    began = time.perf_counter()
    model = make(tuple(hidden), random_state=seed, **settings).fit(X_train, y_train)
    fitted = time.perf_counter()
    score = model.score(X_test, y_test)
    return {"fit": fitted - began, "accuracy": score, "n_iter": model.n_iter_}


def one_search(name: str, data: str, jobs: int, seed: int) -> dict[str, Any]:
    make = estimator(name)
    from sklearn.model_selection import GridSearchCV

    X, y = loaded(data)
    grid = {"hidden_layer_sizes": GRID}
    search = GridSearchCV(make(random_state=seed), grid, cv=3, n_jobs=jobs)
    began = time.perf_counter()
    search.fit(X, y)
    return {"fit": time.perf_counter() - began, "accuracy": search.best_score_}


def in_process(kind: str, *given: Any, cache: str = "", **settings: Any) -> dict[str, Any]:
    """The result of a fit or a search in a fresh process, with the seconds of all of it."""
    command = [sys.executable, __file__, "--worker", json.dumps([kind, given, settings])]
    began = time.perf_counter()
    environment = os.environ | ({"DLADMM_CACHE": cache} if cache else {})
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(ran.stdout) | {"process": time.perf_counter() - began}


def compared(kind: str, *given: Any) -> dict[str, Any]:
    """Medians of both, and their ratios."""
    runs: dict[str, list[dict[str, Any]]] = {OURS: [], THEIRS: []}
    for seed in range(ROUNDS):
        for name in (OURS, THEIRS):
            runs[name].append(in_process(kind, name, *given, seed))
    both = {
        name: {key: statistics.median(run[key] for run in each) for key in each[0]}
        for name, each in runs.items()
    }
    ratios = {key: both[OURS][key] / both[THEIRS][key] for key in ("fit", "process")}
    return {"given": given, "ratio": ratios, **both}


def jax_fits() -> dict[str, Any]:
    """First fits of the digits by the JAX engine: nothing kept on disk, then what that one kept."""
    seconds = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("nothing kept", "kept"):
            run = in_process("fit", OURS, "digits", (100,), 0, cache=folder, engine="jax")
            seconds[name] = run["fit"]
    return seconds


def imports() -> dict[str, float]:
    """Median seconds of a process that only imports."""
    codes = {
        "import sklearn.neural_network": [],
        "import dladmm": [],
        "from dladmm import DLADMMClassifier": [],
    }  # type: dict[str, list[float]]
    for _ in range(2 * ROUNDS):
        for code, seconds in codes.items():
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            seconds.append(time.perf_counter() - began)
    return {code: statistics.median(seconds) for code, seconds in codes.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.worker:
        warnings.simplefilter("ignore")
        kind, given, settings = json.loads(asked.worker)
        print(json.dumps({"fit": one_fit, "search": one_search}[kind](*given, **settings)))
        return
    import dladmm
    from dladmm.experiments.machine import describe_machine
    from dladmm.io.files import write_atomically

    # As pip leaves an installed package, and as scikit-learn is here: with its bytecode.
    compileall.compile_dir(Path(dladmm.__file__).parent, quiet=1)
    report: dict[str, Any] = {"fits": [], "searches": []}
    for place, kind, cases in (("fits", "fit", FITS), ("searches", "search", SEARCHES)):
        for given in cases:
            row = compared(kind, *given)
            report[place].append(row)
            fit, process = row["ratio"]["fit"], row["ratio"]["process"]
            ours, theirs = (row[name] for name in (OURS, THEIRS))
            print(
                f"{kind} {given}: {ours['fit']:.3f} s against {theirs['fit']:.3f} s, {fit:.2f};"
                f" process {process:.2f}; accuracy {ours['accuracy']:.4f} {theirs['accuracy']:.4f}",
                flush=True,
            )
    report |= {"imports": imports(), "jax": jax_fits(), "rounds": ROUNDS}
    report["machine"] = describe_machine()
    print(json.dumps({key: report[key] for key in ("imports", "jax")}, indent=2))
    if asked.out:
        with write_atomically(asked.out) as path:
            path.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
