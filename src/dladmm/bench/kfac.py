"""kfac-jax as a racer: it needs an older JAX than ours, and so an environment of its own.

    python3.11 -m venv kfac
    kfac/bin/pip install jax==0.6.2 jaxlib==0.6.2 kfac-jax==0.0.8
    dladmm bench race ... --kfac-python kfac/bin/python

A process of that interpreter gets the data and the weights as a file, waits while others race, and
tells its own seconds for every step (`kfac_worker.py`).
"""

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from dladmm.core.data import Arrays
from dladmm.core.params import Params
from dladmm.core.problem import Problem
from dladmm.experiments.baselines import Made, Trainer

WORKER = Path(__file__).with_name("kfac_worker.py")
DAMPINGS = (0.1, 1.0)  # to begin with; it adapts


def kfac(
    problem: Problem, arrays: Arrays, params: Params, seed: int, *, python: Path, damping: float
) -> Trainer:
    """kfac-jax on all samples at once, in a process of this interpreter."""
    sizes = (problem.layers[0].fan_in, *(layer.units for layer in problem.layers))
    if problem != Problem.dense(sizes, "relu", "log_loss"):
        raise ValueError("kfac-jax races on dense ReLU networks for classes; expected one of them")
    x, y, _ = arrays
    layers: dict[str, Any] = {f"W{l}": np.asarray(W).T for l, W in enumerate(params.W)}
    layers |= {f"b{l}": np.asarray(b) for l, b in enumerate(params.b)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.savez(
            folder / "given.npz", x=x, labels=y.argmax(1).astype(np.int32), seed=seed, **layers
        )
        # Isolated (-I): neither our modules nor PYTHONPATH are its own.
        command = [str(python), "-I", str(WORKER), name, str(damping)]
        with (folder / "stderr.txt").open("w") as said, _started(command, said) as child:
            try:
                _answer(child, folder)
                while True:
                    assert child.stdin is not None
                    child.stdin.write("step\n")
                    child.stdin.flush()
                    seconds = _answer(child, folder)["seconds"]
                    yield Made(_made(folder, len(params.W)), None, seconds)
            finally:
                child.kill()


def _started(command: list[str], said: Any) -> "subprocess.Popen[str]":
    ours = ("PYTHON", "JAX", "XLA")
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=said, text=True, env=env)
    except OSError as error:
        raise ValueError(f"{command[0]} cannot be started ({error.strerror})") from error


def _answer(child: "subprocess.Popen[str]", folder: Path) -> dict[str, Any]:
    """What the process says next; ValueError with its last words where it has ended."""
    assert child.stdout is not None
    line = child.stdout.readline()
    if line:
        return json.loads(line)
    child.wait()
    last = (folder / "stderr.txt").read_text().strip().splitlines() or ["nothing"]
    raise ValueError(
        f"kfac-jax did not run; the last it said is: {last[-1]}; expected an interpreter with"
        " jax==0.6.2 and kfac-jax==0.0.8"
    )


def _made(folder: Path, count: int) -> Params:
    with np.load(folder / "made.npz") as made:
        W = tuple(np.ascontiguousarray(made[f"W{l}"].T) for l in range(count))
        return Params(W, tuple(made[f"b{l}"] for l in range(count)))
