"""What the commands read: the rows to train on, and those to predict. Nothing here prints."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from dladmm.core.engine.devices import make_mesh, own_rows, refused_together
from dladmm.core.options import precision
from dladmm.data import chunks
from dladmm.data.columns import Table, named, table_from_arrays
from dladmm.data.datasets import NAMES, load_dataset, load_part
from dladmm.data.preprocessing import TablePreprocessor
from dladmm.data.tables import read_table
from dladmm.estimators.model_files import LoadedModel


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
    def has_arrays(self) -> bool:
        """Whether it is arrays X and y, not columns with names."""
        return self.is_named or Path(self.data).suffix.lower() == ".npz"

    def target_name(self, table: Table) -> str:
        """The column to predict, which arrays have under the name y."""
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


def training_rows(
    source: Source,
    folder: Path,
    by_batches: bool,
    devices: Any = None,
    dtype: str = "auto",
    **settings: Any,
) -> TrainingRows:
    """Preprocessing learned, and applied to the rows that are this process's own.

    By chunks where the rows may be more than memory: the inputs for batches go through `folder`.
    """
    several = jax.process_count() > 1
    alone = chunks.is_array_file(source.data)
    if several or alone or (by_batches and not source.is_named):
        with refused_together():
            parts = chunks.chunks_of(source.data, source.target, source.data_dir)
        if parts is not None:
            own = own_rows(parts.n_rows, make_mesh(devices))
            file = folder / "inputs.npy" if by_batches else None
            with refused_together():
                return _own_rows(source, parts, own, file, dtype, settings)
        if several:
            raise ValueError(
                f"{source.data} can only be read whole; where there are several processes, expected"
                f" a .parquet, .npy or IDX file or one of {', '.join(NAMES)}"
            )
    table, test = _whole_tables(source)
    preprocessing = TablePreprocessor.fit(
        table,
        source.target_name(table),
        standardise=test is None,  # the named data sets are scaled to 0..1 already
        source="table" if test is None else source.data,
        **settings,
    )
    return TrainingRows(preprocessing, *encoded(preprocessing, table), test)


def _whole_tables(source: Source) -> tuple[Table, Table | None]:
    """The rows to train on, and those to test on where a named data set has them."""
    if not source.is_named:
        return read_table(Path(source.data)), None
    dataset = load_dataset(source.data, source.data_dir)
    return (
        table_from_arrays(dataset.x_train, dataset.y_train),
        table_from_arrays(dataset.x_test, dataset.y_test),
    )


def _own_rows(
    source: Source,
    parts: chunks.Chunks,
    own: slice,
    file: Path | None,
    dtype: str,
    settings: dict[str, Any],
) -> TrainingRows:
    """These rows alone; the first process also has the test part of a named data set."""
    name = "y" if chunks.is_array_file(source.data) else source.target
    if name is None and source.is_named:
        name = "y"
    if name is None:
        raise ValueError("--target is missing; expected the name of a column")
    if source.is_named:
        settings = settings | {"standardise": False, "source": source.data}
    preprocessing = chunks.learned(parts, name, **settings)
    dtype = precision(dtype, parts.n_rows * len(preprocessing.input_names))
    # A dtype that is none is refused by the fit, by its name.
    kind = np.float64 if dtype == "float64" else np.float32
    X, y = chunks.encoded(parts, preprocessing, own, file, kind)
    test = None
    if source.is_named and jax.process_index() == 0:
        test = table_from_arrays(*load_part(source.data, source.data_dir, "test"))
    return TrainingRows(preprocessing, X, y, test)


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
    plain = loaded.preprocessing
    preprocessing = None if plain is None else TablePreprocessor.from_dict(plain)
    if source.is_named:
        table = table_from_arrays(*load_part(source.data, source.data_dir, "test"))
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
