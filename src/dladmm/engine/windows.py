"""Windows that slide over the axes between samples and channels: what convolution and pooling read.

a is (N, *axes, channels). Rows of windows are k times as large as a, k the size of a window: who
makes them does so for a few samples at a time (`in_parts`).
"""

from collections.abc import Callable
from functools import reduce
from itertools import product
from typing import Any

import numpy as np

from dladmm.engine import trees
from dladmm.engine.arrays import Array, any_jax, is_jax, load_jax, xp

Shape = tuple[int, ...]
MANY_CHANNELS = 4  # from here on a copy of one place at a time is long enough


def window_rows(a: Array, window: Shape, strides: Shape, dilation: Shape) -> Array:
    """(N, *positions, prod(window) channels): the window at every position as one row, place after
    place, the channels of a place side by side."""
    if a.shape[-1] >= MANY_CHANNELS:
        places = window_places(a.shape[1:-1], window, strides, dilation)
        return _side_by_side([a[place] for place in places])
    # The places of one axis after those of another: what is copied at once is longer.
    for axis, *one in _from_the_last_axis(window, strides, dilation):
        cuts = axis_cuts(a.shape[axis], *one)
        a = _side_by_side([a[_at(axis, cut)] for cut in cuts])
    return a


def added_windows(
    rows: Array, axes: Shape, window: Shape, strides: Shape, dilation: Shape
) -> Array:
    """The adjoint of `window_rows`: every place of every window added to where it was read."""
    for axis, *one in reversed(_from_the_last_axis(window, strides, dilation)):
        cuts = axis_cuts(axes[axis - 1], *one)
        channels = rows.shape[-1] // len(cuts)
        parts = [rows[..., k * channels : (k + 1) * channels] for k in range(len(cuts))]
        rows = _added(parts, axis, axes[axis - 1], cuts)
    return rows


def _from_the_last_axis(
    window: Shape, strides: Shape, dilation: Shape
) -> list[tuple[int, int, int, int]]:
    """(axis of a, window, stride, dilation) for each axis, the last one first."""
    settings = zip(window, strides, dilation, strict=True)
    return [(axis, *one) for axis, one in enumerate(settings, 1)][::-1]


def _side_by_side(parts: list[Array]) -> Array:
    return parts[0] if len(parts) == 1 else xp.concatenate(parts, axis=-1)


def _added(parts: list[Array], axis: int, n: int, cuts: list[slice]) -> Array:
    """The sum of parts, each put where its cut is along an axis of n."""
    shape = list(parts[0].shape)
    if not is_jax(parts[0]):
        shape[axis] = n
        added = np.zeros(shape, parts[0].dtype)
        for cut, part in zip(cuts, parts, strict=True):
            added[_at(axis, cut)] += part
        return added
    lax, zero = load_jax().lax, np.zeros((), parts[0].dtype)
    padded = []
    for cut, part in zip(cuts, parts, strict=True):
        # Zeros before, between the strides, and behind.
        padding = [(0, 0, 0)] * len(shape)
        behind = n - cut.start - (shape[axis] - 1) * cut.step - 1
        padding[axis] = (cut.start, behind, cut.step - 1)
        padded.append(lax.pad(part, zero, padding))
    return reduce(xp.add, padded)


def _at(axis: int, cut: slice) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, cut)


def axis_cuts(n: int, size: int, stride: int, dilation: int) -> list[slice]:
    """For each place of a window along an axis of n, where it is at all positions."""
    (count,) = positions((n,), (size,), (stride,), (dilation,))
    starts = (k * dilation for k in range(size))
    return [slice(start, start + (count - 1) * stride + 1, stride) for start in starts]


def window_places(axes: Shape, window: Shape, strides: Shape, dilation: Shape) -> list[Any]:
    """For each place of a window, where it is at all positions: an index of a."""
    cuts = [axis_cuts(*one) for one in zip(axes, window, strides, dilation, strict=True)]
    return [(slice(None), *place) for place in product(*cuts)]


def positions(axes: Shape, window: Shape, strides: Shape, dilation: Shape) -> Shape:
    """How often a window fits along each axis."""
    reach = [(k - 1) * d for k, d in zip(window, dilation, strict=True)]
    pairs = zip(axes, reach, strides, strict=True)
    return tuple((axis - far - 1) // step + 1 for axis, far, step in pairs)


def zero_padded(a: Array, padding: tuple[tuple[int, int], ...]) -> Array:
    """Zeros around the axes between samples and channels."""
    if not any(map(any, padding)):
        return a
    return xp.pad(a, ((0, 0), *padding, (0, 0)))


def cropped(a: Array, padding: tuple[tuple[int, int], ...]) -> Array:
    """The adjoint of `zero_padded`."""
    pairs = zip(a.shape[1:-1], padding, strict=True)
    cuts = (slice(before, n - after) for n, (before, after) in pairs)
    return a[(slice(None), *cuts)]


def in_parts(function: Callable[..., Any], size: int, *given: Any, add: bool = False) -> Any:
    """function(*given), of trees of rows, by parts of `size` samples at most: what it computes on
    the way stays in the caches. Its result has a row for each sample, or is a sum to `add`."""
    n = next(trees.leaves(given)).shape[0]
    if n <= size:
        return function(*given)
    size = _even_size(n, size)
    count, rest = divmod(n, size)
    cut = lambda part: trees.map(lambda v: v[part], given)  # noqa: E731
    if any_jax(given):
        whole = cut(slice(0, count * size)) if rest else given
        found = [_compiled_parts(function, whole, count, add)]
    else:
        found = [function(*cut(slice(k * size, (k + 1) * size))) for k in range(count)]
    if rest:
        found.append(function(*cut(slice(count * size, n))))
    if add:
        return reduce(lambda one, two: trees.map(xp.add, one, two), found)
    return found[0] if len(found) == 1 else trees.map(lambda *v: xp.concatenate(v), *found)


def _even_size(n: int, most: int) -> int:
    """The largest divisor of n up to `most`; `most` itself where that is less than half of it."""
    size = next(size for size in range(most, 0, -1) if n % size == 0)
    return size if 2 * size >= most else most


def _compiled_parts(function: Callable[..., Any], whole: Any, count: int, add: bool) -> Any:
    jax = load_jax()
    parts = trees.map(lambda v: v.reshape(count, -1, *v.shape[1:]), whole)
    if not add:
        found = jax.lax.map(lambda part: function(*part), parts)
        return trees.map(lambda v: v.reshape(-1, *v.shape[2:]), found)
    one = jax.eval_shape(lambda: function(*trees.map(lambda v: v[0], parts)))
    zeros = trees.map(lambda v: jax.numpy.zeros(v.shape, v.dtype), one)
    added = lambda total, part: (trees.map(xp.add, total, function(*part)), None)  # noqa: E731
    return jax.lax.scan(added, zeros, parts)[0]
