"""Value, gradient, H and prox of every registered loss."""

from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.special
from tolerances import (
    CENTRAL_DIFFERENCE,
    DIFFERENCE_STEP,
    FLOAT32_GRADIENT,
    FLOAT32_OBJECTIVE,
    FLOAT32_WRIGHT_OMEGA,
    LIPSCHITZ_ROUNDING,
    ONE_SIDED_SLOPE,
    PROX_GRADIENT,
    PROX_OBJECTIVE,
    PROX_ROUNDINGS,
    ROUNDING,
    SCIPY_OBJECTIVE,
    TINY_VALUE,
    WRIGHT_OMEGA,
)

from dladmm.core.evaluate import hits
from dladmm.core.problem import Problem
from dladmm.core.relaxed.zl_solvers import authors_fista, fista, newton
from dladmm.terms.losses import loss_of_labels, losses
from dladmm.terms.losses.base import wright_omega
from dladmm.terms.losses.separable import Poisson, Separable

each_loss = pytest.mark.parametrize("name", list(losses))
each_smooth_loss = pytest.mark.parametrize(
    "name", [n for n in losses if losses.get(n).lipschitz < float("inf")]
)
each_rho = pytest.mark.parametrize("rho", [1e-6, 1e-4, 1e-2, 1.0, 1e2])

each_separable_loss = pytest.mark.parametrize(
    "name", [n for n in losses if isinstance(losses.get(n), Separable)]
)


def huber(d):
    return np.where(np.abs(d) <= 1, d**2 / 2, np.abs(d) - 0.5)


# The docstring's formula, in extended precision; one entry for each registered loss.
FORMULAS = {
    "squared_error": lambda z, y: ((z - y) ** 2).sum(1) / 2,
    "log_loss": lambda z, y: np.log1p(((1 - y) * np.exp(z - (y * z).sum(1, keepdims=True))).sum(1)),
    "binary_log_loss": lambda z, y: np.log1p(np.exp((1 - 2 * y) * z)).sum(1),
    "hinge": lambda z, y: np.maximum(0, 1 - (2 * y - 1) * z).sum(1),
    "multilabel_log_loss": lambda z, y: np.logaddexp(0, np.where(y > 0, -z, z)).sum(1),
    "multilabel_hinge": lambda z, y: np.maximum(0, np.where(y > 0, 1 - z, 1 + z)).sum(1),
    "huber": lambda z, y: huber(z - y).sum(1),
    "absolute_error": lambda z, y: np.abs(z - y).sum(1),
    "quantile": lambda z, y: (np.abs(z - y) / 2).sum(1),
    "poisson": lambda z, y: (np.exp(z) - y * z).sum(1),
}
REACHES_ZERO = [n for n in losses if n != "poisson"]


def exact_value(name, z, y):
    return FORMULAS[name](z.astype(np.longdouble), y.astype(np.longdouble))


def targets(loss, rng, samples, outputs):
    """Labels or one-hot rows for classifiers, else real numbers, else counts: what fits first."""
    if loss.multilabel:
        return rng.integers(2, size=(samples, outputs)).astype(float)
    if loss.classifies:
        return np.eye(outputs)[rng.integers(outputs, size=samples)]
    real = rng.normal(size=(samples, outputs))
    try:
        loss.check_targets(real)
    except ValueError:
        return rng.poisson(2.0, (samples, outputs)).astype(float)
    return real


def gradient(loss, z, y):
    return np.asarray(loss.gradient(jnp.asarray(z), jnp.asarray(y)))


def value(loss, z, y):
    return np.asarray(loss.value(jnp.asarray(z), jnp.asarray(y)))


def objective(loss, z, q, u, y, rho):
    """R(z; y) + <u, z - q> + rho/2 |z - q|^2 for each sample."""
    return value(loss, z, y) + (u * (z - q)).sum(1) + rho / 2 * ((z - q) ** 2).sum(1)


def slope(loss, z, q, u, y, rho):
    """The distance from 0 to dR(z) + u + rho (z - q) for each sample."""
    arrays = (jnp.asarray(v) for v in (z, y, u + rho * (z - q)))
    return np.linalg.norm(np.asarray(loss.stationarity(*arrays)), axis=1)


@lru_cache
def compiled(solver, loss):
    return jax.jit(partial(solver, loss))


