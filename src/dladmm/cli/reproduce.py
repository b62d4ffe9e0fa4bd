"""`dladmm reproduce`: the paper's evaluation."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from dladmm.cli.messages import claimed, print_message
from dladmm.cli.options import AsJson, DataDir, print_json


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
    from dladmm.paper.claims import WORDS

    wanted = _wanted(pieces)
    out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as claims:
        for piece in wanted:  # others of the same folder may be made by another run meanwhile
            claims.enter_context(claimed(out / f"{piece}.json", "--out"))
        summary = _made(out, wanted, quick, data_dir, as_json)
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


def _wanted(pieces: list[str]) -> list[str]:
    """The pieces asked for, in the order in which they are made."""
    from dladmm.paper.reproduce import PIECES

    known = (*PIECES, "all", "report")
    for piece in pieces:
        if piece not in known:
            raise ValueError(f"{piece!r} is unknown; expected one of {', '.join(known)}")
    wanted = PIECES if "all" in pieces else [p for p in PIECES if p in pieces]
    return sorted(wanted, key=lambda piece: piece == "fig4")  # it takes over runs of the others


def _made(
    out: Path, pieces: list[str], quick: bool, data_dir: Path | None, as_json: bool
) -> dict[str, Any]:
    """What the report says, once every run that is missing is there or Ctrl-C was pressed."""
    from dladmm.callbacks.progress import WorkBar
    from dladmm.paper import reproduce as making
    from dladmm.paper.present import present
    from dladmm.paper.records import make
    from dladmm.paper.settings import FULL, QUICK

    scale = QUICK if quick else FULL
    missing = {piece: making.missing_units(out, piece, scale, data_dir) for piece in pieces}
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
                    bar.print(f"{piece}: {unit.name}")
    except KeyboardInterrupt:
        print_message("interrupted; the same command goes on with the rest")
        raise typer.Exit(130) from None
    finally:
        summary: dict[str, Any] = present(out)
    return summary


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"
