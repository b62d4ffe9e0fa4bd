"""Processes that these tests start compile as quickly as the tests do: what is tried is what they
leave behind, and most of their time would be compilation."""

import pytest


@pytest.fixture(autouse=True)
def compiles_alike(xla_flags, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", xla_flags)
