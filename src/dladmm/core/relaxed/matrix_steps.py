"""W and a steps whose theta and tau are matrices.

phi is quadratic, so theta = c (K + d I) majorises it for every d > 0, K = sum_i omega_i a_i a_i^T
being the Gram matrix of the layer's inputs, and tau = nu I + c W^T W is its very Hessian in a. The
minimiser of such a majoriser goes as far in every direction as phi allows there, where one number
for a whole row must be small enough for the steepest.

Where there are many more samples than inputs K is estimated from a part of them. The majorisation
is then taken exactly along each row's own step, D = t D_0 with the largest t <= 1 for which

    c sum_i omega_i |A(D, a_i)|^2 <= <theta D, D>,       theta = c (K + d I)/t:

the image A(D_0, a) that this needs is what p needs anyway.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from dladmm.core.relaxed.step_rules import Matrix
from dladmm.core.relaxed.updates import Phi, Step, least, residual
from dladmm.core.relaxed.weight_updates import (
    add_product,
    image_of,
    normalised,
    unit_parts,
    walk_units,
)
from dladmm.engine import trees
from dladmm.engine.arrays import Array, xp
from dladmm.engine.buffers import stored_after
from dladmm.engine.linalg import factored, identity, solve_factored
from dladmm.engine.loops import repeat_while
from dladmm.engine.sums import inner, mass, total
from dladmm.engine.walks import Folded, Samples, probe
from dladmm.terms.activations import Activation
from dladmm.terms.layers import Layer
from dladmm.terms.regularizers import Regularizer

LEAST_DELTA, MOST_DELTA = 1e-3, 10.0  # of a delta that the run finds
SAMPLES_PER_INPUT = 8  # what K is estimated from, where there are more
INNER_STEPS = 500  # of a prox in the metric, at most
INNER_ERROR = 0.05  # of theta D, the subgradient that may be left of it


def update_W(
    regularizer: Regularizer, rule: Matrix, phi: Phi, a_prev: Array, samples: Samples
) -> tuple[Array, Array, Step]:
    """argmin_W P(W; theta) + Omega(W), theta a matrix for each row.   (eqs. 9, 11)

    For Omega = lambda/2 |W|^2: D = -t (G + lambda/c W) (K + (d + lambda/c) I)^-1, G being 1/c of
    the gradient of phi. For others K is that of all samples, and the minimiser is found by steps of
    its prox.
    """
    layer, W, c = phi.layer, phi.W, phi.c
    G, energy = _gradient(phi, a_prev, samples)
    K = moments(layer, a_prev, samples, exactly=regularizer.quadratic is None)
    d = damping(rule, layer, K, G, energy, phi.count(samples))
    if regularizer.quadratic is None:
        D, record = _prox_step(regularizer, W, G, c, K, d)
        return W + D, add_product(phi, D, a_prev, samples), record
    ridge = regularizer.quadratic / c
    direction, scale, slope = _newton_direction(W, G, _factor(K, d + ridge), ridge)

    def some_units(p: Array, by_unit: Any, memory: Array) -> tuple[Array, Array, Step, Array]:
        direction, scale, slope = by_unit
        image, squares = image_of(layer, direction, a_prev, samples, memory)
        step, record = _length(squares, direction, scale, slope, d, ridge, c)
        return p - layer.scale_units(image, step), step, record, image

    by_unit, parts = (direction, scale, slope), unit_parts(layer, rule)
    p, step, record = walk_units(some_units, phi.p, by_unit, parts)
    return W - step * direction, p, record


def update_W_twice(
    regularizer: Regularizer, rule: Matrix, phi: Phi, x: Array, samples: Samples, K: Array
) -> tuple[Array, Array, tuple[Step, Step]]:
    """The last backward and the first forward step on W_1, with K = x^T x of all samples."""
    times_K = partial(phi.layer.times_gram, K=K)
    W, c = phi.W, phi.c
    G, energy = _gradient(phi, x, samples)
    d = damping(rule, phi.layer, K, G, energy, phi.count(samples))
    ridge = None if regularizer.quadratic is None else regularizer.quadratic / c
    factor = None if ridge is None else _factor(K, d + ridge)

    def step(W: Array, G: Array) -> tuple[Array, Array, Step]:
        if ridge is None:
            D, record = _prox_step(regularizer, W, G, c, K, d)
            return D, times_K(D), record
        direction, scale, slope = _newton_direction(W, G, factor, ridge)
        image = times_K(direction)
        t, record = _length(inner(image, direction), direction, scale, slope, d, ridge, c)
        return -t * direction, -t * image, record

    D_backward, DK, backward = step(W, G)
    D_forward, _, forward = step(W + D_backward, G + DK)
    D = D_backward + D_forward
    return W + D, add_product(phi, D, x, samples), (backward, forward)


def _gradient(phi: Phi, a_prev: Array, samples: Samples) -> tuple[Array, Array]:
    """1/c of the gradient of phi in W, and |r|^2."""

    def body(weights: Array | None, updated: Any, read: Any) -> tuple[Any, Folded]:
        p, z, u_over_rho, a_prev = read
        r = residual(p, phi.b, z, u_over_rho)
        return updated, Folded(sum=(phi.layer.adjoint_W(r, a_prev, weights), total(r * r, weights)))

    return samples.walk(body, (), (phi.p, phi.z, phi.u_over_rho, a_prev))[1].sum


def moments(layer: Layer, a: Array, samples: Samples, exactly: bool) -> Array:
    """K = sum_i omega_i a_i a_i^T of the rows that W is multiplied with, of all samples or
    estimated from every k-th."""
    first = next(trees.leaves(a))
    count = layer.least_positions * (samples.count or first.shape[0])
    every = 1 if exactly else max(1, count // (SAMPLES_PER_INPUT * layer.fan_in))

    def body(weights: Array | None, _: Any, read: Any) -> tuple[Any, Folded]:
        a, places = read
        chosen, few = probe(places, weights, every, first.dtype)
        rows = a if chosen is None else trees.map(lambda v: v[chosen], a)
        n = places.shape[0] if chosen is None else len(chosen)
        return (), Folded(sum=(layer.gram(rows, few), mass(n, few, first.dtype)))

    K, probed = samples.walk(body, (), (a, samples.places(first)))[1].sum
    return K if every == 1 else K * (samples.mass(first) / xp.maximum(probed, 1e-30))


def damping(rule: Matrix, layer: Layer, K: Array, G: Array, energy: Array, n_rows: Array) -> Array:
    """d = delta mean(diag(K)) > 0; the rule's delta, or F = R^2/chance.

    R^2 = <G, G K^-1>/|r|^2 is the share of the residual's energy that the inputs explain, and
    chance = fan_in/n what they explain of pure noise: F is the statistic of this regression but for
    degrees of freedom. As in the method of Levenberg and Marquardt steps are damped where much is
    left to do, when z and a are still far from what they will be, and go nearly to the minimiser
    at the end.
    """
    mean = xp.maximum(xp.trace(K) / K.shape[0], np.finfo(K.dtype).tiny ** 0.5)
    if rule.delta is not None:
        return rule.delta * mean
    solved = solve_factored(_factor(K, LEAST_DELTA * mean), G.T).T
    chance = layer.fan_in / n_rows
    F = xp.sum(solved * G) / xp.maximum(chance * energy, np.finfo(K.dtype).tiny)
    # In float32 a K that is nearly singular may have no factor: then as for noise.
    return xp.clip(xp.where(xp.isfinite(F), F, 1), LEAST_DELTA, MOST_DELTA) * mean


def _factor(K: Array, more: Array) -> Any:
    """Of M = K + more I."""
    return factored(K + more * identity(K))


def _newton_direction(W: Array, G: Array, factor: Any, ridge: Array) -> tuple[Array, Array, Array]:
    """g M^-1, its scale and <g M^-1, g> for each row: g is G + ridge W but for the scale."""
    g, scale = normalised(G + ridge * W, by_row=True)
    direction = solve_factored(factor, g.T).T
    return direction, scale, inner(direction, g)


def _length(
    squares: Array, direction: Array, scale: Array, slope: Array, d: Array, ridge: Array, c: Array
) -> tuple[Array, Step]:
    """t for each row, times its scale: 1, or what makes theta = c (M/t - ridge I) a majoriser along
    the step, from |A(direction)|^2 and <M direction, direction>."""
    size = inner(direction, direction)
    bent = squares + ridge * size
    t = xp.where(bent > slope, slope / xp.where(bent > 0, bent, 1), 1) * scale
    moved = inner(t * direction, t * direction)  # |direction|^2 alone may overflow
    none = np.zeros((), np.int32)
    return t, Step(xp.sum(moved), least(xp.broadcast_to(c * d, moved.shape), moved), none, none)


def _prox_step(
    regularizer: Regularizer, W: Array, G: Array, c: Array, K: Array, d: Array
) -> tuple[Array, Step]:
    """D = argmin <c G, D> + 1/2 <theta D, D> + Omega(W + D), theta = c (K + d I), by FISTA.

    A row is done once a subgradient e of this at D has |e| |D| <= INNER_ERROR <theta D, D>: phi +
    Omega then falls by (1 - 2 INNER_ERROR)/2 <theta D, D> at least. One that does not get there in
    INNER_STEPS stays where it is. The last step is a prox, so zeros and constraints are exact. The
    largest eigenvalue of a symmetric matrix is at most its largest row sum.
    """
    bound = xp.max(xp.sum(xp.abs(K), 1)) + d
    slope: Callable[[Array], Array] = lambda D: G + D @ K + d * D  # noqa: E731

    def unfinished(carry: Any) -> Array:
        k, _, _, _, done = carry
        return (k < INNER_STEPS) & ~xp.all(done)

    def advance(carry: Any) -> Any:
        k, D, ahead, momentum, _ = carry
        slope_ahead = slope(ahead)
        new = regularizer.prox(W + ahead - slope_ahead / bound, 1 / (c * bound)) - W
        slope_new = slope(new)
        e = slope_new - slope_ahead + bound * (ahead - new)
        bent = inner(slope_new - G, new)
        done = xp.sqrt(inner(e, e) * inner(new, new)) <= INNER_ERROR * bent
        # Momentum starts anew where it points uphill.
        uphill = inner(e, new - D) > 0
        following = xp.where(uphill, 1.0, (1 + xp.sqrt(1 + 4 * momentum**2)) / 2)
        push = xp.where(uphill, 0.0, (momentum - 1) / following)
        return k + 1, new, new + push * (new - D), following, done

    ones = xp.ones_like(inner(W, W))
    start = (np.zeros((), np.int32), xp.zeros_like(W), xp.zeros_like(W), ones, ones < 0)
    trials, D, _, _, done = repeat_while(unfinished, advance, start)
    D = xp.where(done, D, 0)
    moved = inner(D, D)
    theta = xp.broadcast_to((1 - 2 * INNER_ERROR) * c * d, moved.shape)
    exhausted = xp.any(~done).astype(np.int32)
    return D, Step(xp.sum(moved), least(theta, moved), trials, exhausted)


def has_minimiser(above: Sequence[Phi]) -> bool:
    """Whether a, read by these layers, has a minimiser with one factor for all samples that is
    worth it: one dense layer. A convolution's would be as large as an image squared."""
    return len(above) == 1 and above[0].layer.positions == 1 and above[0].layer.is_single


