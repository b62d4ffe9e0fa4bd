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
from importlib.metadata import version
from pathlib import Path

import hypothesis
from hypothesis.database import DirectoryBasedExampleDatabase

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from cases import PROPERTIES  # noqa: E402

from dladmm.experiments.machine import commit_of, describe_machine  # noqa: E402
from dladmm.io.files import write_file  # noqa: E402

ROOT = Path(__file__).parents[2]
BATCH = 100
SHARES = {
    "estimators": 38,
    "solve": 20,
    "model files": 15,
    "checkpoints": 3,
    "tables": 10,
    "sizes": 2,
    "networks": 12,
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


def recorded(lines):
    """What is kept of runs: of `lines` of done.jsonl the last one of each (property, seed) is what
    is true now, and those before it are what was found on the way."""
    last = {(one["property"], one["seed"]): one for one in lines}
    record = {}
    for name in SHARES:
        batches = [one for (of, _), one in sorted(last.items()) if of == name]
        ended = sum((Counter(one["ended"]) for one in batches), Counter())
        record[name] = {
            "seeds": ranges([one["seed"] for one in batches]),
            "commits": sorted({one.get("commit") or "unknown" for one in batches}),
            "cases": ended.pop("cases", 0),
            "ended": dict(sorted(ended.items())),
            "finds_on_the_way": sum(one["failed"] for one in lines if one["property"] == name),
            "open": sum(one["failed"] for one in batches),
        }
    return record


def ranges(numbers):
    """Ascending numbers as [first, last] of those that follow each other."""
    found = []
    for n in numbers:
        if found and found[-1][1] == n - 1:
            found[-1][1] = n
        else:
            found.append([n, n])
    return found


def table(record):
    """The record as docs/reliability.md has it."""
    lines = ["| what | seeds | cases | refused | taken | open |", "|---|---|---|---|---|---|"]
    for name, of in record["properties"].items():
        refused = sum(count for how, count in of["ended"].items() if how.startswith("refused"))
        seeds = ", ".join(f"{first} to {last}" for first, last in of["seeds"])
        lines.append(
            f"| {name} | {seeds} | {of['cases']:,} | {refused:,} | {of['cases'] - refused:,}"
            f" | {of['open']} |"
        )
    return "\n".join(lines)


def versions():
    names = ("numpy", "scipy", "scikit-learn", "pandas", "hypothesis")
    return {name: version(name) for name in names}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--only", choices=list(PROPERTIES))
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    parser.add_argument("--out", type=Path, help="where to write the record of all that is done")
    asked = parser.parse_args()
    commit = commit_of(ROOT)
    asked.folder.mkdir(parents=True, exist_ok=True)
    done_file = asked.folder / "done.jsonl"
    text = done_file.read_text() if done_file.exists() else ""
    lines = [json.loads(line) for line in text.splitlines()]
    done = {(one["property"], one["seed"]): one for one in lines}
    wanted = [
        (name, asked.first_seed + k)
        for name, share in SHARES.items()
        if asked.only in (None, name)
        for k in range(max(1, asked.cases * share // 100 // BATCH))
    ]
    for name, seed in wanted:
        if (name, seed) in done and not done[name, seed]["failed"]:
            continue
        began = time.perf_counter()
        ended, failed = batch(name, seed, asked.folder)
        seconds = round(time.perf_counter() - began, 1)
        one = {"property": name, "seed": seed, "ended": ended, "failed": bool(failed)}
        lines.append(one | {"commit": commit})
        with done_file.open("a") as file:
            file.write(json.dumps(lines[-1]) + "\n")
        print(f"{name}, seed {seed}: {dict(ended)} in {seconds} s", flush=True)
        if failed:
            print(f"FOUND in {name}, seed {seed}:\n{failed}\n", flush=True)
    record = recorded(lines)
    cases = {name: one["cases"] for name, one in record.items()}
    still = sum(one["open"] for one in record.values())
    print(f"{sum(cases.values())} cases ({cases}), {still} batches with a find")
    if asked.out:
        whole = {"properties": record, "machine": describe_machine() | versions()}
        write_file(asked.out, json.dumps(whole, indent=1) + "\n")
    return 1 if still else 0


if __name__ == "__main__":
    sys.exit(main())
