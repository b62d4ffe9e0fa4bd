"""`dladmm predict`: a model and a table in, a CSV file of predictions out."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dladmm.cli.messages import check_writable, echo_warnings, saving
from dladmm.cli.options import AsJson, Data, DataDir, Model, print_json

if TYPE_CHECKING:
    from dladmm.data.preprocessing import TablePreprocessor


def predict(
    model: Model,
    data: Data,
    out: Annotated[Path, typer.Option(help="Where to write the .csv file.", show_default=False)],
    std: Annotated[
        bool,
        typer.Option("--std", help="Also the standard deviation of each number, as column std."),
    ] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Predict each row of a table with a model, into a CSV file in the same order.

    For classes: the label, and one column p_<class> for the probability of each; of a model with
    several labels a row, a column label_<number> for each. For numbers: the prediction, and with
    --std its standard deviation. Of a named data set, the test part is predicted.

    Example: dladmm predict houses.model new.csv --out predicted.csv
    """
    if out.suffix.lower() != ".csv":
        raise ValueError(f"--out {out} is not a .csv file; expected one")
    check_writable(out, "--out", keep=[data, str(model)])
    from dladmm.cli.loading import Source, rows_to_predict
    from dladmm.cli.scoring import main_score, score_text, scored_if_known
    from dladmm.estimators.model_files import load_model

    loaded = load_model(model)
    with echo_warnings() as warnings:
        preprocessing, table, inputs = rows_to_predict(loaded, Source(data, None, data_dir))
        if std:
            header, rows = with_std(loaded.estimator, preprocessing, inputs)
        else:
            header, rows = predictions(loaded.estimator, preprocessing, inputs)
        with saving(out, "the predictions"):
            write_csv(out, header, rows)
        figures = scored_if_known(loaded.estimator, preprocessing, table, inputs)
    count = len(inputs)
    if as_json:
        record = {"rows": count, "out": str(out), "columns": header}
        score = {"score": main_score(figures), "scored": figures}
        print_json(record | score | {"warnings": warnings})
        return
    typer.echo(f"{count} {'row' if count == 1 else 'rows'} predicted: {out}")
    if figures is not None:
        those = f"these {count}" if figures["rows"] == count else f"{figures['rows']} of these"
        typer.echo(score_text(figures, f" on {those} rows:"))


def predictions(
    estimator: Any, preprocessing: TablePreprocessor | None, inputs: Any
) -> tuple[list[str], list[list[Any]]]:
    """The header and the rows of the file to write: label and probabilities, or prediction."""
    predicted = estimator.predict(inputs)
    if not hasattr(estimator, "classes_"):
        values = preprocessing.target.decode(predicted) if preprocessing else predicted
        matrix = values.reshape(len(inputs), -1)
        names = ["prediction", *(f"prediction_{j}" for j in range(2, matrix.shape[1] + 1))]
        return names, matrix.tolist()
    if getattr(estimator, "multilabel_", False):
        names = [f"label_{name}" for name in estimator.classes_.tolist()]
        predicted = predicted.toarray() if estimator.y_is_sparse_ else predicted
    else:
        names, predicted = ["label"], predicted[:, None]
    if not hasattr(estimator, "predict_proba"):
        return names, predicted.tolist()
    names += [f"p_{name}" for name in estimator.classes_.tolist()]
    probabilities = estimator.predict_proba(inputs).tolist()
    return names, [[*row, *p] for row, p in zip(predicted.tolist(), probabilities, strict=True)]


def with_std(
    estimator: Any, preprocessing: TablePreprocessor | None, inputs: Any
) -> tuple[list[str], list[list[Any]]]:
    """Predictions and their standard deviations, in the target's unit."""
    from inspect import signature

    import numpy as np

    if hasattr(estimator, "classes_"):
        raise ValueError("--std is for numbers; the model predicts classes, with probabilities")
    if "return_std" not in signature(estimator.predict).parameters:
        raise ValueError("--std: the model has no standard deviations; expected one that has them")
    predicted, std = estimator.predict(inputs, return_std=True)
    if preprocessing is not None:
        predicted, std = preprocessing.target.decode(predicted), std * preprocessing.target.scale
    columns = [np.reshape(values, (len(inputs), -1)) for values in (predicted, std)]
    outputs = range(2, columns[0].shape[1] + 1)
    names = [[name, *(f"{name}_{j}" for j in outputs)] for name in ("prediction", "std")]
    return [*names[0], *names[1]], np.hstack(columns).tolist()


def write_csv(out: Path, header: list[str], rows: list[list[Any]]) -> None:
    from dladmm.io.files import write_atomically

    with (
        write_atomically(out) as part,
        part.open("w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
