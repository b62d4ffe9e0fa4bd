"""Training from the command line: the network asked for, the fit, its end in words."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dladmm.engine.signals import asked_to_end, interruptible

if TYPE_CHECKING:
    from dladmm.cli.loading import Source, TrainingRows
    from dladmm.data.preprocessing import TablePreprocessor


def named_network(text: str, source: Source, outputs: int) -> Any:
    """The network that --network names, for samples of the data's shape."""
    from dladmm.network.presets import PRESETS, preset, read_network

    if text.endswith(".json"):
        return read_network(Path(text))
    shape = source.sample_shape()
    if shape is None or text not in PRESETS:
        raise ValueError(
            f"--network {text} does not fit {source.data}; expected one of {', '.join(PRESETS)} for"
            " images or sequences, or a .json file with in_shape and layers"
        )
    return preset(text, shape, outputs)


def fitted(
    rows: TrainingRows, settings: dict[str, Any], unseen: tuple[Any, Any] | None = None
) -> Any:
    """A fitted estimator; KeyboardInterrupt if it was interrupted before its first iteration.

    The score on the rows `unseen` is shown while it trains, and decides nothing.
    """
    from dladmm.core.results import Status
    from dladmm.estimators import DLADMMClassifier, DLADMMRegressor

    is_of_classes = rows.preprocessing.target.task == "classification"
    kind = DLADMMClassifier if is_of_classes else DLADMMRegressor
    watched = watched_rows(rows, unseen) if is_of_classes else unseen
    estimator = kind(**settings, verbose=True).fit(rows.X, rows.y, validation=watched)
    if estimator.n_iter_ == 0:
        if estimator.status_ == Status.INTERRUPTED:
            raise KeyboardInterrupt
        raise ValueError(f"the training failed in its first iteration: {estimator.message_}")
    return estimator.set_params(verbose=False)  # the bar is the command's, not the model's


def watched_rows(rows: TrainingRows, unseen: tuple[Any, Any] | None) -> tuple[Any, Any] | None:
    """Of the rows not trained on, those of a class that the others have."""
    import numpy as np

    if unseen is None:
        return None
    X, y = unseen
    known = np.isin(y, rows.y)
    return (X[known], y[known]) if known.any() else None


def ended_by(estimator: Any) -> int:
    """The signal that ended the training, whichever process has heard it; 0 where none has.

    The model is saved: from here on a signal interrupts at once.
    """
    from dladmm.core.results import Status
    from dladmm.engine.processes import over_processes

    interruptible()
    heard = int(over_processes(asked_to_end()).max())
    was_interrupted = estimator.status_ == Status.INTERRUPTED
    return heard or (int(signal.SIGINT) if was_interrupted else 0)


def ending(estimator: Any) -> list[str]:
    """What to say about a run that did not end by itself."""
    from dladmm.core.results import Status

    if estimator.status_ == Status.INTERRUPTED:
        return [f"interrupted after {estimator.n_iter_} iterations; the best network is kept"]
    if estimator.status_ in (Status.DIVERGED, Status.MEMORY):
        return [estimator.message_]
    if estimator.status_ == Status.MAX_ITER:
        return [f"{estimator.message_}; --max-iter allows more"]
    return []


def task_sentence(preprocessing: TablePreprocessor, n_rows: int, inferred: bool) -> str:
    from dladmm.data.columns import named

    target = preprocessing.target
    what = f"{target.task} of {target.name!r}"
    if target.classes:
        what += f" into {len(target.classes)} classes ({named(target.classes)})"
    how = ", inferred from the target (--task overrules it)" if inferred else ""
    n_columns, n_inputs = len(preprocessing.columns), len(preprocessing.input_names)
    return f"{what}{how}; {n_rows} rows, {n_columns} columns, {n_inputs} network inputs"
