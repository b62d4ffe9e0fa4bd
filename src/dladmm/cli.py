"""The command line. It parses, calls the library, and prints; nothing is computed here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dladmm import commands, processes
from dladmm._version import __version__
from dladmm.bench.cli import app as bench_app
from dladmm.cli_options import AsJson, print_json
from dladmm.environment import return_large_arrays
from dladmm.experiments import cli as experiments
from dladmm.said import sentence

app = typer.Typer(
    name="dladmm",
    help="Train neural networks by alternating minimisation: no learning rate, a certificate.",
    no_args_is_help=True,
    add_completion=False,
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
    """Train neural networks by alternating minimisation: no learning rate, a certificate."""


@app.command()
def demo(
    as_json: AsJson = False,
    figure: Annotated[Path, typer.Option(help="Where to write the curves (PNG).")] = Path(
        "dladmm-demo.png"
    ),
) -> None:
    """Train on scikit-learn's handwritten digits and show what the run proves about itself."""
    from dladmm.demo import run_demo  # JAX loads slowly; --help should not wait for it

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
app.command()(commands.fit)
app.command()(commands.predict)
app.command()(experiments.compare)
app.command()(experiments.reproduce)
app.command()(commands.inspect)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
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
    code, told = processes.launch(context.args, num_processes)
    if told:
        typer.echo(f"dladmm: {told}", err=True)
    raise typer.Exit(code)


def main() -> None:
    """The entry point: one sentence and a non-zero exit code for whatever a user can cause."""
    return_large_arrays()
    try:
        app()
    except (ValueError, OSError, MemoryError, ImportError) as error:  # an extra may be missing
        typer.echo(f"dladmm: {sentence(error)}", err=True)
        processes.leave(2)
    except BaseException as error:
        processes.leave_others(error)
        raise
