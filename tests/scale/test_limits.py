"""A process that may have 1.5 GB, by `ulimit` or a control group: what needs 4 GB is refused, the
same rows by mini-batches train, and an array that does not fit in mid-run ends the run with what it
has."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from control_groups import control_group, inside, most_used
from fits import Fit, dladmm_after

from dladmm.estimators.model_files import load_model

pytestmark = pytest.mark.slow
LIMIT = 1_500_000_000
FIT = ("fit", "rows.npz", "--hidden", "200", "--max-iter", "1", "--out", "m", "--test-size", "0")
# The paper's own steps, whose memory is a little over 4 GiB here; the default holds twice as much.
VECTORS = ("--method", "dladmm", "--step-rule", "closed-form")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    x = np.random.default_rng(0).normal(size=(1_750_000, 4)).astype(np.float32)
    np.savez(folder / "rows.npz", X=x, y=np.sin(x[:, 0]) + x[:, 1])
    return folder


def addresses(limit):
    """What makes a process one that may have so many addresses, as `prlimit --as` sets them."""
    return f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))"


def dladmm(folder, *arguments, settings="import os", within=()):
    command = [*within, *dladmm_after(settings, *arguments)]
    began = time.monotonic()
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    return ran, time.monotonic() - began


def check_limited(folder, **limited):
    refused, seconds = dladmm(folder, *FIT, *VECTORS, **limited)
    print(f"refused after {seconds:.1f} s: {refused.stderr}")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr
    assert "this fit needs about 4." in refused.stderr
    assert "batch_size=1024 needs about 0." in refused.stderr
    assert not (folder / "m").exists()
    trained, _ = dladmm(folder, *FIT, "--batch-size", "4096", "--json", **limited)
    assert trained.returncode == 0, trained.stderr
    assert json.loads(trained.stdout)["n_iter"] == 1
    (folder / "m").unlink()


def test_what_does_not_fit_is_refused_at_once_and_mini_batches_train(folder):
    check_limited(folder, settings=addresses(LIMIT))


def test_the_same_in_a_control_group_of_the_kernels(folder):
    with control_group(LIMIT) as group:
        if group is None:
            pytest.skip("control groups need root")
        check_limited(folder, within=inside(group))
        assert 0 < most_used(group) <= LIMIT
        # The control: who does not ask is killed.
        greedy = [*inside(group), sys.executable, "-c", f"bytearray({LIMIT}).find(1)"]
        assert subprocess.run(greedy).returncode == -signal.SIGKILL


RUNS_OUT = """
import resource, sys
import numpy as np
from dladmm import Checkpoints, Options, Problem, solve
from dladmm.engine.limits import kernel_figure
x = np.random.default_rng(0).normal(size=(90_000, 20))  # 36 MB a variable: never freed memory

def squeeze(progress):
    if progress.iteration == 3:
        most = kernel_figure("/proc/self/status", "VmSize") + 2**20
        resource.setrlimit(resource.RLIMIT_AS, (most, most))

problem = Problem.dense((20, 100, 1), "relu", "squared_error")
options = Options(method="dladmm", engine="numpy", max_iter=30, tol=None, dtype="float32")
ended = solve(problem, x, x[:, :1], options=options, callback=squeeze)
print(ended.status, ended.n_iter, all(np.isfinite(W).all() for W in ended.params.W))
"""


def test_a_shortage_in_mid_run_by_the_command_line_goes_on_from_its_last_checkpoint(tmp_path):
    x = np.random.default_rng(0).normal(size=(90_000, 20)).astype(np.float32)
    np.savez(tmp_path / "rows.npz", X=x, y=x[:, 0])
    wide = ("--hidden", "100", "--max-iter", "8", "--engine", "numpy", "--method", "dladmm")
    often = ("--dtype", "float32", "--test-size", "0", "--checkpoint-every", "2")
    rows = {"data": (tmp_path / "rows.npz",), "seconds": 0}
    fit = Fit(tmp_path, *wide, *often, short_after=4, **rows)
    code, out, err = fit.ended()
    record, last = json.loads(out), fit.kept[-1]
    assert (code, record["status"]) == (1, "memory"), err
    assert f"dladmm: {record['message']}" in err.splitlines()
    assert 2 <= last <= record["n_iter"] < 8
    assert load_model(tmp_path / "m").estimator.n_iter_ == record["n_iter"]
    code, out, err = Fit(tmp_path, *wide, *often, "--resume", **rows).ended()
    record = json.loads(out)
    assert (code, record["resumed_from"], record["n_iter"]) == (0, last, 8), err


def test_a_real_shortage_in_mid_run_ends_with_the_best_network():
    ran = subprocess.run([sys.executable, "-c", RUNS_OUT], capture_output=True, text=True)
    status, made, finite = ran.stdout.split()
    assert (status, finite) == ("memory", "True"), ran.stderr
    assert 3 <= int(made) < 30
