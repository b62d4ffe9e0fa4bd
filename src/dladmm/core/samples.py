"""Walks over the samples by blocks, so that temporaries stay small enough for the caches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

# Rows per block: large enough for efficient products, small enough for the outer caches.
BLOCK_ROWS = 2048


class Folded(NamedTuple):
    """What a walk accumulates over blocks: sums, least values and largest values, any pytrees."""

    sum: Any = ()
    least: Any = ()
    most: Any = ()


Body = Callable[[Array | None, Any, Any], tuple[Any, Folded]]


@partial(jax.tree_util.register_dataclass, data_fields=["weights"], meta_fields=["blocks"])
@dataclass(frozen=True)
class Samples:
    """The sample weights (None: all 1) and the number of equal blocks the rows are cut into."""

    weights: Array | None
    blocks: int = 1

    def walk(self, body: Body, updated: Any, read: Any) -> tuple[Any, Folded]:
        """body(weights, updated, read) -> (updated, folded) over every block of rows.

        `updated` is rewritten block by block, in place where its buffers may be; `read` is only
        read. Both are pytrees of arrays whose first axis runs over the samples.
        """
        if self.blocks == 1:
            return body(self.weights, updated, read)
        rows = jax.tree.leaves((updated, read))[0].shape[0] // self.blocks

        def block(tree: Any, i: Array | int) -> Any:
            return jax.tree.map(
                lambda v: jax.lax.dynamic_slice_in_dim(v, i * rows, rows, axis=0), tree
            )

        def advance(i: Array, carry: tuple[Any, Folded]) -> tuple[Any, Folded]:
            updated, folded = carry
            new, part = body(*block((self.weights, updated, read), i))
            updated = jax.tree.map(
                lambda whole, piece: jax.lax.dynamic_update_slice_in_dim(
                    whole, piece, i * rows, axis=0
                ),
                updated,
                new,
            )
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


def blocks_for(n_samples: int) -> tuple[int, int]:
    """(blocks, rows to pad) for this many samples: padding rows get weight zero."""
    blocks = max(1, -(-n_samples // BLOCK_ROWS))
    rows = -(-n_samples // blocks)
    return blocks, blocks * rows - n_samples
