"""The command line. It parses, calls the library, and prints; nothing is computed here."""

from pathlib import Path
from typing import Annotated

import typer

from dladmm._version import __version__
from dladmm.cli import processes
from dladmm.cli.bench import app as bench_app
from dladmm.cli.compare import compare
from dladmm.cli.export import export
from dladmm.cli.fit import fit
from dladmm.cli.inspect import inspect
from dladmm.cli.messages import print_message, sentence
from dladmm.cli.options import AsJson, print_json
from dladmm.cli.predict import predict
from dladmm.cli.reproduce import reproduce
from dladmm.engine.process import return_large_arrays

app = typer.Typer(
    name="dladmm",
    help="Train neural networks: no learning rate, and a certificate for every run.",
    no_args_is_help=True,
    epilog="Begin with: dladmm demo, then: dladmm fit table.csv --target column --out model"
    " --report report.html. A command's own --help has its options.",
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dladmm {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Train neural networks: no learning rate, and a certificate for every run."""


@app.command(short_help="Train on handwritten digits, and see a certificate.")
def demo(
    as_json: AsJson = False,
    figure: Annotated[Path, typer.Option(help="Where to write the curves (PNG).")] = Path(
        "dladmm-demo.png"
    ),
) -> None:
    """Train on scikit-learn's handwritten digits and show what the run proves about itself."""
    from dladmm.cli.demo import run_demo  # JAX loads slowly; --help should not wait for it

    if not figure.resolve().parent.is_dir():
        raise ValueError(f"--figure {figure}: there is no folder {figure.resolve().parent}")
    result, record = run_demo(figure, quiet=as_json)
    if as_json:
        print_json(record)
        return
    network = "-".join(str(n) for n in record["network"])
    typer.echo(
        f"network {network}, {record['n_iter']} iterations in {record['seconds']:.1f} s\n"
        f"test accuracy  {record['test_accuracy']:.1%}"
        f"   (training {record['train_accuracy']:.1%})\n"
    )
    typer.echo(result.certificate.summary())
    typer.echo(f"\ncurves: {record['figure']}")


app.add_typer(bench_app, name="bench")
# One line each, so that `dladmm --help` fits a screen.
for command, line in (
    (fit, "Train a network on a table and write it to a file."),
    (predict, "Predict each row of a table with a model."),
    (inspect, "Say what a model file holds."),
    (export, "Write a model as an ONNX file."),
    (compare, "Run methods side by side on the same rows."),
    (reproduce, "Reproduce the paper's evaluation, claim by claim."),
):
    app.command(short_help=line)(command)


@app.command(
    short_help="Run a fit as several processes of this machine.",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def launch(
    context: typer.Context,
    num_processes: Annotated[
        int, typer.Option("--num-processes", "-n", min=1, help="How many processes to start.")
    ],
) -> None:
    """Run a fit as several processes of this machine, and end them all if one dies.

    Each reads its own rows only. With --checkpoint DIR the run can go on afterwards.

    Example: dladmm launch -n 3 -- fit flights.parquet --target delay --out m --checkpoint run
    """
    if context.args[:1] != ["fit"]:
        raise ValueError("there is nothing to launch; expected: dladmm launch -n 3 -- fit DATA ...")
    code, message = processes.launch(context.args, num_processes)
    if message:
        print_message(message)
    raise typer.Exit(code)


def main() -> None:
    """The entry point: one sentence and a non-zero exit code for whatever a user can cause."""
    return_large_arrays()
    try:
        app()
    except (ValueError, OSError, MemoryError, ImportError) as error:  # an extra may be missing
        print_message(sentence(error))
        processes.leave(2)
    except BaseException as error:
        processes.leave_others(error)
        raise
