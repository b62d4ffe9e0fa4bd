"""The clock of every comparison: it runs while a trainer works and stands while it is evaluated."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import jax
import numpy as np

from dladmm.core.evaluate import Evaluation
from dladmm.core.params import Params
from dladmm.engine.devices import JAX
from dladmm.experiments.baselines import Trainer
from dladmm.experiments.setup import Setup


@dataclass(frozen=True)
class Measurement:
    """Seconds of training until this network, and the network on test and training rows."""

    seconds: float
    test: Evaluation
    train: Evaluation | None = None


def series(points: Sequence[Measurement]) -> dict[str, np.ndarray]:
    """train_loss, train_accuracy, test_loss and test_accuracy, with a value, or one for each of
    several networks, per measurement."""
    return {
        f"{part}_{figure}": np.array([getattr(getattr(p, part), figure) for p in points], float)
        for part in ("train", "test")
        for figure in Evaluation._fields
    }


def timed(trainer: Trainer, setup: Setup, count: int, with_training: bool) -> Iterator[Measurement]:
    """`count` measurements, one per `next`.

    A trainer knows the loss of the network its step began from, so a point waits for the next step
    where the training rows are asked for: no pass is made for the records alone, but the last.
    """
    clock = 0.0
    waiting: tuple[Measurement, Params] | None = None
    for _ in range(count):
        with JAX.threads():
            began = time.perf_counter()
            made = next(trainer)
            spent = time.perf_counter() - began
        clock += spent if made.seconds is None else made.seconds
        if waiting is not None:
            point, params = waiting
            yield replace(point, train=made.before or setup.on_training(params))
        # Waited for, or it would run on into the next step, whose time it is not.
        point = Measurement(clock, jax.block_until_ready(setup.on_test(made.params)))
        if with_training:
            waiting = point, made.params
        else:
            yield point
    if waiting is not None:
        point, params = waiting
        yield replace(point, train=setup.on_training(params))
