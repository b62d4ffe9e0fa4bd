"""What the commands have in common: options, and how their values are read and printed."""

import json
import math
from pathlib import Path
from typing import Annotated, Any

import typer

from dladmm.core.options import HIDDEN
from dladmm.core.relaxed.step_rules import STEP_RULES

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A .csv, .tsv or .txt file, compressed or not, an .xlsx, .parquet or .npz file (arrays"
        " X and y), a .npy or IDX file with the target in another, a folder of images with a"
        " sub-folder for each class, or one of the data sets digits, mnist, fashion-mnist, mnist1d,"
        " japanese-vowels, cifar10-jpeg.",
        show_default=False,
    ),
]
Target = Annotated[
    str | None,
    typer.Option(help="The column to predict, or its file (not for data sets and .npz)."),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        help="Folder with mnist/ and fashion-mnist/; else DLADMM_DATA, else they are downloaded.",
        show_default=False,
    ),
]
Out = Annotated[Path, typer.Option(help="Where to write the model.", show_default=False)]
Task = Annotated[
    str | None,
    typer.Option(help="classification or regression; inferred from the target by default."),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="A column to leave out; may be given several times."),
]
TestSize = Annotated[
    float, typer.Option(help="The part of the rows held out for a score; 0 holds none out.")
]
Report = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.html",
        help="A page to look at, on the rows held out: scores, curves, mistakes, columns.",
    ),
]
Hidden = Annotated[str, typer.Option(help="Units of the hidden layers, such as 256,128.")]
HIDDEN_UNITS = ",".join(map(str, HIDDEN))  # by default
NetworkName = Annotated[
    str | None,
    typer.Option(
        help="For images and sequences: lenet, cnn-small, resnet-small, rnn or a .json file."
    ),
]
ActivationName = Annotated[str, typer.Option(help="Of the hidden layers.")]
MethodName = Annotated[str, typer.Option(help="The algorithm: restored, dladmm or admm.")]
StepRuleName = Annotated[
    str, typer.Option(help=f"How long the steps of dladmm are: {', '.join(STEP_RULES)}.")
]
Targets = Annotated[
    str,
    typer.Option(
        help="Of restored sweeps: first-order, or closed, without a derivative of activations."
    ),
]
LossName = Annotated[
    str | None,
    typer.Option(help="log_loss for classes and squared_error for numbers by default."),
]
Alpha = Annotated[
    str, typer.Option(help="Strength of the l2 regularisation: evidence, or a number.")
]
Seed = Annotated[int, typer.Option(help="For the weights to start from.")]
BatchSize = Annotated[
    str | None, typer.Option(help="Rows of a mini-batch, or auto; all rows at once by default.")
]
MaxIter = Annotated[int, typer.Option(help="The most iterations, or epochs.")]
Dtype = Annotated[str, typer.Option(help="auto, float32 or float64.")]
EngineName = Annotated[
    str,
    typer.Option(
        "--engine", help="numpy begins at once, jax compiles first; auto takes the quicker one."
    ),
]
Devices = Annotated[
    int | None,
    typer.Option(
        help="How many devices to spread the rows over; all in several processes, else 1."
    ),
]
LayerDevices = Annotated[
    int | None,
    typer.Option(
        help="dladmm: groups of layers, each on devices of its own, that work at the same time."
    ),
]
LayerMessages = Annotated[
    str,
    typer.Option(help="What such groups tell their neighbours: exact values, bfloat16 or 8bit."),
]
Checkpoint = Annotated[
    Path | None, typer.Option(help="Folder to keep the run in, to go on after an interruption.")
]
CheckpointEvery = Annotated[
    int | None, typer.Option(help="Iterations between two checkpoints.", show_default=False)
]
CheckpointMinutes = Annotated[
    float | None,
    typer.Option(help="Minutes between two checkpoints; 10 unless iterations are given."),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on from the newest checkpoint, if there is one.")
]
Coordinator = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Where process 0 of several listens, or auto: as SLURM, Kubernetes or MPI say.",
    ),
]
NumProcesses = Annotated[int | None, typer.Option(help="How many processes the run has.")]
ProcessId = Annotated[int | None, typer.Option(help="Which of them this is, from 0.")]


Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A file written by `dladmm fit`.")]


def parse_sizes(option: str, text: str) -> tuple[int, ...]:
    """'256,128' as (256, 128); ValueError names the option and what was expected."""
    try:
        sizes = tuple(int(part) for part in text.split(","))
    except ValueError:
        sizes = ()
    if not sizes or any(not 1 <= size <= MAX_WIDTH for size in sizes):
        raise ValueError(
            f"{option} {text!r} is not valid; expected numbers from 1 to {MAX_WIDTH:,}"
            " such as 256,128"
        )
    return sizes


def parse_numbers(option: str, text: str) -> tuple[float, ...]:
    """'0.2,0.1' as (0.2, 0.1), numbers > 0; ValueError names the option."""
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or not all(0 < number < math.inf for number in numbers):
        raise ValueError(f"{option} {text!r} is not valid; expected numbers > 0 such as 0.2,0.1")
    return numbers


# A layer wider than this is a slip of the keyboard: its weights alone would take terabytes.
MAX_WIDTH = 1_000_000


def parse_batch_size(text: str | None) -> int | str | None:
    """'auto', or a whole number >= 1; None without the option."""
    if text is None or text == "auto":
        return text
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(
            f"--batch-size {text!r} is not valid; expected auto or a number of rows such as 512"
        )
    return int(text)


def parse_alpha(text: str) -> float | str:
    """'evidence', or a number >= 0."""
    if text == "evidence":
        return text
    try:
        return float(text)
    except ValueError:
        raise ValueError(
            f"--alpha {text!r} is not valid; expected evidence or a number >= 0"
        ) from None


def print_json(record: dict[str, Any]) -> None:
    """One JSON object on standard output; what JSON does not know is written as text."""
    typer.echo(json.dumps(record, indent=2, allow_nan=False, default=str))
