"""The clock of every comparison: it runs while a trainer works and stands while it is evaluated."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import jax

from dladmm.core.lagrangian import Evaluation
from dladmm.core.state import Params
from dladmm.experiments.baselines import Trainer
from dladmm.experiments.course import Course


@dataclass(frozen=True)
class Lap:
    """Seconds of training until this network, and the network on test and training rows."""

    seconds: float
    test: Evaluation
    training: Evaluation | None = None


def timed(trainer: Trainer, course: Course, count: int, with_training: bool) -> Iterator[Lap]:
    """`count` laps, one per `next`.

    A trainer tells of the network its step began from, so a lap waits for the next step where the
    training rows are asked for: no pass over them is made for the records alone, but the last.
    """
    clock = 0.0
    waiting: tuple[Lap, Params] | None = None
    for _ in range(count):
        began = time.perf_counter()
        made = next(trainer)
        clock += time.perf_counter() - began
        if waiting is not None:
            lap, params = waiting
            yield replace(lap, training=made.before or course.on_training(params))
        # Waited for, or it would run on into the next step, whose time it is not.
        lap = Lap(clock, jax.block_until_ready(course.on_test(made.params)))
        if with_training:
            waiting = lap, made.params
        else:
            yield lap
    if waiting is not None:
        lap, params = waiting
        yield replace(lap, training=course.on_training(params))
