"""The loop around the sweeps: why it ends, what it records, and what it leaves untouched."""

import math
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import network, relu, small, solved, teacher
from tolerances import FLOAT32_TINY_PENALTIES, INITIAL_SPREAD, ROUNDING

from dladmm import Options, Problem, Status, solve
from dladmm.core.data import make_data
from dladmm.core.initial import initial_params
from dladmm.core.relaxed.state import state_from_params
from dladmm.terms.regularizers import L1, Box


def run(callback=None, params=None, **options):
    problem, x, y = small()
    settings = {
        "method": "dladmm",
        "rho": 2.5,
        "max_iter": 25,
        "tol": None,
        "dtype": "float64",
    } | options
    return solve(problem, x, y, options=Options(**settings), params=params, callback=callback)


def equal(one, two):
    return all(
        np.array_equal(v, w)
        for v, w in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True)
    )


# Why a run ends.


def at_its_optimum(**options):
    problem, params, x, y = teacher()
    settings = {"method": "dladmm", "rho": 2.5, "max_iter": 20, "dtype": "float64"} | options
    return solve(problem, x, y, params=params, options=Options(**settings))


@pytest.mark.parametrize(("tol", "word"), [({}, "tol=0.001"), ({"tol": 0.0}, "tol=0 ")])
def test_a_run_ends_once_the_loss_gains_nothing_for_a_while(tol, word):
    result = at_its_optimum(**tol, patience=4, evaluate_every=1)
    assert result.status == Status.TOL
    assert 5 <= result.n_iter <= 6  # the first iteration gains, and one more may be under way
    assert f"the training loss gained less than {word}" in f"{result.message} "


def test_a_run_ends_once_residual_and_change_stay_small():
    result = at_its_optimum(tol=None, residual_tol=1e-5, patience=4)
    assert result.status == Status.TOL
    assert 4 <= result.n_iter <= 5
    assert "residual_tol=1e-05" in result.message


def test_tol_none_makes_all_iterations():
    result = at_its_optimum(tol=None, patience=4)
    assert (result.status, result.n_iter) == (Status.MAX_ITER, 20)


@pytest.mark.parametrize(("stops", "status"), [(True, Status.NOISE), (False, Status.MAX_ITER)])
def test_a_run_ends_where_only_noise_is_left_to_fit(stops, status):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(100, 10)), rng.normal(size=(100, 1))
    problem = Problem.dense((10, 30, 1), loss="squared_error")
    result = solve(problem, x, y, options=Options(max_iter=20, stop_at_noise=stops))
    assert result.status == status
    assert ("sampling noise" in result.message) is stops


def test_a_run_says_that_the_loss_is_still_falling_only_if_it_is():
    assert "still falling" in run(max_iter=5, tol=1e-3).message
    at_rest = at_its_optimum(patience=100)
    assert at_rest.status == Status.MAX_ITER
    assert "still falling" not in at_rest.message


def test_held_out_rows_decide_when_a_run_ends_and_which_network_is_best():
    problem, x, y = small("log_loss", 200)
    rows = (x[150:], y[150:], None)
    options = Options(max_iter=60, tol=1e-3, patience=5, stop_at_noise=False, dtype="float64")
    networks = []
    result = solve(
        problem, x[:150], y[:150], validation=rows, options=options,
        callback=lambda progress: networks.append(progress.params),
    )  # fmt: skip
    scores = result.history["validation_score"]
    right = [(network(p, x[150:], relu).argmax(1) == y[150:].argmax(1)).mean() for p in networks]
    # The iteration that was under way when the run ended is handed out, but not scored.
    scored = len(right) - math.isnan(scores[-1])
    right = right[:scored]
    assert scores[:scored] == pytest.approx(right, rel=ROUNDING)
    assert result.status == Status.TOL
    assert "held-out score" in result.message
    assert equal(result.best_params, networks[int(np.argmax(right))])
    assert scored - 1 - int(np.argmax(right)) >= 5


def test_a_callback_that_returns_true_stops_the_run():
    seen = []

    def stop_at_5(progress):
        seen.append(progress.iteration)
        return progress.iteration == 5

    result = run(stop_at_5)
    assert result.status == Status.STOPPED
    assert seen == [1, 2, 3, 4, 5]
    assert 5 <= result.n_iter <= 6


def test_a_callback_sees_the_network_and_the_record_of_its_iteration():
    problem, x, y = small()
    gaps = []

    def compare(progress):
        error = ((network(progress.params, x, relu) - y) ** 2).sum(1).mean() / 2
        gaps.append(abs(error - progress.row["train_loss"]))

    result = run(compare, evaluate_every=1)
    assert max(gaps) <= ROUNDING
    assert len(gaps) == result.n_iter == 25
    assert problem.n_layers == 2


