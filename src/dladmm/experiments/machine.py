"""The machine that a figure was measured on, and its versions."""

import platform
import time
from importlib.metadata import version
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
