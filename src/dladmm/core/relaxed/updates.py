"""The block updates: pure functions, arrays in, new arrays and a small record out.

phi's part for layer l is c/2 |r|^2 with r = p + b - z - [l = L] u/rho and c = rho for l = L, else
nu. Algorithms 2-5 of the paper look for a theta (tau) with phi(new) <= P(new; theta). phi is
quadratic, so with D = new - old that test is exactly

    c |A(D, a_prev)|^2 <= <theta D, D>     (W)       c |A(W, D)|^2 + nu |D|^2 <= <tau D, D>     (a)

and is always evaluated in this form: a difference of two values of phi would cancel.
Gradients are divided by c (W) or nu (a) first, so that nothing underflows at rho = nu = 1e-6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from dladmm.core.relaxed.step_rules import Backtracking, ClosedForm, VectorRule
from dladmm.core.relaxed.zl_solvers import zl_solvers
from dladmm.engine import trees
from dladmm.engine.arrays import Array, namespace, xp
from dladmm.engine.buffers import in_memory_of, stored_after
from dladmm.engine.loops import repeat_while
from dladmm.engine.sums import added, for_each, masked, squares_of_each, total, weighted
from dladmm.engine.trees import STATIC
from dladmm.engine.walks import Folded, Samples
from dladmm.terms.activations import Activation
from dladmm.terms.layers import Layer
from dladmm.terms.losses.base import Loss


@trees.register
@dataclass(frozen=True)
class Phi:
    """One layer's part of phi, c/2 |p + b - z - u/rho|^2 with p = A(W, a_prev).

    c = rho for the last layer, else nu; hidden layers have no dual. `places`: where among the
    layer's inputs the one is that a step moves. `mask`: see `Layer.mask`.
    """

    layer: Layer = field(metadata=STATIC)
    W: Array
    p: Array
    b: Array
    z: Array
    u_over_rho: Array | None
    c: Array
    places: tuple[int, ...] = field(default=(0,), metadata=STATIC)
    mask: Array | None = None

    def count(self, samples: Samples) -> Array:
        """How many positions of all samples count."""
        if self.mask is None:
            return self.layer.unit_count(samples.mass(self.p))
        return samples.total(self.mask)


class Step(NamedTuple):
    """A W or a update's record: sum of omega |D|^2, least theta or tau, trials, and failures."""

    moved: Array
    curvature: Array
    trials: Array
    exhausted: Array

    @classmethod
    def none(cls, dtype: np.dtype) -> Step:
        """No step at all."""
        zero = np.zeros((), np.int32)
        return cls(np.zeros((), dtype), np.full((), np.inf, dtype), zero, zero)

    def joined(self, other: Step) -> Step:
        """Two steps on different units as one."""
        return Step(
            self.moved + other.moved,
            xp.minimum(self.curvature, other.curvature),
            xp.maximum(self.trials, other.trials),
            xp.maximum(self.exhausted, other.exhausted),
        )


def residual(p: Array, b: Array, z: Array, u_over_rho: Array | None) -> Array:
    """r = p + b - z - u/rho; hidden layers have no dual."""
    r = p + b - z
    return r if u_over_rho is None else r - u_over_rho


def update_b(phi: Phi, samples: Samples) -> Array:
    """argmin_b c/2 sum_i omega_i |p_i + b - z_i - u_i/rho|^2, exactly.   (eqs. 6, 7, 12, 13)

    The paper's B is the curvature of one sample; over a batch it is c sum omega_i.
    """
    if not phi.layer.has_bias:
        return phi.b
    gap = phi.z - phi.p
    target = gap if phi.u_over_rho is None else gap + phi.u_over_rho
    own = phi.layer.unit_sum(target, samples.weights)
    return samples.sum(own) / phi.layer.unit_count(samples.mass(phi.p))


def update_z(activation: Activation, z: Array, p: Array, b: Array, a: Array) -> Array:
    """argmin_z nu/2 |z - p - b|^2 + nu/2 |a - f(z)|^2, globally; in the old z's memory.  (eq. 4)"""
    return in_memory_of(z, activation.argmin_z(p + b, a), b[..., 0])


def update_z_measured(
    activation: Activation, z: Array, p: Array, b: Array, a: Array, samples: Samples
) -> tuple[Array, Array]:
    """As `update_z`, and the square of the distance z goes.   (eq. 14)"""

    def body(weights: Array | None, updated: Any, read: Any) -> tuple[Any, Folded]:
        p, a = read
        z = activation.argmin_z(p + b, a)
        distance = total((z - updated) ** 2, weights)
        return stored_after(z, distance), Folded(sum=distance)

    z, folded = samples.walk(body, z, (p, a))
    return z, folded.sum


