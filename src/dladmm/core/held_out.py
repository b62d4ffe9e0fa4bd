"""Rows that are not trained on: the network's score on them decides when a run ends."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from dladmm.core.data import Arrays
from dladmm.core.engine.devices import over_processes
from dladmm.core.engine.walks import Samples
from dladmm.core.evaluate import evaluate
from dladmm.core.params import Params
from dladmm.core.problem import Problem


@dataclass(frozen=True)
class HeldOut:
    """Rows, targets and weights that a process has held out, in the precision of the run."""

    x: np.ndarray
    y: np.ndarray
    samples: Samples

    @classmethod
    def of(cls, arrays: Arrays) -> HeldOut:
        x, y, weights = arrays
        return cls(x, y, Samples(None if weights is None else jnp.asarray(weights)))

    def score(self, problem: Problem, params: Params) -> float:
        """Accuracy, or minus the loss, over the rows that every process has held out."""
        network = jax.tree.map(np.asarray, params)
        measured = evaluate(problem, network, self.x, self.y, self.samples)
        of_each = [measured.accuracy, measured.loss, self.samples.mass(jnp.asarray(self.x))]
        accuracy, loss, mass = over_processes([float(v) for v in of_each]).T
        pooled = accuracy if np.isfinite(accuracy).all() else -loss
        return float(pooled @ mass / mass.sum())
