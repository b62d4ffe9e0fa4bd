"""The bytes estimated against the arrays a run really holds."""

import jax
import jax.numpy as jnp
import pytest
from problems import SWEEPS
from tolerances import ESTIMATED_MEMORY, MOST_ESTIMATED

import dladmm.core.memory
from dladmm import DLADMMClassifier, Options, Problem
from dladmm.bench.iteration import random_run
from dladmm.core.memory import advice, run_bytes
from dladmm.core.relaxed.method import iterate
from dladmm.core.relaxed.step_rules import SweepOptions, step_rule
from dladmm.engine.walks import BLOCK_ROWS

pytestmark = pytest.mark.float32

GIB = 2**30


def test_a_relaxed_run_holds_what_was_estimated():
    problem = Problem.dense((50, 300, 200, 10))
    data, state = random_run(problem, 9_000)
    held = sum(v.nbytes for v in jax.tree.leaves((data, state)))
    estimated = run_bytes(problem, 9_000, Options(method="dladmm"))
    of_rows = 9_000 * (100 + 6 * 10)  # the products of 100 units, and six of the output's width
    temporaries = 4 * (BLOCK_ROWS * 4 * 300 + of_rows)
    assert estimated - temporaries == pytest.approx(held, rel=ESTIMATED_MEMORY)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(50, 300, 200, 10), (50, 300, 10), (50, 10)])
@pytest.mark.parametrize(
    "options",
    [{}, {"step_rule": "backtracking"}, {"step_rule": "matrix"}, {"method": "admm"}],
    ids=str,
)
def test_no_relaxed_run_needs_more_than_was_estimated(options, sizes):
    """By the compiler's own account of an iteration: arguments, temporaries and new outputs."""
    problem, n_samples = Problem.dense(sizes), 9_000
    chosen = Options(**{"method": "dladmm"} | options)
    data, state = random_run(problem, n_samples)
    rule = SweepOptions(step_rule(chosen.step_rule), "newton")
    penalties = (jnp.float32(1.5), jnp.float32(1.0), jnp.asarray(False))
    given = (data, state.rows, state.params, *penalties)
    account = (
        iterate.lower(SWEEPS[chosen.method], problem, rule, *given).compile().memory_analysis()
    )
    needed = (
        account.argument_size_in_bytes
        + account.temp_size_in_bytes
        + account.output_size_in_bytes
        - account.alias_size_in_bytes
    )
    estimated = run_bytes(problem, n_samples, chosen)
    assert needed <= estimated <= MOST_ESTIMATED * needed


def test_double_precision_takes_twice_the_bytes():
    problem = Problem.dense((5, 8, 3))
    single, double = (
        run_bytes(problem, 100, Options(method="dladmm", dtype=dtype))
        for dtype in ("float32", "float64")
    )
    assert double == 2 * single


def test_batches_do_not_grow_with_the_samples():
    problem = Problem.dense((50, 30, 10))
    options = Options(method="restored", batch_size=64)
    assert run_bytes(problem, 10**3, options) == run_bytes(problem, 10**9, options)
    whole = Options(method="restored")
    assert run_bytes(problem, 10**9, whole) > 1e6 * run_bytes(problem, 10**3, options)


def test_a_run_that_does_not_fit_says_what_would(monkeypatch):
    problem = Problem.dense((784, 1000, 1000, 10))
    monkeypatch.setattr(dladmm.core.memory, "available_bytes", lambda: 2 * GIB)
    paper = advice(problem, 1_000_000, Options(method="dladmm"))
    assert paper.startswith("this fit needs about 2")
    assert "2.0 GiB is free; method='restored' needs about" in paper
    restored = advice(problem, 1_000_000, Options(method="restored"))
    assert "method='restored'" not in restored
    assert "batch_size=1024 needs about 0" in restored
    assert advice(problem, 1_000, Options(method="dladmm")) is None
    monkeypatch.setattr(dladmm.core.memory, "available_bytes", lambda: None)
    assert advice(problem, 10**9, Options()) is None


def test_fit_warns_before_it_begins(monkeypatch):
    monkeypatch.setattr(dladmm.core.memory, "available_bytes", lambda: 1000)
    x = jnp.arange(40.0).reshape(20, 2)
    with pytest.warns(UserWarning, match="of memory and 0.0 GiB is free"):
        DLADMMClassifier((3,), max_iter=2, tol=1e9, n_iter_no_change=1).fit(x, [0, 1] * 10)
