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


def window_rows(a: Array, window: Shape, strides: Shape, dilation: Shape) -> Array:
    """(N, *positions, prod(window) channels): the window at every position as one row, place after
    place, the channels of a place side by side."""
    places = window_places(a.shape[1:-1], window, strides, dilation)
    if len(places) == 1:
        return a[places[0]]
    if is_jax(a):
        return xp.concatenate([a[place] for place in places], axis=-1)
    shape = a[places[0]].shape
    rows = np.empty((*shape[:-1], len(places), shape[-1]), a.dtype)
    for k, place in enumerate(places):
        rows[..., k, :] = a[place]
    return rows.reshape(*shape[:-1], -1)


def added_windows(
    rows: Array, axes: Shape, window: Shape, strides: Shape, dilation: Shape
) -> Array:
    """The adjoint of `window_rows`: every place of every window added to where it was read."""
    places = window_places(axes, window, strides, dilation)
    channels = rows.shape[-1] // len(places)
    parts = [rows[..., k * channels : (k + 1) * channels] for k in range(len(places))]
    if not is_jax(rows):
        added = np.zeros((rows.shape[0], *axes, channels), rows.dtype)
        for place, part in zip(places, parts, strict=True):
            added[place] += part
        return added
    lax, zero = load_jax().lax, np.zeros((), rows.dtype)
    total = None
    for place, part in zip(places, parts, strict=True):
        # Back to where it was read: zeros before, between the strides, and behind.
        padding = [(0, 0, 0)]
        for axis, cut, count in zip(axes, place[1:], part.shape[1:-1], strict=True):
            step = cut.step
            padding.append((cut.start, axis - cut.start - (count - 1) * step - 1, step - 1))
        part = lax.pad(part, zero, [*padding, (0, 0, 0)])
        total = part if total is None else total + part
    return total


def window_places(axes: Shape, window: Shape, strides: Shape, dilation: Shape) -> list[Any]:
    """For each place of a window, where it is at all positions: an index of a."""
    counts = positions(axes, window, strides, dilation)
    found = []
    for place in product(*map(range, window)):
        cuts = [
            slice(k * d, k * d + (count - 1) * s + 1, s)
            for k, d, s, count in zip(place, dilation, strides, counts, strict=True)
        ]
        found.append((slice(None), *cuts))
    return found


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
