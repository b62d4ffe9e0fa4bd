"""docs/reliability.md has the record of benchmarks/faults.py, whose table can be made again."""

import importlib
import json
from pathlib import Path
from unittest import mock

import pytest

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
