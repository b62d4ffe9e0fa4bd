"""docs/reliability.md has the record of benchmarks/faults.py, whose table can be made again."""

import importlib.util
import json
import sys
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).parents[2]


def faults():
    where = ROOT / "benchmarks" / "faults.py"
    spec = importlib.util.spec_from_file_location("faults", where)
    module = importlib.util.module_from_spec(spec)
    with (
        mock.patch.dict(sys.modules, {"faults": module}),
        mock.patch.object(sys, "path", [*sys.path]),
    ):
        spec.loader.exec_module(module)
    return module


def test_the_table_is_the_record():
    record = json.loads((ROOT / "docs/results/faults.json").read_text())
    text = (ROOT / "docs/reliability.md").read_text()
    made = faults().table(record)
    assert f"<!-- faults -->\n{made}\n<!-- end -->" in text
    assert made.count("\n") == len(record) + 1
    first = next(iter(record))
    record[first]["kept"] -= 1
    assert faults().table(record) not in text  # it can be seen


def test_an_attempt_that_is_late_or_not_as_promised_is_not_kept():
    module = faults()
    ends = iter([module.Ended(1.0, []), module.Ended(9.0, []), module.Ended(1.0, ["model"])])
    fault = module.Fault(lambda folder, moment: next(ends), "a promise", 5, 3)
    with mock.patch.dict(module.FAULTS, {"fault": fault}):
        *_, last = module.repeated("fault", 3, seed=0)
    assert (last["tried"], last["kept"], last["longest_seconds"]) == (3, 1, 9.0)
    assert [one["not_kept"] for one in last["not_kept"]] == [["late"], ["model"]]
