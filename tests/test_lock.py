"""The locks have the releases of constraints.txt, each with the hashes of its files."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
RELEASE = re.compile(r"^([\w.-]+)==(\S+)", re.MULTILINE)


def releases(text):
    return {
        re.sub(r"[-_.]+", "-", name).lower(): version for name, version in RELEASE.findall(text)
    }


def unhashed(lock):
    """The releases of a lock that stand without a hash."""
    parts = RELEASE.split(lock)[1:]
    return [parts[k] for k in range(0, len(parts), 3) if "--hash=sha256:" not in parts[k + 2]]


def test_every_release_of_the_constraints_is_locked_with_hashes():
    locks = ("requirements.lock", "requirements-torch.lock")
    lock = "\n".join((ROOT / name).read_text() for name in locks)
    assert releases(lock) == releases((ROOT / "constraints.txt").read_text()), "run: make lock"
    assert unhashed(lock) == []
    assert unhashed(lock.replace("--hash=sha256:", "", 2)) == ["absl-py"]  # it can be seen