def test_an_interrupt_returns_the_best_network_recorded():
    recorded = {}

    def interrupt(progress):
        recorded[progress.row["train_loss"]] = jax.tree.map(np.array, progress.params)
        if progress.iteration == 12:
            raise KeyboardInterrupt

    # With so small a rho the real loss goes up and down: the best is not the last.
    result = run(interrupt, rho=1e-4, nu=1.0, evaluate_every=1)
    assert result.status == Status.INTERRUPTED
    assert result.n_iter == 12
    assert equal(result.params, recorded[min(recorded)])
    assert not equal(result.params, recorded[list(recorded)[-1]])
    assert "interrupted" in result.message


def test_an_interrupt_before_any_record_returns_a_finite_network():
    def interrupt(progress):
        raise KeyboardInterrupt

    result = run(interrupt)
    assert result.status == Status.INTERRUPTED
    assert all(np.isfinite(v).all() for v in jax.tree.leaves((result.params, result.state)))


def test_other_errors_of_a_callback_are_not_swallowed():
    def fail(progress):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        run(fail)


# What a run records.


@pytest.mark.parametrize("method", ["dladmm", "admm"])
def test_every_record_has_one_value_per_iteration(method):
    result = run(method=method)
    assert {len(values) for values in result.history.values()} == {result.n_iter} == {25}


def test_the_real_loss_is_sampled_every_few_iterations_and_in_the_last():
    losses = run(evaluate_every=10).history["train_loss"]
    assert [k for k, v in enumerate(losses) if not math.isnan(v)] == [0, 10, 20, 24]


def test_the_real_loss_is_in_the_last_row_of_a_stopped_run():
    history = run(lambda progress: progress.iteration == 5).history
    assert math.isfinite(history["train_loss"][-1])
    assert math.isfinite(history["gap"][-1])


def test_the_final_record_belongs_to_the_network_returned():
    _, x, y = small()
    for result in (run(), run(lambda progress: progress.iteration == 5)):
        error = ((network(result.params, x, relu) - y) ** 2).sum(1).mean() / 2
        assert result.history["train_loss"][-1] == pytest.approx(error, rel=ROUNDING)
        assert equal(result.params, result.state.params)


BEST_IS_NOT_LAST = 1  # a seed


def test_best_params_has_the_lowest_loss_recorded():
    _, x, y = small()
    vectors = {"step_rule": "closed-form", "rho": 1e-4, "nu": 1.0}
    result = run(**vectors, evaluate_every=1, seed=BEST_IS_NOT_LAST)
    best = ((network(result.best_params, x, relu) - y) ** 2).sum(1).mean() / 2
    assert best == pytest.approx(min(result.history["train_loss"]), rel=ROUNDING)
    assert best < result.history["train_loss"][-1]


def test_a_second_run_of_the_same_shape_compiles_nothing(caplog):
    run(seed=1, engine="jax")
    with jax.log_compiles(), caplog.at_level("WARNING", "jax"):
        run(seed=2, rho=3.5, nu=0.2, max_iter=7, evaluate_every=3, engine="jax")
        assert "iterate" not in caplog.text
        run(step_rule="closed-form-scalar", max_iter=1, engine="jax")  # control: another program
        assert "iterate" in caplog.text


# Where a run starts.


def test_the_papers_start_is_a_tenth_of_a_normal_and_outputs_of_plus_and_minus_one():
    problem = Problem.dense((300, 200, 100), "relu")
    params = initial_params(problem, "paper", 0, jnp.float64)
    for v in jax.tree.leaves(params):
        assert np.std(v) == pytest.approx(
            0.1, rel=INITIAL_SPREAD if v.ndim == 2 else 15 * INITIAL_SPREAD
        )
    classes, x, y = small("log_loss")
    begun = initial_params(classes, "paper", 0, jnp.float64)
    data = make_data(classes, jnp.asarray(x), jnp.asarray(y), None)
    state = state_from_params(classes, begun, data, False, authors_output=True)
    np.testing.assert_array_equal(state.z[-1], np.where(y == 1, 1.0, -1.0))
    assert not np.any(state.u)


def test_the_he_start_has_variance_2_over_fan_in_and_no_bias():
    problem = Problem.dense((300, 200, 100), "relu")
    params = initial_params(problem, "he", 0, jnp.float64)
    for W, fan_in in zip(params.W, (300, 200), strict=True):
        assert np.std(W) == pytest.approx((2 / fan_in) ** 0.5, rel=INITIAL_SPREAD)
    assert not any(np.any(b) for b in params.b)


def test_a_run_from_the_papers_start_differs_from_the_default_and_is_finite():
    paper, default = run(init="paper"), run()
    assert np.isfinite(paper.history["lagrangian"]).all()
    assert paper.history["lagrangian"][0] != default.history["lagrangian"][0]


@pytest.mark.parametrize(
    ("rho", "dual_start", "from_gradient"),
    [(2.5, "auto", True), (2.0, "auto", False), (2.0, "gradient", True), (2.5, "zero", False)],
)
def test_the_dual_starts_where_it_is_told_to(rho, dual_start, from_gradient):
    result = run(rho=rho, dual_start=dual_start, max_iter=1)
    assert result.certificate.lemma2_at_start is from_gradient


