"""Max pooling: its closed-form argmin_z against dense grids, its slopes against jax.grad."""

from dataclasses import dataclass
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tolerances import EXACT_STEP

from dladmm.terms.activations import Identity, MaxPooled, ReLU, activations

STRAIGHT = ["identity", "relu", "leaky_relu", "hard_tanh", "relu6", "sign", "step"]
POINTS = {1: 4001, 2: 401, 3: 61, 4: 31}  # of the grid, along each axis


@dataclass(frozen=True)
class LowersOne(MaxPooled):
    """A control: the largest alone moves, however many there are above where it goes."""

    def argmin_z(self, m, a):
        windows = self._windows(m)
        top = windows.max(-1)
        moved = self.f.argmin_z(top, a)[..., None]
        is_top = np.argmax(windows, -1)[..., None] == np.arange(windows.shape[-1])
        return self._laid_out(np.where(is_top, moved, windows), m, m)


def cost(f, z, m, a):
    """Of windows along the last axis."""
    return np.sum((z - m) ** 2, axis=-1) + (np.asarray(f(z.max(axis=-1))) - a) ** 2


def excess_over_grid(pooled, k, rng, count=60):
    """By how much argmin_z costs more than the best point of a grid, for each of many windows."""
    m, a = rng.uniform(-2, 2, (count, k)), rng.uniform(-2, 2, count)
    z = np.asarray(pooled.argmin_z(m[:, :, None], a[:, None, None]))[..., 0]
    found, axis = cost(pooled.f, z, m, a), np.linspace(-3, 3, POINTS[k])
    grid = np.stack(np.meshgrid(*[axis] * k, indexing="ij"), axis=-1).reshape(-1, k)
    best = [cost(pooled.f, grid, m[i], a[i]).min() for i in range(count)]
    return found - np.array(best)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("name", STRAIGHT)
def test_argmin_z_is_no_worse_than_a_dense_grid(name, k, rng):
    count = 8 if k == 4 else 60
    excess = excess_over_grid(MaxPooled(activations.get(name), (k,)), k, rng, count)
    assert excess.max() <= EXACT_STEP


def test_the_grid_finds_a_wrong_minimiser(rng):
    assert excess_over_grid(LowersOne(ReLU(), (3,)), 3, rng).max() > 0.1


def test_both_engines_give_the_same_argmin(rng):
    pooled = MaxPooled(ReLU(), (2, 2))
    m, a = rng.normal(size=(3, 5, 4, 2)), rng.normal(size=(3, 2, 2, 2))
    found = pooled.argmin_z(jnp.asarray(m), jnp.asarray(a))
    np.testing.assert_allclose(found, pooled.argmin_z(m, a), rtol=EXACT_STEP)


def test_pooling_is_the_largest_of_every_window(rng):
    z = rng.normal(size=(2, 5, 6, 3))
    pooled = MaxPooled(activations.get("tanh"), (2, 3))
    found = pooled(z)
    assert found.shape[1:] == pooled.out_shape(z.shape[1:]) == (2, 2, 3)
    for i, j in product(range(2), range(2)):
        window = np.tanh(z[:, 2 * i : 2 * i + 2, 3 * j : 3 * j + 3])
        np.testing.assert_array_equal(found[:, i, j], window.max(axis=(1, 2)))


@pytest.mark.parametrize("name", ["identity", "relu", "tanh", "sigmoid"])
def test_gradients_pass_to_the_largest(name, rng):
    """What is not read, at the ends of an axis, gets nothing."""
    pooled = MaxPooled(activations.get(name), (2, 2))
    z, g = rng.normal(size=(2, 5, 6, 3)), rng.normal(size=(2, 2, 3, 3))

    def value(z):
        windows = z[:, :4].reshape(2, 2, 2, 3, 2, 3)
        return jnp.sum(g * pooled.f(windows).max(axis=(2, 4)))

    expected = jax.grad(value)(jnp.asarray(z))
    np.testing.assert_allclose(pooled.times_slope(z, g), expected, atol=EXACT_STEP)


def test_what_no_window_reads_stays_at_m(rng):
    m, a = rng.normal(size=(2, 5, 2)), rng.normal(size=(2, 2, 2))
    z = MaxPooled(Identity(), (2,)).argmin_z(m, a)
    np.testing.assert_array_equal(z[:, 4], m[:, 4])
    assert np.abs(z[:, :4] - m[:, :4]).max() > 0.1


def test_a_pooling_after_a_curve_has_no_argmin():
    assert MaxPooled(ReLU(), (2,)).has_argmin
    assert not MaxPooled(activations.get("tanh"), (2,)).has_argmin
