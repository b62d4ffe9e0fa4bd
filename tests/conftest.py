"""Mathematics is tested in float64; a test marked `float32` runs in JAX's default precision."""

import os
from unittest import mock

os.environ.setdefault("DLADMM_CACHE", "off")  # nothing is left in the cache of whoever runs them
# A worker has a core to itself at most. Where products have more threads than there are cores free,
# those that wait do it by asking again and again: a fit of a second takes one of minutes.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax
import numpy as np
import pytest
from browsing import browser  # noqa: F401  a fixture

# The tests' time is compilation, not computation: with these flags XLA compiles in a quarter of it.
# Processes that a test starts compile as users' do, but for those of tests/scale and
# tests/docs/test_commands.py; so does
# everything where XLA_FLAGS is set, be it to nothing, as `make test-optimised` does.
COMPILES_QUICKLY = (
    "--xla_backend_optimization_level=0"
    " --xla_cpu_use_fusion_emitters=false"
    " --xla_cpu_parallel_codegen_split_count=1"
)
FLAGS = os.environ.get("XLA_FLAGS", COMPILES_QUICKLY)
with mock.patch.dict(os.environ, {"XLA_FLAGS": FLAGS}):
    jax.devices()  # XLA reads its flags here, once


def pytest_configure(config):
    """Compiled programs are kept for later modules and runs; JAX's folder is for one writer."""
    if not config.pluginmanager.hasplugin("cacheprovider"):
        return  # asked for by `-p no:cacheprovider`: nothing is kept
    worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
    jax.config.update("jax_compilation_cache_dir", str(config.cache.mkdir(f"compiled-{worker}")))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)


def pytest_runtest_setup(item):
    if FLAGS == COMPILES_QUICKLY and item.get_closest_marker("optimised"):
        pytest.skip("only as compiled for users: make test-optimised")


def pytest_collection_modifyitems(items):
    """The longest files first: one that is begun last would keep the other worker waiting."""
    items.sort(key=lambda item: "scale" not in item.path.parts)


@pytest.fixture(autouse=True)
def precision(request):
    """float64 for every test that does not ask for float32."""
    with jax.enable_x64(request.node.get_closest_marker("float32") is None):
        yield


@pytest.fixture(scope="session")
def xla_flags():
    """What this process has compiled with, for processes that shall compile alike."""
    return FLAGS


@pytest.fixture
def rng():
    return np.random.default_rng(20190804)


@pytest.fixture(scope="session")
def omega():
    """Omega of one entry for each registered regulariser, from its docstring, in plain NumPy."""
    inside = lambda w, low, high: np.where((w >= low) & (w <= high), 0.0, np.inf)  # noqa: E731
    return {
        "none": lambda w: 0.0 * w,
        "l1": lambda w: 1e-4 * np.abs(w),
        "l2": lambda w: 1e-4 / 2 * w**2,
        "elastic_net": lambda w: 1e-4 * np.abs(w) + 1e-4 / 2 * w**2,
        "group_lasso": lambda w: 1e-4 * np.abs(w),  # of rows that have this one entry
        "non_negative": lambda w: inside(w, 0.0, np.inf),
        "box": lambda w: inside(w, -1.0, 1.0),
    }


@pytest.fixture(scope="session")
def omega_of_rows(omega):
    """Omega of each row of a matrix."""
    by_entry = {name: lambda W, f=f: f(W).sum(axis=1) for name, f in omega.items()}
    return by_entry | {"group_lasso": lambda W: 1e-4 * np.linalg.norm(W, axis=1)}


@pytest.fixture(autouse=True, scope="module")
def forget_compiled_programs():
    """Hundreds of compiled programs would exhaust a worker's memory maps."""
    yield
    jax.clear_caches()
