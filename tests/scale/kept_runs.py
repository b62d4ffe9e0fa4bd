"""Runs with checkpoints, in processes of their own, to be killed: see test_checkpoints.py."""


def run(folder, method, every=3, iterations=15, devices=None, slow=0.0, largest_file=None):
    """A run with checkpoints: what it ended with as text, bit for bit."""
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
    return {
        "history": {name: [float(k).hex() for k in v] for name, v in history.items()},
        "network": network,
        "resumed_from": result.resumed_from,
        "said": said,
    }
