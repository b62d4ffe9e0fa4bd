"""Processes that these tests start compile as quickly as the tests do: what is tried is what they
leave behind, and most of their time would be compilation."""

import os
from unittest import mock

import pytest
from forks import Server


@pytest.fixture(autouse=True)
def compiles_alike(xla_flags, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", xla_flags)


@pytest.fixture(scope="module")
def programs(tmp_path_factory, xla_flags):
    """Programs that one test has compiled serve the next; the flags are the same, as they must be.

    Of several processes only the first one writes, and tests of one file run one after the other.
    """
    cache = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path_factory.mktemp("programs")),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "XLA_FLAGS": xla_flags,
    }
    with mock.patch.dict(os.environ, cache):
        yield


@pytest.fixture(scope="module")
def server(tmp_path_factory, programs):
    server = Server(tmp_path_factory.mktemp("runs"))
    yield server
    server.close()
