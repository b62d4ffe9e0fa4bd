"""`dladmm compare`: methods side by side on any table or data set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dladmm.cli.messages import claimed, echo_warnings
from dladmm.cli.options import (
    HIDDEN_UNITS,
    AsJson,
    Data,
    DataDir,
    Hidden,
    Target,
    parse_sizes,
    print_json,
)

if TYPE_CHECKING:
    from dladmm.cli.loading import Source
    from dladmm.experiments.setup import Setup

SHOWN = {"seconds": ".2f", "train_loss": ".4g", "test_loss": ".4g", "test_accuracy": ".2%"}


def compare(
    data: Data,
    out: Annotated[Path, typer.Option(help="Folder for records and picture.", show_default=False)],
    target: Target = None,
    hidden: Hidden = HIDDEN_UNITS,
    methods: Annotated[
        str,
        typer.Option(
            help="restored, dladmm, dladmm-vector, dladmm-paper, admm, and sgd, momentum,"
            " nesterov, adagrad, adadelta, rmsprop, adam, amsgrad, lbfgs, with a rate if wanted"
            " (adam=3e-3)."
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
    from dladmm.callbacks.progress import CountBar
    from dladmm.cli.loading import Source
    from dladmm.cli.scoring import finite
    from dladmm.experiments.compare import compare as run
    from dladmm.experiments.compare import contestant
    from dladmm.experiments.plots import plot_compare

    contestants = [contestant(text) for text in methods.split(",")]
    with echo_warnings():
        setup = setup_of(Source(data, target, data_dir), samples, sizes)
    out.mkdir(parents=True, exist_ok=True)
    picture = out / "compare.png"
    with claimed(picture, "--out"), CountBar(iterations, disable=as_json) as bar:
        runs = run(setup, contestants, seeds=seeds, iterations=iterations, folder=out, show=bar)
        plot_compare(runs, picture, f"{data}: {len(setup.arrays[0]):,} rows, hidden {hidden}")
    last = [
        # A run that broke down at once has no iteration to show.
        {"method": run["method"], "seed": run["seed"]}
        | {key: finite(run[key][-1]) if run[key] else None for key in SHOWN}
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


def setup_of(source: Source, samples: int | None, hidden: Sequence[int]) -> Setup:
    """Rows and network to compare methods on; a quarter of a table is kept for the test."""
    import numpy as np
    from sklearn.model_selection import train_test_split

    from dladmm.cli.loading import encoded, training_rows
    from dladmm.core.problem import Problem
    from dladmm.experiments.setup import Setup

    preprocessing, X, y, test = training_rows(source, Path(), by_batches=False)
    classes = preprocessing.target.task == "classification"
    if test is None:
        how = {"test_size": 0.25, "random_state": 0, "stratify": y if classes else None}
        X, X_test, y, y_test = train_test_split(X, y, **how)
    else:
        X_test, y_test = encoded(preprocessing, test)
    X, y = X[:samples], y[:samples]
    if classes:
        names = np.unique(np.concatenate([y, y_test]))
        Y, Y_test = (v[:, None] == names for v in (y, y_test))
    else:
        Y, Y_test = (np.asarray(v, dtype=float).reshape(len(v), -1) for v in (y, y_test))
    loss = "log_loss" if classes else "squared_error"
    problem = Problem.dense((X.shape[1], *hidden, Y.shape[1]), "relu", loss)
    single = [np.ascontiguousarray(v, np.float32) for v in (X, Y, X_test, Y_test)]
    return Setup(problem, (single[0], single[1], None), (single[2], single[3]))
