"""What the commands read: the rows to train on, and those to predict. Nothing here prints."""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dladmm.core.options import precision
from dladmm.data import chunks
from dladmm.data.columns import Table, named, table_from_arrays
from dladmm.data.datasets import NAMES, SHAPES, load_part
from dladmm.data.images import image_shape, read_image_folder
from dladmm.data.preprocessing import TablePreprocessor
from dladmm.data.tables import read_table
from dladmm.data.target import Target
from dladmm.engine.devices import make_mesh, own_rows
from dladmm.engine.processes import process_count, process_index, refused_together
from dladmm.estimators.model_files import LoadedModel

# Fewer rows would give a score of one row or two.
LEAST_TO_HOLD_OUT = 10


@dataclass(frozen=True)
class Source:
    """DATA of a command: a file or a named data set, its target, and where data sets are."""

    data: str
    target: str | None = None
    data_dir: Path | None = None

    @property
    def is_named(self) -> bool:
        return self.data in NAMES

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder of images, one sub-folder for each class."""
        return not self.is_named and Path(self.data).is_dir()

    def sample_shape(self) -> tuple[int, ...] | None:
        """The shape of one sample, where it is more than a row."""
        if self.is_named:
            return SHAPES[self.data]
        if self.is_folder:
            return image_shape(Path(self.data))
        return None

    @property
    def has_arrays(self) -> bool:
        """Whether it is arrays X and y, not columns with names."""
        return self.is_named or self.is_folder or Path(self.data).suffix.lower() == ".npz"

    def target_name(self, table: Table) -> str:
        """The column to predict, which arrays have under the name y."""
        if chunks.is_array_file(self.data):
            return "y"
        if self.target is not None:
            return self.target
        if self.has_arrays:
            return "y"
        raise ValueError(f"--target is missing; expected one of the columns {named(table.names)}")


class TrainingRows(NamedTuple):
    """What is trained on, and the test rows of a named data set."""

    preprocessing: TablePreprocessor
    X: np.ndarray
    y: np.ndarray
    test: Table | None


class Reading:
    """DATA of a fit, opened. By chunks where its rows may be more than memory (`by_batches`), or
    where this process needs some of them only; otherwise as a whole.

    `settings` are those of `TablePreprocessor.fit`.
    """

    def __init__(self, source: Source, by_batches: bool = False, **settings: Any):
        self.source, self.by_batches, self.settings = source, by_batches, settings
        in_part = process_count() > 1 or chunks.is_array_file(source.data)
        with refused_together():
            self.chunks: chunks.Chunks
            if in_part or (by_batches and not source.is_named):
                self.chunks = chunks.chunks_of(source.data, source.target, source.data_dir)
            else:
                self.chunks = chunks.TableChunks(_whole_table(source))
            if self.chunks.n_rows == 0:
                raise ValueError(f"{source.data} has no rows; expected at least one")
            self.target_name = source.target_name(next(self.chunks.tables(slice(0, 1))))
            self.target_column = chunks.target_column(self.chunks, self.target_name)
        if source.is_named or source.is_folder:  # pixels are scaled to 0..1 already
            self.settings |= {"standardise": False, "source": source.data}

    def rows(
        self, folder: Path, devices: Any = None, dtype: str = "auto", among: Any = None
    ) -> TrainingRows:
        """Preprocessing learned, and applied to the rows that are this process's own.

        `among` is a mask of the rows to learn from. The inputs for batches go through `folder`.
        """
        with refused_together():
            preprocessing = chunks.learned(
                self.chunks,
                self.target_name,
                whole_target=self.target_column,
                among=among,
                **self.settings,
            )
        answered = preprocessing.target.answered(self.target_column)
        rows = np.flatnonzero(answered if among is None else answered & among)
        dtype = precision(dtype, len(rows) * len(preprocessing.input_names))
        # A dtype that is none is refused by the fit, by its name.
        kind = np.float64 if dtype == "float64" else np.float32
        own = rows[own_rows(len(rows), make_mesh(devices))]
        file = folder / "inputs.npy" if self.by_batches else None
        with refused_together(), warnings.catch_warnings():
            if self.chunks.in_memory:  # learning has warned of all its rows
                warnings.simplefilter("ignore", UserWarning)
            X, y = chunks.encoded(self.chunks, preprocessing, own, file, kind)
        test = None
        if self.source.is_named and process_index() == 0:
            part = load_part(self.source.data, self.source.data_dir, "test")
            test = table_from_arrays(*part)
        return TrainingRows(preprocessing, X, y, test)

    def read_as(self, preprocessing: TablePreprocessor) -> Reading:
        """The same data, read as this preprocessing reads them, for parts to be learned from."""
        again = copy(self)
        again.chunks = chunks.ReadChunks(self.chunks, preprocessing)
        again.target_column = preprocessing.target.read(self.target_column)
        again.settings = self.settings | {"task": preprocessing.target.task, "drop": ()}
        return again

    def held_out(self, target: Target, size: float, seed: int) -> np.ndarray:
        """A mask of rows to score on, the same in every process; ValueError if there are too few.

        Of each class the same part, where there are enough rows of it; a class of one row stays
        with those to train on.
        """
        from sklearn.model_selection import train_test_split

        rows = np.flatnonzero(target.answered(self.target_column))
        if len(rows) < LEAST_TO_HOLD_OUT:
            raise ValueError(
                f"there are {len(rows)} rows; expected {LEAST_TO_HOLD_OUT} or more to hold some out"
            )
        labels = None
        if target.task == "classification":
            _, codes, counts = np.unique(
                self.targets(target, rows), return_inverse=True, return_counts=True
            )
            rows, labels = rows[counts[codes] > 1], codes[counts[codes] > 1]
        try:
            _, out = train_test_split(rows, test_size=size, random_state=seed, stratify=labels)
        except ValueError:  # more classes than rows to hold out
            _, out = train_test_split(rows, test_size=size, random_state=seed)
        mask = np.zeros(self.chunks.n_rows, dtype=bool)
        mask[out] = True
        return mask

    def targets(self, target: Target, rows: Any) -> np.ndarray:
        """What an estimator is fitted to, of any rows: every process knows the whole target."""
        column = self.target_column
        return target.encode(replace(column, values=column.values[rows]))

    def scored_rows(
        self, preprocessing: TablePreprocessor, mask: np.ndarray, folder: Path, dtype: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets of this process's share of the rows to score on."""
        share = np.array_split(np.flatnonzero(mask), process_count())[process_index()]
        file = folder / "held_out.npy" if self.by_batches else None
        with refused_together():
            return chunks.encoded(self.chunks, preprocessing, share, file, dtype)


