"""`dladmm fit`, `predict` and `inspect`: tables in, models and predictions out.

Results go to standard output, warnings to standard error, refusals out as ValueError or OSError,
which the entry point turns into one sentence. JAX, scikit-learn and pandas load slowly, so they
are imported where they are needed: --help does not wait for them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dladmm.cli_options import (
    AsJson,
    Checkpoint,
    CheckpointEvery,
    CheckpointMinutes,
    Coordinator,
    Data,
    DataDir,
    Devices,
    NumProcesses,
    ProcessId,
    Resume,
    Target,
    parse_sizes,
    print_json,
)
from dladmm.processes import join
from dladmm.said import check_writable, saving, say_at_once, saying_warnings

if TYPE_CHECKING:
    from dladmm.core.certificate import Certificate
    from dladmm.data.preprocessing import TablePreprocessor

_Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A file written by `dladmm fit`.")]


def fit(
    data: Data,
    out: Annotated[Path, typer.Option(help="Where to write the model.", show_default=False)],
    target: Target = None,
    task: Annotated[
        str | None,
        typer.Option(help="classification or regression; inferred from the target by default."),
    ] = None,
    hidden: Annotated[str, typer.Option(help="Units of the hidden layers, such as 256,128.")] = (
        "100"
    ),
    activation: Annotated[str, typer.Option(help="Of the hidden layers.")] = "relu",
    method: Annotated[
        str, typer.Option(help="The algorithm: restored, dladmm or admm.")
    ] = "restored",
    loss: Annotated[
        str | None,
        typer.Option(help="log_loss for classes and squared_error for numbers by default."),
    ] = None,
    alpha: Annotated[float, typer.Option(help="Strength of the l2 regularisation.")] = 1e-4,
    seed: Annotated[int, typer.Option(help="For the weights to start from.")] = 0,
    batch_size: Annotated[
        int | None,
        typer.Option(help="Rows of a mini-batch; all rows at once by default."),
    ] = None,
    max_iter: Annotated[int, typer.Option(help="The most iterations, or epochs.")] = 300,
    dtype: Annotated[str, typer.Option(help="auto, float32 or float64.")] = "auto",
    devices: Devices = None,
    checkpoint: Checkpoint = None,
    checkpoint_every: CheckpointEvery = None,
    checkpoint_minutes: CheckpointMinutes = None,
    resume: Resume = False,
    coordinator: Coordinator = None,
    num_processes: NumProcesses = None,
    process_id: ProcessId = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Train a network on a table and write it to one file, preprocessing included.

    Numbers are standardised, categories one-hot encoded, dates turned into numbers, missing cells
    filled in. Ctrl-C ends the training early and keeps the best network so far; several processes
    keep their last checkpoint.

    Example: dladmm fit houses.csv --target price --out houses.model
    """
    settings: dict[str, Any] = {
        "hidden_layer_sizes": parse_sizes("--hidden", hidden),
        "activation": activation,
        "method": method,
        "alpha": alpha,
        "random_state": seed,
        "batch_size": batch_size,
        "max_iter": max_iter,
        "dtype": dtype,
        "devices": devices,
        **({} if loss is None else {"loss": loss}),
    }
    check_writable(out, "--out", keep=[data, *([] if target is None else [target])])
    join(coordinator, num_processes, process_id)
    try:
        from dladmm import command_steps as steps
        from dladmm.io.model_file import save_model

        first = steps.is_first_process()
        settings["checkpoints"] = steps.checkpoints(
            checkpoint, checkpoint_every, checkpoint_minutes, resume, say_at_once
        )

        with tempfile.TemporaryDirectory() as folder:
            with saying_warnings() as said:
                rows = steps.training_rows(
                    data, target, data_dir, Path(folder), batch_size is not None, devices, dtype,
                    task=task, standardise_target=loss != "poisson",  # counts must stay counts
                )  # fmt: skip
            preprocessing, X, y, test = rows
            count = steps.rows_of_all(y)
            if first and not as_json:
                typer.echo(_task_sentence(preprocessing, count, inferred=task is None))
            with saying_warnings(ignore_convergence=True) as said_later:
                estimator = steps.trained(preprocessing.target.task, X, y, settings)
                if first:
                    with saving(out, "the model"):
                        save_model(out, estimator, preprocessing.to_dict())
                said_later.extend(steps.ending(estimator))
            train_score = steps.score(estimator, X, y, pooled=True)
    except KeyboardInterrupt:
        kept = "; --resume goes on from the last checkpoint" if checkpoint else ""
        typer.echo(f"dladmm: interrupted before there was a network to keep{kept}", err=True)
        raise typer.Exit(130) from None
    if not first:
        return
    record = {
        **steps.fit_record(estimator, preprocessing),
        "train_score": train_score,
        "model": str(out),
        "warnings": [*said, *said_later],
    }
    if test is not None:
        record["test_score"] = steps.score(estimator, *steps.prepared(preprocessing, test))
    if as_json:
        print_json(record)
    else:
        _print_fit(record, estimator.certificate_)


