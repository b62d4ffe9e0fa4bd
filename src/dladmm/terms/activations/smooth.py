"""Any smooth elementwise function as an activation, by a look-up table and Newton."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dladmm.terms.activations.base import Activation, best


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
        return best([(z, cost(z)) for z in polished])

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
