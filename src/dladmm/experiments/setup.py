"""What methods are compared on: the same rows, network and initial weights for all."""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dladmm.core.data import Arrays
from dladmm.core.evaluate import Evaluation, evaluate
from dladmm.core.initial import params_for_data
from dladmm.core.params import Params
from dladmm.core.problem import Problem
from dladmm.data.datasets import SHAPES, Dataset
from dladmm.engine.arrays import load_jax
from dladmm.network.presets import preset
from dladmm.terms.losses import SquaredError

load_jax()  # which knows our trees from here on


EVALUATED_ROWS = 10_000  # at once


@dataclass(frozen=True)
class Setup:
    """Training and test rows, and the network."""

    problem: Problem
    arrays: Arrays
    test: tuple[np.ndarray, np.ndarray]
    init: str = "scaled"

    def weights(self, seed: int) -> Params:
        """The weights everyone starts from."""
        return params_for_data(self.problem, self.init, seed, self.arrays)

    def on_training(self, params: Params) -> Evaluation:
        """The mean loss and the accuracy over all training rows, by blocks of them."""
        x, y, _ = self.arrays
        loss = accuracy = jnp.zeros((), x.dtype)
        for start in range(0, len(x), EVALUATED_ROWS):
            rows = slice(start, start + EVALUATED_ROWS)
            part = _evaluated(self.problem, params, x[rows], y[rows])
            share = len(x[rows]) / len(x)
            loss, accuracy = loss + share * part.loss, accuracy + share * part.accuracy
        return Evaluation(loss, accuracy)

    def on_test(self, params: Params) -> Evaluation:
        return _evaluated(self.problem, params, *self._test_on_device)

    @property
    def score_name(self) -> str:
        return "accuracy" if self.problem.loss.classifies else "r2"

    def score(self, on_test: Evaluation) -> float:
        """The accuracy, or for numbers R^2, which the loss is a half of the errors' squares for."""
        if self.problem.loss.classifies:
            return float(on_test.accuracy)
        if not isinstance(self.problem.loss, SquaredError):
            raise ValueError(
                f"there is no score for {type(self.problem.loss).__name__}; expected squared_error"
            )
        return 1 - 2 * float(on_test.loss) / float(self.test[1].var(axis=0, dtype=float).sum())

    @cached_property
    def _test_on_device(self) -> tuple[Array, Array]:
        """The test rows are looked at after every iteration: they cross to the device once."""
        x, y = self.test
        return jnp.asarray(x), jnp.asarray(y)


def _evaluated(problem: Problem, params: Params, x: Any, y: Any) -> Evaluation:
    """The network, or each of several networks with a leading axis, on these rows."""
    return (evaluate if params.b[0].ndim == 1 else _evaluate_each)(problem, params, x, y)


@partial(jax.jit, static_argnames="problem")
def _evaluate_each(problem: Problem, params: Params, x: Array, y: Array) -> Evaluation:
    return jax.vmap(lambda one: evaluate(problem, one, x, y))(params)


def image_setup(
    data: Dataset, samples: int | None, hidden: tuple[int, ...], network: str | None = None
) -> Setup:
    """The first `samples` training rows, all test rows, ReLU and log-loss, no regulariser; dense
    layers of these sizes, or the network of a preset's name."""
    one_hot = np.eye(int(data.y_train.max()) + 1, dtype=np.float32)
    x, y = data.x_train[:samples], one_hot[data.y_train[:samples]]
    if network is None:
        problem = Problem.dense((x.shape[1], *hidden, y.shape[1]), "relu", "log_loss")
    else:
        problem = Problem.of_network(preset(network, SHAPES[data.name], y.shape[1]))
    shaped = lambda x: np.ascontiguousarray(x, np.float32).reshape(len(x), *problem.in_shape)  # noqa: E731
    return Setup(problem, (shaped(x), y, None), (shaped(data.x_test), one_hot[data.y_test]))
