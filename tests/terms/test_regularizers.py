"""prox, `quadratic` and the smallest subgradient of every registered regulariser."""

import jax.numpy as jnp
import numpy as np
import pytest
from tolerances import DIFFERENCE_STEP, PROX_EXCESS, ROUNDING, SUBGRADIENT, WRONG_PROX

from dladmm.terms.regularizers import (
    L1,
    L2,
    Box,
    ElasticNet,
    GroupLasso,
    NonNegative,
    regularizers,
)

each_regularizer = pytest.mark.parametrize("name", list(regularizers))
shrinking = pytest.mark.parametrize("name", ["l1", "l2", "elastic_net", "group_lasso"])


def matrix_and_steps(rng):
    """Entries on both sides of every threshold, one step per row; step * strength is about 1."""
    V = rng.uniform(-4, 4, (30, 40))
    V[:, :3] = (0.0, 1.0, -1.0)
    return V, 10.0 ** rng.uniform(2.5, 4.5, (30, 1))


def objective(omega, W, V, step):
    """1/2 (W - V)^2 + step Omega(W), elementwise."""
    return (W - V) ** 2 / 2 + step * omega(W)


def lowest(omega, V, step, points=201, rounds=7):
    """The lowest objective by ever finer grids; the objective is convex, so they close in."""
    centre, width = np.zeros_like(V), np.full_like(V, 8.0)
    best = np.full_like(V, np.inf)
    for kink in (-1.0, 0.0, 1.0):
        best = np.minimum(best, objective(omega, np.full_like(V, kink), V, step))
    for _ in range(rounds):
        W = centre[..., None] + width[..., None] * np.linspace(-1, 1, points)
        values = objective(omega, W, V[..., None], step[..., None])
        best = np.minimum(best, values.min(axis=-1))
        centre = np.take_along_axis(W, values.argmin(axis=-1)[..., None], axis=-1)[..., 0]
        width = width * 4 / points
    return best


def excess(omega, W, V, step):
    """By how much W is worse than the grid's best, relative to the objective's size."""
    floor = lowest(omega, V, step)
    return ((objective(omega, W, V, step) - floor) / (1 + np.abs(floor))).max()


def prox(name, V, step):
    term = regularizers.get(name)
    if not isinstance(term, GroupLasso):
        return np.asarray(term.prox(jnp.asarray(V), jnp.asarray(step)))
    rows = [jnp.reshape(v, (-1, 1)) for v in (V, np.broadcast_to(step, V.shape))]
    return np.asarray(term.prox(*rows)).reshape(V.shape)  # each entry a row


@each_regularizer
def test_prox_is_the_minimiser_with_one_step_per_row(name, omega, rng):
    V, step = matrix_and_steps(rng)
    assert excess(omega[name], prox(name, V, step), V, step) <= PROX_EXCESS


@shrinking
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_prox_with_the_wrong_step_is_detected(name, factor, omega, rng):
    V, step = matrix_and_steps(rng)
    assert excess(omega[name], prox(name, V, factor * step), V, step) > WRONG_PROX


@pytest.mark.parametrize("name", [n for n in regularizers if n != "none"])
def test_a_prox_that_does_nothing_is_detected(name, omega, rng):
    V, step = matrix_and_steps(rng)
    assert excess(omega[name], V, V, step) > WRONG_PROX


@each_regularizer
def test_value_is_the_formula_of_the_docstring(name, omega, rng):
    W = np.abs(rng.uniform(-1, 1, (30, 1)))
    np.testing.assert_allclose(
        regularizers.get(name).value(jnp.asarray(W)), omega[name](W).sum(), rtol=ROUNDING
    )


@each_regularizer
def test_quadratic_is_lambda_exactly_when_omega_is_a_ridge(name, omega, rng):
    W = rng.uniform(-4, 4, 500)
    ridge = regularizers.get(name).quadratic
    if ridge is not None:
        np.testing.assert_allclose(omega[name](W), ridge / 2 * W**2, rtol=ROUNDING)
    else:
        curvature = 2 * omega[name](W) / W**2
        assert not np.allclose(curvature, curvature[0], rtol=WRONG_PROX)


def test_an_elastic_net_without_l1_is_a_ridge():
    assert ElasticNet(l1=0.0, l2=0.3).quadratic == L2(0.3).quadratic == 0.3
    assert L1(0.3).quadratic is None


def smallest_subgradient(omega, W, G):
    """The smallest element of G + [left slope of Omega, right slope of Omega], by differences."""
    with np.errstate(invalid="ignore"):
        left = (omega(W) - omega(W - DIFFERENCE_STEP)) / DIFFERENCE_STEP
        right = (omega(W + DIFFERENCE_STEP) - omega(W)) / DIFFERENCE_STEP
    return np.clip(0, G + left, G + right)


