"""What the environment asks for is done, and the command line settles the rest."""

import json
import os
import platform
import re
import subprocess
import sys

import pytest

from dladmm.cli import app as cli
from dladmm.engine.devices import JAX, blas, has_one_thread

FIT = """
import numpy as np
from dladmm import DLADMMClassifier
x = np.arange(40.0).reshape(20, 2)
DLADMMClassifier((3,), max_iter=2, tol=1e9, n_iter_no_change=1, engine="jax").fit(x, [0, 1] * 10)
"""


def without(*names):
    """This process's environment but for some variables."""
    return {key: value for key, value in os.environ.items() if key not in names}


def test_compiled_programs_are_kept_where_told(tmp_path):
    environment = without("JAX_COMPILATION_CACHE_DIR") | {"DLADMM_CACHE": str(tmp_path / "cache")}
    for _ in range(2):  # the second process reads what the first one wrote
        ran = subprocess.run(
            [sys.executable, "-c", FIT], env=environment, capture_output=True, text=True, check=True
        )
        kept = sorted(path.name for path in (tmp_path / "cache").iterdir())
        assert any(name.startswith("jit_iterate_restored") for name in kept), ran.stderr
    assert "Traceback" not in ran.stderr


# How many threads each library has in a small fit, and whether they had to be found.
THREADS = """
import json, sys
import numpy as np
from threadpoolctl import threadpool_info
from dladmm import Options, Problem, solve
from dladmm.engine.devices import blas
seen = []
def look(progress):
    seen.extend(v["num_threads"] for v in threadpool_info() if v["user_api"] == "blas")
x = np.arange(40.0).reshape(20, 2)
problem = Problem.dense((2, 3, 1), loss="squared_error")
options = Options(max_iter=2, engine="numpy")
solve(problem, x, x[:, :1], options=options, callback=look)
others = "dladmm.core.relaxed.method" in sys.modules
print(json.dumps([sorted(set(seen)), blas.cache_info().currsize, others]))
"""
LIMITS = [f"{name}_NUM_THREADS" for name in ("OMP", "OPENBLAS", "MKL", "BLIS")]


@pytest.mark.parametrize(
    ("limits", "found"),
    [({}, 1), ({"OMP_NUM_THREADS": "1"}, 0), ({"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "2"}, 1)],
)
def test_a_small_fit_has_one_thread_which_a_worker_has_anyway(limits, found):
    ran = subprocess.run(
        [sys.executable, "-c", THREADS],
        env=without(*LIMITS) | limits, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(ran.stdout) == [[1], found, False]


@pytest.mark.skipif(has_one_thread(), reason="the environment gave it one thread already")
def test_while_jax_computes_libraries_have_one_thread_and_their_own_number_again():
    def threads():
        return [library.num_threads for library in blas().lib_controllers]

    with blas().limit(limits=3):
        with JAX.computing("float64"):
            assert set(threads()) == {1}
        assert set(threads()) == {3}  # also the control: the number can be another one


# 20 MB are taken, freed and taken again; then glibc's own account of its memory is printed.
ACCOUNT = """
import ctypes, sys
from dladmm.engine.process import return_large_arrays
if sys.argv[1] == "told":
    return_large_arrays()
large = bytearray(20_000_000)
del large
large = bytearray(20_000_000)
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
out = ctypes.c_void_p(libc.fdopen(1, b"w"))
libc.malloc_info(0, out)
libc.fflush(out)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators have no such limit")
def test_the_command_line_returns_large_arrays_to_the_system():
    names = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")

    def bytes_outside_of_pools(how, **more):
        ran = subprocess.run(
            [sys.executable, "-c", ACCOUNT, how],
            env=without(*names) | more, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return int(re.findall(r'<total type="mmap" count="\d+" size="(\d+)"', ran.stdout)[-1])

    assert bytes_outside_of_pools("told") > 20_000_000
    assert bytes_outside_of_pools("as it is") < 20_000_000
    assert bytes_outside_of_pools("told", MALLOC_MMAP_THRESHOLD_="30000000") < 20_000_000
    users = "glibc.malloc.mmap_threshold=30000000"
    assert bytes_outside_of_pools("told", GLIBC_TUNABLES=users) < 20_000_000


def test_the_command_line_tells_the_allocator_first(monkeypatch):
    told = []
    monkeypatch.setattr(cli, "return_large_arrays", lambda: told.append("allocator"))
    monkeypatch.setattr(cli, "app", lambda: told.append("command"))
    cli.main()
    assert told == ["allocator", "command"]
