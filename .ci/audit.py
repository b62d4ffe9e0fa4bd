"""Known vulnerabilities of the releases in constraints.txt; `make audit` runs it.

pip-audit asks the index, where it tells of vulnerabilities; a release that the index knows nothing
about is looked up in the database that the package safety-db brings along, which is older.
"""

import json
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import files
from pathlib import Path

from packaging.specifiers import SpecifierSet

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"
# A release that is known to be vulnerable: where nothing is found in it, nothing was looked up.
CONTROL = ("django", "2.2")


def asked_of_index(pinned):
    """(release, vulnerability) as pip-audit finds them, and the releases it knows nothing of."""
    listed = "\n".join(f"{name}=={version}" for name, version in pinned) + "\n"
    command = [sys.executable, "-m", "pip_audit", "--requirement", "/dev/stdin", "--no-deps"]
    command += ["--disable-pip", "--format", "json", "--progress-spinner", "off"]
    ran = subprocess.run(command, input=listed, capture_output=True, text=True)
    try:
        answers = json.loads(ran.stdout)["dependencies"]
    except (json.JSONDecodeError, KeyError):
        last = (ran.stderr.strip().splitlines() or ["no answer"])[-1]
        print(f"pip-audit has no answer: {last}")
        return [], pinned
    known = {one["name"].lower(): one for one in answers if "vulns" in one}
    found = [(one["name"], v["id"]) for one in known.values() for v in one["vulns"]]
    return found, [release for release in pinned if release[0] not in known]


def safety_db():
    """The database itself: importing the package fails."""
    (file,) = (f for f in files("safety-db") if f.name == "insecure_full.json")
    return json.loads(file.read_text())


def looked_up(pinned, database):
    """(release, vulnerability) of these releases in safety-db."""
    return [
        (name, one["id"])
        for name, version in pinned
        for one in database.get(name, [])
        if any(version in SpecifierSet(spec) for spec in one["specs"])
    ]


def main():
    lines = [line for line in CONSTRAINTS.read_text().splitlines() if "==" in line]
    pinned = [tuple(line.lower().replace("_", "-").split("==")) for line in lines]
    database = safety_db()
    found, unknown = asked_of_index([*pinned, CONTROL])
    found += looked_up(unknown, database)
    control = [one for one in found if one[0] == CONTROL[0]]
    found = [one for one in found if one not in control]
    dated = datetime.fromtimestamp(database["$meta"]["timestamp"], UTC)
    print(
        f"{len(pinned)} releases: {len(set(pinned) - set(unknown))} asked of the index,"
        f" {len(set(pinned) & set(unknown))} looked up in safety-db of {dated:%Y-%m-%d}"
    )
    print(f"control {CONTROL[0]} {CONTROL[1]}: {len(control)} vulnerabilities")
    print(f"found: {', '.join(map(' '.join, found)) or 'none'}")
    return 1 if found or not control else 0


if __name__ == "__main__":
    sys.exit(main())
