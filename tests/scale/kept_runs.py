"""Runs with checkpoints, in processes of their own, to be killed: see test_checkpoints.py.

`serve` imports everything once and forks a process for each run it reads from standard input, one
JSON object per line: a fork has no JAX backend yet, so each run starts as if it were new.
"""

import json
import os
import sys


def run(folder, method, out, every=3, iterations=15, devices=None, slow=0.0, largest_file=None):
    """A run with checkpoints; what it ended with goes to `out` as text, bit for bit."""
    import resource
    import time

    import jax
    import numpy as np
    from runs import METHODS, cut_small, problem_and_rows

    from dladmm import Checkpoints, Options, solve

    cut_small()
    problem, x, y, weights = problem_and_rows()
    options = Options(
        **METHODS[method], max_iter=iterations, tol=None, evaluate_every=5, devices=devices
    )
    free = resource.getrlimit(resource.RLIMIT_FSIZE)
    if largest_file is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, free[1]))
    said = []
    result = solve(
        problem,
        x,
        y,
        sample_weight=weights,
        options=options,
        checkpoints=Checkpoints(folder, every=every, resume=True, warn=said.append),
        callback=lambda progress: time.sleep(slow),
    )
    resource.setrlimit(resource.RLIMIT_FSIZE, free)
    history = {name: v for name, v in result.history.items() if name != "seconds"}
    network = [np.asarray(v).tobytes().hex() for v in jax.tree.leaves(result.params)]
    told = {
        "history": {name: [float(k).hex() for k in v] for name, v in history.items()},
        "network": network,
        "resumed_from": result.resumed_from,
        "said": said,
    }
    with open(f"{out}.part", "w") as file:
        json.dump(told, file)
    os.replace(f"{out}.part", out)


def serve():
    import orbax.checkpoint  # noqa: F401

    import dladmm.core.solve
    import dladmm.io.checkpoints  # noqa: F401

    print("ready", flush=True)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                run(**json.loads(line))
                code = 0
            finally:
                sys.stderr.flush()
                os._exit(code)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    serve()
