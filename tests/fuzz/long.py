"""`make fuzz`: thousands of random cases of every property, in batches that can be interrupted.

Each batch has a seed; those that are done stand in build/fuzz/done.jsonl and are not done again. A
case that fails is printed, kept in Hypothesis's database beside it, and counted; it becomes a test
in test_fuzz.py when it is mended.
"""

import argparse
import json
import sys
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import hypothesis
from hypothesis.database import DirectoryBasedExampleDatabase

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from cases import PROPERTIES  # noqa: E402

BATCH = 100
SHARES = {
    "estimators": 40,
    "solve": 25,
    "model files": 15,
    "checkpoints": 3,
    "tables": 12,
    "networks": 5,
}


def batch(name, seed, folder, size=BATCH):
    """(cases, how they ended, what failed) of one batch."""
    strategy, check = PROPERTIES[name]
    ended = Counter()

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=size,
        deadline=None,
        database=DirectoryBasedExampleDatabase(folder / "database"),
        suppress_health_check=list(hypothesis.HealthCheck),
        report_multiple_bugs=False,
        print_blob=True,
    )
    @hypothesis.given(strategy)
    def attempt(case):
        ended["cases"] += 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ended[str(check(case))] += 1

    failed = None
    try:
        attempt()
    except Exception as error:  # whatever it is, it is a find
        notes = "\n".join(getattr(error, "__notes__", []))
        frames = "".join(traceback.format_tb(error.__traceback__)[-4:])
        failed = f"{frames}{type(error).__name__}: {str(error)[:500]}\n{notes[:3000]}"
    return ended, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--only", choices=list(PROPERTIES))
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    record = asked.folder / "done.jsonl"
    lines = record.read_text().splitlines() if record.exists() else []
    done = {(one["property"], one["seed"]): one for one in map(json.loads, lines)}
    total, finds = Counter(), 0
    for name, share in SHARES.items():
        if asked.only not in (None, name):
            continue
        for k in range(max(1, asked.cases * share // 100 // BATCH)):
            key = (name, asked.first_seed + k)
            if key not in done or done[key]["failed"]:
                began = time.perf_counter()
                ended, failed = batch(*key, asked.folder)
                seconds = round(time.perf_counter() - began, 1)
                done[key] = {
                    "property": name,
                    "seed": key[1],
                    "ended": ended,
                    "failed": bool(failed),
                }
                with record.open("a") as file:
                    file.write(json.dumps(done[key]) + "\n")
                print(f"{name}, seed {key[1]}: {dict(ended)} in {seconds} s", flush=True)
                if failed:
                    print(f"FOUND in {name}, seed {key[1]}:\n{failed}\n", flush=True)
            total[name] += done[key]["ended"]["cases"]
            finds += done[key]["failed"]
    print(f"{sum(total.values())} cases ({dict(total)}), {finds} batches with a find")
    return 1 if finds else 0


if __name__ == "__main__":
    sys.exit(main())