def predict(
    model: _Model,
    data: Data,
    out: Annotated[Path, typer.Option(help="Where to write the .csv file.", show_default=False)],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Predict each row of a table with a model, into a CSV file in the same order.

    For classes: the label, and one column p_<class> for the probability of each. For numbers: the
    prediction. Of a named data set, the test part is predicted.

    Example: dladmm predict houses.model new.csv --out predicted.csv
    """
    if out.suffix.lower() != ".csv":
        raise ValueError(f"--out {out} is not a .csv file; expected one")
    check_writable(out, "--out", keep=[data, str(model)])
    from dladmm import command_steps as steps
    from dladmm.io.model_file import load_model

    loaded = load_model(model)
    with saying_warnings() as said:
        preprocessing, table, inputs = steps.inputs_to_predict(loaded, data, data_dir)
        header, rows = steps.predictions(loaded.estimator, preprocessing, inputs)
        with saving(out, "the predictions"):
            steps.write_csv(out, header, rows)
        score = steps.score_if_known(loaded.estimator, preprocessing, table, inputs)
    count = len(inputs)
    if as_json:
        print_json(
            {"rows": count, "out": str(out), "columns": header, "score": score, "warnings": said}
        )
        return
    typer.echo(f"{count} {'row' if count == 1 else 'rows'} predicted: {out}")
    if score is not None:
        task = "classification" if hasattr(loaded.estimator, "classes_") else "regression"
        typer.echo(_score_text(task, score))


def inspect(model: _Model, as_json: AsJson = False) -> None:
    """Say what a model file holds: network, target, columns, how its training ended."""
    from dladmm.command_steps import finite
    from dladmm.io.model_file import layer_sizes, load_model

    loaded = load_model(model)
    estimator = loaded.estimator
    record = {
        "model": str(model),
        "estimator": type(estimator).__name__,
        "library_version": loaded.metadata.get("library_version"),
        "network": layer_sizes(estimator),
        "activation": estimator.activation,
        "loss": estimator.loss,
        "method": estimator.method,
        "status": estimator.status_,
        "n_iter": estimator.n_iter_,
        "train_loss": finite(estimator.loss_),
        "certificate": estimator.certificate_.to_dict(),
        "preprocessing": loaded.preprocessing,
    }
    if as_json:
        print_json(record)
        return
    for label in ("model", "estimator", "library_version", "activation", "loss", "method"):
        typer.echo(f"{label.replace('_', ' '):<16} {record[label]}")
    typer.echo(f"{'network':<16} {'-'.join(map(str, record['network']))}")
    if loaded.preprocessing is not None:
        _print_columns(loaded.preprocessing)
    typer.echo(f"\n{estimator.certificate_.summary()}")


def _print_fit(record: dict[str, Any], certificate: Certificate) -> None:
    earlier = record["resumed_from"]
    before = f", {earlier} of them before this run went on" if earlier else ""
    typer.echo(
        f"{record['n_iter']} iterations in {record['seconds']:.1f} s{before}: {record['status']}"
    )
    for part in ("train", "test"):
        if f"{part}_score" in record:
            typer.echo(f"{part} {_score_text(record['task'], record[f'{part}_score'])}")
    typer.echo(f"\n{certificate.summary()}\n\nmodel: {record['model']}")


def _print_columns(plain: dict[str, Any]) -> None:
    from dladmm.data.columns import named
    from dladmm.data.preprocessing import TablePreprocessor

    preprocessing = TablePreprocessor.from_dict(plain)
    target = preprocessing.target
    classes = f" of {named(target.classes, 10)}" if target.classes else ""
    typer.echo(f"{'target':<16} {target.name}: {target.task}{classes}")
    columns = preprocessing.columns
    typer.echo(f"{'columns':<16} {len(columns)}, {len(preprocessing.input_names)} network inputs")
    for spec in columns[:20]:
        detail = f" {named(spec.categories)}" if spec.kind == "category" else ""
        typer.echo(f"  {spec.name}: {spec.kind}{detail}")
    if len(columns) > 20:
        typer.echo(f"  and {len(columns) - 20} more")


def _task_sentence(preprocessing: TablePreprocessor, n_rows: int, inferred: bool) -> str:
    from dladmm.data.columns import named

    target = preprocessing.target
    what = f"{target.task} of {target.name!r}"
    if target.classes:
        what += f" into {len(target.classes)} classes ({named(target.classes)})"
    how = ", inferred from the target (--task overrules it)" if inferred else ""
    n_columns, n_inputs = len(preprocessing.columns), len(preprocessing.input_names)
    return f"{what}{how}; {n_rows} rows, {n_columns} columns, {n_inputs} network inputs"


def _score_text(task: str, score: float | None) -> str:
    name = "accuracy" if task == "classification" else "R2"
    return f"{name} {'unknown' if score is None else f'{score:.4f}'}"
