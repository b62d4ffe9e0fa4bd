"""kfac-jax in a process of its own: what goes there, what comes back, and how it ends.

kfac-jax itself needs an older JAX. `kfac_stand_in.py` stands in for its worker; the real one
runs where the environment variable DLADMM_KFAC_PYTHON names an interpreter that has it.
"""

import gc
import os
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import jax
import numpy as np
import pytest
from kfac_stand_in import KFAC_STAND_IN

from dladmm.bench import kfac as racer
from dladmm.bench.racers import full_racers
from dladmm.core.problem import Problem
from dladmm.experiments.baselines import loss_and_gradient, padded_data
from dladmm.experiments.setup import Setup

pytestmark = pytest.mark.float32


def course(activation="relu"):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 5)).astype(np.float32)
    y = np.eye(3, dtype=np.float32)[(x[:, 0] > 0) + (x[:, 1] > 0).astype(int)]
    problem = Problem.dense((5, 7, 3), activation, "log_loss")
    return Setup(problem, (x, y, None), (x, y))


def start(setup, python=Path(sys.executable), damping=0.1):
    arguments = (setup.problem, setup.arrays, setup.weights(0), 0)
    return racer.kfac(*arguments, python=python, damping=damping)


@pytest.fixture
def stand_in(monkeypatch):
    monkeypatch.setattr(racer, "WORKER", KFAC_STAND_IN)


def test_weights_go_there_and_come_back_as_ours(stand_in):
    setup = course()
    data = padded_data(setup.problem, setup.arrays, with_gram=False)
    expected = setup.weights(0)
    for k, made in enumerate(islice(start(setup), 3), 1):
        gradient = loss_and_gradient(setup.problem, data, expected)[1]
        before, expected = expected, jax.tree.map(lambda p, g: p - 0.5 * g, expected, gradient)
        assert made.seconds == k
        for a, b in zip(*map(jax.tree.leaves, (made.params, expected)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
        assert np.abs(made.params.W[0] - before.W[0]).max() > 1e-4


def test_the_process_ends_with_its_trainer(stand_in, monkeypatch):
    children, real = [], subprocess.Popen
    keep = lambda *a, **k: children.append(real(*a, **k)) or children[-1]  # noqa: E731
    monkeypatch.setattr(racer.subprocess, "Popen", keep)
    trainer = start(course())
    next(trainer)
    (child,) = children
    assert child.poll() is None
    del trainer
    gc.collect()
    assert child.wait(timeout=30) != 0
    assert not Path(child.args[3]).exists()  # its folder


def test_what_does_not_run_is_refused_in_its_own_words(tmp_path, monkeypatch):
    worker = tmp_path / "worker.py"
    worker.write_text("import no_such_module_at_all")
    monkeypatch.setattr(racer, "WORKER", worker)
    with pytest.raises(ValueError, match="No module named 'no_such_module_at_all'; expected"):
        next(start(course()))
    with pytest.raises(ValueError, match=r"nowhere/python cannot be started \(No such file"):
        next(start(course(), Path("nowhere/python")))
    with pytest.raises(ValueError, match="dense ReLU networks"):
        next(start(course("tanh")))


def test_it_races_where_an_interpreter_is_named():
    names = [one.name for one in full_racers(Path("python"))]
    assert [name for name in names if name.startswith("kfac")] == ["kfac-jax 0.1", "kfac-jax 1"]
    assert not any(one.name.startswith("kfac") for one in full_racers())


@pytest.mark.slow
@pytest.mark.skipif("DLADMM_KFAC_PYTHON" not in os.environ, reason="no interpreter with kfac-jax")
def test_kfac_jax_itself_learns():
    setup = course()
    began = time.perf_counter()
    made = list(islice(start(setup, Path(os.environ["DLADMM_KFAC_PYTHON"])), 5))
    spent = time.perf_counter() - began
    assert 0 < sum(one.seconds for one in made) < spent
    losses = [float(setup.on_training(one.params).loss) for one in made]
    assert losses[-1] < losses[0] < float(setup.on_training(setup.weights(0)).loss)
    assert losses[-1] < 0.3
