"""`dladmm export`: a model file as an ONNX file, which other programs run."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dladmm.cli.messages import check_writable, echo_warnings, saving
from dladmm.cli.options import AsJson, Model, print_json


def export(
    model: Model,
    out: Annotated[
        Path,
        typer.Argument(metavar="FILE.onnx", help="Where to write it.", show_default=False),
    ],
    dtype: Annotated[
        str, typer.Option(help="What the file computes in: float64 as here, or float32.")
    ] = "float64",
    as_json: AsJson = False,
) -> None:
    """Write a model as an ONNX file, preprocessing included, for programs without dladmm.

    The file takes the columns of the table as they are, one input each; what ONNX cannot do, such
    as reading dates, is said. Needs pip install 'dladmm[onnx]'; whatever runs ONNX runs it then.

    Example: dladmm export houses.model houses.onnx
    """
    if out.suffix.lower() != ".onnx":
        raise ValueError(f"{out} is not an .onnx file; expected one")
    check_writable(out, "FILE.onnx", keep=[str(model)])
    from dladmm.estimators.model_files import load_model
    from dladmm.export.onnx_graph import read_signature

    loaded = load_model(model)
    with echo_warnings() as warnings, saving(out, "the ONNX file"):
        loaded.estimator.to_onnx(out, loaded.preprocessing, dtype=dtype)
    inputs, outputs = read_signature(out)
    if as_json:
        print_json({"out": str(out), "inputs": inputs, "outputs": outputs, "warnings": warnings})
        return
    typer.echo(f"ONNX file: {out}")
    _print_values("takes", inputs)
    _print_values("gives", outputs)


def _print_values(label: str, values: list[dict[str, Any]]) -> None:
    """A line for each: its name, its type, its shape if it is more than a column, its meaning."""
    for value in values:
        more = " x ".join(str(n) for n in value["shape"][1:] if n != 1)
        parts = [value["type"] + (f" x {more}" if more else ""), value["meaning"]]
        typer.echo(f"  {label} {value['name']}: {'; '.join(filter(None, parts))}")
