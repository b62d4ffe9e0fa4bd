"""The matrix products one dlADMM iteration cannot do without, and how long they alone take."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dladmm.core.problem import Problem
from dladmm.engine.arrays import load_jax
from dladmm.engine.walks import Folded, Samples, blocks_for

load_jax()  # which knows our trees from here on


HELD = 2**26  # numbers of an operand, at most; of more samples a part is timed, and stands for all


@dataclass(frozen=True)
class Product:
    """`count` products of an (m, k) with a (k, n) matrix; `why` names the update.

    `at_once`: where one of m and k is rows of patches, how many samples' are made at once, and
    `positions`, the rows of a sample; None and 1 where they are the samples themselves.
    """

    why: str
    m: int
    k: int
    n: int
    count: int
    at_once: int | None = None
    positions: int = 1

    @property
    def flops(self) -> int:
        return 2 * self.count * self.m * self.k * self.n


def iteration_products(n_samples: int, sizes: Sequence[int]) -> list[Product]:
    """The products of one iteration of a dense network with these sizes."""
    return products_of(Problem.dense(sizes), n_samples)


def products_of(problem: Problem, n_samples: int) -> list[Product]:
    """The products of one iteration at its best schedule, without a proximal regulariser.

    Each W_l takes a gradient and an image, backward and forward; each a_l the same two through the
    layer above. W_1 needs one gradient and one image for both its steps, since x^T x is known.
    Rows are the samples, or their patches, which have to be made besides.
    """
    if not problem.is_chain:
        raise ValueError(
            "the products of an iteration are listed for layers one after the other alone; expected"
            " a network without recurrence and skips, such as lenet or cnn-small"
        )
    products = []
    for l, layer in enumerate(problem.layers, 1):
        rows, n_in, n_out = n_samples * layer.positions, layer.fan_in, layer.units
        product = partial(Product, at_once=layer.samples_at_once, positions=layer.positions)
        with_gram = l == 1 and n_in <= n_samples
        twice = 1 if with_gram else 2
        products.append(product(f"W_{l} gradient  r^T a", n_out, rows, n_in, twice))
        products.append(product(f"W_{l} image     a G^T", rows, n_in, n_out, twice))
        if with_gram:
            products.append(Product("W_1 curvature  G K", n_out, n_in, n_in, 2))
        if l > 1:
            products.append(product(f"a_{l - 1} gradient  r W", rows, n_out, n_in, 2))
            products.append(product(f"a_{l - 1} image     g W^T", rows, n_in, n_out, 2))
    return products


def floor_seconds(
    products: Sequence[Product], n_samples: int, repeats: int = 5
) -> dict[str, float]:
    """Seconds of each product, count included: jitted, into reused outputs, best of `repeats`.

    Products over samples are timed whole and by the blocks of the iteration; the faster counts.
    Those over patches are timed by as many as are made at once.
    """
    return {p.why: p.count * _best_seconds(p, n_samples, repeats) for p in products}


def _best_seconds(product: Product, n_samples: int, repeats: int) -> float:
    rng = np.random.default_rng(0)
    rows = n_samples * product.positions
    over_samples = rows in (product.m, product.k)
    tall = over_samples and product.k == rows  # r^T a: a sum over samples
    timed, ways = _ways(product, n_samples) if over_samples else (rows, {1})
    m, k = (timed if over_samples and size == rows else size for size in (product.m, product.k))
    one, two = (
        jnp.asarray(rng.random(shape, dtype=np.float32))
        for shape in ((k, m) if tall else (m, k), (k, product.n))
    )
    out = jnp.zeros((m, product.n), jnp.float32)
    times = []
    for by_blocks in ways:
        samples = Samples(None, by_blocks)
        out = _into(tall, samples, out, one, two).block_until_ready()
        for _ in range(repeats):
            began = time.perf_counter()
            out = _into(tall, samples, out, one, two).block_until_ready()
            times.append(time.perf_counter() - began)
    return min(times) * (rows / timed if over_samples and product.at_once else 1)


def _ways(product: Product, n_samples: int) -> tuple[int, set[int]]:
    """How many rows are timed, and in how many blocks, all ways that are tried."""
    if product.at_once is None:
        blocks, padding = blocks_for(n_samples)
        return n_samples + padding, {1, blocks}
    size = min(product.at_once, n_samples)
    wide = max({product.m, product.k, product.n} - {n_samples * product.positions})
    most = max(1, HELD // (size * product.positions * wide))
    blocks = min(n_samples // size, most)
    return blocks * size * product.positions, {blocks}


@partial(jax.jit, static_argnums=0, donate_argnums=2, keep_unused=True)
def _into(tall: bool, samples: Samples, out: Array, one: Array, two: Array) -> Array:
    """one @ two, or one^T @ two summed over samples, in the memory of `out`."""
    if tall:
        total = lambda _, none, read: (none, Folded(sum=read[0].T @ read[1]))  # noqa: E731
        return samples.walk(total, (), (one, two))[1].sum
    return samples.walk(lambda _, out, one: (one @ two, Folded()), out, one)[0]
