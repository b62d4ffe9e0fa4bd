"""Walks over the samples: by blocks, so that temporaries stay small enough for the caches, and
over devices, each of which holds its own rows.

Whatever is a sum, a least or a largest value over samples is taken through `Samples`: on a mesh it
is then taken over the devices too, and nothing else ever crosses between them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dladmm.engine import trees
from dladmm.engine.arrays import Array, is_jax, load_jax, namespace, xp
from dladmm.engine.sums import mass, total
from dladmm.engine.trees import STATIC

if TYPE_CHECKING:
    from jax.sharding import Mesh

# Rows per block: large enough for efficient products, small enough for the outer caches.
BLOCK_ROWS = 1500

# Numbers of an array that is read whole rather than by blocks, since the outer caches hold it.
CACHED = 2**22

AXIS = "data"  # the axis of a mesh that the samples are spread over


class Folded(NamedTuple):
    """What a walk accumulates over blocks: sums, least values and largest values, any pytrees."""

    sum: Any = ()
    least: Any = ()
    most: Any = ()

    def joined(self, other: Folded) -> Folded:
        """What two parts of the samples give together."""
        return Folded(
            trees.map(xp.add, self.sum, other.sum),
            trees.map(xp.minimum, self.least, other.least),
            trees.map(xp.maximum, self.most, other.most),
        )


Body = Callable[[Array | None, Any, Any], tuple[Any, Folded]]


@trees.register
@dataclass(frozen=True)
class Samples:
    """The sample weights (None: all 1), the number of equal blocks the rows are cut into, and the
    mesh they are spread over, if any: weights and blocks are then those of one device.

    `count` is the number of samples without padding; None: there is none.
    """

    weights: Array | None
    blocks: int = field(default=1, metadata=STATIC)
    mesh: Mesh | None = field(default=None, metadata=STATIC)
    count: int | None = field(default=None, metadata=STATIC)

    def walk(self, body: Body, updated: Any, read: Any) -> tuple[Any, Folded]:
        """body(weights, updated, read) -> (updated, folded) over every block of rows.

        `updated` is rewritten block by block, in place where its buffers may be; `read` is only
        read. Both are pytrees of arrays whose first axis runs over the samples.
        """
        updated, folded = self._walk_own(body, updated, read)
        return updated, Folded(
            self.sum(folded.sum), self.least(folded.least), self.most(folded.most)
        )

    def _walk_own(self, body: Body, updated: Any, read: Any) -> tuple[Any, Folded]:
        if self.blocks == 1:
            return body(self.weights, updated, read)
        first = next(trees.leaves((updated, read)))
        rows = first.shape[0] // self.blocks
        walk = _compiled_walk if is_jax(first) else _eager_walk
        return walk(body, updated, (self.weights, read), self.blocks, rows)

    def at_once(self, v: Array) -> Samples:
        """The same samples, in one block if the caches hold all of `v`."""
        size = sum(part.size for part in trees.leaves(v))
        return replace(self, blocks=1) if size <= CACHED else self

    def sum(self, parts: Any) -> Any:
        """The sum over devices of what each has summed over its own rows."""
        return parts if self.mesh is None else load_jax().lax.psum(parts, AXIS)

    def least(self, parts: Any) -> Any:
        return parts if self.mesh is None else load_jax().lax.pmin(parts, AXIS)

    def most(self, parts: Any) -> Any:
        return parts if self.mesh is None else load_jax().lax.pmax(parts, AXIS)

    def gathered(self, rows: Array) -> Array:
        """The rows of every device, one device after the other."""
        return rows if self.mesh is None else load_jax().lax.all_gather(rows, AXIS, tiled=True)

    def total(self, v: Array) -> Array:
        """sum_i omega_i v_i over all samples and everything else."""
        return self.sum(total(v, self.weights))

    def mass(self, v: Array) -> Array:
        """sum_i omega_i over all samples, of whose rows `v` has one each."""
        return self.sum(mass(v.shape[0], self.weights, v.dtype))

    def places(self, rows: Array) -> Array:
        """The place of each of this device's rows among all samples."""
        n = rows.shape[0]
        own = namespace(rows).arange(n)
        return own if self.mesh is None else own + n * load_jax().lax.axis_index(AXIS)


def probe(
    places: Array, weights: Array | None, every: int, dtype: Any
) -> tuple[Array | None, Array | None]:
    """Rows of a block whose place among all samples is a multiple of `every`; their weights.

    The choice depends on neither blocks nor devices. A block may hold one row less than the next:
    a row beyond its end has weight zero. None where every row is taken.
    """
    if every == 1:
        return None, weights
    rows = places.shape[0]
    chosen = -places[0] % every + every * namespace(places).arange(-(-rows // every))
    inside = chosen < rows
    chosen = xp.minimum(chosen, rows - 1)
    few = inside.astype(dtype)
    return chosen, few if weights is None else few * weights[chosen]


def _compiled_walk(body: Body, updated: Any, others: Any, blocks: int, rows: int) -> Any:
    """A loop of the program, whose blocks are written to where they lie."""
    jax = load_jax()
    jnp, lax = jax.numpy, jax.lax

    def at(i: Array | int, updated: Any) -> tuple[Any, Folded]:
        cut = partial(lax.dynamic_slice_in_dim, start_index=i * rows, slice_size=rows)
        weights, read = trees.map(cut, others)
        return body(weights, trees.map(cut, updated), read)

    def advance(i: Array, carry: tuple[Any, Folded]) -> tuple[Any, Folded]:
        updated, folded = carry
        new, part = at(i, updated)
        put = partial(lax.dynamic_update_slice_in_dim, start_index=i * rows, axis=0)
        return trees.map(put, updated, new), folded.joined(part)

    shapes = jax.eval_shape(lambda: at(0, updated)[1])
    full = lambda value, tree: trees.map(lambda v: jnp.full(v.shape, value, v.dtype), tree)  # noqa: E731
    start = Folded(full(0, shapes.sum), full(jnp.inf, shapes.least), full(0, shapes.most))
    return lax.fori_loop(0, blocks, advance, (updated, start))


def _eager_walk(body: Body, updated: Any, others: Any, blocks: int, rows: int) -> Any:
    """The same, written to memory of its own: nothing says that the old rows are not needed."""
    written, folded = trees.map(np.empty_like, updated), None
    for i in range(blocks):
        cut = partial(_rows, slice(i * rows, (i + 1) * rows))
        weights, read = trees.map(cut, others)
        new, part = body(weights, trees.map(cut, updated), read)
        trees.map(np.copyto, trees.map(cut, written), new)
        folded = part if folded is None else folded.joined(part)
    return written, folded


def _rows(which: slice, v: np.ndarray) -> np.ndarray:
    return v[which]


def blocks_for(n_samples: int) -> tuple[int, int]:
    """(blocks, rows to pad) for this many samples: padding rows get weight zero.

    Weights have their price in every sum, so a few more blocks are taken where they divide evenly.
    """
    least = max(1, -(-n_samples // BLOCK_ROWS))
    for blocks in range(least, least + least // 2 + 1):
        if n_samples % blocks == 0:
            return blocks, 0
    rows = -(-n_samples // least)
    return least, least * rows - n_samples
