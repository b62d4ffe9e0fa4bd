"""Schedules of rho and nu: each rule by hand, and what a run makes of it."""

import numpy as np
import pytest
from problems import small
from tolerances import HAND_COUNT

from dladmm import Options, solve
from dladmm.core.relaxed.schedules import (
    BalanceResiduals,
    CloseGap,
    Constant,
    Multiply,
    make_schedule,
)


def run(**options):
    problem, x, y = small()
    settings = {
        "method": "dladmm",
        "rho": 2.5,
        "nu": 1.0,
        "max_iter": 30,
        "tol": None,
        "dtype": "float64",
    }
    return solve(problem, x, y, options=Options(**settings | options))


def test_constant_ignores_what_happens():
    assert Constant(0.3)(500, 7.0, {"residual": 1e9}) == 0.3


@pytest.mark.parametrize(
    ("k", "expected"), [(0, 1e-6), (99, 1e-6), (100, 1e-5), (199, 1e-5), (200, 1e-4), (2000, 1e6)]
)
def test_the_papers_schedule_multiplies_by_ten_every_hundred_iterations(k, expected):
    assert Multiply(1e-6)(k, 123.0, {}) == pytest.approx(expected, rel=HAND_COUNT)


def test_the_papers_schedule_never_falls_below_its_start():
    assert Multiply(1e7)(300, 1.0, {}) == 1e7


@pytest.mark.parametrize(
    ("k", "residual", "zl_change", "expected"),
    [
        (10, 21.0, 1.0, 4.0),  # |r| > 10 rho |dz|: grows
        (10, 19.0, 1.0, 2.0),
        (10, 1.0, 5.1, 1.0),  # rho |dz| > 10 |r|: shrinks
        (10, 1.0, 4.9, 2.0),
        (11, 21.0, 1.0, 2.0),  # only every ten iterations
    ],
)
def test_adaptive_rho_balances_residual_and_change(k, residual, zl_change, expected):
    row = {"residual": residual, "zl_change": zl_change}
    assert BalanceResiduals(1.0)(k, 2.0, row) == expected


def test_adaptive_rho_stays_within_its_limits():
    grow, shrink = {"residual": 1.0, "zl_change": 0.0}, {"residual": 0.0, "zl_change": 1.0}
    rule = BalanceResiduals(1.0, minimum=0.5, maximum=3.0)
    assert rule(10, 2.0, grow) == 3.0
    assert rule(10, 0.7, shrink) == 0.5
    assert rule(0, 2.0, {}) == 2.0


@pytest.mark.parametrize(("gap", "expected"), [(0.11, 4.0), (0.09, 2.0), (float("nan"), 2.0)])
def test_adaptive_nu_grows_while_the_gap_exceeds_a_tenth_of_the_loss(gap, expected):
    assert CloseGap(1.0)(5, 2.0, {"gap": gap, "train_loss": 1.0}) == expected


def test_adaptive_nu_has_a_maximum():
    row = {"gap": 1.0, "train_loss": 1.0}
    assert CloseGap(1.0, maximum=3.0)(5, 2.0, row) == 3.0


def test_a_schedule_given_as_an_instance_starts_at_the_penalty():
    assert make_schedule("rho", Multiply(5.0, factor=2.0), 0.5) == Multiply(0.5, factor=2.0)


def test_a_constant_run_keeps_its_penalties():
    history = run().history
    assert set(history["rho"]) == {2.5}
    assert set(history["nu"]) == {1.0}


def test_a_run_follows_the_papers_schedule_for_both_penalties():
    rule = Multiply(1.0, factor=10.0, every=10)
    history = run(rho=1e-3, nu=1e-4, rho_schedule=rule, nu_schedule=rule).history
    steps = 10.0 ** np.repeat([0, 1, 2], 10)
    np.testing.assert_allclose(history["rho"], 1e-3 * steps, rtol=HAND_COUNT)
    np.testing.assert_allclose(history["nu"], 1e-4 * steps, rtol=HAND_COUNT)


def test_an_adaptive_run_raises_rho_by_the_rule_from_the_records_one_iteration_behind():
    rule = BalanceResiduals(1.0, every=5, ratio=1.0)
    history = run(rho=1e-4, nu=1e-4, rho_schedule=rule).history
    rho = history["rho"]
    expected = [1e-4] * 5
    for k in range(5, 30):
        row = {name: history[name][k - 2] for name in ("residual", "zl_change")}
        expected.append(rule(k, expected[-1], row))
    np.testing.assert_array_equal(rho, expected)
    assert len(set(rho)) > 1


def test_restored_sweeps_take_an_adaptive_rho_and_have_no_use_for_it():
    """Their records have no change of z_L, which the rule asks for every ten iterations."""
    how = {"method": "restored", "rho": None}
    one, other = (run(rho_schedule=rule, **how) for rule in ("adaptive", "constant"))
    assert one.n_iter > 10
    for W, V in zip(one.params.W, other.params.W, strict=True):
        np.testing.assert_array_equal(W, V)
    with pytest.raises(KeyError, match="zl_change"):  # what it would be if the rule were asked
        BalanceResiduals(1.0)(10, 1.0, {name: v[9] for name, v in one.history.items()})


def test_an_adaptive_run_raises_nu_while_the_network_is_worse_than_its_outputs():
    history = run(nu=1e-4, nu_schedule="adaptive", evaluate_every=5).history
    nu = history["nu"]
    # Sampled in iterations 1, 6, 11, ...; each sample can double nu once, two iterations on.
    changed = [k for k in range(1, 30) if nu[k] != nu[k - 1]]
    for k in changed:
        assert nu[k] == 2 * nu[k - 1]
        assert history["gap"][k - 2] > 0.1 * history["train_loss"][k - 2]
    assert changed
    assert all(k % 5 == 2 for k in changed)