def test_a_run_leaves_the_given_params_alone_and_can_be_continued():
    first = run()
    before = jax.tree.map(np.copy, first.params)
    second = run(params=first.params)
    assert equal(before, first.params)
    assert not equal(second.params, first.params)


# Precision.


@pytest.mark.float32
def test_a_float64_run_leaves_the_callers_configuration_alone():
    assert not jax.config.jax_enable_x64
    double, single = run(max_iter=2), run(max_iter=2, dtype="float32")
    assert not jax.config.jax_enable_x64
    assert {v.dtype for v in jax.tree.leaves((double.params, double.state))} == {np.dtype("f8")}
    assert {v.dtype for v in jax.tree.leaves((single.params, single.state))} == {np.dtype("f4")}
    assert jnp.ones(()).dtype == jnp.float32


@pytest.mark.float32
@pytest.mark.parametrize("init", ["he", "paper"])
def test_float32_stays_finite_at_the_papers_tiny_penalties(init):
    problem, x, y = small("log_loss", 60, (6, 8, 3))
    result = solve(
        problem,
        x,
        y,
        options=Options(method="dladmm", rho=1e-6, nu=1e-6, max_iter=100, tol=None, init=init),
    )
    assert result.status == Status.MAX_ITER
    assert result.n_iter == 100
    assert sum(result.history["restarted"]) == 0
    for name in ("lagrangian", "residual", "moved", "bound", "theta", "tau", "lemma2"):
        assert np.isfinite(result.history[name]).all(), name
    assert all(np.isfinite(v).all() for v in jax.tree.leaves(result.state))
    assert max(result.history["lemma2"]) < FLOAT32_TINY_PENALTIES


# Regularisers in whole runs.


@lru_cache
def regularised(term):
    problem, x, y = small("squared_error", regularizer=term)
    options = Options(method="dladmm", rho=2.5, max_iter=40, tol=None, dtype="float64")
    return solve(problem, x, y, options=options)


def test_l1_gives_exact_zeros_and_no_regulariser_gives_none():
    sparse = regularised(L1(3.0))
    dense = regularised("none")
    zeros = [sum(int((W == 0).sum()) for W in r.params.W) for r in (sparse, dense)]
    assert zeros[0] >= 5
    assert zeros[1] == 0


@pytest.mark.parametrize(
    ("term", "low", "high"),
    [("non_negative", 0.0, np.inf), (Box(-0.25, 0.4), -0.25, 0.4)],
    ids=["non_negative", "box"],
)
def test_constraints_hold_from_the_start_and_in_every_iteration(term, low, high):
    problem, x, y = small("squared_error", regularizer=term)
    begun = initial_params(problem, "he", 0, jnp.float64)
    extremes = [(W.min(), W.max()) for W in begun.W]

    def watch(progress):
        extremes.extend((W.min(), W.max()) for W in progress.params.W)

    options = Options(method="dladmm", rho=2.5, max_iter=40, tol=None, dtype="float64")
    result = solve(problem, x, y, options=options, callback=watch)
    assert min(least for least, _ in extremes) >= low
    assert max(most for _, most in extremes) <= high
    assert min(W.min() for W in result.params.W) == low
    # Without the constraint the same run leaves the set.
    free = run(max_iter=40).params.W
    assert min(W.min() for W in free) < low


@pytest.mark.parametrize("term", [L1(3.0), "non_negative", Box(-0.25, 0.4)], ids=str)
def test_the_lagrangian_never_rises_with_a_term_that_needs_backtracking(term):
    result = regularised(term)
    assert result.certificate.rises == 0
    assert result.certificate.sufficient_descent is True
    assert not any(result.history["exhausted"])


def test_the_papers_backtracking_descends_too_and_counts_its_trials():
    result = solved(step_rule="backtracking", max_iter=60)
    assert result.certificate.rises == 0
    assert result.certificate.sufficient_descent is True
    assert max(result.history["trials"]) > 0
    theta = np.array(result.history["theta"])
    assert np.array_equal(np.exp2(np.round(np.log2(theta))), theta)  # 1 * 2^k


@pytest.mark.parametrize("method", ["dladmm", "admm", "restored"])
def test_a_network_that_was_handed_out_stays_as_it_was(method):
    """Without a copy: later iterations take over memory, but never that of a network."""
    handed_out, copies = [], []

    def keep(progress):
        handed_out.append(progress.params)
        copies.append(jax.tree.map(np.array, progress.params))

    run(keep, method=method, refresh_every=2, max_iter=7)
    assert len(handed_out) == 7
    for network_then, copy in zip(handed_out, copies, strict=True):
        assert equal(network_then, copy)
    assert not equal(copies[0], copies[-1])