def training_rows(
    source: Source, folder: Path, by_batches: bool = False, **settings: Any
) -> TrainingRows:
    """All rows to train on."""
    return Reading(source, by_batches, **settings).rows(folder)


def _whole_table(source: Source) -> Table:
    if source.is_folder:
        return table_from_arrays(*read_image_folder(Path(source.data)))
    if not source.is_named:
        return read_table(Path(source.data))
    return table_from_arrays(*load_part(source.data, source.data_dir, "train"))


def encoded(preprocessing: TablePreprocessor, table: Table) -> tuple[np.ndarray, np.ndarray]:
    """Network inputs and targets of rows that have both."""
    y = preprocessing.target.encode(table.column(preprocessing.target.name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # learning has warned of its own table
        return preprocessing.transform(table), y


def rows_to_predict(
    loaded: LoadedModel, source: Source
) -> tuple[TablePreprocessor | None, Table, np.ndarray]:
    """The model's preprocessing, the rows to predict, and what the network takes for them."""
    kept = loaded.preprocessing
    preprocessing = None if kept is None else TablePreprocessor.from_dict(kept)
    if source.is_named:
        table = table_from_arrays(*load_part(source.data, source.data_dir, "test"))
    elif source.is_folder:
        table = table_from_arrays(*read_image_folder(Path(source.data)))
    elif chunks.is_array_file(source.data):
        table = table_from_arrays(chunks.whole_array(Path(source.data)))
    else:
        table = read_table(Path(source.data), preprocessing.text_columns if preprocessing else ())
    if preprocessing is not None:
        return preprocessing, table, preprocessing.transform(table)
    # A model saved from Python has no preprocessing: the columns are its inputs, in this order.
    features = table.without("y") if source.has_arrays else table
    for column in features.columns:
        if column.kind not in ("number", "boolean"):
            raise ValueError(
                f"column {column.name!r} is {column.kind}; expected numbers only, since the model"
                " was saved without preprocessing"
            )
    return None, table, np.column_stack([column.values for column in features.columns])