@each_regularizer
def test_subgradient_is_the_smallest_element(name, omega, rng):
    W = np.concatenate([np.repeat([0.0, 1.0], 200), rng.uniform(0.01, 0.99, 200)])
    if np.isfinite(omega[name](-1.0)):
        W = np.concatenate([W, -W])
    G = np.where(rng.random(W.shape) < 0.5, 2e-4, 1.0) * rng.normal(size=W.shape)
    column = [jnp.asarray(v)[:, None] for v in (W, G)]
    got = np.asarray(regularizers.get(name).subgradient(*column))[:, 0]
    expected = smallest_subgradient(omega[name], W, G)
    np.testing.assert_allclose(got, expected, atol=SUBGRADIENT, rtol=0)
    assert name == "none" or np.abs(G - expected).max() > 1000 * SUBGRADIENT


# Group lasso: whole rows.


def row_objective(W, V, step, strength):
    """1/2 |W - V|^2 + step strength |W| of each row."""
    gap = np.sum((W - V) ** 2, axis=-1) / 2
    return gap + step * strength * np.linalg.norm(W, axis=-1)


def lowest_of_rows(V, step, strength, points=41, rounds=12):
    """The lowest objective of each row of two entries, by ever finer grids over the plane."""
    centre, width = np.zeros_like(V), 2 * np.abs(V).max()
    best = np.full(len(V), np.inf)
    line = np.linspace(-1, 1, points)
    plane = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    for _ in range(rounds):
        W = centre[:, None] + width * plane
        values = row_objective(W, V[:, None], step, strength)
        best = np.minimum(best, values.min(axis=1))
        centre = W[np.arange(len(V)), values.argmin(axis=1)]
        width *= 0.25
    return best


@pytest.mark.parametrize("factor", [1.0, 0.8, 1.25])
def test_the_prox_of_rows_beats_a_grid_over_the_plane(factor, rng):
    V = rng.normal(size=(60, 2)) * rng.uniform(0.1, 3, (60, 1))
    step, strength = rng.uniform(0.2, 2, (60, 1)), 0.7
    W = np.asarray(GroupLasso(factor * strength).prox(jnp.asarray(V), jnp.asarray(step)))
    floor = lowest_of_rows(V, step, strength)
    excess_of_rows = (row_objective(W, V, step[:, 0], strength) - floor).max()
    if factor == 1:
        assert excess_of_rows <= PROX_EXCESS
        off = ~W.any(axis=1)
        assert 5 < off.sum() < 55
        np.testing.assert_array_equal(off, np.linalg.norm(V, axis=1) <= step[:, 0] * strength)
    else:  # a control: the grid sees a wrong strength
        assert excess_of_rows > WRONG_PROX


def test_the_subgradient_of_rows_is_the_smallest_element(rng):
    """At a row of zeros G + strength (a ball): its smallest element by a grid over the ball."""
    G = rng.normal(size=(20, 2)) * rng.uniform(0.1, 2, (20, 1))
    angles, radii = np.linspace(0, 2 * np.pi, 2001), np.linspace(0, 1, 501)
    disc = radii[:, None, None] * np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    found = np.asarray(GroupLasso(0.8).subgradient(jnp.zeros((20, 2)), jnp.asarray(G)))
    for g, one in zip(G, found, strict=True):
        least = np.linalg.norm(g + 0.8 * disc, axis=-1).min()
        assert abs(np.linalg.norm(one) - least) <= 2e-3
    W = rng.normal(size=(20, 2))
    along = np.asarray(GroupLasso(0.8).subgradient(jnp.asarray(W), jnp.asarray(G)))
    ahead, behind = (
        [row_objective(W + s * DIFFERENCE_STEP * e, W, 1, 0.8) for e in np.eye(2)] for s in (1, -1)
    )
    slopes = (np.array(ahead) - np.array(behind)).T / (2 * DIFFERENCE_STEP)
    np.testing.assert_allclose(along, G + slopes, atol=SUBGRADIENT)


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
@pytest.mark.parametrize(
    ("build", "field"),
    [
        (lambda v: L2(v), "strength"),
        (lambda v: L1(v), "l1"),
        (lambda v: GroupLasso(v), "strength"),
        (lambda v: ElasticNet(l1=v), "l1"),
        (lambda v: ElasticNet(l2=v), "l2"),
        (lambda v: Box(2.0 if v < 0 else v, 1.0), "low"),
        (lambda v: NonNegative(high=-1.0 if v > 0 else v), "low"),
    ],
)
def test_an_invalid_parameter_is_refused(build, field, bad):
    with pytest.raises(ValueError, match=f"{field}=.* expected"):
        build(bad)
