"""The W update: a majorised step on each row, in closed form or by backtracking on its prox.

The rows of W are the units of a layer: phi separates over them, as over the samples.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from dladmm.core.relaxed.step_rules import Backtracking, StepRule, VectorRule
from dladmm.core.relaxed.updates import Phi, Step, failed, grow, least, residual
from dladmm.engine import trees
from dladmm.engine.arrays import Array, is_jax, load_jax, namespace, xp
from dladmm.engine.loops import repeat_while
from dladmm.engine.sums import inner
from dladmm.engine.walks import Folded, Samples
from dladmm.terms.layers import Layer
from dladmm.terms.regularizers import Regularizer

# Units are taken in this many parts, if each still has so many: narrower products are slow.
PARTS, LEAST_UNITS = 4, 100


def update_W(
    regularizer: Regularizer, rule: VectorRule, phi: Phi, a_prev: Array, samples: Samples
) -> tuple[Array, Array, Step]:
    """argmin_W P(W; theta) + Omega(W) at the current W, theta as the rule chooses.   (eqs. 9, 11)

    P is the majoriser of c/2 sum_i omega_i |r_i|^2, r = p + b - z - u/rho. For Omega =
    lambda/2 |W|^2 the step is along G = gradient of both, row-wise
    theta = c |A(G, a_prev)|^2 / |G|^2, and p+ = A(W+, a_prev) comes for free. Otherwise theta is
    searched with the Gram matrix of a_prev.
    """
    layer, W, c = phi.layer, phi.W, phi.c
    G = gradient_W(phi, a_prev, samples)
    if regularizer.quadratic is None:
        gram_pays_off = phi.p.shape[0] >= layer.fan_in
        K = samples.sum(layer.gram(a_prev, samples.weights)) if gram_pays_off else None

        def times_K(D: Array) -> Array:
            if K is None:
                own = layer.adjoint_W(layer.change(D, a_prev), a_prev, samples.weights)
                return samples.sum(own)
            return layer.times_gram(D, K)

        D, _, record = _step_W(regularizer, rule, W, G, c, times_K)
        return W + D, add_product(phi, D, a_prev, samples), record
    ridge = regularizer.quadratic / c
    direction, scale = normalised(G + ridge * W, not rule.scalar)

    def some_units(p: Array, by_unit: Any, memory: Array) -> tuple[Array, Array, Step, Array]:
        direction, scale = by_unit
        image, squares = image_of(layer, direction, a_prev, samples, memory)
        kappa = _quotient(squares, direction, rule)
        step, record = _quadratic_step(rule, kappa, ridge, scale, direction, c)
        return p - layer.scale_units(image, step), step, record, image

    parts = unit_parts(layer, rule)
    p, step, record = walk_units(some_units, phi.p, (direction, scale), parts)
    return W - step * direction, p, record


def image_of(
    layer: Layer, direction: Array, a_prev: Array, samples: Samples, memory: Array
) -> tuple[Array, Array]:
    """A(direction, a_prev), in `memory`, and sum_i omega_i of its squares for each unit."""

    def body(weights: Array | None, _: Any, read: Any) -> tuple[Any, Folded]:
        image = layer.change(direction, read)
        return image, Folded(sum=layer.unit_squares(image, weights))

    image, folded = samples.at_once(a_prev).walk(body, memory, a_prev)
    return image, folded.sum


def unit_parts(layer: Layer, rule: StepRule) -> int:
    """The parts in which a W update takes a layer's units; one theta for all needs them all."""
    return 1 if rule.scalar else max(1, min(PARTS, layer.units // LEAST_UNITS))


def walk_units(
    body: Callable[[Array, Any, Array], tuple[Array, Array, Step, Array]],
    p: Array,
    by_unit: Any,
    parts: int,
) -> tuple[Array, Array, Step]:
    """body(p, by_unit, memory) -> (p, step, record, memory) for a part of the units at a time.

    Units are the columns of p and the rows of all else; `memory` is shaped like their part of p,
    and the only part of A(G, a_prev) that is ever held. NumPy takes all units at once.
    """
    n, empty = p.shape[-1], namespace(p).empty
    parts = parts if is_jax(p) else 1
    size = -(-n // parts)
    memory = empty((*p.shape[:-1], size), p.dtype)
    if parts == 1:
        return body(p, by_unit, memory)[:3]
    lax = load_jax().lax

    def advance(first: Array | int, carry: Any, size: int) -> Any:
        p, step, record, memory = carry
        cut = partial(lax.dynamic_slice_in_dim, start_index=first, slice_size=size)
        put = partial(lax.dynamic_update_slice_in_dim, start_index=first)
        own = trees.map(partial(cut, axis=0), by_unit)
        new_p, new_step, more, memory = body(cut(p, axis=-1), own, memory)
        return put(p, new_p, axis=-1), put(step, new_step, axis=0), record.joined(more), memory

    carry = (p, np.zeros((n, 1), p.dtype), Step.none(p.dtype), memory)
    whole, rest = divmod(n, size)
    p, step, record, _ = lax.fori_loop(
        0, whole, lambda k, carry: advance(k * size, carry, size), carry
    )
    if rest:
        smaller = empty((*p.shape[:-1], rest), p.dtype)
        p, step, record, _ = advance(whole * size, (p, step, record, smaller), rest)
    return p, step, record


def update_W_twice(
    regularizer: Regularizer, rule: VectorRule, phi: Phi, x: Array, samples: Samples, K: Array
) -> tuple[Array, Array, tuple[Step, Step]]:
    """The last backward and the first forward step on W_1: two steps on one quadratic.   (9, 11)

    Nothing else changes between them and the inputs never do, so with K = x^T x the second
    gradient is G + D K and p needs one product for both steps: two of the largest are saved.
    """
    times_K = partial(phi.layer.times_gram, K=K)
    W, c = phi.W, phi.c
    G = gradient_W(phi, x, samples)
    D_backward, DK, backward = _step_W(regularizer, rule, W, G, c, times_K)
    D_forward, _, forward = _step_W(regularizer, rule, W + D_backward, G + DK, c, times_K)
    D = D_backward + D_forward
    return W + D, add_product(phi, D, x, samples), (backward, forward)


def gradient_W(phi: Phi, a_prev: Array, samples: Samples) -> Array:
    """1/c of the gradient of phi in W."""

    def body(weights: Array | None, updated: Any, read: Any) -> tuple[Any, Folded]:
        p, z, u_over_rho, a_prev = read
        r = residual(p, phi.b, z, u_over_rho)
        return updated, Folded(sum=phi.layer.adjoint_W(r, a_prev, weights))

    return samples.walk(body, (), (phi.p, phi.z, phi.u_over_rho, a_prev))[1].sum


def add_product(phi: Phi, D: Array, a_prev: Array, samples: Samples) -> Array:
    """p + A(D, a_prev), block by block into p's own memory."""
    body = lambda _, p, a: (p + phi.layer.change(D, a), Folded())  # noqa: E731
    return samples.walk(body, phi.p, a_prev)[0]


def _step_W(
    regularizer: Regularizer,
    rule: VectorRule,
    W: Array,
    G: Array,
    c: Array,
    times_K: Callable[[Array], Array],
) -> tuple[Array, Array, Step]:
    """D of one W update, D K, and its record; G is 1/c of the gradient of phi, K the Gram matrix of
    a_prev, so that <D K, D> = sum_i omega_i |A(D, a_prev,i)|^2."""
    ridge = (regularizer.quadratic or 0) / c
    direction, scale = normalised(G + ridge * W, not rule.scalar)
    if regularizer.quadratic is None:
        # Where phi is flat the step is Omega's own, along W.
        direction = xp.where(scale > 0, direction, W)
    image = times_K(direction)
    kappa = _quotient(inner(image, direction), direction, rule)
    if regularizer.quadratic is not None:
        step, record = _quadratic_step(rule, kappa, ridge, scale, direction, c)
        return -step * direction, -step * image, record
    D, record = _prox_step(regularizer, rule, W, G, c, kappa, times_K)
    return D, times_K(D), record


def normalised(G: Array, by_row: bool) -> tuple[Array, Array]:
    """G and its scale apart, per row or for all: squares of tiny gradients would underflow."""
    axes = tuple(range(1, G.ndim)) if by_row else None
    scale = xp.max(xp.abs(G), axis=axes, keepdims=True)
    return G / xp.where(scale > 0, scale, 1), scale


def _quotient(squares: Array, direction: Array, rule: VectorRule) -> Array:
    """kappa = |A(D)|^2 / |D|^2 per row or for all, with a floor so that no theta vanishes.

    The floor is relative to the largest kappa of the units at hand, a part of the layer or all.
    """
    size = inner(direction, direction)
    if rule.scalar:
        squares, size = (xp.full_like(v, xp.sum(v)) for v in (squares, size))
    kappa = squares / xp.where(size > 0, size, 1)
    return xp.maximum(kappa, np.finfo(kappa.dtype).eps * xp.max(kappa))


def _quadratic_step(
    rule: VectorRule, kappa: Array, ridge: Array, scale: Array, direction: Array, c: Array
) -> tuple[Array, Step]:
    """The step length along `direction`, per row; the direction is exact, so one theta suffices."""
    if isinstance(rule, Backtracking):
        theta, trials, accepted = grow(kappa, rule.start / c, rule)
    else:
        theta, trials, accepted = kappa, np.zeros((), np.int32), np.ones((), bool)
    usable = accepted & (theta + ridge > 0)
    step = xp.where(usable, scale / xp.where(usable, theta + ridge, 1), 0)
    moved = step**2 * inner(direction, direction)
    return step, Step(xp.sum(moved), least(c * theta, moved), trials, failed(accepted))


def _prox_step(
    regularizer: Regularizer,
    rule: VectorRule,
    W: Array,
    G: Array,
    c: Array,
    kappa: Array,
    times_K: Callable[[Array], Array],
) -> tuple[Array, Step]:
    """Backtracking on theta, because D depends on it: D(theta) = prox(W - G/theta) - W.

    The closed-form rule starts every row at its kappa, the paper's rule at its own value, one for
    all rows. A row whose trials run out stays where it is.
    """
    floor = np.finfo(kappa.dtype).tiny
    start = xp.full_like(kappa, rule.start / c) if isinstance(rule, Backtracking) else kappa
    start = xp.maximum(start, floor)

    def trial(theta: Array) -> tuple[Array, Array, Array]:
        D = regularizer.prox(W - G / theta, 1 / (c * theta)) - W
        image = times_K(D)
        bent, size = inner(image, D), inner(D, D)
        # Equality is exact where the step stays in the cone of G: allow the rounding of both sides,
        # and that of W, whose difference D is.
        spread = theta * xp.sqrt(inner(W, W)) + xp.sqrt(inner(image, image))
        slack = 64 * np.finfo(D.dtype).eps * (theta * size + xp.sqrt(size) * spread)
        if rule.scalar:
            bent, size, slack = xp.sum(bent), xp.sum(size), xp.sum(slack)
        accepted = bent <= theta * size + slack
        return D, xp.broadcast_to(accepted, theta.shape), inner(D, D)

    def unfinished(carry: Any) -> Array:
        k, _, _, accepted, _ = carry
        return (k < rule.max_trials) & ~xp.all(accepted)

    def advance(carry: Any) -> Any:
        k, theta, _, accepted, _ = carry
        theta = xp.where(accepted, theta, theta * rule.growth)
        return (k + 1, theta, *trial(theta))

    first = (np.zeros((), np.int32), start, *trial(start))
    trials, theta, D, accepted, moved = repeat_while(unfinished, advance, first)
    D, moved = xp.where(accepted, D, 0), xp.where(accepted, moved, 0)
    return D, Step(xp.sum(moved), least(c * theta, moved), trials, failed(accepted))
