"""Max pooling: part of the activation before it, whose argmin_z it changes.

    a = f(max of z over a window),   f not falling, so that it is the max of f(z) too.

argmin_z sum_i (z_i - m_i)^2 + (f(max_i z_i) - a)^2 has a closed form where f is made of straight
pieces. With s the m of a window, sorted downwards, and t the maximum to be: the j largest are moved
to t and the others stay, s_{j+1} <= t <= s_j (for j = 1 the largest alone moves, up or down). On
each piece of f that is a parabola in t, cut off at both ends.
"""

from dataclasses import dataclass, field
from math import prod
from typing import ClassVar

import numpy as np

from dladmm.engine.arrays import Array, xp
from dladmm.engine.windows import zero_padded
from dladmm.terms.activations.base import Activation, best
from dladmm.terms.activations.piecewise import Identity, PiecewiseConstant, PiecewiseLinear
from dladmm.terms.registry import needs_jax

Shape = tuple[int, ...]


@dataclass(frozen=True)
class MaxPooled(Activation):
    """f of the largest z of every window; windows do not overlap, and what is left at the ends of
    an axis is not read."""

    pools: ClassVar[bool] = True

    f: Activation = field(default_factory=Identity)
    window: Shape = (2, 2)

    @property
    def continuous(self) -> bool:
        return bool(self.f.continuous)

    @property
    def uses_slope(self) -> bool:
        return bool(self.f.uses_slope)

    @property
    def needs_jax(self) -> bool:
        return needs_jax(self.f)

    @property
    def has_slopes(self) -> bool:
        return self.f.has_slopes

    @property
    def has_argmin(self) -> bool:
        return isinstance(self.f, PiecewiseLinear | PiecewiseConstant)

    def out_shape(self, shape: Shape) -> Shape:
        pairs = zip(shape[:-1], self.window, strict=True)
        return (*(n // k for n, k in pairs), shape[-1])

    def __call__(self, z: Array) -> Array:
        return self.f(self._largest(z))

    def times_slope(self, z: Array, g: Array) -> Array:
        windows = self._split(z)
        top = xp.max(windows, axis=self._inside, keepdims=True)
        is_top = windows == top
        passed = self.f.times_slope(top, g.reshape(top.shape))
        # Of several that are the largest, each has its share.
        share = passed / xp.sum(is_top, axis=self._inside, keepdims=True).astype(z.dtype)
        return self._joined(xp.where(is_top, share, 0), z, 0)

    def argmin_z(self, m: Array, a: Array) -> Array:
        windows = self._windows(m)
        s = -xp.sort(-windows, axis=-1)
        candidates = []
        for j in range(1, s.shape[-1] + 1):
            moving = s[..., :j]
            floor = s[..., j] if j < s.shape[-1] else np.asarray(-np.inf, m.dtype)
            ceiling = s[..., j - 1] if j > 1 else np.asarray(np.inf, m.dtype)
            for slope, offset, low, high in self.f.straight_pieces(m.dtype):  # type: ignore[attr-defined]
                least, most = xp.maximum(floor, low), xp.minimum(ceiling, high)
                t = (xp.sum(moving, axis=-1) + slope * (a - offset)) / (j + slope**2)
                t = xp.minimum(xp.maximum(t, least), most)
                moved = xp.sum((t[..., None] - moving) ** 2, axis=-1)
                cost = moved + (slope * t + offset - a) ** 2
                candidates.append((t, xp.where(least <= most, cost, np.inf)))
        t = best(candidates)[..., None]
        largest = xp.argmax(windows, axis=-1)[..., None] == np.arange(windows.shape[-1])
        z = xp.minimum(windows, t)
        return self._laid_out(xp.where(largest & (t > windows), t, z), m, m)

    def for_each_z(self, v: Array, z: Array) -> Array:
        return self._laid_out(xp.stack([v] * prod(self.window), axis=-1), z, 1)

    # The axes of a window behind those of its positions, and back; or as one axis, the last.

    @property
    def _inside(self) -> tuple[int, ...]:
        return tuple(2 + 2 * k for k in range(len(self.window)))

    def _split(self, z: Array) -> Array:
        """(N, positions, window, positions, window, ..., channels): what windows read of z."""
        counts = [n // k for n, k in zip(z.shape[1:-1], self.window, strict=True)]
        pairs = list(zip(counts, self.window, strict=True))
        read = z[(slice(None), *(slice(0, count * k) for count, k in pairs))]
        return read.reshape(z.shape[0], *(n for pair in pairs for n in pair), z.shape[-1])

    def _joined(self, split: Array, z: Array, elsewhere: Array | float) -> Array:
        """The inverse of `_split`, shaped as z; `elsewhere` where no window is."""
        read = [n * k for n, k in zip(split.shape[1:-1:2], self.window, strict=True)]
        v = split.reshape(z.shape[0], *read, z.shape[-1])
        if v.shape == z.shape:
            return v
        behind = [(0, total - used) for total, used in zip(z.shape[1:-1], read, strict=True)]
        inside = np.pad(np.ones((1, *read, 1), bool), [(0, 0), *behind, (0, 0)])
        return xp.where(inside, zero_padded(v, tuple(behind)), elsewhere)

    def _windows(self, z: Array) -> Array:
        """(N, *positions, channels, prod(window))."""
        split = self._split(z)
        outside = [axis for axis in range(split.ndim) if axis not in self._inside]
        split = split.transpose([*outside, *self._inside])
        return split.reshape(*split.shape[: len(outside)], -1)

    def _laid_out(self, windows: Array, z: Array, elsewhere: Array | float) -> Array:
        """The inverse of `_windows`, shaped as z; `elsewhere` where no window is."""
        n, *counts, channels, _ = windows.shape
        d = len(counts)
        order = [0, *(axis for k in range(d) for axis in (1 + k, d + 2 + k)), d + 1]
        split = windows.reshape(n, *counts, channels, *self.window).transpose(order)
        return self._joined(split, z, elsewhere)

    def _largest(self, z: Array) -> Array:
        return xp.max(self._split(z), axis=self._inside)
