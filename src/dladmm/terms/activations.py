"""Activations: f and the global argmin_z of its subproblem, side by side.

Every activation solves, elementwise and globally (equations 4 and 14 of the paper, where both
terms carry the weight nu/2 and so the weight drops out),

    argmin_z (z - m)^2 + (f(z) - a)^2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dladmm.terms.registry import Registry

INF = float("inf")


@dataclass(frozen=True)
class Activation:
    """The contract: f, its argmin_z, and its one-sided slopes for the subgradient."""

    @property
    def continuous(self) -> bool:
        """Assumption 1 of the paper asks for a continuous f; the certificate says if it is."""
        return True

    def __call__(self, z: Array) -> Array:
        """f(z), elementwise."""
        raise TypeError(f"{type(self).__name__} does not define f")

    def argmin_z(self, m: Array, a: Array) -> Array:
        """Global argmin_z (z - m)^2 + (f(z) - a)^2, elementwise."""
        raise TypeError(f"{type(self).__name__} does not define argmin_z")

    def slopes(self, z: Array) -> tuple[Array, Array]:
        """The left and the right derivative of f at z, elementwise."""
        raise TypeError(f"{type(self).__name__} does not define slopes")


def _best(candidates: list[tuple[Array, Array]]) -> Array:
    """The z of the (z, cost) pair with the lowest cost; ties go to the earlier pair."""
    return reduce(
        lambda best, new: (
            jnp.where(new[1] < best[1], new[0], best[0]),
            jnp.minimum(new[1], best[1]),
        ),
        candidates,
    )[0]


@dataclass(frozen=True)
class PiecewiseLinear(Activation):
    """f(z) = slopes[i] z + offsets[i] for knots[i-1] <= z <= knots[i], continuous.

    One candidate per piece: the piece's own minimiser (m + s (a - c)) / (1 + s^2), clamped to the
    piece. Ties go to the leftmost piece.
    """

    @property
    def knots(self) -> tuple[float, ...]:
        return ()

    @property
    def pieces(self) -> tuple[tuple[float, float], ...]:
        """(slope, offset) of each piece, from left to right; one more than there are knots."""
        return ((1.0, 0.0),)

    def _intervals(self) -> list[tuple[float, float, float, float]]:
        edges = (-INF, *self.knots, INF)
        return [(s, c, edges[i], edges[i + 1]) for i, (s, c) in enumerate(self.pieces)]

    def __call__(self, z: Array) -> Array:
        value = self.pieces[0][0] * z + self.pieces[0][1]
        for knot, (s, c) in zip(self.knots, self.pieces[1:], strict=True):
            value = jnp.where(z > knot, s * z + c, value)
        return value

    def argmin_z(self, m: Array, a: Array) -> Array:
        candidates = []
        for s, c, low, high in self._intervals():
            z = jnp.clip((m + s * (a - c)) / (1 + s * s), low, high)
            candidates.append((z, (z - m) ** 2 + (s * z + c - a) ** 2))
        return _best(candidates)

    def slopes(self, z: Array) -> tuple[Array, Array]:
        left = right = jnp.full_like(z, self.pieces[0][0])
        for knot, (s, _) in zip(self.knots, self.pieces[1:], strict=True):
            left = jnp.where(z > knot, s, left)
            right = jnp.where(z >= knot, s, right)
        return left, right


@dataclass(frozen=True)
class Identity(PiecewiseLinear):
    """f(z) = z."""


@dataclass(frozen=True)
class LeakyReLU(PiecewiseLinear):
    """f(z) = max(z, 0) + slope min(z, 0)."""

    slope: float = 0.01

    @property
    def knots(self) -> tuple[float, ...]:
        return (0.0,)

    @property
    def pieces(self) -> tuple[tuple[float, float], ...]:
        return ((self.slope, 0.0), (1.0, 0.0))


@jax.custom_jvp
def _relu(z: Array) -> Array:
    # A zero of its own: one that several sums share would be stored as an array of zeros.
    z, zero = jax.lax.optimization_barrier((z, jnp.zeros((), z.dtype)))
    return jnp.maximum(z, zero)


@_relu.defjvp
def _relu_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (z,), (dz,) = primals, tangents
    return _relu(z), jnp.where(z > 0, dz, 0)


@dataclass(frozen=True)
class ReLU(LeakyReLU):
    """f(z) = max(z, 0). Candidates min(m, 0) and max((m + a)/2, 0); ties go to z <= 0."""

    slope: float = 0.0

    def __call__(self, z: Array) -> Array:
        return _relu(z)


@dataclass(frozen=True)
class HardTanh(PiecewiseLinear):
    """f(z) = clip(z, -1, 1)."""

    @property
    def knots(self) -> tuple[float, ...]:
        return (-1.0, 1.0)

    @property
    def pieces(self) -> tuple[tuple[float, float], ...]:
        return ((0.0, -1.0), (1.0, 0.0), (0.0, 1.0))


@dataclass(frozen=True)
class HardSigmoid(PiecewiseLinear):
    """f(z) = clip(z/6 + 1/2, 0, 1)."""

    @property
    def knots(self) -> tuple[float, ...]:
        return (-3.0, 3.0)

    @property
    def pieces(self) -> tuple[tuple[float, float], ...]:
        return ((0.0, 0.0), (1 / 6, 0.5), (0.0, 1.0))


@dataclass(frozen=True)
class ReLU6(PiecewiseLinear):
    """f(z) = clip(z, 0, 6)."""

    @property
    def knots(self) -> tuple[float, ...]:
        return (0.0, 6.0)

    @property
    def pieces(self) -> tuple[tuple[float, float], ...]:
        return ((0.0, 0.0), (1.0, 0.0), (0.0, 6.0))


@dataclass(frozen=True)
class PiecewiseConstant(Activation):
    """f(z) = levels[i] for knots[i-1] <= z < knots[i]: no gradient method can train it as it is.

    One candidate per level: m clamped strictly inside the level's interval.
    """

    @property
    def continuous(self) -> bool:
        return False

    @property
    def knots(self) -> tuple[float, ...]:
        return (0.0,)

    @property
    def levels(self) -> tuple[float, ...]:
        return (0.0, 1.0)

    def __call__(self, z: Array) -> Array:
        value = jnp.full_like(z, self.levels[0])
        for knot, level in zip(self.knots, self.levels[1:], strict=True):
            value = jnp.where(z >= knot, level, value)
        return value

    def argmin_z(self, m: Array, a: Array) -> Array:
        edges = (-INF, *self.knots, INF)
        candidates = []
        for level, low, high in zip(self.levels, edges, edges[1:], strict=False):
            z = jnp.clip(m, low, _just_below(high, m.dtype))
            candidates.append((z, (z - m) ** 2 + (level - a) ** 2))
        return _best(candidates)

    def slopes(self, z: Array) -> tuple[Array, Array]:
        return jnp.zeros_like(z), jnp.zeros_like(z)


def _just_below(knot: float, dtype: jnp.dtype) -> float:
    """The largest number of this dtype below `knot` that no compiler flushes to zero."""
    if knot == INF:
        return INF
    kind = np.dtype(dtype).type
    below = np.nextafter(kind(knot), kind(-INF))
    return float(below if knot != 0 else -np.finfo(dtype).tiny)


@dataclass(frozen=True)
class Step(PiecewiseConstant):
    """f(z) = 1 for z >= 0, else 0."""


@dataclass(frozen=True)
class Sign(PiecewiseConstant):
    """f(z) = 1 for z >= 0, else -1."""

    @property
    def levels(self) -> tuple[float, ...]:
        return (-1.0, 1.0)


@dataclass(frozen=True)
class QuantizedReLU(PiecewiseConstant):
    """f(z) = step * clip(floor(z/step + 1/2), 0, n_levels - 1): ReLU rounded to a few levels."""

    step: float = 0.5
    n_levels: int = 5

    @property
    def knots(self) -> tuple[float, ...]:
        return tuple(self.step * (i - 0.5) for i in range(1, self.n_levels))

    @property
    def levels(self) -> tuple[float, ...]:
        return tuple(self.step * i for i in range(self.n_levels))


@dataclass(frozen=True)
class Smooth(Activation):
    """Any smooth elementwise function, by a look-up table (as the paper recommends) and Newton.

    The table holds the minimiser for points (m, a); the lowest and the highest entry around a
    query point lie in the basins that can hold its global minimiser. Both, and m itself, are
    polished by a safeguarded Newton method and the best one is returned. That is the global
    minimiser for functions that bend a few times, as all usual activations; one with many minima
    (sin) can be missed where the table is coarse, from |m| or |a| of about 50 on.
    """

    function: Callable[[Array], Array] = jnp.tanh
    name: str = "smooth"

    def __call__(self, z: Array) -> Array:
        return self.function(z)

    def _derivative(self, z: Array) -> Array:
        return jax.jvp(self.function, (z,), (jnp.ones_like(z),))[1]

    def argmin_z(self, m: Array, a: Array) -> Array:
        starts = _basins(self.function, m, a)
        cost = lambda z: (z - m) ** 2 + (self.function(z) - a) ** 2  # noqa: E731
        polished = [self._newton(m, a, z) for z in (*starts, m)]
        return _best([(z, cost(z)) for z in polished])

    def _newton(self, m: Array, a: Array, z: Array, max_iter: int = 60) -> Array:
        """A local minimiser from the start z; a step that does not descend is halved, not taken."""
        tol = 4 * np.finfo(m.dtype).eps

        def model(z: Array) -> tuple[Array, Array, Array]:
            f, slope = self.function(z), self._derivative(z)
            bend = jax.jvp(self._derivative, (z,), (jnp.ones_like(z),))[1]
            gradient = (z - m) + (f - a) * slope
            gauss_newton = 1 + slope**2
            newton = gauss_newton + (f - a) * bend
            # Where two minima merge the curvature vanishes; a step too long is shortened below.
            curvature = jnp.maximum(jnp.abs(newton), 1e-4 * gauss_newton)
            return (z - m) ** 2 + (f - a) ** 2, gradient, -gradient / curvature

        def unfinished(carry: Any) -> Array:
            k, z, _, direction, scale = carry
            moving = jnp.abs(direction) > tol * (1 + jnp.abs(z))
            return (k < max_iter) & jnp.any(moving & (scale > 1e-6))

        def advance(carry: Any) -> Any:
            k, z, cost, direction, scale = carry
            trial = z + scale * direction
            trial_cost, _, trial_direction = model(trial)
            better = trial_cost <= cost
            return (
                k + 1,
                jnp.where(better, trial, z),
                jnp.where(better, trial_cost, cost),
                jnp.where(better, trial_direction, direction),
                jnp.where(better, jnp.minimum(2 * scale, 1.0), scale / 4),
            )

        cost, _, direction = model(z)
        start = (jnp.zeros((), jnp.int32), z, cost, direction, jnp.ones_like(z))
        _, z, _, direction, _ = jax.lax.while_loop(unfinished, advance, start)
        # Costs agree to rounding before z does: a last small step is taken on the gradient alone.
        return jnp.where(jnp.abs(direction) < tol**0.5 * (1 + jnp.abs(z)), z + direction, z)

    def slopes(self, z: Array) -> tuple[Array, Array]:
        slope = self._derivative(z)
        return slope, slope


# The table's axes are sinh-spaced: fine around 0, where activations bend, and wide outside.
_TABLE_SIZE, _TABLE_REACH, _CURVE_SIZE = 97, 8.0, 6001


@lru_cache(maxsize=32)
def _basin_table(function: Callable[[Array], Array]) -> np.ndarray:
    """Minimisers over the (m, a) grid, by search over a dense sample of the curve (z, f(z))."""
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        curve = np.sinh(np.linspace(-_TABLE_REACH - 1, _TABLE_REACH + 1, _CURVE_SIZE))
        height = np.asarray(function(jnp.asarray(curve)))
    axis = np.sinh(np.linspace(-_TABLE_REACH, _TABLE_REACH, _TABLE_SIZE))
    from_a = (height[None, :] - axis[:, None]) ** 2
    rows = [curve[np.argmin((curve - m) ** 2 + from_a, axis=1)] for m in axis]
    return np.asarray(rows)


def _basins(function: Callable[[Array], Array], m: Array, a: Array) -> tuple[Array, Array]:
    """The lowest and the highest minimiser among the four table entries around (m, a)."""
    table = jnp.asarray(_basin_table(function), m.dtype)
    cell = 2 * _TABLE_REACH / (_TABLE_SIZE - 1)

    def index(value: Array) -> Array:
        position = (jnp.arcsinh(value) + _TABLE_REACH) / cell
        return jnp.clip(jnp.floor(position), 0, _TABLE_SIZE - 2).astype(jnp.int32)

    i, j = index(m), index(a)
    corners = [table[i + di, j + dj] for di in (0, 1) for dj in (0, 1)]
    return reduce(jnp.minimum, corners), reduce(jnp.maximum, corners)


activations: Registry[Activation] = Registry("activation", Activation, from_callable=Smooth)
activations.register("identity", Identity)
activations.register("relu", ReLU)
activations.register("leaky_relu", LeakyReLU)
activations.register("hard_tanh", HardTanh)
activations.register("hard_sigmoid", HardSigmoid)
activations.register("relu6", ReLU6)
activations.register("sigmoid", lambda: Smooth(jax.nn.sigmoid, "sigmoid"))
activations.register("tanh", lambda: Smooth(jnp.tanh, "tanh"))
activations.register("softplus", lambda: Smooth(jax.nn.softplus, "softplus"))
activations.register("elu", lambda: Smooth(jax.nn.elu, "elu"))
activations.register("sign", Sign)
activations.register("step", Step)
activations.register("quantized_relu", QuantizedReLU)
