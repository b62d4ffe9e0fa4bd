"""Windows, place by place: an oracle that takes every number by its index."""

from itertools import product

import jax.numpy as jnp
import numpy as np
import pytest
from tolerances import ROUNDING

from dladmm.engine.windows import MANY_CHANNELS, added_windows, positions, window_rows

WINDOW, STRIDES, DILATION = (3, 2), (2, 1), (1, 2)
AXES = (7, 6)


def by_index(a):
    counts = positions(AXES, WINDOW, STRIDES, DILATION)
    rows = np.empty((len(a), *counts, np.prod(WINDOW) * a.shape[-1]))
    for place in product(range(len(a)), *map(range, counts)):
        n, *corner = place
        row = []
        for inside in product(*map(range, WINDOW)):
            at = (
                c * s + k * d for c, s, k, d in zip(corner, STRIDES, inside, DILATION, strict=True)
            )
            row.append(a[(n, *at)])
        rows[place] = np.concatenate(row)
    return rows


@pytest.mark.parametrize("channels", [1, MANY_CHANNELS - 1, MANY_CHANNELS])
@pytest.mark.parametrize("array", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
def test_rows_are_the_windows_place_after_place(rng, channels, array):
    a = rng.standard_normal((2, *AXES, channels))
    rows = np.asarray(window_rows(array(a), WINDOW, STRIDES, DILATION))
    np.testing.assert_array_equal(rows, by_index(a))
    assert not np.array_equal(rows, by_index(a[:, ::-1]))  # a control


@pytest.mark.parametrize("channels", [1, MANY_CHANNELS])
@pytest.mark.parametrize("array", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
def test_added_windows_is_the_adjoint(rng, channels, array):
    a = rng.standard_normal((2, *AXES, channels))
    rows = by_index(a)
    r = rng.standard_normal(rows.shape)
    back = np.asarray(added_windows(array(r), AXES, WINDOW, STRIDES, DILATION))
    assert np.sum(a * back) == pytest.approx(np.sum(rows * r), rel=ROUNDING)
    assert np.sum(a[:, ::-1] * back) != pytest.approx(np.sum(rows * r), rel=ROUNDING)  # a control