def prox(loss, q, u, y, rho, z, solver=newton, **options):
    arrays = (jnp.asarray(v) for v in (q, u, y, rho, z))
    z, iterations = compiled(solver, loss)(*arrays, **options)
    return np.asarray(z), int(iterations)


def subproblem(loss, rng, scale, samples=40, outputs=4):
    """q of the given scale, |u| < 1 and y."""
    if isinstance(loss, Poisson):
        scale = min(scale, 10.0)  # q is a logarithm: exp(q) should keep its digits
    q = scale * rng.uniform(-1, 1, (samples, outputs))
    u = rng.uniform(-1, 1, (samples, outputs))
    return q, u, targets(loss, rng, samples, outputs)


@each_loss
def test_value_is_the_formula_of_the_docstring(name, rng):
    loss = losses.get(name)
    z, y = rng.normal(scale=5, size=(50, 4)), targets(loss, rng, 50, 4)
    expected = exact_value(name, z, y).astype(float)
    np.testing.assert_allclose(value(loss, z, y), expected, rtol=ROUNDING)
    assert np.abs(value(loss, 1.001 * z, y) - expected).max() > 1e-6


@pytest.mark.parametrize("name", REACHES_ZERO)
def test_a_tiny_value_is_nonnegative_and_keeps_its_digits(name, rng):
    loss = losses.get(name)
    y = targets(loss, rng, 60, 3)
    shrink = np.logspace(0, -7, 60)[:, None]
    away = shrink * rng.normal(size=y.shape)
    z = 30 * (1 - shrink) * (2 * y - 1) + away if loss.classifies else y + away
    got = value(loss, z, y)
    assert (got >= 0).all()
    assert got.min() < 1e-6
    np.testing.assert_allclose(got, exact_value(name, z, y).astype(float), rtol=TINY_VALUE)


def test_log_sum_exp_minus_the_label_would_lose_the_digits_of_a_tiny_value():
    z, y = np.array([[45.0, 0.0]]), np.array([[1.0, 0.0]])
    naive = scipy.special.logsumexp(z, axis=1) - z[:, 0]
    exact = float(exact_value("log_loss", z, y)[0])
    assert abs(naive[0] - exact) > 1e-3 * exact
    assert abs(value(losses.get("log_loss"), z, y)[0] - exact) <= TINY_VALUE * exact


@each_loss
def test_value_and_gradient_are_finite_wherever_the_value_is(name, rng):
    loss = losses.get(name)
    z, y = 1e3 * rng.normal(size=(50, 4)), targets(loss, rng, 50, 4)
    finite = exact_value(name, z, y) < 1e300
    assert finite.any()
    np.testing.assert_allclose(
        value(loss, z, y)[finite], exact_value(name, z, y)[finite].astype(float), rtol=ROUNDING
    )
    assert np.isfinite(gradient(loss, z, y)[finite]).all()


def central_differences(loss, z, y, h=1e-5):
    columns = [
        (value(loss, z + h * e, y) - value(loss, z - h * e, y)) / (2 * h)
        for e in np.eye(z.shape[1])
    ]
    return np.stack(columns, axis=1)


@each_loss
def test_gradient_is_the_derivative_of_value(name, rng):
    loss = losses.get(name)
    z, y = rng.normal(scale=3, size=(50, 4)), targets(loss, rng, 50, 4)
    exact, numeric = gradient(loss, z, y), central_differences(loss, z, y)
    tolerance = CENTRAL_DIFFERENCE * (1 + np.abs(exact) + np.abs(value(loss, z, y))[:, None])
    assert (np.abs(exact - numeric) <= tolerance).all()
    assert (np.abs(1.001 * exact - numeric) > tolerance).any()


@each_separable_loss
def test_slopes_are_the_one_sided_derivatives_on_kinks_too(name, rng):
    loss, h = losses.get(name), DIFFERENCE_STEP
    y = targets(loss, rng, 200, 2)
    # Kinks sit where z is the target, or the margin 1 of a classifier.
    kink = 2 * y - 1 if loss.classifies else y
    z = np.where(rng.random(y.shape) < 0.5, kink, rng.normal(scale=2, size=y.shape))
    f = lambda z: np.asarray(loss.pointwise(jnp.asarray(z), jnp.asarray(y)))  # noqa: E731
    left, right = (np.asarray(v) for v in loss.slopes(jnp.asarray(z), jnp.asarray(y)))
    tolerance = ONE_SIDED_SLOPE * (1 + np.abs(f(z)))
    assert (np.abs(left - (f(z) - f(z - h)) / h) <= tolerance).all()
    assert (np.abs(right - (f(z + h) - f(z)) / h) <= tolerance).all()
    # The distance of -u to [left, right], by its definition.
    u = rng.normal(size=y.shape)
    distance = np.abs(np.clip(-u, left, right) + u)
    got = loss.stationarity(jnp.asarray(z), jnp.asarray(y), jnp.asarray(u))
    np.testing.assert_allclose(got, distance, rtol=ROUNDING, atol=ROUNDING)
    assert distance.max() > 0.1


