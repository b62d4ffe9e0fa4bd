"""The data of a run as every method over all samples reads them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dladmm.core.problem import Problem
from dladmm.engine.arrays import Array
from dladmm.engine.devices import BATCHES, EVERYWHERE, JAX, ROWS, Engine, layout_of_own, spread
from dladmm.engine.processes import over_processes
from dladmm.engine.programs import compiled
from dladmm.engine.walks import Folded, Samples
from dladmm.network.graph import INPUT

if TYPE_CHECKING:
    from jax.sharding import Mesh

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray | None]  # x, y, sample weights


class Data(NamedTuple):
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
STACKED: Any = Data(BATCHES, BATCHES, BATCHES, EVERYWHERE)  # type: ignore[arg-type]


def padded_data(problem: Problem, arrays: Arrays, with_gram: bool, engine: Engine = JAX) -> Data:
    """This process's rows on its devices, in blocks; repeated rows of weight zero fill the last."""
    x, y, weights = arrays
    mesh, (blocks, rows, count) = engine.mesh, layout_of_own(x.shape[0], engine)
    if rows * (1 if mesh is None else mesh.size) > count and weights is None:
        weights = np.ones(x.shape[0], x.dtype)
    placed = None if weights is None else engine.place_rows(weights, rows, filling="constant")
    inputs, targets = engine.place_rows(x, rows), engine.place_rows(y, rows)
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
    pays_off = with_gram and reads_x_alone(problem) and x.shape[0] >= problem.layers[0].fan_in
    return data._replace(gram=_gram(problem, data)) if pays_off else data


def reads_x_alone(problem: Problem) -> bool:
    """Whether the inputs of the first layer never change."""
    return problem.sources[0] == (INPUT,)


@compiled("problem")
def _gram(problem: Problem, data: Data) -> Array:
    layer = problem.layers[0]
    body = lambda weights, _, x: ((), Folded(sum=layer.gram(x, weights)))  # noqa: E731

    def own(data: Data) -> Array:
        # Without weights x is multiplied where it lies; blocks of it would be copied.
        samples = replace(data.samples, blocks=1) if data.weights is None else data.samples
        return samples.walk(body, (), data.x)[1].sum

    return spread(data.samples, own, (DATA,), EVERYWHERE)(data)


def targets_of_all(
    y: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Targets and weights with the centre and spread of those of all processes: this process's own
    where it is alone, else two rows that stand for all of them."""
    mass = over_processes(float(len(y) if weights is None else np.sum(weights)))
    if len(mass) == 1:
        return y, weights
    omega = np.ones(len(y)) if weights is None else weights
    centre = over_processes(omega @ y).sum(0) / mass.sum()
    spread = np.sqrt(over_processes(omega @ (y - centre) ** 2).sum(0) / mass.sum())
    return np.stack([centre - spread, centre + spread]), None
