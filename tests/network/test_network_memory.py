"""The bytes estimated for networks with patches, against the compiler's account of a step."""

import subprocess
import sys

import jax
import numpy as np
import pytest
from tolerances import MOST_ESTIMATED_OF_PATCHES

from dladmm import Options, Problem
from dladmm.core.initial import initial_params
from dladmm.core.memory import run_bytes
from dladmm.core.method import Start
from dladmm.core.methods import method_for
from dladmm.core.restored import mini_batch
from dladmm.core.restored.method import iterate_restored
from dladmm.engine.devices import Engine
from dladmm.network.presets import PRESETS, preset

pytestmark = [pytest.mark.float32, pytest.mark.slow]

GIB = 2**30


def needed_bytes(program, *given, **static):
    """Arguments, temporaries and new outputs of a compiled program."""
    account = program.lower(*given, **static).compile().memory_analysis()
    return (
        account.argument_size_in_bytes
        + account.temp_size_in_bytes
        + account.output_size_in_bytes
        - account.alias_size_in_bytes
    )


def problem_and_rows(name, n):
    problem = Problem.of_network(preset(name, (28, 28, 1), 10))
    rng = np.random.default_rng(0)
    x = rng.random((n, *problem.in_shape), dtype=np.float32)
    return problem, (x, np.eye(10, dtype=np.float32)[rng.integers(0, 10, n)], None)


@pytest.mark.parametrize("size", [128, 1024])
@pytest.mark.parametrize("name", PRESETS)
def test_a_batch_needs_no_more_than_was_estimated(name, size):
    problem, arrays = problem_and_rows(name, 8 * size)
    options = Options(batch_size=size)
    method, engine = method_for(problem, options), Engine(True)
    batches = method.prepare(arrays, engine)
    params = engine.replicate(initial_params(problem, "he", 0, np.dtype("float32")))
    groups, one = [], np.float32(1)
    next(batches.stepped(lambda state, group, count: (groups.append(group), None), None))
    state, count = mini_batch.begin(problem, params), np.int32(batches.group)
    needed = needed_bytes(mini_batch.batch_steps, problem, state, groups[0], count, one, one)
    needed += sum(v.nbytes for v in jax.tree.leaves(groups[0]))  # of the group after it
    estimated = run_bytes(problem, 60_000, options)
    assert needed <= estimated <= MOST_ESTIMATED_OF_PATCHES * needed


@pytest.mark.parametrize("name", PRESETS)
def test_a_full_batch_needs_no_more_than_was_estimated(name):
    problem, arrays = problem_and_rows(name, 3_000)
    method, engine = method_for(problem, Options()), Engine(True)
    data = method.prepare(arrays, engine)
    params = engine.replicate(initial_params(problem, "he", 0, np.dtype("float32")))
    state = method.begin(data, params, Start())
    needed = needed_bytes(iterate_restored, problem, data, state)
    estimated = run_bytes(problem, 3_000, Options())
    assert needed <= estimated <= MOST_ESTIMATED_OF_PATCHES * needed


LARGE = """
import re, sys
from pathlib import Path
import numpy as np
from dladmm import Options, Problem, solve
from dladmm.network.presets import preset

n, size = int(sys.argv[1]), int(sys.argv[2])
problem = Problem.of_network(preset("lenet", (28, 28, 1), 10))
rng = np.random.default_rng(0)
x = rng.random((n, 28, 28, 1), dtype=np.float32)
y = np.eye(10, dtype=np.float32)[rng.integers(0, 10, n)]
options = Options(batch_size=size, max_iter=1, engine="jax", dtype="float32", evaluate_every=10)
result = solve(problem, x, y, options=options)
assert result.n_iter == 1
# Not by getrusage, which counts what the process that started this one held.
status = Path("/proc/self/status").read_text()
print(1024 * int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1]))
"""


def peak_bytes(n_samples, batch_size):
    """The most that a process has held while it trained on so many images, with all it loads."""
    command = [sys.executable, "-c", LARGE, str(n_samples), str(batch_size)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return int(ran.stdout)


def test_a_cnn_on_60_000_images_trains_within_two_gigabytes():
    assert peak_bytes(60_000, 256) < 2 * GIB


def test_what_a_process_holds_grows_with_the_images_alone():
    """Beyond a copy of the rows nothing grows: 20,000 images more are 60 MB, and a copy of them."""
    small, large = (peak_bytes(n, 256) for n in (2_000, 22_000))
    rows = 20_000 * (784 + 10) * 4
    assert large - small <= 3 * rows
