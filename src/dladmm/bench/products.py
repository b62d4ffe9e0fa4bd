"""The matrix products one dlADMM iteration cannot do without, and how long they alone take."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dladmm.engine.arrays import load_jax
from dladmm.engine.walks import Folded, Samples, blocks_for

load_jax()  # which knows our trees from here on


@dataclass(frozen=True)
class Product:
    """`count` products of an (m, k) with a (k, n) matrix; `why` names the update."""

    why: str
    m: int
    k: int
    n: int
    count: int

    @property
    def flops(self) -> int:
        return 2 * self.count * self.m * self.k * self.n


def iteration_products(n_samples: int, sizes: Sequence[int]) -> list[Product]:
    """The products of one iteration at its best schedule, without a proximal regulariser.

    Each W_l takes a gradient and an image, backward and forward; each a_l the same two through the
    layer above. W_1 needs one gradient and one image for both its steps, since x^T x is known.
    """
    N = n_samples
    with_gram = sizes[0] <= N
    products = []
    for l, (n_in, n_out) in enumerate(pairwise(sizes), 1):
        twice = 1 if l == 1 and with_gram else 2
        products.append(Product(f"W_{l} gradient  r^T a", n_out, N, n_in, twice))
        products.append(Product(f"W_{l} image     a G^T", N, n_in, n_out, twice))
        if l == 1 and with_gram:
            products.append(Product("W_1 curvature  G K", n_out, n_in, n_in, 2))
        if l > 1:
            products.append(Product(f"a_{l - 1} gradient  r W", N, n_out, n_in, 2))
            products.append(Product(f"a_{l - 1} image     g W^T", N, n_in, n_out, 2))
    return products


def floor_seconds(
    products: Sequence[Product], n_samples: int, repeats: int = 5
) -> dict[str, float]:
    """Seconds of each product, count included: jitted, into reused outputs, best of `repeats`.

    Products over samples are timed whole and by the blocks of the iteration; the faster counts.
    """
    rng = np.random.default_rng(0)
    blocks, padding = blocks_for(n_samples)
    seconds: dict[str, float] = {}
    for product in products:
        over_samples = n_samples in (product.m, product.k)
        tall = over_samples and product.k == n_samples  # r^T a: a sum over samples
        m, k = (size + padding * (size == n_samples) for size in (product.m, product.k))
        one, two = (
            jnp.asarray(rng.random(shape, dtype=np.float32))
            for shape in ((k, m) if tall else (m, k), (k, product.n))
        )
        out = jnp.zeros((m, product.n), jnp.float32)
        times = []
        for by_blocks in {1, blocks if over_samples else 1}:
            samples = Samples(None, by_blocks)
            out = _into(tall, samples, out, one, two).block_until_ready()
            for _ in range(repeats):
                began = time.perf_counter()
                out = _into(tall, samples, out, one, two).block_until_ready()
                times.append(time.perf_counter() - began)
        seconds[product.why] = product.count * min(times)
    return seconds


@partial(jax.jit, static_argnums=0, donate_argnums=2, keep_unused=True)
def _into(tall: bool, samples: Samples, out: Array, one: Array, two: Array) -> Array:
    """one @ two, or one^T @ two summed over samples, in the memory of `out`."""
    if tall:
        total = lambda _, none, read: (none, Folded(sum=read[0].T @ read[1]))  # noqa: E731
        return samples.walk(total, (), (one, two))[1].sum
    return samples.walk(lambda _, out, one: (one @ two, Folded()), out, one)[0]
