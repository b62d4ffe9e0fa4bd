"""Factorisations of both engines against NumPy's own, and what they say of what has none."""

import jax.numpy as jnp
import numpy as np
import pytest
from tolerances import EXACT_STEP

from dladmm.engine import linalg

ENGINES = {"numpy": np.asarray, "jax": jnp.asarray}


@pytest.fixture(params=ENGINES)
def array(request):
    return ENGINES[request.param]


@pytest.fixture
def positive(rng):
    root = rng.normal(size=(6, 6))
    return root @ root.T + np.eye(6)


def close(found, expected):
    np.testing.assert_allclose(np.asarray(found), expected, rtol=EXACT_STEP, atol=EXACT_STEP)


def test_solutions_and_traces_are_those_of_numpy(array, positive, rng):
    right = rng.normal(size=(6, 3))
    before = positive.copy()
    M = array(positive)
    close(linalg.solve_positive(M, array(right)), np.linalg.solve(positive, right))
    raised = positive + 0.7 * np.eye(6)
    close(linalg.plus_identity(M, 0.7), raised)
    close(linalg.inverse_trace(M, plus=0.7), np.trace(np.linalg.inv(raised)))
    np.testing.assert_array_equal(positive, before)  # nothing was written into what arrived
    # The control: another shift is another trace.
    with pytest.raises(AssertionError):
        close(linalg.inverse_trace(M, plus=0.8), np.trace(np.linalg.inv(raised)))


@pytest.mark.parametrize("spoilt", ["indefinite", "nan"])
def test_what_is_not_positive_definite_gives_nan(array, positive, spoilt):
    bad = positive - 100 * np.eye(6) if spoilt == "indefinite" else positive * np.nan
    assert np.isnan(linalg.solve_positive(array(bad), array(np.ones((6, 2))))).all()
    assert np.isnan(linalg.inverse_trace(array(bad), plus=1))


def test_the_pseudo_inverse_leaves_out_what_is_rounding(array, rng):
    """Columns that add up to zero, as those of the classes do: one eigenvalue is rounding alone."""
    for n in range(2, 12):
        columns = rng.normal(size=(50, n))
        columns -= columns.mean(axis=1, keepdims=True)
        gram = columns.T @ columns
        inverse = np.asarray(linalg.pseudo_inverse(array(gram)))
        close(inverse, np.linalg.pinv(columns) @ np.linalg.pinv(columns).T)
        assert np.trace(inverse @ gram) == pytest.approx(n - 1, rel=EXACT_STEP)
        assert np.linalg.matrix_rank(columns) == n - 1


def test_the_pseudo_inverse_of_nothing_is_nothing(array):
    assert not np.asarray(linalg.pseudo_inverse(array(np.zeros((3, 3))))).any()
    assert np.isnan(linalg.pseudo_inverse(array(np.full((3, 3), np.nan)))).all()