def steepness(loss, rng, scale, distance, pairs=4000, outputs=2):
    """|grad R(z1) - grad R(z2)| / |z1 - z2| for random pairs."""
    z = scale * rng.normal(size=(pairs, outputs))
    away = distance * rng.normal(size=(pairs, outputs))
    y = targets(loss, rng, pairs, outputs)
    change = gradient(loss, z + away, y) - gradient(loss, z, y)
    return np.linalg.norm(change, axis=1) / np.linalg.norm(away, axis=1)


@pytest.mark.parametrize("outputs", [2, 5])
@each_smooth_loss
def test_the_gradient_is_lipschitz_with_constant_H(name, outputs, rng):
    loss = losses.get(name)
    bound = loss.lipschitz * (1 + LIPSCHITZ_ROUNDING)
    for scale, distance in ((0.1, 0.1), (1, 1e-2), (3, 3), (30, 10)):
        assert steepness(loss, rng, scale, distance, outputs=outputs).max() <= bound


@each_smooth_loss
def test_no_smaller_constant_than_H_holds(name, rng):
    loss = losses.get(name)
    assert steepness(loss, rng, 0.1, 0.01).max() > 0.99 * loss.lipschitz


@each_rho
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e3])
@each_loss
def test_prox_has_zero_gradient_from_a_cold_start(name, scale, rho, rng):
    loss = losses.get(name)
    q, u, y = subproblem(loss, rng, scale)
    for start in (np.zeros_like(q), q, scale * rng.normal(size=q.shape)):
        z, _ = prox(loss, q, u, y, rho, start)
        # rho (z - q) itself is known only to roundings of rho z and rho q.
        size = np.linalg.norm(np.abs(z) + np.abs(q), axis=1)
        known = PROX_ROUNDINGS * np.finfo(float).eps * rho * size
        assert (slope(loss, z, q, u, y, rho) <= PROX_GRADIENT + known).all()


@each_rho
@each_loss
def test_prox_has_zero_gradient_from_a_warm_start(name, rho, rng):
    loss = losses.get(name)
    q, _, y = subproblem(loss, rng, 3.0)
    u = -gradient(loss, q + 0.1 * rng.normal(size=q.shape), y)
    z, iterations = prox(loss, q, u, y, rho, q)
    assert slope(loss, z, q, u, y, rho).max() <= PROX_GRADIENT
    again, fewer = prox(loss, q, u, y, rho, z)
    assert slope(loss, again, q, u, y, rho).max() <= PROX_GRADIENT
    assert fewer <= iterations


@each_rho
@each_loss
def test_a_prox_with_the_wrong_rho_is_detected(name, rho, rng):
    loss = losses.get(name)
    q, u, y = subproblem(loss, rng, 1e3)
    u = 2 * u  # outside of every subdifferential at a kink, where the answer depends on rho
    z, _ = prox(loss, q, u, y, 1.01 * rho, q)
    assert slope(loss, z, q, u, y, rho).max() > 10 * PROX_GRADIENT


@lru_cache
def one_sample(loss):
    """The objective of one sample with its gradient and its Hessian, compiled."""

    def model(z, q, u, y, rho):
        d = z - q
        return loss.value(z[None], y[None])[0] + jnp.vdot(u, d) + rho / 2 * jnp.vdot(d, d)

    def derivative(z, q, u, y, rho):
        return loss.gradient(z[None], y[None])[0] + u + rho * (z - q)

    return [jax.jit(f) for f in (model, derivative, jax.jacfwd(derivative))]


