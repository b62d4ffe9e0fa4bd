"""`dladmm fit`: a table in, a model out. It loads, trains, saves and reports.

Results go to standard output, warnings to standard error, refusals out as ValueError or OSError,
which the entry point turns into one sentence. JAX, scikit-learn and pandas load slowly, so they
are imported where they are needed: --help does not wait for them.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dladmm.cli.messages import check_writable, echo_warnings, print_message, saving
from dladmm.cli.options import (
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
    parse_alpha,
    parse_sizes,
    print_json,
)
from dladmm.cli.processes import join
from dladmm.core.options import ACTIVATION, ALPHA, DEFAULTS, HIDDEN

if TYPE_CHECKING:
    from dladmm.cli.loading import TrainingRows
    from dladmm.data.preprocessing import TablePreprocessor


def fit(
    data: Data,
    out: Annotated[Path, typer.Option(help="Where to write the model.", show_default=False)],
    target: Target = None,
    task: Annotated[
        str | None,
        typer.Option(help="classification or regression; inferred from the target by default."),
    ] = None,
    hidden: Annotated[
        str, typer.Option(help="Units of the hidden layers, such as 256,128.")
    ] = ",".join(map(str, HIDDEN)),
    activation: Annotated[str, typer.Option(help="Of the hidden layers.")] = ACTIVATION,
    method: Annotated[
        str, typer.Option(help="The algorithm: restored, dladmm or admm.")
    ] = DEFAULTS.method,
    loss: Annotated[
        str | None,
        typer.Option(help="log_loss for classes and squared_error for numbers by default."),
    ] = None,
    alpha: Annotated[
        str, typer.Option(help="Strength of the l2 regularisation: evidence, or a number.")
    ] = ALPHA,
    seed: Annotated[int, typer.Option(help="For the weights to start from.")] = DEFAULTS.seed,
    batch_size: Annotated[
        int | None,
        typer.Option(help="Rows of a mini-batch; all rows at once by default."),
    ] = DEFAULTS.batch_size,
    max_iter: Annotated[
        int, typer.Option(help="The most iterations, or epochs.")
    ] = DEFAULTS.max_iter,
    dtype: Annotated[str, typer.Option(help="auto, float32 or float64.")] = DEFAULTS.dtype,
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
        "alpha": parse_alpha(alpha),
        "random_state": seed,
        "batch_size": batch_size,
        "max_iter": max_iter,
        "dtype": dtype,
        "devices": devices,
        **({} if loss is None else {"loss": loss}),
    }
    check_writable(out, "--out", keep=[data, *([] if target is None else [target])])
    join(coordinator, num_processes, process_id)
    job = FitJob(data, target, data_dir, task, settings, out, as_json)
    try:
        settings["checkpoints"] = checkpoints(
            checkpoint, checkpoint_every, checkpoint_minutes, resume
        )
        trained = job.run()
    except KeyboardInterrupt:
        kept = "; --resume goes on from the last checkpoint" if checkpoint else ""
        print_message(f"interrupted before there was a network to keep{kept}")
        raise typer.Exit(130) from None
    if trained is not None:
        job.report(job.record(*trained))


def checkpoints(folder: Path | None, every: int | None, minutes: float | None, resume: bool) -> Any:
    """What the options of the command line ask for."""
    from dladmm.io.checkpoints import Checkpoints

    if folder is None:
        if every is not None or minutes is not None or resume:
            raise ValueError("--checkpoint is missing; expected the folder to keep the run in")
        return None
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--checkpoint {folder} is a file; expected a folder")
    return Checkpoints(folder, every=every, minutes=minutes, resume=resume, warn=print_message)


@dataclass
class FitJob:
    """One fit of the command line: `run` loads, trains and saves, `report` prints."""

    data: str
    target: str | None
    data_dir: Path | None
    task: str | None
    settings: dict[str, Any]
    out: Path
    as_json: bool
    warnings: list[str] = field(default_factory=list)

    def run(self) -> tuple[Any, TrainingRows, float | None] | None:
        """The estimator, its rows and its score on them; None in any process but the first."""
        import jax

        from dladmm.cli.scoring import score

        first = jax.process_index() == 0
        with tempfile.TemporaryDirectory() as folder:
            rows = self.load(Path(folder), first)
            estimator = self.train(rows, first)
            train_score = score(estimator, rows.X, rows.y, pooled=True)
        return (estimator, rows, train_score) if first else None

    def load(self, folder: Path, first: bool) -> TrainingRows:
        """The rows to train on, with what was noticed about them."""
        from dladmm.cli.loading import Source, training_rows
        from dladmm.core.engine.devices import over_processes

        with echo_warnings(self.warnings):
            rows = training_rows(
                Source(self.data, self.target, self.data_dir),
                folder,
                self.settings["batch_size"] is not None,
                self.settings["devices"],
                self.settings["dtype"],
                task=self.task,
                standardise_target=self.settings.get("loss") != "poisson",  # counts stay counts
            )
        count = int(over_processes(len(rows.y)).sum())
        if first and not self.as_json:
            typer.echo(task_sentence(rows.preprocessing, count, inferred=self.task is None))
        return rows

    def train(self, rows: TrainingRows, first: bool) -> Any:
        """A fitted estimator, saved by the first process."""
        from dladmm.estimators.model_files import save_model

        with echo_warnings(self.warnings, ignore_convergence=True) as more:
            estimator = fitted(rows.preprocessing.target.task, rows.X, rows.y, self.settings)
            if first:
                with saving(self.out, "the model"):
                    save_model(self.out, estimator, rows.preprocessing.to_dict())
            more.extend(ending(estimator))
        return estimator

    def record(
        self, estimator: Any, rows: TrainingRows, train_score: float | None
    ) -> dict[str, Any]:
        """How the training ended, as plain values."""
        from dladmm.cli.loading import encoded
        from dladmm.cli.scoring import finite, score
        from dladmm.core.problem import sizes_of

        target = rows.preprocessing.target
        record = {
            "status": estimator.status_,
            "message": estimator.message_,
            "n_iter": estimator.n_iter_,
            "resumed_from": estimator.resumed_from_,
            "seconds": estimator.history_["seconds"][-1],
            "task": target.task,
            "target": target.name,
            "network": sizes_of(estimator.layers_),
            "train_loss": finite(estimator.loss_),
            "certificate": estimator.certificate_.to_dict(),
            "train_score": train_score,
            "model": str(self.out),
            "warnings": self.warnings,
            "summary": estimator.certificate_.summary(),
        }
        if rows.test is not None:
            record["test_score"] = score(estimator, *encoded(rows.preprocessing, rows.test))
        return record

    def report(self, record: dict[str, Any]) -> None:
        from dladmm.cli.scoring import score_text

        if self.as_json:
            print_json({name: value for name, value in record.items() if name != "summary"})
            return
        earlier = record["resumed_from"]
        before = f", {earlier} of them before this run went on" if earlier else ""
        typer.echo(f"{record['n_iter']} iterations in {record['seconds']:.1f} s{before}")
        typer.echo(f"ended by {record['status']}: {record['message']}")
        for part in ("train", "test"):
            if f"{part}_score" in record:
                typer.echo(f"{part} {score_text(record['task'], record[f'{part}_score'])}")
        typer.echo(f"\n{record['summary']}\n\nmodel: {record['model']}")


def fitted(task: str, X: Any, y: Any, settings: dict[str, Any]) -> Any:
    """A fitted estimator; KeyboardInterrupt if it was interrupted before its first iteration."""
    from dladmm.core.results import Status
    from dladmm.estimators import DLADMMClassifier, DLADMMRegressor

    kind = DLADMMClassifier if task == "classification" else DLADMMRegressor
    estimator = kind(**settings, verbose=True).fit(X, y)
    if estimator.n_iter_ == 0:
        if estimator.status_ == Status.INTERRUPTED:
            raise KeyboardInterrupt
        raise ValueError(f"the training failed in its first iteration: {estimator.message_}")
    return estimator.set_params(verbose=False)  # the bar is the command's, not the model's


def ending(estimator: Any) -> list[str]:
    """What to say about a run that did not end by itself."""
    from dladmm.core.results import Status

    if estimator.status_ == Status.INTERRUPTED:
        return [f"interrupted after {estimator.n_iter_} iterations; the best network is kept"]
    if estimator.status_ == Status.DIVERGED:
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
