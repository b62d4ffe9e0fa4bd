"""Any smooth elementwise function as an activation, by a look-up table and Newton."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from dladmm.engine.arrays import Array, load_jax, namespace, sigmoid, softplus, xp
from dladmm.engine.loops import repeat_while
from dladmm.terms.activations.base import Activation, best

Function = Callable[[Array], Array]


def tanh(z: Array) -> Array:
    return xp.tanh(z)


def elu(z: Array) -> Array:
    """z above 0, exp(z) - 1 below."""
    return xp.where(z > 0, z, xp.expm1(xp.minimum(z, 0)))


def _bell(z: Array) -> Array:
    """The slope of the sigmoid."""
    return sigmoid(z) * sigmoid(-z)


# Functions whose first and second derivatives are written down; those of others are JAX's business.
DERIVATIVES: dict[Function, tuple[Function, Function]] = {
    tanh: (lambda z: 1 - xp.tanh(z) ** 2, lambda z: -2 * xp.tanh(z) * (1 - xp.tanh(z) ** 2)),
    sigmoid: (_bell, lambda z: _bell(z) * (1 - 2 * sigmoid(z))),
    softplus: (sigmoid, _bell),
    elu: (
        lambda z: xp.exp(xp.minimum(z, 0)),
        lambda z: xp.where(z > 0, 0, xp.exp(xp.minimum(z, 0))),
    ),
}
_OWN = {function.__name__: function for function in DERIVATIVES}


@dataclass(frozen=True)
class Smooth(Activation):
    """Any smooth elementwise function, by a look-up table (as the paper recommends) and Newton.

    The table holds the minimiser for points (m, a); the lowest and the highest entry around a
    query point lie in the basins that can hold its global minimiser. Both, and m itself, are
    polished by a safeguarded Newton method and the best one is returned. That is the global
    minimiser for functions that bend a few times, as all usual activations; one with many minima
    (sin) can be missed where the table is coarse, from |m| or |a| of about 50 on.

    Parameters
    ----------
    function : callable
        f, elementwise, of arrays of JAX.
    name : str
        What messages call it.
    """

    function: Function = tanh
    name: str = "smooth"

    def __post_init__(self) -> None:
        # What NumPy and JAX call by a name that is known here is the same function.
        module = getattr(self.function, "__module__", None) or "numpy"
        name = getattr(self.function, "__name__", "")
        if module.split(".")[0] in ("jax", "numpy") and name in _OWN:
            object.__setattr__(self, "function", _OWN[name])

    @property
    def needs_jax(self) -> bool:
        return self.function not in DERIVATIVES

    def __call__(self, z: Array) -> Array:
        return self.function(z)

    def _derivative(self, z: Array) -> Array:
        if not self.needs_jax:
            return DERIVATIVES[self.function][0](z)
        return load_jax().jvp(self.function, (z,), (xp.ones_like(z),))[1]

    def _bend(self, z: Array) -> Array:
        if not self.needs_jax:
            return DERIVATIVES[self.function][1](z)
        return load_jax().jvp(self._derivative, (z,), (xp.ones_like(z),))[1]

    def argmin_z(self, m: Array, a: Array) -> Array:
        starts = _basins(self.function, m, a)
        cost = lambda z: (z - m) ** 2 + (self.function(z) - a) ** 2  # noqa: E731
        polished = [self._newton(m, a, z) for z in (*starts, m)]
        return best([(z, cost(z)) for z in polished])

    def _newton(self, m: Array, a: Array, z: Array, max_iter: int = 60) -> Array:
        """A local minimiser from the start z; a step that does not descend is halved, not taken."""
        near = (4 * np.finfo(m.dtype).eps) ** 0.5  # the next step's error is the square of it

        def model(z: Array) -> tuple[Array, Array, Array]:
            f, slope = self.function(z), self._derivative(z)
            gradient = (z - m) + (f - a) * slope
            gauss_newton = 1 + slope**2
            newton = gauss_newton + (f - a) * self._bend(z)
            # Where two minima merge the curvature vanishes; a step too long is shortened below.
            curvature = xp.maximum(xp.abs(newton), 1e-4 * gauss_newton)
            return (z - m) ** 2 + (f - a) ** 2, gradient, -gradient / curvature

        def unfinished(carry: Any) -> Array:
            k, z, _, direction, scale = carry
            moving = xp.abs(direction) > near * (1 + xp.abs(z))
            return (k < max_iter) & xp.any(moving & (scale > 1e-6))

        def advance(carry: Any) -> Any:
            k, z, cost, direction, scale = carry
            trial = z + scale * direction
            trial_cost, _, trial_direction = model(trial)
            better = trial_cost <= cost
            return (
                k + 1,
                xp.where(better, trial, z),
                xp.where(better, trial_cost, cost),
                xp.where(better, trial_direction, direction),
                xp.where(better, xp.minimum(2 * scale, 1.0), scale / 4),
            )

        cost, _, direction = model(z)
        start = (np.zeros((), np.int32), z, cost, direction, xp.ones_like(z))
        _, z, _, direction, _ = repeat_while(unfinished, advance, start)
        # Costs agree to rounding before z does: a last small step is taken on the gradient alone.
        return xp.where(xp.abs(direction) <= near * (1 + xp.abs(z)), z + direction, z)

    def slopes(self, z: Array) -> tuple[Array, Array]:
        slope = self._derivative(z)
        return slope, slope


# The table's axes are sinh-spaced: fine around 0, where activations bend, and wide outside.
_TABLE_SIZE, _TABLE_REACH, _CURVE_SIZE = 97, 8.0, 6001


@lru_cache(maxsize=32)
def _basin_table(function: Function) -> np.ndarray:
    """Minimisers over the (m, a) grid, by search over a dense sample of the curve (z, f(z))."""
    curve = np.sinh(np.linspace(-_TABLE_REACH - 1, _TABLE_REACH + 1, _CURVE_SIZE))
    if function in DERIVATIVES:
        height = np.asarray(function(curve))
    else:
        jax = load_jax()
        with jax.ensure_compile_time_eval(), jax.enable_x64(True):
            height = np.asarray(function(jax.numpy.asarray(curve)))
    axis = np.sinh(np.linspace(-_TABLE_REACH, _TABLE_REACH, _TABLE_SIZE))
    from_a = (height[None, :] - axis[:, None]) ** 2
    rows = [curve[np.argmin((curve - m) ** 2 + from_a, axis=1)] for m in axis]
    return np.asarray(rows)


def _basins(function: Function, m: Array, a: Array) -> tuple[Array, Array]:
    """The lowest and the highest minimiser among the four table entries around (m, a)."""
    table = namespace(m).asarray(_basin_table(function), m.dtype)
    cell = 2 * _TABLE_REACH / (_TABLE_SIZE - 1)

    def index(value: Array) -> Array:
        position = (xp.arcsinh(value) + _TABLE_REACH) / cell
        # A run that has just diverged asks for NaN, which is no place in a table.
        position = xp.where(position == position, position, 0.0)
        return xp.clip(xp.floor(position), 0, _TABLE_SIZE - 2).astype(np.int32)

    i, j = index(m), index(a)
    corners = [table[i + di, j + dj] for di in (0, 1) for dj in (0, 1)]
    return reduce(xp.minimum, corners), reduce(xp.maximum, corners)
