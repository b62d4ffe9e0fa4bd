"""Callbacks that keep a run's records where TensorBoard and MLflow show them.

Both write through the real packages, the extra `tracking`, which are imported when one is made.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from typing import Any, Self

from dladmm.core.results import Progress

MISSING = "{} is not installed; pip install 'dladmm[tracking]'"


def recorded(row: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """The figures of an iteration; what was not sampled is left out."""
    for name, value in row.items():
        if math.isfinite(value):
            yield name, float(value)


class _Tracker:
    """A callback that is closed in the end, by a with block or by `close`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def close(self) -> None:
        """Write what is left to write."""
        raise NotImplementedError


class TensorBoard(_Tracker):
    """Every record of a run as scalars in an event file.

    Parameters
    ----------
    folder : str or path
        Where the event file is written; `tensorboard --logdir` takes it.
    """

    def __init__(self, folder: str | PathLike[str]):
        try:
            from tensorboard.compat.proto.event_pb2 import Event
            from tensorboard.compat.proto.summary_pb2 import Summary
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError:
            raise ImportError(MISSING.format("tensorboard")) from None
        self._event: Callable[..., Any] = Event
        self._summary: Any = Summary
        self._writer = EventFileWriter(str(folder))

    def __call__(self, progress: Progress) -> None:
        """Write one iteration."""
        values = [
            self._summary.Value(tag=name, simple_value=value)
            for name, value in recorded(progress.row)
        ]
        step, now = progress.iteration, time.time()
        event = self._event(wall_time=now, step=step, summary=self._summary(value=values))
        self._writer.add_event(event)

    def close(self) -> None:
        """Write what is left to write, and close the file."""
        self._writer.close()


class MLflow(_Tracker):
    """Every record of a run as metrics of an MLflow run.

    Parameters
    ----------
    experiment : str
        The experiment it belongs to, made where there is none of that name.
    tracking_uri : str or None
        Where it is kept; MLflow's own setting by default.
    run_name : str or None
        What the run is called; MLflow finds a name by default.
    """

    def __init__(
        self,
        experiment: str = "dladmm",
        tracking_uri: str | None = None,
        run_name: str | None = None,
    ):
        try:
            from mlflow.entities import Metric
            from mlflow.tracking import MlflowClient
        except ImportError:
            raise ImportError(MISSING.format("mlflow")) from None
        self._metric: Callable[..., Any] = Metric
        self._client = MlflowClient(tracking_uri)
        found = self._client.get_experiment_by_name(experiment)
        place = found.experiment_id if found else self._client.create_experiment(experiment)
        self.run_id: str = self._client.create_run(place, run_name=run_name).info.run_id

    def __call__(self, progress: Progress) -> None:
        """Write one iteration."""
        now, step = int(1000 * time.time()), progress.iteration
        metrics = [self._metric(name, value, now, step) for name, value in recorded(progress.row)]
        self._client.log_batch(self.run_id, metrics=metrics)

    def close(self) -> None:
        """Say that the run has ended."""
        self._client.set_terminated(self.run_id)


def joined(callbacks: Any) -> Callable[[Progress], bool] | None:
    """One callback that calls several; it ends the run where one of them does."""
    if callbacks is None:
        return None
    every = [callbacks] if callable(callbacks) else list(callbacks)
    for one in every:
        if not callable(one):
            raise ValueError(f"callbacks has {one!r}; expected functions of a Progress")

    def call(progress: Progress) -> bool:
        answers = [one(progress) for one in every]  # all are called, whatever one says
        return any(answers)

    return call
