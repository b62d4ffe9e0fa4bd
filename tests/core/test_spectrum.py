"""Second moments of low rank, against the moments themselves."""

import jax.numpy as jnp
import numpy as np
import pytest
from tolerances import ROUNDING

from dladmm.core.restored.spectrum import (
    RANK,
    change,
    damped_inputs,
    damped_outputs,
    renewed,
    unknown,
)
from dladmm.terms.layers import Dense


def moments(n, rank, seed=0):
    """`rank` large eigenvalues and a flat rest, in random directions."""
    random = np.random.default_rng(seed)
    Q = np.linalg.qr(random.standard_normal((n, n)))[0]
    values = np.where(np.arange(n) < rank, 100.0 / (1 + np.arange(n)), 1e-3)
    return Q * values @ Q.T


def known(M, rounds, arrays=jnp.asarray):
    M, spectrum = arrays(M), unknown(len(M), np.dtype(float))
    for _ in range(rounds):
        spectrum = renewed(spectrum, M @ spectrum.vectors, np.trace(M), arrays(0.0))
    return spectrum


@pytest.mark.parametrize("arrays", [np.asarray, jnp.asarray])
def test_small_moments_are_exact_after_one_product(arrays):
    M, gain = moments(12, 5), np.asarray(0.7)
    spectrum = known(M, 1, arrays)
    B = np.random.default_rng(1).standard_normal((12, 12))
    K = M + 10 * np.mean(np.diag(M)) * np.eye(12)
    S = 0.7 * (M / np.mean(np.diag(M)) + 0.1 * np.eye(12)) / 1.1
    for got, wanted in (
        (damped_inputs(spectrum, 10.0).solve_right(B), B @ np.linalg.inv(K)),
        (damped_outputs(spectrum, 0.1, gain).solve(B), np.linalg.solve(S, B)),
    ):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e3 * ROUNDING)
    assert np.abs(B @ np.linalg.inv(K) - B / np.mean(np.diag(K))).max() > 1e-3  # no scalar does it


def test_large_moments_are_found_by_a_few_products():
    n = 3 * RANK
    M = moments(n, RANK // 2)
    K = M + 10 * np.mean(np.diag(M)) * np.eye(n)
    B = np.random.default_rng(1).standard_normal((4, n))
    exact = B @ np.linalg.inv(K)
    errors = [
        np.abs(damped_inputs(known(M, rounds), 10.0).solve_right(B) - exact).max()
        / np.abs(exact).max()
        for rounds in (1, 3)
    ]
    assert errors[1] < 1e-6 < 1
    assert errors[1] <= errors[0]
    assert float(known(M, 3).trace) == pytest.approx(np.trace(M), rel=ROUNDING)


def test_running_moments_forget_by_half_and_singular_ones_are_no_exception():
    M, N = moments(6, 6), np.zeros((6, 6))
    N[0, 0] = 1.0
    spectrum = known(M, 1)
    both = renewed(spectrum, N @ spectrum.vectors, np.trace(N), jnp.asarray(0.5))
    U, values, _ = both
    np.testing.assert_allclose(U * values @ U.T, (M + N) / 2, rtol=0, atol=1e3 * ROUNDING)
    nothing = known(np.zeros((6, 6)), 2)
    assert np.isfinite(nothing.vectors).all()
    np.testing.assert_array_equal(nothing.values, 0)


def test_the_change_is_zero_for_the_same_moments_and_grows_with_the_difference():
    M = moments(12, 5)
    spectrum = known(M, 1)
    U = spectrum.vectors
    assert float(change(spectrum, M @ U, 1.0)) < 1e3 * ROUNDING
    doubled = np.trace(M) / (2 * np.trace(M))
    assert float(change(spectrum, 2 * M @ U, 1.0)) == pytest.approx(doubled)


@pytest.mark.parametrize("columns", [2, 7])
def test_products_with_moments_need_no_moments(columns):
    random = np.random.default_rng(0)
    a, r, weights = random.random((20, 6)), random.random((20, 7)), random.random(20)
    layer = Dense((6,), 7)
    U = random.standard_normal((7, columns))
    ones = np.hstack([a, np.ones((20, 1))])
    np.testing.assert_allclose(
        layer.gram_with_bias_times(a, U, weights), (ones.T * weights) @ ones @ U, rtol=1e-12
    )
    np.testing.assert_allclose(
        layer.unit_gram_times(r, U, weights), (r.T * weights) @ r @ U, rtol=1e-12
    )
