"""f, its global argmin_z and its slopes, for every registered activation."""

from dataclasses import dataclass
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tolerances import (
    ARGMIN_EXCESS,
    CONTROL_EXCESS,
    DIFFERENCE_STEP,
    FLOAT32_EXCESS,
    LEVEL_MARGIN,
    ONE_SIDED_SLOPE,
)

from dladmm.terms.activations import PiecewiseConstant, ReLU, Smooth, activations


def silu(z):
    return z * jax.nn.sigmoid(z)


USER_FUNCTIONS = {"user_silu": silu, "user_sine": jnp.sin}


def build(name):
    return activations.get(USER_FUNCTIONS.get(name, name))


each_activation = pytest.mark.parametrize("name", [*activations, *USER_FUNCTIONS])
each_staircase = pytest.mark.parametrize(
    "name", [n for n in activations if isinstance(activations.get(n), PiecewiseConstant)]
)

each_smooth = pytest.mark.parametrize(
    "name", [n for n in [*activations, *USER_FUNCTIONS] if isinstance(build(n), Smooth)]
)


@dataclass(frozen=True)
class OneBranchReLU(ReLU):
    """ReLU that forgets the candidate min(m, 0)."""

    def argmin_z(self, m, a):
        return jnp.maximum((m + a) / 2, 0)


def near(rng, count=400):
    return rng.uniform(-3, 3, (2, count))


def wide(rng, count=400):
    return rng.uniform(-12, 12, (2, count))


def heavy(rng, count=400):
    return np.clip(3 * rng.standard_cauchy((2, count)), -200, 200)


each_range = pytest.mark.parametrize("draw", [near, wide, heavy])


def cost(activation, z, m, a):
    f = np.asarray(activation(jnp.asarray(z)))
    return (z - m) ** 2 + (f - a) ** 2


def lowest_on_grid(activation, m, a, points=1501, basins=4, rounds=6):
    """The lowest cost over [m - r, m + r], r = |f(m) - a|, outside of which every z is worse.

    A dense grid, another around 0 where activations bend, the knots and both their sides, then
    ever finer grids around the best local minima. The answer under test is not an input.
    """
    m, a = m[:, None], a[:, None]
    r = np.sqrt(cost(activation, m, m, a))
    around_zero = np.broadcast_to(np.linspace(-8, 8, 401), (len(m), 401))
    z = np.sort(np.hstack([m + r * np.linspace(-1, 1, points), around_zero]), axis=1)
    value = cost(activation, z, m, a)
    best = value.min(axis=1)
    for knot in getattr(activation, "knots", ()):
        sides = np.broadcast_to([knot - 1e-12, knot, knot + 1e-12], (len(m), 3))
        best = np.minimum(best, cost(activation, sides, m, a).min(axis=1))
    edge = np.full((len(m), 1), np.inf)
    padded = np.hstack([edge, value, edge])
    is_local = (value <= padded[:, :-2]) & (value <= padded[:, 2:])
    order = np.argsort(np.where(is_local, value, np.inf), axis=1)[:, :basins]
    centre = np.take_along_axis(z, order, axis=1)[..., None]
    width = (2 * r / (points - 1))[..., None]
    for _ in range(rounds):
        fine = centre + width * np.linspace(-1, 1, 41)
        value = cost(activation, fine, m[..., None], a[..., None])
        centre = np.take_along_axis(fine, value.argmin(-1)[..., None], axis=-1)
        width = width / 20
        best = np.minimum(best, value.min(axis=(1, 2)))
    return best


@lru_cache
def compiled(activation):
    return jax.jit(activation.argmin_z)


def excess_over_grid(activation, m, a):
    """By how much argmin_z costs more than the grid's best point, per (m, a)."""
    z = np.asarray(compiled(activation)(jnp.asarray(m), jnp.asarray(a)))
    return cost(activation, z, m, a) - lowest_on_grid(activation, m, a)


@each_range
@each_activation
def test_argmin_z_is_the_global_minimum(name, draw, rng):
    m, a = draw(rng)
    excess = excess_over_grid(build(name), m, a)
    worst = excess.argmax()
    assert excess[worst] <= ARGMIN_EXCESS, f"at m={m[worst]}, a={a[worst]}"


@each_smooth
def test_argmin_z_is_the_global_minimum_where_two_minima_merge(name, rng):
    """At (m, a) with cost' = cost'' = 0 somewhere: the flattest, hence hardest, minima."""
    activation = build(name)
    f = activation.function
    z = jnp.asarray(rng.uniform(-8, 8, 500))
    slope, bend = (jax.vmap(d)(z) for d in (jax.grad(f), jax.grad(jax.grad(f))))
    a = f(z) + (1 + slope**2) / jnp.where(bend == 0, 1, bend)
    m = z + (f(z) - a) * slope
    usable = np.asarray((bend != 0) & (jnp.abs(a) < 200))
    noise = 10.0 ** rng.uniform(-8, -2, (2, len(z))) * rng.choice([-1, 1], (2, len(z)))
    m, a = (np.asarray(v + dv)[usable] for v, dv in zip((m, a), noise, strict=True))
    assert len(m) > 100
    assert excess_over_grid(activation, m, a).max() <= ARGMIN_EXCESS


@each_range
def test_the_grid_detects_a_missing_branch(draw, rng):
    assert excess_over_grid(OneBranchReLU(), *draw(rng)).max() > CONTROL_EXCESS


