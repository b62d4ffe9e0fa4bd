"""`dladmm bench race`: restored sweeps against gradient methods, to the same losses or scores."""

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from dladmm.cli.options import AsJson, parse_numbers, parse_sizes, print_json


def race(
    data: Annotated[str, typer.Option(help="A data set, such as digits or mnist.")] = "mnist",
    samples: Annotated[int | None, typer.Option(help="Training images; all by default.")] = None,
    hidden: Annotated[str, typer.Option(help="Hidden layers, such as 300,300.")] = "1000,1000",
    network: Annotated[
        str | None, typer.Option(help="In place of them: lenet, cnn-small, rnn; with --mini.")
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(help="In place of all that: deep-narrow, diamonds-cut or diamonds-price."),
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds, from 0 on.")] = 3,
    mini: Annotated[bool, typer.Option("--mini", help="Mini-batches, to a test score.")] = False,
    targets: Annotated[
        str | None,
        typer.Option(help="Full batch: training losses to race to, such as 0.2,0.1,0.05."),
    ] = None,
    iterations: Annotated[int, typer.Option(help="The most iterations, or epochs.")] = 200,
    limit_seconds: Annotated[
        float, typer.Option(help="Who trains for longer is out.", show_default="none")
    ] = math.inf,
    only: Annotated[
        str, typer.Option(help="Racers, by the beginning of their names: adam,restored.")
    ] = "",
    kfac_python: Annotated[
        Path | None,
        typer.Option(help="Full batch: a Python with jax==0.6.2 and kfac-jax==0.0.8, which races."),
    ] = None,
    records: Annotated[
        Path | None, typer.Option(help="Keeps each finished run here; it is not run again.")
    ] = None,
    picture: Annotated[Path | None, typer.Option(help="A PNG of the curves over time.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where the data sets are.")] = None,
    as_json: AsJson = False,
) -> None:
    """Restored sweeps against gradient methods, to the same loss or score."""
    from dladmm.bench.race import plot_race
    from dladmm.bench.race import race as run_race
    from dladmm.data.datasets import load_dataset
    from dladmm.experiments.tasks import image_task, task_named

    for option, value in (("--seeds", seeds), ("--iterations", iterations)):
        if value < 1:
            raise ValueError(f"{option} {value} is not valid; expected a positive integer")
    if not limit_seconds > 0:
        raise ValueError(f"--limit-seconds {limit_seconds:g} is not valid; expected a number > 0")
    if targets is not None and (mini or task is not None):
        raise ValueError(
            "--targets is for full batches of images; expected neither --mini nor --task"
        )
    if kfac_python is not None and mini:
        raise ValueError("--kfac-python is for full batches; expected no --mini")
    if task is not None:
        work = task_named(task, data_dir)
    else:
        losses = parse_numbers("--targets", targets) if targets else ()
        work = image_task(
            load_dataset(data, data_dir),
            samples,
            parse_sizes("--hidden", hidden),
            network,
            None if mini else losses,
        )
    figures = run_race(
        work,
        seeds=seeds,
        mini=mini,
        iterations=iterations,
        limit_seconds=limit_seconds,
        only=tuple(name.strip() for name in only.split(",") if name.strip()),
        kfac_python=kfac_python,
        records=records,
        show=lambda line: typer.echo(line, err=True),
    )
    if picture is not None:
        plot_race(figures, picture)
    if as_json:
        print_json(figures)
        return
    _print_race(figures)


def _print_race(figures: dict[str, Any]) -> None:
    """For each target a table, and the best of each group below it."""
    from dladmm.bench.race import score_of

    for target in dict.fromkeys(row["target"] for row in figures["table"]):
        rows = [row for row in figures["table"] if row["target"] == target]
        what = rows[0]["figure"].replace("_", " ")
        typer.echo(f"{figures['words']}, to {what} {target:g}: medians")
        typer.echo(f"  {'':<34} {'iterations':>10} {'seconds':>9} {'test':>9} {'compile':>8}")
        for row in rows:
            if row["seconds"] is None:
                reached = f"{'never':>10} {'':>9} {'':>9}"
            else:
                seconds = f"{row['seconds']:>8.2f}s"
                reached = f"{row['iteration']:>10.2f} {seconds} {score_of(row):>9}"
            typer.echo(f"  {row['racer']:<34} {reached} {row['compile_seconds']:>7.1f}s")
        for row in (row for row in figures["best"] if row["target"] == target):
            share = f", ours takes {row['ours_takes']:.2f} of its time" if row["ours_takes"] else ""
            typer.echo(f"  best of {row['group']}: {row['racer'] or 'never'}{share}")
    if figures["left_out"]:
        typer.echo(f"not installed, and left out: {', '.join(figures['left_out'])}")
