"""What the environment asks of JAX, passed on before JAX is first imported."""

from __future__ import annotations

import os


def respect_thread_limits() -> None:
    """Give XLA the threads OMP_NUM_THREADS allows; works until JAX's first computation.

    XLA sizes its thread pool by NPROC, or by the cores it sees. A worker of GridSearchCV(n_jobs=2)
    sees all of them and would fight its siblings; joblib tells each its share as OMP_NUM_THREADS.
    """
    limit = os.environ.get("OMP_NUM_THREADS", "")
    if limit.isdigit() and int(limit) > 0:
        os.environ.setdefault("NPROC", limit)


def keep_compiled_programs() -> None:
    """With DLADMM_CACHE=folder, compiled programs are kept there for later processes."""
    folder = os.environ.get("DLADMM_CACHE", "")
    if folder:
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", folder)
        # JAX keeps what took a second; an iteration on a small table takes less and is worth it.
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
