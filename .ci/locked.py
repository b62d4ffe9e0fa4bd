"""The entries of a lock for what pip has found to be needed, but for the package itself:
python locked.py REPORT LOCK"""

import json
import re
import sys
from pathlib import Path


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(needed: set[str], lock: str) -> str:
    """ValueError for a release that the lock has not."""
    entries = re.findall(r"^\S+==(?:.*\\\n)*.*\n", lock, re.MULTILINE)
    by_name = {plain(entry.split("==")[0]): entry for entry in entries}
    missing = sorted(needed - by_name.keys())
    if missing:
        raise ValueError(f"the lock has no {', '.join(missing)}; expected it to, by: make lock")
    return "".join(by_name[name] for name in sorted(needed))


if __name__ == "__main__":
    report, lock = (Path(name).read_text(encoding="utf-8") for name in sys.argv[1:])
    found = {plain(one["metadata"]["name"]) for one in json.loads(report)["install"]}
    sys.stdout.write(locked(found - {"dladmm"}, lock))
