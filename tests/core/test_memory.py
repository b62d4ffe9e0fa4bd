"""The bytes estimated against the arrays a run really holds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import SWEEPS
from sklearn.exceptions import ConvergenceWarning
from tolerances import ESTIMATED_MEMORY, MOST_ESTIMATED

import dladmm.core.memory
import dladmm.core.solve
from dladmm import DLADMMClassifier, Options, Problem, solve
from dladmm.bench.iteration import random_run
from dladmm.core.memory import advice, run_bytes
from dladmm.core.relaxed.method import iterate
from dladmm.core.relaxed.step_rules import SweepOptions, step_rule
from dladmm.core.restored.method import FullBatch
from dladmm.engine import limits
from dladmm.engine.limits import (
    available_bytes,
    cgroup_folders,
    free_in_cgroup,
    has_room_for_jax,
)
from dladmm.engine.walks import BLOCK_ROWS

pytestmark = pytest.mark.float32

GIB = 2**30


def test_a_relaxed_run_holds_what_was_estimated():
    problem = Problem.dense((50, 300, 200, 10))
    data, state = random_run(problem, 9_000)
    held = sum(v.nbytes for v in jax.tree.leaves((data, state)))
    estimated = run_bytes(problem, 9_000, Options(method="dladmm", step_rule="closed-form"))
    of_rows = 9_000 * (100 + 6 * 10)  # the products of 100 units, and six of the output's width
    temporaries = 4 * (BLOCK_ROWS * 4 * 300 + of_rows)
    assert estimated - temporaries == pytest.approx(held, rel=ESTIMATED_MEMORY)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(50, 300, 200, 10), (50, 300, 10), (50, 10)])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"step_rule": "matrix"},
        {"step_rule": "closed-form"},
        {"step_rule": "backtracking"},
        {"method": "admm"},
    ],
    ids=str,
)
def test_no_relaxed_run_needs_more_than_was_estimated(options, sizes):
    """By the compiler's own account of an iteration: arguments, temporaries and new outputs."""
    estimated, needed = estimated_and_needed(Problem.dense(sizes), 9_000, options)
    assert needed <= estimated <= MOST_ESTIMATED * needed


@pytest.mark.slow
def test_matrix_steps_on_wide_rows_need_no_more_than_was_estimated():
    """There the Gram matrix is what a run holds: the vector rule's estimate would not do."""
    problem = Problem.dense((1_500, 20, 10))
    estimated, needed = estimated_and_needed(problem, 400, {})
    assert needed <= estimated <= MOST_ESTIMATED * needed
    vectors = Options(method="dladmm", step_rule="closed-form")
    assert run_bytes(problem, 400, vectors) < needed


def estimated_and_needed(problem, n_samples, options):
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
    return run_bytes(problem, n_samples, chosen), needed


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
    assert run_bytes(problem, 10**10, whole) > 1e6 * run_bytes(problem, 10**3, options)


def test_a_run_that_does_not_fit_says_what_would(monkeypatch):
    problem = Problem.dense((784, 1000, 1000, 10))
    monkeypatch.setattr(dladmm.core.memory, "available_bytes", lambda with_jax: 2 * GIB)
    paper = advice(problem, 1_000_000, Options(method="dladmm", step_rule="closed-form"))
    assert paper.startswith("this fit needs about 2")
    further = advice(problem, 1_000_000, Options(method="dladmm"))
    assert further.startswith("this fit needs about 5")  # two points at once
    assert "2.0 GiB is free; batch_size=1024 needs about" in paper  # the one that fits
    restored = advice(problem, 1_000_000, Options(method="restored"))
    assert "method='restored'" not in restored
    assert "batch_size=1024 needs about 0" in restored
    assert advice(problem, 1_000, Options(method="dladmm")) is None
    wide = advice(Problem.dense((20_000, 10, 2)), 500, Options(method="dladmm"))
    assert "step_rule='closed-form' needs about 1" in wide  # no Gram matrix of all inputs
    monkeypatch.setattr(dladmm.core.memory, "available_bytes", lambda with_jax: None)
    assert advice(problem, 10**9, Options()) is None


def test_a_fit_that_does_not_fit_is_refused_before_it_begins(monkeypatch):
    monkeypatch.setattr(dladmm.core.memory, "available_bytes", lambda with_jax: 1000)
    monkeypatch.setattr(dladmm.estimators.base, "solve", None)  # it would fail
    with pytest.raises(ValueError, match=r"of memory and 0\.0 GiB is free"):
        DLADMMClassifier((3,)).fit(np.arange(40.0).reshape(20, 2), [0, 1] * 10)


