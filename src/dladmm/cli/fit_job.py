"""One fit of the command line, from the data to what is printed of it.

JAX, scikit-learn and pandas load slowly, so they are imported where they are needed.
"""

from __future__ import annotations

import tempfile
import warnings
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dladmm.cli.messages import echo_warnings, print_message, saving, sentence
from dladmm.cli.options import print_json
from dladmm.cli.training import ended_by, ending, fitted, named_network, task_sentence
from dladmm.engine.signals import asked_to_end, interruptible

if TYPE_CHECKING:
    from dladmm.cli.loading import Reading, TrainingRows
    from dladmm.data.preprocessing import TablePreprocessor
    from dladmm.data.target import Target


@dataclass
class FitJob:
    """One fit of the command line: `run` loads, trains, saves and scores, `report` prints."""

    data: str
    target: str | None
    data_dir: Path | None
    task: str | None
    drop: list[str]
    test_size: float
    settings: dict[str, Any]
    out: Path
    as_json: bool
    network: str | None = None  # a preset's name, or a file
    page: Path | None = None  # where to write the report
    warnings: list[str] = field(default_factory=list)
    interrupted_by: int = 0  # the signal that ended it, the model being saved
    ran_out: bool = False  # of memory, the model being saved
    page_written: bool = False

    def run(self) -> dict[str, Any] | None:
        """How the training ended, as plain values; None in any process but the first."""
        from dladmm.core.results import BROKEN_OFF, Status
        from dladmm.engine.processes import process_index

        first = process_index() == 0
        with tempfile.TemporaryDirectory() as folder:
            reading, rows = self.load(Path(folder), first)
            estimator = self.train(rows, first)
            self.interrupted_by = ended_by(estimator)
            scores: dict[str, Any] = {"train": None}
            if not self.interrupted_by:
                scores = self.scores(estimator, reading, rows)
            learned, reading = rows.preprocessing, reading.read_as(rows.preprocessing)
            del rows  # which may be most of the memory
            if not reading.source.is_named and self.test_size > 0:
                scores["held_out"] = None
                ended = estimator.status_ not in BROKEN_OFF and not asked_to_end()
                if ended and not self.interrupted_by:
                    scores["held_out"] = self.held_out(
                        reading, learned, Path(folder), first, estimator
                    )
            self.interrupted_by = self.interrupted_by or asked_to_end()
            self.ran_out = estimator.status_ == Status.MEMORY
        return self.record(estimator, learned.target, scores) if first else None

    def load(self, folder: Path, first: bool) -> tuple[Reading, TrainingRows]:
        """The data, and the rows to train on, with what was noticed about them."""
        from dladmm.cli.loading import Reading, Source
        from dladmm.engine.processes import over_processes

        with echo_warnings(self.warnings):
            reading = Reading(
                Source(self.data, self.target, self.data_dir),
                self.settings["batch_size"] is not None,
                task=self.task,
                drop=self.drop,
                standardise_target=self.settings.get("loss") != "poisson",  # counts stay counts
            )
            rows = reading.rows(folder, self.settings["devices"], self.settings["dtype"])
        count = int(over_processes(len(rows.y)).sum())
        self.say(task_sentence(rows.preprocessing, count, inferred=self.task is None), first)
        if self.network is not None:
            target = rows.preprocessing.target
            outputs = len(target.classes) if target.task == "classification" else 1
            network = named_network(self.network, reading.source, outputs)
            self.settings["network"] = network
            self.say(f"\n{network.summary()}\n", first)
        self.say(f"training the model on all {count} rows", first)
        return reading, rows

    def say(self, text: str, first: bool = True) -> None:
        if first and not self.as_json:
            typer.echo(text)

    def train(self, rows: TrainingRows, first: bool) -> Any:
        """A fitted estimator, saved by the first process."""
        from dladmm.engine.processes import process_count
        from dladmm.estimators.model_files import save_model

        with echo_warnings(self.warnings, ignore_convergence=True) as more:
            watches = process_count() == 1
            estimator = fitted(rows, self.settings, self.test_rows(rows) if watches else None)
            if first:
                with saving(self.out, "the model"):
                    save_model(self.out, estimator, rows.preprocessing.to_dict())
            more.extend(ending(estimator))
        return estimator

    def test_rows(self, rows: TrainingRows) -> tuple[Any, Any] | None:
        """The test part of a named data set, as the network takes it; the first process has it."""
        from dladmm.cli.loading import encoded

        return None if rows.test is None else encoded(rows.preprocessing, rows.test)

    def scores(self, estimator: Any, reading: Reading, rows: TrainingRows) -> dict[str, Any]:
        """Figures on the rows that were trained on, and on the test part of a named data set."""
        from dladmm.cli.scoring import scored

        target = rows.preprocessing.target
        known = reading.targets(target, target.answered(reading.target_column))
        scores: dict[str, Any] = {"train": None}
        with suppress(KeyboardInterrupt):  # the model is saved by now, and worth more
            scores["train"] = scored(estimator, target, rows.X, rows.y, known, pooled=True)
            if (test := self.test_rows(rows)) is not None:
                scores["test"] = scored(estimator, target, *test, known)
                self.write_page(estimator, rows.preprocessing, *test, known=known)
        return scores

    def held_out(
        self,
        reading: Reading,
        of_model: TablePreprocessor,
        folder: Path,
        first: bool,
        model: Any,
    ) -> dict[str, Any] | None:
        """Figures on rows that another network has not seen, trained on the others like the model.

        It comes after the model is saved, and has no checkpoint: a run that goes on goes on with
        the model, and whatever ends this leaves the model as it is.
        """
        from dladmm.callbacks.progress import is_shown
        from dladmm.cli.scoring import scored
        from dladmm.core.results import Status
        from dladmm.engine.processes import process_count

        settings, target = {**self.settings, "checkpoints": None}, of_model.target
        try:
            out = reading.held_out(target, self.test_size, self.settings["random_state"])
            others = target.answered(reading.target_column) & ~out
            self.say(
                f"for a score on unseen rows, training another network on {others.sum()} rows;"
                f" {out.sum()} are held out (--test-size 0 leaves this out)",
                first,
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the fit on all rows has shown it
                rows = reading.rows(folder, settings["devices"], settings["dtype"], others)
                X, y = reading.scored_rows(rows.preprocessing, out, folder, rows.X.dtype)
                # In one process, of rows that fit into memory, and where somebody looks.
                watches = is_shown() and process_count() == 1 and not reading.by_batches
                estimator = fitted(rows, settings, (X, y) if watches else None)
                interruptible()
                if estimator.status_ == Status.INTERRUPTED:
                    raise KeyboardInterrupt
                learned = rows.preprocessing.target
                # Classes as the model has them; numbers in the scale of this network.
                known = reading.targets(target if target.classes else learned, others)
                figures = scored(estimator, learned, X, y, known, pooled=True)
                more = {"rows": out.nonzero()[0], "model": model, "of_model": of_model}
                self.write_page(estimator, rows.preprocessing, X, y, known=known, **more)
                return figures
        except (ValueError, OSError, MemoryError, KeyboardInterrupt) as error:
            why = sentence(error) or "interrupted; the model of all rows is saved"
            if first:
                self.warnings.append(f"no held-out score: {why}")
                print_message(self.warnings[-1])
            return None

    def write_page(
        self,
        estimator: Any,
        preprocessing: TablePreprocessor,
        X: Any,
        y: Any,
        *,
        known: Any,
        rows: Any = None,
        model: Any = None,
        of_model: TablePreprocessor | None = None,
    ) -> None:
        """The report on these rows, where one was asked for."""
        if self.page is None:
            return
        import numpy as np

        from dladmm.cli.reporting import table_report

        written = table_report(
            estimator,
            preprocessing,
            X,
            y,
            known=known,
            rows=np.arange(len(y)) if rows is None else rows,
            source=self.data,
            seed=self.settings["random_state"],
            model=model,
            of_model=of_model,
            remarks=self.warnings,
        )
        with saving(self.page, "the report"):
            written.save(self.page)
        self.page_written = True

    def record(self, estimator: Any, target: Target, scores: dict[str, Any]) -> dict[str, Any]:
        from dladmm.cli.scoring import finite, main_score
        from dladmm.core.problem import sizes_of

        return {
            "status": estimator.status_,
            "message": estimator.message_,
            "n_iter": estimator.n_iter_,
            "resumed_from": estimator.resumed_from_,
            "seconds": estimator.history_["seconds"][-1],
            "task": target.task,
            "target": target.name,
            "unit": target.unit,
            "network": sizes_of(estimator.layers_),
            "train_loss": finite(estimator.loss_),
            "certificate": estimator.certificate_.to_dict(),
            **{f"{part}_score": main_score(figures) for part, figures in scores.items()},
            **scores,
            "model": str(self.out),
            "report": str(self.page) if self.page_written else None,
            "warnings": self.warnings,
            "summary": estimator.certificate_.summary(),
        }

    def report(self, record: dict[str, Any]) -> None:
        from dladmm.cli.scoring import comparison, score_text

        if self.as_json:
            print_json({name: value for name, value in record.items() if name != "summary"})
            return
        earlier = record["resumed_from"]
        before = f", {earlier} of them before this run went on" if earlier else ""
        typer.echo(f"the model: {record['n_iter']} iterations in {record['seconds']:.1f} s{before}")
        typer.echo(f"ended by {record['status']}: {record['message']}")
        if record["train"] is not None:
            typer.echo(f"train {score_text(record['train'])} (on the rows it was trained on)")
        for part, label in (("test", "test"), ("held_out", "held-out")):
            figures = record.get(part) or {}
            for text in comparison(figures, record["unit"]) if figures else ():
                typer.echo(f"{label} {text} (on {figures['rows']} rows not seen in training)")
        typer.echo(f"\n{record['summary']}\n\nmodel: {record['model']}")
        if record["report"]:
            typer.echo(f"report: {record['report']}")
