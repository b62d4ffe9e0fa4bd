"""The machine that a figure was measured on, and its versions."""

import platform
import subprocess
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dladmm._version import __version__
from dladmm.engine.limits import file_lines, kernel_figure


def describe_machine() -> dict[str, Any]:
    """The processor, the cores and the versions a figure was measured with."""
    names = [
        line.split(":", 1)[1].strip()
        for line in file_lines("/proc/cpuinfo")
        if line.startswith("model name")
    ]
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": len(names) or None,
        "memory_gib": round(kernel_figure("/proc/meminfo", "MemTotal") / 2**30, 1),
        "python": platform.python_version(),
        "jax": version("jax"),
        "numpy": version("numpy"),
        "dladmm": __version__,
        "date": time.strftime("%Y-%m-%d"),
    }


def commit_of(folder: Path) -> str | None:
    """The commit that a folder's sources are of, with "+" where they have been changed since; None
    where git does not know."""

    def git(*words: str) -> str:
        asked = ("git", "-C", str(folder), *words)
        return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()

    try:
        return git("rev-parse", "--short", "HEAD") + ("+" if git("diff", "HEAD", "--", ".") else "")
    except (OSError, subprocess.CalledProcessError):
        return None
