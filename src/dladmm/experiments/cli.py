"""`dladmm compare` and `dladmm reproduce`: methods side by side, and the paper's evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dladmm.cli_options import AsJson, Data, DataDir, Target, parse_sizes, print_json
from dladmm.said import saying_warnings

SHOWN = {"seconds": ".2f", "train_loss": ".4g", "test_loss": ".4g", "test_accuracy": ".2%"}


def compare(
    data: Data,
    out: Annotated[Path, typer.Option(help="Folder for records and picture.", show_default=False)],
    target: Target = None,
    hidden: Annotated[str, typer.Option(help="Units of the hidden layers.")] = "100",
    methods: Annotated[
        str,
        typer.Option(
            help="restored, dladmm, dladmm-paper, admm, and sgd, momentum, nesterov, adagrad,"
            " adadelta, rmsprop, adam, amsgrad, lbfgs, with a rate if wanted (adam=3e-3)."
        ),
    ] = "restored,dladmm,adam=1e-3,adam=1e-2,sgd=0.1",
    samples: Annotated[int | None, typer.Option(help="Training rows; all by default.")] = None,
    iterations: Annotated[int, typer.Option(help="Of each method, on all rows.")] = 100,
    seeds: Annotated[int, typer.Option(help="How many seeds, from 0 on.")] = 1,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Run methods side by side on the same rows, network and initial weights.

    Leaves one JSON record per run and compare.png, curves over iterations and over seconds. A run
    whose record is there is not run again. A quarter of a table is kept for the test.

    Example: dladmm compare houses.csv --target price --out compared --methods restored,adam
    """
    sizes = parse_sizes("--hidden", hidden)
    for option, value in (("--iterations", iterations), ("--seeds", seeds), ("--samples", samples)):
        if value is not None and value < 1:
            raise ValueError(f"{option} {value} is not valid; expected a positive integer")
    from dladmm import command_steps as steps
    from dladmm.experiments.compare import compare as run
    from dladmm.experiments.compare import contestant
    from dladmm.report.plots import plot_compare
    from dladmm.report.progress import CountBar

    contestants = [contestant(text) for text in methods.split(",")]
    with saying_warnings():
        course = steps.course(data, target, data_dir, samples, sizes)
    with CountBar(iterations, disable=as_json) as bar:
        runs = run(course, contestants, seeds=seeds, iterations=iterations, folder=out, tell=bar)
    picture = out / "compare.png"
    plot_compare(runs, picture, f"{data}: {len(course.arrays[0]):,} rows, hidden {hidden}")
    last = [
        {
            "method": run["method"],
            "seed": run["seed"],
            # A run that broke down at once has no iteration to tell of.
            **{key: steps.finite(run[key][-1]) if run[key] else None for key in SHOWN},
        }
        for run in runs
    ]
    if as_json:
        print_json({"rows": last, "picture": str(picture)})
        return
    _print_compared(last)
    typer.echo(f"\ncurves: {picture}")


def _print_compared(rows: list[dict[str, Any]]) -> None:
    typer.echo(
        f"  {'method':<16} {'seed':>4} {'seconds':>9} {'loss':>10} {'test loss':>10} accuracy"
    )
    for row in rows:
        figures = ["-" if row[key] is None else format(row[key], how) for key, how in SHOWN.items()]
        typer.echo(
            f"  {row['method']:<16} {row['seed']:>4} {figures[0]:>9} {figures[1]:>10}"
            f" {figures[2]:>10} {figures[3]:>8}"
        )


def reproduce(
    pieces: Annotated[
        list[str],
        typer.Argument(
            metavar="PIECE...",
            help="fig3, fig4, fig5, fig6, table2, table3, or all; report draws what is there.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for records, figures and the report.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="2,000 images and 100 neurons: minutes, not hours.")
    ] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Reproduce the evaluation of the paper: figures, tables, claims and an HTML report.

    Every finished run is on disk in PIECE.json and is not made again, so a long reproduction can be
    interrupted with Ctrl-C and gone on with.

    Example: dladmm reproduce all --quick --out reproduced
    """
    from dladmm.experiments import reproduce as making
    from dladmm.experiments.claims import WORDS
    from dladmm.experiments.paper import FULL, QUICK
    from dladmm.experiments.present import present
    from dladmm.experiments.records import make
    from dladmm.report.progress import WorkBar

    known = (*making.PIECES, "all", "report")
    for piece in pieces:
        if piece not in known:
            raise ValueError(f"{piece!r} is unknown; expected one of {', '.join(known)}")
    wanted = making.PIECES if "all" in pieces else [p for p in making.PIECES if p in pieces]
    scale = QUICK if quick else FULL
    out.mkdir(parents=True, exist_ok=True)
    in_turn = sorted(wanted, key=lambda piece: piece == "fig4")  # it takes over runs of the others
    missing = {piece: making.missing_units(out, piece, scale, data_dir) for piece in in_turn}
    left = [unit for units in missing.values() for unit in units]
    if left:
        seconds = making.seconds_needed(left)
        typer.echo(
            f"{len(left)} runs, about {_duration(seconds)} on this machine; finished ones are kept"
            f" in {out}",
            err=True,
        )
    try:
        with WorkBar(sum(unit.work for unit in left), disable=as_json) as bar:
            for piece, units in missing.items():
                for unit in units:
                    bar.begin(unit.work)
                    make(out, piece, scale, unit, bar)
                    bar.say(f"{piece}: {unit.name}")
    except KeyboardInterrupt:
        typer.echo("dladmm: interrupted; the same command goes on with the rest", err=True)
        raise typer.Exit(130) from None
    finally:
        summary = present(out)
    if as_json:
        print_json(summary)
        return
    for row in summary["claims"]:
        verdict = WORDS[row["holds"]] or "no record"
        typer.echo(
            f"  {row['place']:<10} {row['data']:<14} {row['variant']:<8} {verdict:<14}"
            f" {row['claim']}: {row['ours'] or '-'}"
        )
    typer.echo(f"\nreport: {summary['report']}")


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"