def update_zL(
    loss: Loss, solver: str, phi: Phi, u: Array, y: Array, samples: Samples
) -> tuple[Array, Array]:
    """argmin_z R(z; y) + <u, z - p - b> + rho/2 |z - p - b|^2; iterations used.   (eqs. 5, 15)"""

    def body(_: Array | None, z: Any, read: Any) -> tuple[Any, Folded]:
        p, u, y = read
        z, used = zl_solvers[solver](loss, p + phi.b, u, y, phi.c, z)
        return z, Folded(most=used)

    z, folded = samples.walk(body, phi.z, (phi.p, u, y))
    return z, folded.most


def update_a(
    rule: VectorRule,
    f: Activation,
    a: Array,
    z: Array,
    above: Sequence[Phi],
    nu: Array,
    samples: Samples,
    mask: Array | None = None,
) -> tuple[Array, tuple[Array, ...], Step]:
    """A majorised step on sum c/2 |A(W, a) + b - z_above - u/rho|^2 + nu/2 |a - f(z)|^2, the sum
    over all layers that read a.   (eqs. 3, 16)

    Per sample, tau = (sum c |A(W, g)|^2 + nu |g|^2) / |g|^2 with g the gradient, zero where a mask
    is: a stays there. Returns a, and with it the new products p = A(W, a) of the layers above,
    which come for free.
    """
    if rule.scalar:
        samples = replace(samples, blocks=1)  # one tau for all needs all samples at once

    def body(weights: Array | None, updated: Any, read: Any) -> tuple[Any, Folded]:
        (a, products), (z, targets, mask) = updated, read
        g = a - f(z)
        for phi, p, (z_above, u_over_rho) in zip(above, products, targets, strict=True):
            r = residual(p, phi.b, z_above, u_over_rho)
            g = phi.c / nu * phi.layer.pullback(phi.W, r, phi.places) + g
        g = masked(g, mask)
        images = [phi.layer.image(phi.W, g, phi.places) for phi in above]
        bends = [phi.c / nu * squares_of_each(v) for phi, v in zip(above, images, strict=True)]
        size, bent = squares_of_each(g), added(bends)
        step, tau, trials, exhausted = _step_a(rule, size, bent, nu, weights, samples)
        moved = total(step**2 * size, weights)
        moves = zip(products, images, strict=True)
        products = tuple(p - for_each(step, p) * image for p, image in moves)
        folded = Folded(moved, nu * tau, (trials, exhausted))
        return (a - for_each(step, a) * g, products), folded

    updated = (a, tuple(phi.p for phi in above))
    read = (z, tuple((phi.z, phi.u_over_rho) for phi in above), mask)
    (a, products), folded = samples.walk(body, updated, read)
    return a, products, Step(folded.sum, folded.least, *folded.most)


def _step_a(
    rule: VectorRule, size: Array, bent: Array, nu: Array, weights: Array | None, samples: Samples
) -> tuple[Array, Array, Array, Array]:
    """nu/tau per sample, the least tau/nu, trials and failures, from |g|^2 and c/nu |A(W, g)|^2."""
    none = np.zeros((), np.int32)
    if rule.scalar:
        size, bent = (xp.full_like(v, samples.total(v)) for v in (size, bent))
    # tau/nu = 1 + bent/size is at least 1, so a vanishing gradient needs no floor.
    kappa = 1 + bent / xp.where(size > 0, size, 1)
    if isinstance(rule, ClosedForm):
        moved = weighted(xp.broadcast_to(size, kappa.shape), weights)
        return 1 / kappa, least(kappa, moved), none, none
    tau, trials, accepted = grow(kappa, rule.start / nu, rule)
    return xp.where(accepted, 1 / tau, 0), xp.min(tau), trials, failed(accepted)


def grow(kappa: Array, start: Array, rule: Backtracking) -> tuple[Array, Array, Array]:
    """start * growth^k for the first k with start * growth^k >= kappa, one value for all rows."""
    needed = xp.max(kappa)

    def unfinished(carry: Any) -> Array:
        k, value = carry
        return (k < rule.max_trials) & (value < needed)

    start = namespace(kappa).asarray(start, kappa.dtype)
    k, value = repeat_while(
        unfinished,
        lambda carry: (carry[0] + 1, carry[1] * rule.growth),
        (np.zeros((), np.int32), start),
    )
    return xp.full_like(kappa, value), k, value >= needed


def least(theta: Array, moved: Array) -> Array:
    """The least theta among rows that moved: only those count for sufficient descent."""
    return xp.min(xp.where(moved > 0, theta, np.inf))


def failed(accepted: Array) -> Array:
    return xp.any(~accepted).astype(np.int32)
