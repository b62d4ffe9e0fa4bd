"""JAX as a good neighbour of joblib's worker processes.

XLA sizes its thread pool by NPROC, or by the cores it sees. A worker of GridSearchCV(n_jobs=2)
sees all of them and would fight its siblings; joblib tells each its share as OMP_NUM_THREADS.
"""

from __future__ import annotations

import os


def respect_thread_limits() -> None:
    """Give XLA the threads OMP_NUM_THREADS allows; works until JAX's first computation."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    if limit.isdigit() and int(limit) > 0:
        os.environ.setdefault("NPROC", limit)
