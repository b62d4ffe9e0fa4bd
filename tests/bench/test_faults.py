"""docs/reliability.md has the record of benchmarks/faults.py, whose table can be made again."""

import importlib
import json
import subprocess
from pathlib import Path
from unittest import mock

import pytest

from dladmm.experiments.machine import commit_of

ROOT = Path(__file__).parents[2]
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "benchmarks")
    faults = importlib.import_module("faults")


def test_the_table_is_the_record():
    record = json.loads((ROOT / "docs/results/faults.json").read_text())
    text = (ROOT / "docs/reliability.md").read_text()
    made = faults.table(record)
    assert f"<!-- faults -->\n{made}\n<!-- end -->" in text
    assert made.count("\n") == len(record) + 1
    first = next(iter(record))
    record[first]["kept"] -= 1
    assert faults.table(record) not in text  # it can be seen


def test_an_attempt_that_is_late_or_not_as_promised_is_not_kept():
    ends = iter([faults.Ended(1.0, []), faults.Ended(9.0, []), faults.Ended(1.0, ["model"])])
    fault = faults.Fault(lambda folder, moment: next(ends), "a promise", 5, 3)
    with mock.patch.dict(faults.FAULTS, {"fault": fault}):
        *_, last = faults.repeated("fault", 3, seed=0)
    assert (last["tried"], last["kept"], last["longest_seconds"]) == (3, 1, 9.0)
    assert [one["not_kept"] for one in last["not_kept"]] == [["late"], ["model"]]
    assert last["machine"]["commit"] == commit_of(ROOT)


def test_the_commit_is_that_of_the_sources(tmp_path):
    def git(*words):
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        ran = subprocess.run(["git", "-C", tmp_path, *who, *words], capture_output=True, text=True)
        return ran.stdout.strip()

    assert commit_of(tmp_path) is None
    git("init")
    (tmp_path / "f").write_text("1")
    git("add", "f")
    git("commit", "-m", "one")
    assert commit_of(tmp_path) == git("rev-parse", "HEAD")[:7]
    (tmp_path / "f").write_text("2")
    assert commit_of(tmp_path) == git("rev-parse", "HEAD")[:7] + "+"
