"""scikit-learn's own checks of both estimators, by this source and by an older one.

    git worktree add ../before 4e9a1bc      # the last commit before there were two engines
    python benchmarks/check_estimator.py --before ../before/src \\
        --out docs/results/check_estimator.json

Every figure is of a process of its own, old and new in turn, with nothing compiled before: seconds
on the clock, and of all cores, from `check_estimator`'s first check to its last.
"""

from __future__ import annotations

import argparse
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

ESTIMATORS = ("DLADMMClassifier", "DLADMMRegressor")
HERE = Path(__file__).resolve().parents[1] / "src"
NAMES = {"seconds": "seconds", "cpu_seconds": "of all cores"}


def check(name: str) -> dict[str, Any]:
    from sklearn.utils.estimator_checks import check_estimator

    import dladmm

    estimator = getattr(dladmm, name)()
    began, computed = time.perf_counter(), time.process_time()
    results = check_estimator(estimator, on_fail=None, on_skip=None)
    return {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - computed,
        "passed": sum(result["status"] == "passed" for result in results),
        "failed": sum(result["status"] == "failed" for result in results),
        "skipped": sum(result["status"] == "skipped" for result in results),
    }


def in_process(source: Path, name: str) -> dict[str, Any]:
    """The checks in a fresh process that imports dladmm from this folder."""
    command = [sys.executable, __file__, "--worker", name]
    environment = {key: value for key, value in os.environ.items() if key != "DLADMM_CACHE"}
    with tempfile.TemporaryDirectory() as empty:  # no program that an earlier process compiled
        environment |= {"PYTHONPATH": str(source), "XDG_CACHE_HOME": empty}
        ran = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(ran.stdout.splitlines()[-1])


def compared(name: str, sources: dict[str, Path], rounds: int) -> dict[str, Any]:
    """Medians of both sources, and new over old."""
    runs: dict[str, list[dict[str, Any]]] = {which: [] for which in sources}
    for _ in range(rounds):
        for which, source in sources.items():
            runs[which].append(in_process(source, name))
    medians = {
        which: {key: statistics.median(run[key] for run in each) for key in each[0]}
        for which, each in runs.items()
    }
    ratio = {key: medians["now"][key] / medians["before"][key] for key in NAMES}
    return {"estimator": name, "ratio": ratio, **medians}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="the src folder of the older commit")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.worker:
        warnings.simplefilter("ignore")
        print(json.dumps(check(asked.worker)))
        return
    if asked.before is None or not (asked.before / "dladmm").is_dir():
        parser.error(f"--before {asked.before} has no dladmm; expected the src folder of a commit")
    from dladmm.experiments.machine import commit_of, describe_machine
    from dladmm.io.files import write_atomically

    sources = {"before": asked.before.resolve(), "now": HERE}
    report: dict[str, Any] = {"rounds": asked.rounds, "checks": []}
    report["commits"] = {which: commit_of(source) for which, source in sources.items()}
    for name in ESTIMATORS:
        row = compared(name, sources, asked.rounds)
        report["checks"].append(row)
        for key, words in NAMES.items():
            before, now = row["before"][key], row["now"][key]
            print(
                f"{name}, {words}: {before:.1f} before, {now:.1f} now, {now / before:.3f}",
                flush=True,
            )
    report["machine"] = describe_machine()
    if asked.out:
        with write_atomically(asked.out) as path:
            path.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
