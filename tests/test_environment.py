"""What the environment asks of JAX reaches it."""

import os
import platform
import subprocess
import sys

import pytest

FIT = """
import numpy as np
from dladmm import DLADMMClassifier
x = np.arange(40.0).reshape(20, 2)
DLADMMClassifier((3,), max_iter=2, tol=1e9, n_iter_no_change=1).fit(x, [0, 1] * 10)
"""


def without(name):
    """This process's environment but for one variable."""
    return {key: value for key, value in os.environ.items() if key != name}


def test_compiled_programs_are_kept_where_told(tmp_path):
    environment = without("JAX_COMPILATION_CACHE_DIR") | {"DLADMM_CACHE": str(tmp_path / "cache")}
    for _ in range(2):  # the second process reads what the first one wrote
        ran = subprocess.run(
            [sys.executable, "-c", FIT], env=environment, capture_output=True, text=True, check=True
        )
        kept = sorted(path.name for path in (tmp_path / "cache").iterdir())
        assert any(name.startswith("jit_iterate_restored") for name in kept), ran.stderr
    assert "Traceback" not in ran.stderr


# A thread asks for memory, then glibc's own account of its pools is printed.
POOLS = """
import ctypes, sys, threading
from dladmm.environment import share_freed_memory
if sys.argv[1] == "shared":
    share_freed_memory()
held = []
thread = threading.Thread(target=lambda: held.append(bytearray(100_000)))
thread.start()
thread.join()
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
out = ctypes.c_void_p(libc.fdopen(1, b"w"))
libc.malloc_info(0, out)
libc.fflush(out)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has a pool per thread")
def test_the_command_line_keeps_one_pool_of_freed_memory():
    environment = without("MALLOC_ARENA_MAX")

    def pools(how, **more):
        ran = subprocess.run(
            [sys.executable, "-c", POOLS, how],
            env=environment | more, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return ran.stdout.count("<heap nr=")

    assert pools("shared") == 1
    assert pools("as it is") > 1
    assert pools("shared", MALLOC_ARENA_MAX="8") > 1  # whoever sets it is obeyed