@each_activation
def test_argmin_z_is_the_global_minimum_with_m_on_the_knots(name, rng):
    knots = np.array(getattr(build(name), "knots", ()) or (0.0,))
    m, a = np.repeat(knots, 50), rng.uniform(-8, 8, 50 * len(knots))
    assert excess_over_grid(build(name), m, a).max() <= ARGMIN_EXCESS


@pytest.mark.float32
@each_range
@each_activation
def test_argmin_z_in_float32_is_as_low_as_rounding_allows(name, draw, rng):
    m, a = draw(rng).astype(np.float32)
    z = np.asarray(compiled(build(name))(jnp.asarray(m), jnp.asarray(a)))
    assert z.dtype == np.float32
    with jax.enable_x64(True):
        m, a, z = (v.astype(np.float64) for v in (m, a, z))
        excess = cost(build(name), z, m, a) - lowest_on_grid(build(name), m, a)
    assert (excess <= FLOAT32_EXCESS * (1 + m**2 + a**2)).all()


def cheapest_level(activation, m, a):
    """The best level for (m, a) by the distance from m to its interval, and its lead."""
    edges = np.array([-np.inf, *activation.knots, np.inf])
    m, a = m.astype(np.float64)[:, None], a.astype(np.float64)[:, None]
    distance = np.maximum(np.maximum(edges[:-1] - m, m - edges[1:]), 0)
    costs = distance**2 + (np.array(activation.levels) - a) ** 2
    ranked = np.sort(costs, axis=1)
    return np.array(activation.levels)[costs.argmin(axis=1)], ranked[:, 1] - ranked[:, 0]


def check_levels(activation, dtype, argmin_z, rng):
    knots = np.array([*activation.knots, 0.0], dtype)
    tiny = np.finfo(dtype).smallest_subnormal
    m = np.concatenate(
        [
            knots,
            np.nextafter(knots, dtype(-np.inf)),
            np.nextafter(knots, dtype(np.inf)),
            np.array([tiny, -tiny, 1000 * tiny, -1000 * tiny], dtype),
            rng.uniform(-4, 4, 200).astype(dtype),
        ]
    )
    middle = np.array(activation.levels, dtype)
    a = np.concatenate([middle, rng.uniform(-4, 4, 20).astype(dtype)])
    m, a = (v.ravel() for v in np.meshgrid(m, a))
    level, lead = cheapest_level(activation, m, a)
    z = argmin_z(jnp.asarray(m), jnp.asarray(a))
    assert z.dtype == dtype
    clear = lead > LEVEL_MARGIN
    assert clear.mean() > 0.9
    reached = np.asarray(jax.jit(activation.__call__)(z))
    assert np.array_equal(reached[clear], level.astype(dtype)[clear])


@pytest.mark.parametrize("jitted", [False, True])
@each_staircase
def test_z_evaluates_to_the_intended_level(name, jitted, rng):
    argmin_z = build(name).argmin_z
    check_levels(build(name), np.float64, jax.jit(argmin_z) if jitted else argmin_z, rng)


@pytest.mark.float32
@pytest.mark.parametrize("jitted", [False, True])
@each_staircase
def test_z_evaluates_to_the_intended_level_in_float32(name, jitted, rng):
    argmin_z = build(name).argmin_z
    check_levels(build(name), np.float32, jax.jit(argmin_z) if jitted else argmin_z, rng)


@each_staircase
def test_clamping_to_the_closed_interval_misses_the_level(name, rng):
    activation = build(name)

    def closed(m, a):
        edges = (-np.inf, *activation.knots, np.inf)
        z = jnp.stack([jnp.clip(m, *edges[i : i + 2]) for i in range(len(edges) - 1)])
        levels = jnp.array(activation.levels)[:, None]
        return jnp.take_along_axis(z, jnp.argmin((z - m) ** 2 + (levels - a) ** 2, 0)[None], 0)[0]

    with pytest.raises(AssertionError):
        check_levels(activation, np.float64, closed, rng)


@each_activation
def test_slopes_are_the_one_sided_derivatives(name, rng):
    activation, h = build(name), DIFFERENCE_STEP
    knots = np.array(getattr(activation, "knots", ()))
    z = rng.uniform(-8, 8, 300)
    if knots.size:
        z = z[np.abs(z[:, None] - knots).min(axis=1) > 2 * h]
    if activation.continuous:
        z = np.concatenate([z, knots])
    f = lambda z: np.asarray(activation(jnp.asarray(z)))  # noqa: E731
    left, right = (np.asarray(s) for s in activation.slopes(jnp.asarray(z)))
    np.testing.assert_allclose(left, (f(z) - f(z - h)) / h, atol=ONE_SIDED_SLOPE, rtol=0)
    np.testing.assert_allclose(right, (f(z + h) - f(z)) / h, atol=ONE_SIDED_SLOPE, rtol=0)


def test_the_slopes_of_relu_differ_at_its_knot():
    left, right = activations.get("relu").slopes(jnp.zeros(1))
    assert (float(left[0]), float(right[0])) == (0.0, 1.0)


def test_ties_of_relu_go_to_nonpositive_z(rng):
    a = rng.uniform(0.1, 5, 20_000)
    m = a * (1 - np.sqrt(2))
    positive = (m + a) / 2
    tie = (positive - m) ** 2 + (positive - a) ** 2 == a**2
    assert tie.sum() > 100
    z = np.asarray(activations.get("relu").argmin_z(jnp.asarray(m), jnp.asarray(a)))
    assert (z[tie] <= 0).all()
    assert (z[~tie] > 0).any()
