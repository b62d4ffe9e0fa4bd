"""How much memory this process can still have: by the machine, its container and its own limits."""

import sys
from pathlib import Path, PurePosixPath
from typing import Any

# What JAX takes for itself once it computes, as memory and as addresses.
JAX_BYTES, JAX_ADDRESSES = 350 * 2**20, 1400 * 2**20
CGROUPS = Path("/sys/fs/cgroup")


def available_bytes(with_jax: bool = False) -> int | None:
    """Memory that new arrays can have; None where the system does not tell.

    The least of what the machine has free, what the container allows (cgroup, version 1 and 2)
    and what the process is limited to (`ulimit -v`, `ulimit -d`); JAX, where it is needed and does
    not run yet, takes its share first.
    """
    free = [
        kernel_figure("/proc/meminfo", "MemAvailable") or None,
        *(free_in_cgroup(folder) for folder in cgroup_folders(file_lines("/proc/self/cgroup"))),
        _below_limit("RLIMIT_DATA", "VmData"),
    ]
    addresses = _below_limit("RLIMIT_AS", "VmSize")
    if with_jax and not _jax_runs():
        free = [v if v is None else v - JAX_BYTES for v in free]
        addresses = addresses if addresses is None else addresses - JAX_ADDRESSES
    known = [v for v in (*free, addresses) if v is not None]
    return max(0, min(known)) if known else None


def has_room_for_jax() -> bool:
    """Whether JAX itself fits; under a tight `ulimit -v` it does not even start."""
    free = available_bytes(with_jax=True)
    return free is None or free > 0


def _jax_runs() -> bool:
    """Whether JAX has started its devices, and taken what it takes."""
    bridge: Any = sys.modules.get("jax._src.xla_bridge")
    return bridge is not None and bool(bridge.backends_are_initialized())


def _below_limit(limit: str, used: str) -> int | None:
    try:
        import resource
    except ImportError:  # Windows has no such limits
        return None
    most, _ = resource.getrlimit(getattr(resource, limit))
    if most == resource.RLIM_INFINITY:
        return None
    return most - kernel_figure("/proc/self/status", used)


def cgroup_folders(lines: list[str], root: Path = CGROUPS) -> list[Path]:
    """Where the limits of this process may stand: its own control group and those above it.

    A container often sees its group as the root of what is mounted, under another name.
    """
    found = []
    for line in lines:
        _, controllers, name = line.split(":", 2)
        own = {"": root, "memory": root / "memory"}
        for controller in controllers.split(","):
            if controller in own:
                path = PurePosixPath(name)
                found += [own[controller] / str(p).lstrip("/") for p in (path, *path.parents)]
    return list(dict.fromkeys(found))


def free_in_cgroup(folder: Path) -> int | None:
    """What a control group may still take, files that it can drop included; None if unlimited."""
    for limit, used, droppable in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        most = "".join(file_lines(folder / limit)).strip()
        if most.isdigit() and int(most) < 2**60:  # version 1 has a huge number for no limit
            taken = int("".join(file_lines(folder / used)).strip() or 0)
            counts = dict(line.split() for line in file_lines(folder / "memory.stat"))
            return int(most) - taken + int(counts.get(droppable, 0))
    return None


def kernel_figure(path: str, name: str) -> int:
    """A `name: value kB` entry of a file under /proc, in bytes; 0 where the system has none."""
    for line in file_lines(path):
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return 0


def file_lines(path: str | Path) -> list[str]:
    """The lines of a file of the kernel's; none where there is no such file, or not for us."""
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
