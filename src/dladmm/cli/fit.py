"""`dladmm fit`: a table in, a model out. What is asked for here is done by `FitJob`.

Results go to standard output, warnings to standard error, refusals out as ValueError or OSError,
which the entry point turns into one sentence. JAX, scikit-learn and pandas load slowly, so they
are imported where they are needed: --help does not wait for them.
"""

from __future__ import annotations

import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import typer

from dladmm.cli.fit_job import FitJob
from dladmm.cli.messages import check_writable, claimed, print_message
from dladmm.cli.options import (
    HIDDEN_UNITS,
    ActivationName,
    Alpha,
    AsJson,
    BatchSize,
    Checkpoint,
    CheckpointEvery,
    CheckpointMinutes,
    Coordinator,
    Data,
    DataDir,
    Devices,
    Drop,
    Dtype,
    EngineName,
    Hidden,
    LayerDevices,
    LayerMessages,
    LossName,
    MaxIter,
    MethodName,
    NetworkName,
    NumProcesses,
    Out,
    ProcessId,
    Report,
    Resume,
    Seed,
    StepRuleName,
    Target,
    Targets,
    Task,
    TestSize,
    parse_alpha,
    parse_batch_size,
    parse_sizes,
)
from dladmm.cli.processes import join
from dladmm.core.options import ACTIVATION, ALPHA, DEFAULTS
from dladmm.engine.signals import asked_to_end, listening

TEST_SIZE = 0.2


def fit(
    data: Data,
    out: Out,
    target: Target = None,
    task: Task = None,
    drop: Drop = None,
    test_size: TestSize = TEST_SIZE,
    report: Report = None,
    hidden: Hidden = HIDDEN_UNITS,
    network: NetworkName = None,
    activation: ActivationName = ACTIVATION,
    method: MethodName = DEFAULTS.method,
    step_rule: StepRuleName = str(DEFAULTS.step_rule),
    targets: Targets = DEFAULTS.targets,
    loss: LossName = None,
    alpha: Alpha = ALPHA,
    seed: Seed = DEFAULTS.seed,
    batch_size: BatchSize = None,
    max_iter: MaxIter = DEFAULTS.max_iter,
    dtype: Dtype = DEFAULTS.dtype,
    engine: EngineName = DEFAULTS.engine,
    devices: Devices = None,
    layer_devices: LayerDevices = None,
    layer_messages: LayerMessages = DEFAULTS.layer_messages,
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
    filled in. Ctrl-C, SIGTERM and SIGHUP end the training early: the best network so far is
    written, and a checkpoint where there is a folder for it; the exit code is 128 + the signal.

    The model is trained on all rows. A fifth of them is then held out and another network trained
    on the rest, for a score on rows that were not seen (named data sets have a test part instead).

    Example: dladmm fit houses.csv --target price --out houses.model
    """
    settings: dict[str, Any] = {
        "hidden_layer_sizes": parse_sizes("--hidden", hidden),
        "activation": activation,
        "method": method,
        "step_rule": step_rule,
        "targets": targets,
        "alpha": parse_alpha(alpha),
        "random_state": seed,
        "batch_size": parse_batch_size(batch_size),
        "max_iter": max_iter,
        "dtype": dtype,
        "engine": engine,
        "devices": devices,
        "layer_devices": layer_devices,
        "layer_messages": layer_messages,
        **({} if loss is None else {"loss": loss}),
    }
    if not 0 <= test_size < 1:
        raise ValueError(f"--test-size {test_size:g} is not valid; expected a part, from 0 to 1")
    check_writable(out, "--out", keep=[data, *([] if target is None else [target])])
    join(coordinator, num_processes, process_id)
    if report is not None:
        check_report(report, out, data, test_size)
    from dladmm.io.checkpoints import kept_in

    source = (data, target, data_dir, task, drop or [], test_size)
    job = FitJob(*source, settings, out, as_json, network, report)
    with ExitStack() as claims:
        claims.enter_context(listening())
        claims.enter_context(claimed(out, "--out"))
        if report is not None:
            claims.enter_context(claimed(report, "--report"))
        try:
            settings["checkpoints"] = checkpoints(
                checkpoint, checkpoint_every, checkpoint_minutes, resume
            )
            trained = job.run()
        except KeyboardInterrupt:
            kept = checkpoint is not None and kept_in(checkpoint)
            more = "; --resume goes on from the last checkpoint" if kept else ""
            print_message(f"interrupted before there was a network to keep{more}")
            raise typer.Exit(128 + (asked_to_end() or signal.SIGINT)) from None
        if trained is not None:
            job.report(trained)
        if job.interrupted_by:
            raise typer.Exit(128 + job.interrupted_by)
        if job.ran_out:
            raise typer.Exit(1)


def check_report(report: Path, out: Path, data: str, test_size: float) -> None:
    """ValueError where no report can be made, before anything is trained."""
    import dladmm.report.figures  # noqa: F401  says how to install what draws
    from dladmm.data.datasets import NAMES
    from dladmm.engine.processes import process_count

    check_writable(report, "--report", keep=[data])
    if report.resolve() == out.resolve():
        raise ValueError(f"--report {report} is --out as well; expected another file")
    if test_size == 0 and data not in NAMES:
        raise ValueError("--report needs rows held out; expected --test-size above 0")
    if process_count() > 1:
        raise ValueError("--report is for one process; expected a fit without --num-processes")


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
