"""The locks have the releases of constraints.txt, each with the hashes of its files."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / ".ci")
    locked = importlib.import_module("locked").locked
RELEASE = re.compile(r"^([\w.-]+)==(\S+)", re.MULTILINE)


def releases(text):
    return {
        re.sub(r"[-_.]+", "-", name).lower(): version for name, version in RELEASE.findall(text)
    }


def unhashed(lock):
    """The releases of a lock that stand without a hash."""
    parts = RELEASE.split(lock)[1:]
    return [parts[k] for k in range(0, len(parts), 3) if "--hash=sha256:" not in parts[k + 2]]


def unchecked(text):
    """Lines that install something from an index whose files are not checked by their hashes."""
    lines = (line for line in text.splitlines() if "pip install" in line)
    return [line for line in lines if not re.search("--require-hashes|--no-deps", line)]


def test_what_is_released_is_made_by_what_is_locked():
    for name in ("release.yml", "ci.yml"):
        text = (ROOT / ".github/workflows" / name).read_text()
        own = [line for line in unchecked(text) if "matrix.jax" not in line]  # other releases
        assert own == []
        assert unchecked(text.replace("--require-hashes --no-deps", "")) != own  # it can be seen
        assert "make sbom" in text or name == "ci.yml"


def test_the_entries_of_a_lock_are_found_by_name():
    lock = (ROOT / "requirements.lock").read_text()
    found = locked({"numpy", "typing-extensions"}, lock)
    assert set(releases(found)) == {"numpy", "typing-extensions"}
    assert unhashed(found) == []
    assert found.count("--hash") > 10
    with pytest.raises(ValueError, match="the lock has no nothing-like-it"):
        locked({"numpy", "nothing-like-it"}, lock)


def test_every_release_of_the_constraints_is_locked_with_hashes():
    locks = ("requirements.lock", "requirements-torch.lock")
    lock = "\n".join((ROOT / name).read_text() for name in locks)
    assert releases(lock) == releases((ROOT / "constraints.txt").read_text()), "run: make lock"
    assert unhashed(lock) == []
    assert unhashed(lock.replace("--hash=sha256:", "", 2)) == ["absl-py"]  # it can be seen
