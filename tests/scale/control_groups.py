"""A real control group of the kernel's with a limit on memory, where this user may make one."""

import os
from contextlib import contextmanager
from pathlib import Path

from dladmm.engine.limits import CGROUPS, cgroup_folders, file_lines

LIMITS = ("memory.max", "memory.limit_in_bytes")  # of version 2 and 1


@contextmanager
def control_group(limit):
    """The folder of a new group below this process's own; None where that is not allowed."""
    folder = _made(limit)
    try:
        yield folder
    finally:
        if folder is not None:
            folder.rmdir()  # whoever was in it has ended


def _made(limit):
    for parent in cgroup_folders(file_lines("/proc/self/cgroup"), CGROUPS):
        folder = parent / f"dladmm-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        for name in LIMITS:
            if (folder / name).exists():
                (folder / name).write_text(str(limit))
                return folder
        folder.rmdir()
    return None


def inside(folder):
    """What a command is preceded by to run in this group."""
    return ("sh", "-c", f'echo $$ > "{folder}/cgroup.procs" && exec "$@"', "sh")


def most_used(folder):
    """The most memory that the group has had, in bytes."""
    return max(
        int("".join(file_lines(Path(folder) / name)) or 0)
        for name in ("memory.peak", "memory.max_usage_in_bytes")
    )