def update_a(
    f: Activation, a: Array, z: Array, layers: Sequence[Phi], nu: Array, samples: Samples
) -> tuple[Array, tuple[Array], Step]:
    """argmin_a c/2 |A(W, a) + b - z_above - u/rho|^2 + nu/2 |a - f(z)|^2.   (eqs. 3, 16)

    With e = A(W, f(z)) + b - z_above - u/rho, M the matrix of A(W, .) and kappa = c/nu it is
    f(z) - kappa e B, B = M^T (I + kappa M M^T)^-1 = (I + kappa M^T M)^-1 M^T, one factor of the
    smaller side for all samples. Returns a, and with it p = A(W, a).
    """
    (above,) = layers
    kappa, M = above.c / nu, above.layer.input_map(above.W)
    if M.shape[0] <= M.shape[1]:
        gram = M @ M.T
        B = solve_factored(factored(identity(gram) + kappa * gram), M).T
    else:
        gram = M.T @ M
        B = solve_factored(factored(identity(gram) + kappa * gram), M.T)

    def body(weights: Array | None, updated: Any, read: Any) -> tuple[Any, Folded]:
        (a, _), (z, z_above, u_over_rho) = updated, read
        h = f(z)
        p = above.layer.apply(above.W, h)
        e = p + above.b - z_above
        e = e if u_over_rho is None else e - u_over_rho
        D = -kappa * (e.reshape(e.shape[0], -1) @ B).reshape(h.shape)
        new = h + D
        moved = total((new - a) ** 2, weights)
        p = p + above.layer.apply(above.W, D)
        return (stored_after(new, moved), p), Folded(moved)

    (a, p), folded = samples.walk(body, (a, above.p), (z, above.z, above.u_over_rho))
    none = np.zeros((), np.int32)
    return a, (p,), Step(folded.sum, nu, none, none)
