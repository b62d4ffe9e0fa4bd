"""Walks over the samples: by blocks, so that temporaries stay small enough for the caches, and
over devices, each of which holds its own rows.

Whatever is a sum, a least or a largest value over samples is taken through `Samples`: on a mesh it
is then taken over the devices too, and nothing else ever crosses between them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.sharding import Mesh

from dladmm.terms.sums import mass, total

# Rows per block: large enough for efficient products, small enough for the outer caches.
BLOCK_ROWS = 1500

# Numbers of an array that is read whole rather than by blocks, since the outer caches hold it.
CACHED = 2**22

STATIC = {"static": True}  # of a field: what a program is compiled for, not its data
AXIS = "data"  # the axis of a mesh that the samples are spread over


class Folded(NamedTuple):
    """What a walk accumulates over blocks: sums, least values and largest values, any pytrees."""

    sum: Any = ()
    least: Any = ()
    most: Any = ()


Body = Callable[[Array | None, Any, Any], tuple[Any, Folded]]


@jax.tree_util.register_dataclass
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
        rows = jax.tree.leaves((updated, read))[0].shape[0] // self.blocks

        def block(tree: Any, i: Array | int) -> Any:
            cut = partial(jax.lax.dynamic_slice_in_dim, start_index=i * rows, slice_size=rows)
            return jax.tree.map(cut, tree)

        def advance(i: Array, carry: tuple[Any, Folded]) -> tuple[Any, Folded]:
            updated, folded = carry
            new, part = body(*block((self.weights, updated, read), i))
            put = partial(jax.lax.dynamic_update_slice_in_dim, start_index=i * rows, axis=0)
            updated = jax.tree.map(put, updated, new)
            return updated, Folded(
                jax.tree.map(jnp.add, folded.sum, part.sum),
                jax.tree.map(jnp.minimum, folded.least, part.least),
                jax.tree.map(jnp.maximum, folded.most, part.most),
            )

        shapes = jax.eval_shape(lambda: body(*block((self.weights, updated, read), 0))[1])
        zeros = partial(jax.tree.map, lambda v: jnp.zeros(v.shape, v.dtype))
        infinite = partial(jax.tree.map, lambda v: jnp.full(v.shape, jnp.inf, v.dtype))
        start = Folded(zeros(shapes.sum), infinite(shapes.least), zeros(shapes.most))
        return jax.lax.fori_loop(0, self.blocks, advance, (updated, start))

    def at_once(self, v: Array) -> Samples:
        """The same samples, in one block if the caches hold all of `v`."""
        return replace(self, blocks=1) if v.size <= CACHED else self

    def sum(self, parts: Any) -> Any:
        """The sum over devices of what each has summed over its own rows."""
        return parts if self.mesh is None else jax.lax.psum(parts, AXIS)

    def least(self, parts: Any) -> Any:
        return parts if self.mesh is None else jax.lax.pmin(parts, AXIS)

    def most(self, parts: Any) -> Any:
        return parts if self.mesh is None else jax.lax.pmax(parts, AXIS)

    def gathered(self, rows: Array) -> Array:
        """The rows of every device, one device after the other."""
        return rows if self.mesh is None else jax.lax.all_gather(rows, AXIS, tiled=True)

    def total(self, v: Array) -> Array:
        """sum_i omega_i v_i over all samples and everything else."""
        return self.sum(total(v, self.weights))

    def mass(self, v: Array) -> Array:
        """sum_i omega_i over all samples, of whose rows `v` has one each."""
        return self.sum(mass(v.shape[0], self.weights, v.dtype))

    def first_row(self, rows: int) -> Array | int:
        """The place among all samples of the first of this device's `rows`."""
        return 0 if self.mesh is None else rows * jax.lax.axis_index(AXIS)


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