def by_trust_region(loss, q, u, y, rho):
    """The minimiser of one sample's subproblem by scipy's trust region method, from q."""
    model, derivative, hessian = one_sample(loss)
    return scipy.optimize.minimize(
        lambda z: float(model(z, q, u, y, rho)),
        q,
        jac=lambda z: np.asarray(derivative(z, q, u, y, rho)),
        hess=lambda z: np.asarray(hessian(z, q, u, y, rho)),
        method="trust-exact",
        options={"gtol": 1e-9, "max_trust_radius": 1e8, "initial_trust_radius": 1.0},
    ).x


def by_scalar_search(loss, q, u, y, rho):
    """The same one output at a time by Brent's method, for a sum over outputs with kinks."""
    model = one_sample(loss)[0]

    def minimise(*case):
        q = case[0]
        f = lambda z: float(model(np.array([z]), *case, rho))  # noqa: E731
        reach = 1.0
        while min(f(q.item() - reach), f(q.item() + reach)) < f(q.item()):
            reach *= 2
        bounds = (q.item() - reach, q.item() + reach)
        options = {"xatol": 1e-13 * reach, "maxiter": 500}
        return scipy.optimize.minimize_scalar(f, bounds, bounds, options=options).x

    return np.array([minimise(*one) for one in np.stack([q, u, y], axis=1)[:, :, None]])


@each_rho
@each_loss
def test_prox_is_the_minimiser_scipy_finds(name, rho, rng):
    loss = losses.get(name)
    q, u, y = subproblem(loss, rng, 5.0, samples=4)
    z, _ = prox(loss, q, u, y, rho, np.zeros_like(q))
    by_scipy = by_scalar_search if isinstance(loss, Separable) else by_trust_region
    found = np.stack([by_scipy(loss, *one, rho) for one in zip(q, u, y, strict=True)])
    ours, theirs = (objective(loss, v, q, u, y, rho) for v in (z, found))
    tolerance = PROX_OBJECTIVE * (1 + np.abs(theirs))
    assert (ours <= theirs + tolerance).all()
    assert (theirs <= ours + SCIPY_OBJECTIVE * (1 + np.abs(theirs))).all()
    wrong = objective(loss, z + rng.normal(size=z.shape), q, u, y, rho)
    assert (wrong > theirs + tolerance).any()


@pytest.mark.float32
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e3])
@each_loss
def test_prox_in_float32_at_the_papers_rho_is_finite_and_as_low(name, scale, rng):
    loss, rho = losses.get(name), np.float32(1e-6)
    q, u, y = (v.astype(np.float32) for v in subproblem(loss, rng, scale))
    z, _ = prox(loss, q, u, y, rho, np.zeros_like(q))
    assert z.dtype == np.float32
    assert np.isfinite(z).all()
    with jax.enable_x64(True):
        exact, _ = prox(loss, *(np.float64(v) for v in (q, u, y, rho, 0 * q)))
        case = tuple(np.float64(v) for v in (q, u, y, rho))
        lowest, ours = objective(loss, exact, *case), objective(loss, np.float64(z), *case)
        untouched = objective(loss, np.zeros_like(exact), *case)
    tolerance = FLOAT32_OBJECTIVE * (1 + np.abs(lowest))
    assert (ours <= lowest + tolerance).all()
    assert (untouched > lowest + tolerance).any()


@pytest.mark.float32
@pytest.mark.parametrize("rho", [1e-6, 1e-3, 1.0])
@each_smooth_loss
def test_prox_in_float32_from_a_warm_start_has_a_gradient_of_rounding_size(name, rho, rng):
    loss = losses.get(name)
    q, _, y = (v.astype(np.float32) for v in subproblem(loss, rng, 5.0))
    u = -gradient(loss, q, y)
    q = q + rng.normal(scale=0.1, size=q.shape).astype(np.float32)
    z, _ = prox(loss, q, u, y, np.float32(rho), q)
    with jax.enable_x64(True):
        case = tuple(np.float64(v) for v in (q, u, y, np.float32(rho)))
        assert slope(loss, np.float64(z), *case).max() <= FLOAT32_GRADIENT
        assert slope(loss, np.float64(q), *case).max() > 100 * FLOAT32_GRADIENT


