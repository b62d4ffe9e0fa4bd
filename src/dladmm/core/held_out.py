"""Rows that are not trained on: the network's score on them is recorded, and may decide the end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dladmm.core.data import Arrays
from dladmm.core.evaluate import evaluate
from dladmm.core.params import Params
from dladmm.core.problem import Problem
from dladmm.engine import trees
from dladmm.engine.arrays import Array
from dladmm.engine.devices import Engine
from dladmm.engine.processes import over_processes
from dladmm.engine.walks import Samples


@dataclass(frozen=True)
class HeldOut:
    """Rows, targets and weights that a process has held out, in the precision of the run.

    `decides`: whether their score says when the run ends and which network is the best; otherwise
    it is recorded and no more.
    """

    x: Array
    y: Array
    samples: Samples
    decides: bool = True

    @classmethod
    def of(cls, arrays: Arrays, engine: Engine, decides: bool = True) -> HeldOut:
        # Every process scores its own rows, on one device.
        x, y, weights = Engine(engine.is_jax).replicate(arrays)
        return cls(x, y, Samples(weights), decides)

    def score(self, problem: Problem, params: Params) -> float:
        """Accuracy, or minus the loss, over the rows that every process has held out."""
        network = trees.map(np.asarray, params)  # which may lie on many devices
        measured = evaluate(problem, network, self.x, self.y, self.samples)
        of_each = [measured.accuracy, measured.loss, self.samples.mass(self.x)]
        accuracy, loss, mass = over_processes([float(v) for v in of_each]).T
        pooled = accuracy if np.isfinite(accuracy).all() else -loss
        return float(pooled @ mass / mass.sum())
