"""What the environment asks of JAX reaches it."""

import os
import subprocess
import sys

FIT = """
import numpy as np
from dladmm import DLADMMClassifier
x = np.arange(40.0).reshape(20, 2)
DLADMMClassifier((3,), max_iter=2, tol=1e9, n_iter_no_change=1).fit(x, [0, 1] * 10)
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