@pytest.mark.parametrize("rho", [0.1, 1.0, 10.0])
@each_smooth_loss
def test_fista_agrees_with_newton_to_its_stated_tolerance(name, rho, rng):
    loss = losses.get(name)
    q, u, y = subproblem(loss, rng, 5.0)
    tolerance = 1e-6 * (loss.lipschitz + rho)
    z, iterations = prox(loss, q, u, y, rho, np.zeros_like(q), fista)
    exact, _ = prox(loss, q, u, y, rho, np.zeros_like(q))
    assert iterations < 500
    assert slope(loss, z, q, u, y, rho).max() <= tolerance
    # rho |z1 - z2| <= |g1 - g2|: the objective is strongly convex.
    assert np.linalg.norm(z - exact, axis=1).max() <= (tolerance + PROX_GRADIENT) / rho
    assert slope(loss, np.zeros_like(q), q, u, y, rho).min() > tolerance


@pytest.mark.parametrize("rho", [1e-6, 1e-2, 1.0])
@each_smooth_loss
def test_fista_never_rises_however_early_it_stops(name, rho, rng):
    loss = losses.get(name)
    q, u, y = subproblem(loss, rng, 30.0)
    start = 10 * rng.normal(size=q.shape)
    before = objective(loss, start, q, u, y, rho)
    for max_iter in (0, 1, 2, 5, 20, 100):
        z, iterations = prox(loss, q, u, y, rho, start, fista, max_iter=max_iter)
        after = objective(loss, z, q, u, y, rho)
        assert iterations <= max_iter
        assert (after <= before + ROUNDING * (1 + np.abs(before))).all()
        before = after


@each_smooth_loss
def test_a_gradient_step_four_times_too_long_rises(name, rng):
    loss, rho = losses.get(name), 10.0
    q, u, y = subproblem(loss, rng, 30.0)
    g = gradient(loss, 0 * q, y) + u - rho * q
    after = objective(loss, -4 * g / (loss.lipschitz + rho), q, u, y, rho)
    assert (after > objective(loss, 0 * q, q, u, y, rho)).all()


def test_fista_stays_at_the_minimiser(rng):
    loss = losses.get("log_loss")
    q, u, y = subproblem(loss, rng, 5.0)
    exact, _ = prox(loss, q, u, y, 0.1, q)
    z, iterations = prox(loss, q, u, y, 0.1, exact, fista)
    assert iterations == 0
    assert np.array_equal(z, exact)


@each_loss
def test_several_networks_at_once_have_the_values_of_each(name, rng):
    """At a size from which on jaxlib 0.10.2 miscalculates sums of some products under vmap."""
    loss = losses.get(name)
    y = targets(loss, rng, 20_000, 10).astype(np.float32)
    z = rng.normal(size=(3, 20_000, 10)).astype(np.float32)
    several = jax.jit(jax.vmap(loss.value, (0, None)))(z, y)
    each = np.stack([value(loss, one, y) for one in z])
    np.testing.assert_allclose(several, each, rtol=FLOAT32_OBJECTIVE, atol=FLOAT32_OBJECTIVE)
    assert np.abs(each[0] - each[1]).max() > 1


@pytest.mark.parametrize("rho", [1e-6, 1.0])
@each_smooth_loss
def test_a_step_of_the_authors_fista_minimises_its_model(name, rho, rng):
    """<R'(v), z> + H/4 |z - v|^2 + <u, z> + rho/2 |z - q|^2; to majorise R takes H/2."""
    loss = losses.get(name)
    q, u, y = subproblem(loss, rng, 5.0)
    start = rng.normal(size=q.shape)
    z, iterations = prox(loss, q, u, y, rho, start, authors_fista, max_iter=1)
    assert iterations == 1

    def slope_of_model(curvature):
        return gradient(loss, start, y) + curvature * (z - start) + u + rho * (z - q)

    np.testing.assert_allclose(slope_of_model(loss.lipschitz / 2), 0, atol=ROUNDING)
    assert np.abs(slope_of_model(loss.lipschitz)).max() > 0.01


def test_the_authors_fista_stops_where_the_sum_stands_still_and_not_at_the_minimiser(rng):
    loss = losses.get("log_loss")
    q, u, y = subproblem(loss, rng, 5.0)
    left = {}  # of what there was to gain
    for rho in (1e-6, 1.0):
        z, _ = prox(loss, q, u, y, rho, q, authors_fista)
        exact, _ = prox(loss, q, u, y, rho, q)
        before, after, least = (objective(loss, v, q, u, y, rho).sum() for v in (q, z, exact))
        left[rho] = (after - least) / (before - least)
    assert 0 <= left[1.0] < 1e-3
    assert 0.1 < left[1e-6] < 1


