"""Sample weights in whole runs: weight 2 is a duplicate row, weight 0 an absent one."""

import numpy as np
import pytest
from problems import biggest_difference, small
from tolerances import LEMMA2, WEIGHTED_RUN

from dladmm import Options, Params, solve

ROW = 7
METHODS = {
    "dladmm": {"method": "dladmm"},
    "vectors": {"method": "dladmm", "step_rule": "closed-form"},
    "admm": {"method": "admm"},
}


def run(method, x, y, weights=None):
    problem, *_ = small()
    options = Options(**METHODS[method], rho=2.5, max_iter=30, tol=None, dtype="float64")
    return solve(problem, x, y, sample_weight=weights, options=options)


def distance(one, two):
    """The larger of the relative differences of the networks and of all values of L_rho."""
    values = (r.history["lagrangian"] for r in (one, two))
    return max(biggest_difference(one.params, two.params), biggest_difference(*map(list, values)))


def weighted(method, value):
    _, x, y = small()
    weights = np.ones(len(x))
    weights[ROW] = value
    return run(method, x, y, weights)


@pytest.mark.parametrize("method", METHODS)
def test_weight_2_is_a_duplicate_row_and_weight_3_is_not(method):
    _, x, y = small()
    twice = run(method, np.vstack([x, x[ROW]]), np.vstack([y, y[ROW]]))
    assert distance(twice, weighted(method, 2.0)) <= WEIGHTED_RUN
    assert distance(twice, weighted(method, 3.0)) > 1e3 * WEIGHTED_RUN


@pytest.mark.parametrize("method", METHODS)
def test_weight_0_is_an_absent_row_and_weight_1_is_not(method):
    _, x, y = small()
    absent = run(method, np.delete(x, ROW, axis=0), np.delete(y, ROW, axis=0))
    without = weighted(method, 0.0)
    assert distance(absent, without) <= WEIGHTED_RUN
    assert distance(absent, weighted(method, 1.0)) > 1e3 * WEIGHTED_RUN
    np.testing.assert_allclose(
        without.certificate.subgradient_norm, absent.certificate.subgradient_norm, rtol=WEIGHTED_RUN
    )


def test_what_a_row_of_weight_0_holds_does_not_matter():
    _, x, y = small()
    weights = np.ones(len(x))
    weights[ROW] = 0
    other_x, other_y = x.copy(), y.copy()
    other_x[ROW], other_y[ROW] = 100.0, -50.0
    one, two = (run("dladmm", u, v, weights) for u, v in ((x, y), (other_x, other_y)))
    assert distance(one, two) <= WEIGHTED_RUN
    assert max(one.history["lemma2"]) <= LEMMA2


def test_sufficient_descent_is_claimed_rightly_when_weights_sum_to_less_than_one():
    """b moves most here, and its curvature is rho times the sum of the weights."""
    x = np.array([[30.0], [-30.0]])
    problem, *_ = small(sizes=(1, 1))
    options = Options(
        method="dladmm", rho=2.5, max_iter=20, tol=None, dtype="float64", dual_start="gradient"
    )
    zero = Params((np.zeros((1, 1)),), (np.zeros(1),))
    weights, y = [0.01, 0.01], [[5.0], [5.0]]
    result = solve(problem, x, y, sample_weight=weights, params=zero, options=options)
    assert result.certificate.rises == 0
    assert result.certificate.sufficient_descent is True
