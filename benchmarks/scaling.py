"""Weak and strong scaling over processes of one core each, and what crosses between them.

    python benchmarks/scaling.py --out docs/results/scaling.json

Each process is bound to a core of its own and has one thread, so that the single process it is
compared with has the same. Strong: the same samples on more processes. Weak: the same samples for
each process. Best of several iterations; processes talk by gloo over loopback.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from dladmm.io.files import write_atomically

METHODS = ("restored", "dladmm", "admm")


def worker(
    coordinator: str, count: int, index: int, method: str, samples: int, width: int, timed: int
) -> None:
    """One process of a run: prints the seconds of its best iteration."""
    os.sched_setaffinity(0, {index % (os.cpu_count() or 1)})
    import jax

    if count > 1:
        jax.distributed.initialize(coordinator, count, index)
    import numpy as np

    from dladmm import Options, Problem, Progress, solve
    from dladmm.engine.devices import make_mesh, own_rows

    rows = own_rows(samples, make_mesh(None))
    rng = np.random.default_rng(index)
    own = rows.stop - rows.start
    x = rng.random((own, 784), np.float32)
    y = np.eye(10, dtype=np.float32)[rng.integers(0, 10, own)]
    problem = Problem.dense((784, width, width, 10), "relu", "log_loss")
    times: list[float] = []

    def note(progress: Progress) -> None:
        jax.block_until_ready(progress.params)
        times.append(time.perf_counter())

    options = Options(method=method, max_iter=timed + 1, tol=None, evaluate_every=1000)
    result = solve(problem, x, y, options=options, callback=note)
    trials = result.history.get("trials", [1.0] * (timed + 1))
    # Per trial: a line search that needs two is two passes over the samples.
    spent = [
        (after - before) / max(n, 1)
        for before, after, n in zip(times, times[1:], trials[1:], strict=False)
    ]
    print(json.dumps({"seconds": min(spent)}), flush=True)


def measured(method: str, samples: int, width: int, count: int, timed: int) -> float:
    with socket.create_server(("127.0.0.1", 0)) as free:
        coordinator = f"127.0.0.1:{free.getsockname()[1]}"
    environment = os.environ | {"OMP_NUM_THREADS": "1", "NPROC": "1"}
    running = [
        subprocess.Popen(
            [sys.executable, __file__, "--worker",
             json.dumps([coordinator, count, index, method, samples, width, timed])],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for index in range(count)
    ]  # fmt: skip
    outputs = [process.communicate(timeout=900)[0] for process in running]
    return max(json.loads(out.splitlines()[-1])["seconds"] for out in outputs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worker")
    parser.add_argument("--samples", type=int, default=4096)
    parser.add_argument("--width", type=int, default=500)
    parser.add_argument("--iterations", type=int, default=4)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    if asked.worker:
        worker(*json.loads(asked.worker))
        return
    from dladmm.experiments.machine import describe_machine

    counts = [2**k for k in range((os.cpu_count() or 1).bit_length()) if 2**k <= os.cpu_count()]
    rows = []
    for method in METHODS:
        alone = measured(method, asked.samples, asked.width, 1, asked.iterations)
        for count in counts[1:]:
            strong = measured(method, asked.samples, asked.width, count, asked.iterations)
            weak = measured(method, count * asked.samples, asked.width, count, asked.iterations)
            row = {
                "method": method,
                "processes": count,
                "seconds_alone": alone,
                "strong_speedup": alone / strong,
                "weak_efficiency": alone / weak,
            }
            rows.append(row)
            figures = f"strong x{alone / strong:.2f}  weak {alone / weak:.0%}"
            print(f"{method:<10} {count} processes  alone {alone:.3f} s  {figures}", flush=True)
    record = {
        "samples": asked.samples,
        "network": [784, asked.width, asked.width, 10],
        "rows": rows,
        "machine": describe_machine(),
    }
    if asked.out:
        with write_atomically(asked.out) as part:
            part.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
