"""When a fit of an estimator ends, and which of its networks is the best on rows held out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dladmm.core.lagrangian import evaluate
from dladmm.core.options import Progress
from dladmm.core.problem import Problem
from dladmm.core.samples import Samples
from dladmm.core.sharding import over_processes
from dladmm.core.state import Params
from dladmm.report.progress import ProgressBar

HeldOut = tuple[Any, np.ndarray, np.ndarray | None]  # rows, targets, weights

# Below this signal the gradient is half of what chance alone would give: nothing is left to learn.
NOISE = 0.5


class Watch:
    """Decides when a fit ends: no gain of `tol` in loss, or in held-out score, for a while; or no
    signal left in the gradient, where the method records it."""

    def __init__(
        self,
        problem: Problem,
        held_out: HeldOut | None,
        dtype: str,
        bar: ProgressBar,
        *,
        tol: float,
        patience: int,
        stop_at_noise: bool,
    ):
        self.problem, self.bar = problem, bar
        self.tol, self.patience, self.stop_at_noise = tol, patience, stop_at_noise
        self.held_out = None
        if held_out is not None:
            X, Y, weights = held_out
            self.held_out = (
                X.astype(dtype),
                Y.astype(dtype),
                Samples(None if weights is None else jnp.asarray(weights, dtype)),
            )
        self.best, self.best_at = -math.inf, 0
        self.scores: list[float] = []
        self.best_params: Params | None = None
        self.best_score = -math.inf

    def remember(self) -> tuple[dict[str, Any], Params | None]:
        return {name: getattr(self, name) for name in REMEMBERED}, self.best_params

    def recall(self, plain: Mapping[str, Any], params: Params | None) -> None:
        for name in REMEMBERED:
            setattr(self, name, plain[name])
        self.best_params = None if params is None else jax.tree.map(np.asarray, params)

    def __call__(self, progress: Progress) -> bool:
        self.bar(progress)
        if not math.isfinite(progress.row["train_loss"]):
            if self.held_out is not None:
                self.scores.append(math.nan)
            return False
        value = -progress.row["train_loss"]
        if self.held_out is not None:
            value = self._held_out_score(jax.tree.map(np.asarray, progress.params))
            self.scores.append(value)
            if value > self.best_score:
                self.best_score = value
                self.best_params = jax.tree.map(np.asarray, progress.params)
        if value > self.best + self.tol:
            self.best, self.best_at = value, progress.iteration
        if self.stop_at_noise and progress.row.get("signal", math.inf) < NOISE:
            return True
        return progress.iteration - self.best_at >= self.patience

    def _held_out_score(self, params: Params) -> float:
        """Accuracy, or minus the loss, over the rows that every process has held out."""
        assert self.held_out is not None
        x, _, samples = self.held_out
        measured = evaluate(self.problem, params, *self.held_out)
        of_each = [measured.accuracy, measured.loss, samples.mass(jnp.asarray(x))]
        accuracy, loss, mass = over_processes([float(v) for v in of_each]).T
        pooled = accuracy if np.isfinite(accuracy).all() else -loss
        return float(pooled @ mass / mass.sum())


# What a watch must know to go on after an interruption, besides the best network.
REMEMBERED = ("best", "best_at", "best_score", "scores")
