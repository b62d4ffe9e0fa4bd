"""JAX is loaded where it computes, and nowhere else: that takes longer than a small fit."""

import subprocess
import sys

import pytest

FIT = """
import sys
import numpy as np
import dladmm
from dladmm import DLADMMClassifier
x = np.random.default_rng(0).normal(size=(60, 3))
model = DLADMMClassifier((4,), max_iter=12, tol=None, random_state=0, engine=sys.argv[1])
model.fit(x, (x[:, 0] > 0).astype(int))
assert model.score(x, x[:, 0] > 0) > 0.8
model.predict_proba(x)
print("jax" in sys.modules)
"""


@pytest.mark.parametrize(("engine", "loads"), [("auto", False), ("jax", True)])
def test_a_small_fit_and_its_predictions_never_load_jax(engine, loads):
    command = [sys.executable, "-W", "ignore", "-c", FIT, engine]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == [str(loads)]
