"""A run in processes that are bound to a core each, and the seconds of its iterations."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from typing import Any

TIMEOUT = 900


def seconds_bound(count: int, **settings: Any) -> float:
    """Seconds of the best iteration of a run in so many processes, with the settings of
    `iterate_bound`; each process has one thread, and a core of its own where there are enough."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        coordinator = f"127.0.0.1:{free.getsockname()[1]}"
    environment = os.environ | {"OMP_NUM_THREADS": "1", "NPROC": "1", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "dladmm.bench.bound"]
    running = [
        subprocess.Popen(
            [*command, json.dumps([coordinator, count, index, settings])],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for index in range(count)
    ]
    try:
        outputs = [process.communicate(timeout=TIMEOUT)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    failed = [process.returncode for process in running if process.returncode]
    if failed:
        raise RuntimeError(f"a process of the measurement failed with code {failed[0]}")
    return max(json.loads(out.splitlines()[-1])["seconds"] for out in outputs)


def iterate_bound(
    method: str, samples: int, sizes: list[int], iterations: int, **options: Any
) -> float:
    """Seconds of the best iteration on random rows, of which each process has its share."""
    import jax
    import numpy as np

    from dladmm.core.options import Options
    from dladmm.core.problem import Problem
    from dladmm.core.results import Progress
    from dladmm.core.solve import solve
    from dladmm.engine.devices import make_mesh, own_rows
    from dladmm.engine.processes import process_index

    rows = own_rows(samples, make_mesh(None))
    rng = np.random.default_rng(process_index())
    own = rows.stop - rows.start
    x = rng.random((own, sizes[0]), np.float32)
    y = np.eye(sizes[-1], dtype=np.float32)[rng.integers(0, sizes[-1], own)]
    times: list[float] = []

    def note(progress: Progress) -> None:
        jax.block_until_ready(progress.params)
        times.append(time.perf_counter())

    how: dict[str, Any] = {"max_iter": iterations + 1, "tol": None, "evaluate_every": 1000}
    run = Options(method=method, dtype="float32", engine="jax", **how, **options)
    problem = Problem.dense(sizes, "relu", "log_loss")
    result = solve(problem, x, y, options=run, callback=note)
    trials = result.history.get("trials", [])
    # Per trial: a line search that needs two is two passes over the samples.
    passes = [max(n, 1) for n in trials[1:]] or [1.0] * iterations
    pairs = zip(times, times[1:], passes, strict=False)
    return min((after - before) / count for before, after, count in pairs)


def main(coordinator: str, count: int, index: int, settings: dict[str, Any]) -> None:
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[index % len(cores)]})
    import jax

    if count > 1:
        jax.distributed.initialize(coordinator, count, index)
    print(json.dumps({"seconds": iterate_bound(**settings)}), flush=True)


if __name__ == "__main__":
    main(*json.loads(sys.argv[1]))
