"""`dladmm inspect`: what a model file holds."""

from typing import Any

import typer

from dladmm.cli.options import AsJson, Model, print_json


def inspect(model: Model, as_json: AsJson = False) -> None:
    """Say what a model file holds: network, target, columns, how its training ended."""
    from dladmm.cli.scoring import finite
    from dladmm.core.problem import sizes_of
    from dladmm.estimators.model_files import load_model

    loaded = load_model(model)
    estimator = loaded.estimator
    record = {
        "model": str(model),
        "estimator": type(estimator).__name__,
        "library_version": loaded.metadata.get("library_version"),
        "network": sizes_of(estimator.layers_),
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