def test_wright_omega_solves_w_plus_log_w():
    x = np.concatenate([np.linspace(-600, 50, 2001), np.logspace(0, 7, 200)])
    w = np.asarray(wright_omega(jnp.asarray(x)))
    exact = scipy.special.wrightomega(x)
    np.testing.assert_allclose(w, exact, rtol=WRIGHT_OMEGA)
    assert np.abs(np.exp(x[x < 0]) / exact[x < 0] - 1).max() > WRIGHT_OMEGA


def test_wright_omega_underflows_to_zero_and_not_to_nan():
    x = -np.logspace(np.log10(750), 7, 50)
    w = np.asarray(wright_omega(jnp.asarray(x)))
    assert (w >= 0).all()
    assert (w <= 2 * np.finfo(float).tiny).all()


@pytest.mark.float32
def test_wright_omega_in_float32():
    x = np.concatenate([np.linspace(-80, 50, 2001), np.logspace(0, 7, 200)]).astype(np.float32)
    w = np.asarray(wright_omega(jnp.asarray(x)))
    exact = scipy.special.wrightomega(x.astype(np.float64))
    np.testing.assert_allclose(w, exact, rtol=FLOAT32_WRIGHT_OMEGA)


@pytest.mark.parametrize(
    "y",
    [
        np.array([[1.0, 1.0], [0.0, 1.0]]),
        np.array([[0.0, 0.0], [0.0, 1.0]]),
        np.array([[0.5, 0.5]]),
        np.array([[2.0, -1.0]]),
        np.array([[1.0], [1.0]]),
    ],
)
def test_log_loss_refuses_targets_that_are_not_one_hot(y):
    with pytest.raises(ValueError, match="one-hot"):
        losses.get("log_loss").check_targets(y)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("binary_log_loss", 2.0),
        ("hinge", -1.0),
        ("multilabel_log_loss", 0.5),
        ("multilabel_hinge", -1.0),
        ("poisson", -1.0),
    ],
)
def test_targets_out_of_range_are_refused(name, bad):
    with pytest.raises(ValueError, match=f"loss='{name}'; expected"):
        losses.get(name).check_targets(np.array([[1.0], [bad]]))


@each_loss
def test_fitting_targets_are_accepted(name, rng):
    loss = losses.get(name)
    assert loss.check_targets(targets(loss, rng, 10, 3)) is None


@each_loss
def test_predict_is_the_link_of_the_loss(name, rng):
    loss = losses.get(name)
    z = rng.normal(size=(20, 3))
    predicted = np.asarray(loss.predict(jnp.asarray(z)))
    link = {
        "log_loss": lambda z: scipy.special.softmax(z, axis=1),
        "binary_log_loss": scipy.special.expit,
        "multilabel_log_loss": scipy.special.expit,
        "poisson": np.exp,
    }.get(name, lambda z: z)
    np.testing.assert_allclose(predicted, link(z), rtol=ROUNDING)


@pytest.mark.parametrize("name", ["multilabel_log_loss", "multilabel_hinge"])
def test_a_row_is_right_if_all_its_labels_are(name, rng):
    problem = Problem.dense((2, 3), loss=name)
    y = targets(problem.loss, rng, 60, 3)
    z = (2 * y - 1) * rng.uniform(0.1, 3, y.shape)
    flipped = rng.integers(3, size=60)
    wrong = np.arange(60) % 2 == 0
    z[wrong, flipped[wrong]] *= -1
    np.testing.assert_array_equal(hits(problem, jnp.asarray(z), jnp.asarray(y)), ~wrong)
    # Control: the largest output alone is another measure.
    largest = hits(Problem.dense((2, 3), loss="binary_log_loss"), jnp.asarray(z), jnp.asarray(y))
    assert not np.array_equal(largest, ~wrong)


def test_a_loss_that_does_not_know_labels_is_refused_by_name():
    class Own(type(losses.get("binary_log_loss"))):
        """Another loss, whatever it inherits."""

    assert loss_of_labels(losses.get("log_loss")) == losses.get("multilabel_log_loss")
    assert loss_of_labels(losses.get("multilabel_hinge")) == losses.get("multilabel_hinge")
    for loss in (losses.get("huber"), Own()):
        with pytest.raises(ValueError, match=r"loss=.* is not for rows of several labels"):
            loss_of_labels(loss)
