"""The data of a run as every method over all samples reads them."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import Array
from jax.sharding import Mesh

from dladmm.core.engine.devices import EVERYWHERE, ROWS, layout_of_own, place_rows, spread
from dladmm.core.engine.walks import Folded, Samples
from dladmm.core.problem import Problem

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray | None]  # x, y, sample weights


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Data:
    """Inputs, targets, samples (weights and blocks), and the constant Gram matrix of the inputs.

    `gram` is None where it would cost more than it saves.
    """

    x: Array
    y: Array
    samples: Samples
    gram: Array | None

    @property
    def weights(self) -> Array | None:
        return self.samples.weights


# Where each part lives on a mesh, for `spread`.
DATA: Any = Data(ROWS, ROWS, ROWS, EVERYWHERE)  # type: ignore[arg-type]


def padded_data(
    problem: Problem, arrays: Arrays, with_gram: bool, mesh: Mesh | None = None
) -> Data:
    """This process's rows on its devices, in blocks; repeated rows of weight zero fill the last."""
    x, y, weights = arrays
    blocks, rows, count = layout_of_own(x.shape[0], mesh)
    if rows * (1 if mesh is None else mesh.size) > count and weights is None:
        weights = np.ones(x.shape[0], x.dtype)
    placed = None if weights is None else place_rows(weights, rows, mesh, filling="constant")
    inputs, targets = place_rows(x, rows, mesh), place_rows(y, rows, mesh)
    return make_data(problem, inputs, targets, placed, blocks, with_gram, mesh, count)


def make_data(
    problem: Problem,
    x: Array,
    y: Array,
    weights: Array | None,
    blocks: int = 1,
    with_gram: bool = True,
    mesh: Mesh | None = None,
    count: int | None = None,
) -> Data:
    """The data of a run, the rows of each device a multiple of `blocks`, `count` without padding.

    The Gram matrix of x pays off as long as there are more samples than inputs.
    """
    data = Data(x, y, Samples(weights, blocks, mesh, count), None)
    pays_off = with_gram and x.shape[0] >= problem.layers[0].fan_in
    return replace(data, gram=_gram(problem, data)) if pays_off else data


@partial(jax.jit, static_argnames="problem")
def _gram(problem: Problem, data: Data) -> Array:
    layer = problem.layers[0]
    body = lambda weights, _, x: ((), Folded(sum=layer.gram(x, weights)))  # noqa: E731

    def own(data: Data) -> Array:
        # Without weights x is multiplied where it lies; blocks of it would be copied.
        samples = replace(data.samples, blocks=1) if data.weights is None else data.samples
        return samples.walk(body, (), data.x)[1].sum

    return spread(data.samples, own, (DATA,), EVERYWHERE)(data)
