"""docs/reliability.md: its counts are those of the tests and of the record of fuzzing."""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/reliability.md").read_text(encoding="utf-8")
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "tests" / "fuzz")
    long = importlib.import_module("long")
FUZZ = json.loads((ROOT / "docs/results/fuzz.json").read_text())
# What a row of `make fuzz` is about, by how it begins.
PROPERTIES = {
    "model files": ["model files"],
    "random estimators": ["estimators", "solve"],
    "random networks": ["networks"],
    "records of checkpoints": ["checkpoints"],
    "random sizes": ["sizes", "tables"],
}
# Rows whose count is of what one test does again and again.
WITHIN = {
    "SIGKILL at a random moment": ("tests/scale/test_checkpoints.py", "KILLS"),
    "settings that no theory covers": ("tests/core/test_drills.py", "DRILLS"),
}
ROW = re.compile(r"^\| (.+?) \| .+? \| ([\d,]+) \| ([\d,]+) \| (`.+?) \|", re.MULTILINE)


def rows(text=TEXT):
    """(fault, tried, kept, what tries it) of the table of all promises, but for those in words."""
    table = text[text.index("## All promises") :]
    found, paths = [], ""
    for fault, tried, kept, how in ROW.findall(table):
        asked = re.search(r"pytest ([\w./ ]+?)(?: -k|`)", how)
        paths = asked[1] if asked else paths
        words = re.search(r"-k \"?([\w ]+?)\"?`", how)
        words = words[1].split(" or ") if words else [""]
        tests = "record" if how == "`make fuzz`" else (paths.split(), words)
        if "alone" in how:  # counted by hand
            tests = None
        found.append((fault, *(int(n.replace(",", "")) for n in (tried, kept)), tests))
    return found


def test_the_table_of_fuzzing_is_its_record():
    made = long.table(FUZZ)
    assert f"<!-- fuzz -->\n{made}\n<!-- end -->" in TEXT
    assert made.count("\n") == len(FUZZ["properties"]) + 1
    FUZZ["properties"]["solve"]["cases"] += 1
    changed = long.table(FUZZ)
    FUZZ["properties"]["solve"]["cases"] -= 1
    assert changed not in TEXT  # it can be seen


def test_a_find_that_is_mended_is_no_longer_open():
    def line(seed, failed):
        ended = {"cases": 100, "refused": 30, "tol": 70}
        return {"property": "solve", "seed": seed, "ended": ended, "failed": failed, "commit": "a"}

    lines = [line(7, False), line(8, True), line(10, False)]
    assert long.recorded(lines)["solve"]["open"] == 1
    found = long.recorded([*lines, line(8, False)])["solve"]
    assert (found["open"], found["finds_on_the_way"], found["cases"]) == (0, 1, 300)
    assert found["seeds"] == [[7, 8], [10, 10]]
    assert "| solve | 7 to 8, 10 to 10 | 300 | 90 | 210 | 0 |" in long.table(
        {"properties": {"solve": found}}
    )


def test_counts_of_fuzzing_are_those_of_its_record():
    fuzzed = [row for row in rows() if row[3] == "record"]
    assert len(fuzzed) == len(PROPERTIES)
    for fault, tried, kept, _ in fuzzed:
        (names,) = (names for start, names in PROPERTIES.items() if fault.startswith(start))
        assert tried == kept == sum(FUZZ["properties"][name]["cases"] for name in names), fault


def test_seconds_in_the_text_are_those_of_the_record_and_the_sources():
    from dladmm.cli.processes import HEARTBEAT_SECONDS

    faults = json.loads((ROOT / "docs/results/faults.json").read_text())
    alone = [
        of["longest_seconds"]
        for name, of in faults.items()
        if "without a launcher" in name or "cut off" in name
    ]
    text = " ".join(TEXT.split())
    said = f"which has {HEARTBEAT_SECONDS} s and needed {{}} s at most above"
    assert said.format(max(alone)) in text
    assert said.format(max(alone) + 0.1) not in text


def collected():
    """The tests there are, as pytest names them."""
    paths = sorted({path for *_, tests in rows() if isinstance(tests, tuple) for path in tests[0]})
    # "-q" is among the project's own options: once more would count them by files.
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider"]
    ran = subprocess.run([*command, *paths], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout
    return [line for line in ran.stdout.splitlines() if "::" in line]


def constant(path, name):
    """A number that a file sets."""
    return int(re.search(rf"^{name} = (\d+)", (ROOT / path).read_text(), re.MULTILINE)[1])


def mistaken(table, tests):
    """The rows whose count is not that of their tests: (fault, count, count of the tests)."""
    wrong = []
    for fault, tried, kept, asked in table:
        if asked in (None, "record"):
            continue
        paths, words = asked
        chosen = [
            one
            for one in tests
            if one.split("::")[0] in paths and any(word in one.split("::")[1] for word in words)
        ]
        inside = [of for start, of in WITHIN.items() if fault.startswith(start)]
        there = constant(*inside[0]) if inside and chosen else len(chosen)
        if not tried == kept == there:
            wrong.append((fault, tried, there))
    return wrong


@pytest.mark.slow
def test_counts_of_tests_are_how_many_there_are():
    table, tests = rows(), collected()
    assert len(table) > 20
    assert mistaken(table, tests) == []
    fault, tried, *rest = table[1]
    assert mistaken([(fault, tried + 1, *rest)], tests) != []  # it can be seen
    assert mistaken(table, []) != []
