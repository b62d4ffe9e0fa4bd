"""The steps of the commands: load, train, score, predict, write. Nothing here prints."""

from __future__ import annotations

import csv
import math
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from sklearn.model_selection import train_test_split

from dladmm.core.problem import Problem
from dladmm.core.sharding import make_mesh, over_processes, own_rows, refused_together
from dladmm.data import pieces as by_pieces
from dladmm.data.columns import Table, named, table_from_arrays
from dladmm.data.datasets import NAMES, load_dataset, load_part
from dladmm.data.preprocessing import TablePreprocessor
from dladmm.data.tables import read_table
from dladmm.estimators import DLADMMClassifier, DLADMMRegressor
from dladmm.experiments.course import Course
from dladmm.files import write_atomically
from dladmm.fitting import precision
from dladmm.io.checkpoints import Checkpoints
from dladmm.io.model_file import LoadedModel, layer_sizes


def training_tables(data: str, data_dir: Path | None) -> tuple[Table, Table | None]:
    """The rows to train on, and those to test on where a named data set has them."""
    if data not in NAMES:
        return read_table(Path(data)), None
    dataset = load_dataset(data, data_dir)
    return (
        table_from_arrays(dataset.x_train, dataset.y_train),
        table_from_arrays(dataset.x_test, dataset.y_test),
    )


def has_arrays(data: str) -> bool:
    """Whether DATA is arrays X and y, not columns with names."""
    return data in NAMES or Path(data).suffix.lower() == ".npz"


def target_name(data: str, target: str | None, table: Table) -> str:
    """The column to predict, which arrays have under the name y."""
    if target is not None:
        return target
    if has_arrays(data):
        return "y"
    raise ValueError(f"--target is missing; expected one of the columns {named(table.names)}")


