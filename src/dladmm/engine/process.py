"""What is settled for a whole process: threads, compiled programs, freed memory."""

import ctypes
import os
import sys
from functools import lru_cache
from typing import Any

import numpy as np

# Parameters of mallopt (their numbers in <malloc.h>), each with the variable by which users set it.
GLIBC_SETTINGS = {
    "MALLOC_MMAP_THRESHOLD_": (-3, 4 * 2**20),
    "MALLOC_TRIM_THRESHOLD_": (-1, 8 * 2**20),
}


CACHE_BYTES = 2**30  # of compiled programs, at most


def respect_thread_limits() -> None:
    """Give XLA the threads OMP_NUM_THREADS allows; works until JAX's first computation.

    XLA sizes its thread pool by NPROC, or by the cores it sees. A worker of GridSearchCV(n_jobs=2)
    sees all of them and would fight its siblings; joblib tells each its share as OMP_NUM_THREADS.
    """
    limit = os.environ.get("OMP_NUM_THREADS", "")
    if limit.isdigit() and int(limit) > 0:
        os.environ.setdefault("NPROC", limit)


@lru_cache
def keep_compiled_programs() -> None:
    """Keep what JAX compiles for later processes, in the user's cache folder.

    DLADMM_CACHE names another folder, or turns it off; a folder that JAX was given stays. With a
    limit JAX takes a lock for every program it reads or writes, so that processes may share them,
    and drops those not used for longest.
    """
    import jax
    import platformdirs

    folder = os.environ.get("DLADMM_CACHE", "") or platformdirs.user_cache_dir("dladmm")
    if folder.lower() == "off" or jax.config.values["jax_compilation_cache_dir"]:
        return
    # JAX keeps what took a second; an iteration on a small table takes less and is worth it.
    settings = {
        "jax_compilation_cache_dir": folder,
        "jax_compilation_cache_max_size": CACHE_BYTES,
        "jax_persistent_cache_min_compile_time_secs": 0.1,
    }
    for name, value in settings.items():
        if name.upper() not in os.environ:
            jax.config.update(name, value)


def return_large_arrays() -> None:
    """Let freed arrays above 4 MiB go back to the system at once; those below serve again (glibc).

    By itself glibc raises that limit with every larger array it sees freed; each thread that ever
    ran an iteration then keeps a copy of its temporaries: up to a fifth of a small run's memory.
    """
    mallopt = _libc("mallopt")
    asked_otherwise = "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "")
    for variable, (parameter, value) in GLIBC_SETTINGS.items():
        if mallopt is not None and not asked_otherwise and variable not in os.environ:
            mallopt(parameter, value)


@lru_cache
def reuse_freed_memory() -> None:
    """Let arrays of up to 32 MB take over the memory of freed ones (glibc), once for a process.

    glibc keeps blocks as large as the largest that it has seen freed. Until then each array of a
    small fit is given to the system and asked for again, which costs a fifth of the fit.
    """
    np.empty(32 * 2**20 - 2**16, np.uint8)  # freed at once, and never touched


def return_freed_memory() -> None:
    """Give all freed memory back to the system now (glibc)."""
    trim = _libc("malloc_trim")
    if trim is not None:
        trim(0)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an array did not fit: Python's own error, or the way in which XLA says it."""
    return isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)


def _libc(name: str) -> Any:
    """A function of the C library, None where it has no such one."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