def test_solve_refuses_what_does_not_fit_before_it_copies_a_row(monkeypatch):
    problem = Problem.dense((5, 8, 1), loss="squared_error")
    options = Options(engine="numpy", dtype="float32", max_iter=3)
    needed = run_bytes(problem, 1000, options)
    x = np.zeros((1000, 5), np.float32)
    copied = x.nbytes  # of rows that are not float32 yet
    for rows, free in ((x, needed), (x.astype(int), needed + copied)):
        monkeypatch.setattr(dladmm.core.memory, "available_bytes", lambda _, free=free: free)
        assert solve(problem, rows, x[:, 0], options=options).n_iter > 0
        monkeypatch.setattr(dladmm.core.memory, "available_bytes", lambda _, free=free: free - 1)
        with monkeypatch.context() as checking:
            checking.setattr(dladmm.core.solve, "check_inputs", None)  # it would fail
            with pytest.raises(ValueError, match="this fit needs about"):
                solve(problem, rows, x[:, 0], options=options)


def control_group(folder, **figures):
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in figures.items():
        (folder / f"memory.{name}").write_text(f"{value}\n")


def test_the_limits_of_control_groups_are_found_in_both_versions(tmp_path):
    stat = "anon 5\ninactive_file 300\ntotal_inactive_file 70"
    control_group(tmp_path / "a/b", max="max", current=900, stat=stat)
    control_group(tmp_path / "a", max=5000, current=1000, stat=stat)
    control_group(tmp_path / "memory/c", limit_in_bytes=4000, usage_in_bytes=100, stat=stat)
    control_group(tmp_path / "memory", limit_in_bytes=2**63 - 4096, usage_in_bytes=100)
    lines = ["0::/a/b", "4:memory:/c", "9:name=systemd:/x"]
    folders = cgroup_folders(lines, tmp_path)
    names = ("a/b", "a", "", "memory/c", "memory")
    assert folders == [tmp_path / name for name in names]
    free = [free_in_cgroup(folder) for folder in folders]
    assert free == [None, 5000 - 1000 + 300, None, 4000 - 100 + 70, None]
    # As in a container, which sees its own group as the root.
    assert tmp_path / "memory" in cgroup_folders(["4:memory:/docker/123"], tmp_path)


def test_the_least_limit_counts(monkeypatch, tmp_path):
    control_group(tmp_path, max=10**9, current=4 * 10**8)
    before = available_bytes()
    monkeypatch.setattr(limits, "cgroup_folders", lambda lines: [tmp_path])
    assert available_bytes() == 6 * 10**8 < before
    monkeypatch.setattr(limits, "_jax_runs", lambda: False)
    assert available_bytes(with_jax=True) == 6 * 10**8 - limits.JAX_BYTES
    control_group(tmp_path, max=10**8)  # full: nothing is free, and not less
    assert available_bytes() == 0
    assert not has_room_for_jax()


@pytest.mark.parametrize("error", [MemoryError("no"), RuntimeError("RESOURCE_EXHAUSTED: Out of")])
def test_memory_that_runs_out_in_mid_run_leaves_the_best_network(monkeypatch, error):
    advance, made = FullBatch.advance, []

    def short_of_memory(self, *args):
        made.append(1)
        if len(made) == 4:
            raise error
        return advance(self, *args)

    monkeypatch.setattr(FullBatch, "advance", short_of_memory)
    x = np.random.default_rng(0).normal(size=(50, 2))
    with pytest.warns(ConvergenceWarning, match="not enough memory for iteration 3"):
        model = DLADMMClassifier((3,), tol=None, engine="numpy").fit(x, x[:, 0] > 0)
    # The third was under way, and is not looked at any more.
    assert (model.status_, model.n_iter_) == ("memory", 2)
    assert np.isfinite(model.predict_proba(x)).all()


def test_another_error_in_mid_run_is_not_taken_for_it(monkeypatch):
    def broken(self, *args):
        raise RuntimeError("INTERNAL: something else")

    monkeypatch.setattr(FullBatch, "advance", broken)
    x = np.random.default_rng(0).normal(size=(50, 2))
    with pytest.raises(RuntimeError, match="something else"):
        DLADMMClassifier((3,), engine="numpy").fit(x, x[:, 0] > 0)