def prepared(preprocessing: TablePreprocessor, table: Table) -> tuple[np.ndarray, np.ndarray]:
    """Network inputs and targets of rows that have both."""
    y = preprocessing.target.encode(table.column(preprocessing.target.name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # `fit` has said it all about its own table
        return preprocessing.transform(table), y


class TrainingRows(NamedTuple):
    """What is trained on, and the test rows of a named data set."""

    preprocessing: TablePreprocessor
    X: np.ndarray
    y: np.ndarray
    test: Table | None


def training_rows(
    data: str,
    target: str | None,
    data_dir: Path | None,
    folder: Path,
    by_batches: bool,
    devices: Any = None,
    dtype: str = "auto",
    **settings: Any,
) -> TrainingRows:
    """Preprocessing learned, and applied to the rows that are this process's own.

    By pieces where the rows may be more than memory: the inputs for batches go through `folder`.
    """
    several = jax.process_count() > 1
    if several or by_pieces.is_array_file(data) or (by_batches and data not in NAMES):
        with refused_together():
            pieces = by_pieces.pieces_of(data, target, data_dir)
        if pieces is not None:
            own = own_rows(pieces.n_rows, make_mesh(devices))
            file = folder / "inputs.npy" if by_batches else None
            with refused_together():
                return _own_rows(data, target, data_dir, pieces, own, file, dtype, settings)
        if several:
            raise ValueError(
                f"{data} can only be read whole; where there are several processes, expected a"
                f" .parquet, .npy or IDX file or one of {', '.join(NAMES)}"
            )
    table, test = training_tables(data, data_dir)
    preprocessing = TablePreprocessor.fit(
        table,
        target_name(data, target, table),
        standardise=test is None,  # the named data sets are scaled to 0..1 already
        source="table" if test is None else data,
        **settings,
    )
    return TrainingRows(preprocessing, *prepared(preprocessing, table), test)


def _own_rows(
    data: str,
    target: str | None,
    data_dir: Path | None,
    pieces: by_pieces.Pieces,
    own: slice,
    file: Path | None,
    dtype: str,
    settings: dict[str, Any],
) -> TrainingRows:
    """These rows alone; the first process also has the test part of a named data set."""
    name = "y" if by_pieces.is_array_file(data) else target
    if name is None and data in NAMES:
        name = "y"
    if name is None:
        raise ValueError("--target is missing; expected the name of a column")
    if data in NAMES:
        settings = settings | {"standardise": False, "source": data}
    preprocessing = by_pieces.learned(pieces, name, **settings)
    dtype = precision(dtype, pieces.n_rows, len(preprocessing.input_names))
    # A dtype that is none is refused by the fit, by its name.
    kind = np.float64 if dtype == "float64" else np.float32
    X, y = by_pieces.encoded(pieces, preprocessing, own, file, kind)
    test = None
    if data in NAMES and jax.process_index() == 0:
        test = table_from_arrays(*load_part(data, data_dir, "test"))
    return TrainingRows(preprocessing, X, y, test)


def course(
    data: str, target: str | None, data_dir: Path | None, samples: int | None, hidden: Sequence[int]
) -> Course:
    """Rows and network to compare methods on; a quarter of a table is kept for the test."""
    preprocessing, X, y, test = training_rows(data, target, data_dir, Path(), by_batches=False)
    classes = preprocessing.target.task == "classification"
    if test is None:
        strata = y if classes else None
        X, X_test, y, y_test = train_test_split(
            X, y, test_size=0.25, random_state=0, stratify=strata
        )
    else:
        X_test, y_test = prepared(preprocessing, test)
    X, y = X[:samples], y[:samples]
    if classes:
        names = np.unique(np.concatenate([y, y_test]))
        Y, Y_test = (np.eye(len(names))[np.searchsorted(names, v)] for v in (y, y_test))
    else:
        Y, Y_test = (np.asarray(v, dtype=float).reshape(len(v), -1) for v in (y, y_test))
    loss = "log_loss" if classes else "squared_error"
    problem = Problem.dense((X.shape[1], *hidden, Y.shape[1]), "relu", loss)
    single = [np.ascontiguousarray(v, np.float32) for v in (X, Y, X_test, Y_test)]
    return Course(problem, (single[0], single[1], None), (single[2], single[3]))


def trained(task: str, X: np.ndarray, y: np.ndarray, settings: dict[str, Any]) -> Any:
    """A fitted estimator; KeyboardInterrupt if it was interrupted before its first iteration."""
    kind = DLADMMClassifier if task == "classification" else DLADMMRegressor
    estimator = kind(**settings, verbose=True).fit(X, y)
    if estimator.n_iter_ == 0:
        if estimator.status_ == "interrupted":
            raise KeyboardInterrupt
        raise ValueError(f"the training failed in its first iteration: {estimator.message_}")
    return estimator.set_params(verbose=False)  # the bar is the command's, not the model's


def is_first_process() -> bool:
    """Whether this process is the one that writes and speaks."""
    return jax.process_index() == 0


def rows_of_all(y: np.ndarray) -> int:
    """The rows of all processes."""
    return int(over_processes(np.int32(len(y))).sum())


def checkpoints(
    folder: Path | None,
    every: int | None,
    minutes: float | None,
    resume: bool,
    tell: Callable[[str], None],
) -> Checkpoints | None:
    """What the options of the command line ask for."""
    if folder is None:
        if every is not None or minutes is not None or resume:
            raise ValueError("--checkpoint is missing; expected the folder to keep the run in")
        return None
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--checkpoint {folder} is a file; expected a folder")
    return Checkpoints(folder, every=every, minutes=minutes, resume=resume, tell=tell)


def ending(estimator: Any) -> list[str]:
    """What to say about a run that did not end by itself."""
    if estimator.status_ == "interrupted":
        return [f"interrupted after {estimator.n_iter_} iterations; the best network is kept"]
    if estimator.status_ == "diverged":
        return [estimator.message_]
    if estimator.status_ == "max_iter":
        return [
            f"{estimator.n_iter_} iterations were made and the loss is still falling;"
            " --max-iter allows more"
        ]
    return []


def fit_record(estimator: Any, preprocessing: TablePreprocessor) -> dict[str, Any]:
    """How the training ended, as plain values."""
    return {
        "status": estimator.status_,
        "n_iter": estimator.n_iter_,
        "resumed_from": estimator.resumed_from_,
        "seconds": estimator.history_["seconds"][-1],
        "task": preprocessing.target.task,
        "target": preprocessing.target.name,
        "network": layer_sizes(estimator),
        "train_loss": finite(estimator.loss_),
        "certificate": estimator.certificate_.to_dict(),
    }


def score(estimator: Any, X: np.ndarray, y: np.ndarray, pooled: bool = False) -> float | None:
    """Accuracy, or R2 (which standardising the target does not change); None if interrupted.

    R2 compares with the mean, so that a single row has none. `pooled`: every process has rows.
    """
    if pooled and jax.process_count() > 1:
        return _pooled_score(estimator, X, y)
    if len(y) < 2 and y.dtype.kind == "f":
        return None
    try:
        return finite(estimator.score(X, y))
    except KeyboardInterrupt:  # the model is saved by now, and worth more than its score
        return None


def _pooled_score(estimator: Any, X: np.ndarray, y: np.ndarray) -> float | None:
    """The score on the rows of all processes."""
    predicted = estimator.predict(X)
    if hasattr(estimator, "classes_"):
        right, count = over_processes([float((predicted == y).sum()), float(len(y))]).sum(0)
        return finite(right / count)
    off = float(((predicted - y) ** 2).sum())
    sums = over_processes([off, float((y**2).sum()), float(y.sum()), float(len(y))]).sum(0)
    off, squares, total, count = map(float, sums)
    spread = squares - total**2 / count
    return finite(1 - off / spread) if spread > 0 else None


def score_if_known(
    estimator: Any, preprocessing: TablePreprocessor | None, table: Table, inputs: Any
) -> float | None:
    """The score where the table to predict has the answers, all of them."""
    if preprocessing is None or preprocessing.target.name not in table.names or len(inputs) < 2:
        return None
    try:
        y = preprocessing.target.encode(table.column(preprocessing.target.name))
        return score(estimator, inputs, y)
    except (ValueError, TypeError):  # answers of another kind, or with gaps, are no answers
        return None


def inputs_to_predict(
    loaded: LoadedModel, data: str, data_dir: Path | None
) -> tuple[TablePreprocessor | None, Table, np.ndarray]:
    """The model's preprocessing, the rows to predict, and what the network takes for them."""
    plain = loaded.preprocessing
    preprocessing = None if plain is None else TablePreprocessor.from_dict(plain)
    if data in NAMES:
        table = table_from_arrays(*load_part(data, data_dir, "test"))
    elif by_pieces.is_array_file(data):
        table = table_from_arrays(by_pieces.whole_array(Path(data)))
    else:
        table = read_table(Path(data), preprocessing.text_columns if preprocessing else ())
    if preprocessing is not None:
        return preprocessing, table, preprocessing.transform(table)
    # A model saved from Python has no preprocessing: the columns are its inputs, in this order.
    features = table.without("y") if has_arrays(data) else table
    for column in features.columns:
        if column.kind not in ("number", "boolean"):
            raise ValueError(
                f"column {column.name!r} is {column.kind}; expected numbers only, since the model"
                " was saved without preprocessing"
            )
    return None, table, np.column_stack([column.values for column in features.columns])


def predictions(
    estimator: Any, preprocessing: TablePreprocessor | None, inputs: Any
) -> tuple[list[str], list[list[Any]]]:
    """The header and the rows of the file to write: label and probabilities, or prediction."""
    predicted = estimator.predict(inputs)
    if not hasattr(estimator, "classes_"):
        values = preprocessing.target.decode(predicted) if preprocessing else predicted
        matrix = np.asarray(values).reshape(len(inputs), -1)
        names = ["prediction", *(f"prediction_{j}" for j in range(2, matrix.shape[1] + 1))]
        return names, matrix.tolist()
    if not hasattr(estimator, "predict_proba"):
        return ["label"], [[label] for label in predicted.tolist()]
    names = ["label", *(f"p_{name}" for name in estimator.classes_.tolist())]
    probabilities = estimator.predict_proba(inputs).tolist()
    return names, [[label, *p] for label, p in zip(predicted.tolist(), probabilities, strict=True)]


def write_csv(out: Path, header: list[str], rows: list[list[Any]]) -> None:
    with (
        write_atomically(out) as part,
        part.open("w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None
