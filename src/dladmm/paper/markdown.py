"""The evaluation's tables for a document: claims, seconds per iteration, settings and versions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dladmm.paper.claims import WORDS
from dladmm.paper.tables import machines, seconds_tables, setting
from dladmm.paper.verdicts import Records

BAR = r"\|"  # within a cell


def summary(records: Records, claims: Sequence[Mapping[str, Any]]) -> str:
    """Everything that is not a curve."""
    parts = ["# The evaluation of dlADMM (KDD 2019)", "## Claims of Section 5", _claims(claims)]
    for piece, words in (("table2", "neurons"), ("table3", "training samples")):
        for table in seconds_tables(records[piece]) if piece in records else ():
            title = f"## Table {piece[-1]}: seconds per iteration by {words}, {table.title}"
            cells = (
                [f"{rho:g}", *(_beside(ours, theirs) for ours, theirs in row)]
                for rho, row in table.rows.items()
            )
            heads = ["ρ", *(f"{size:,}" for size in table.sizes)]
            parts += [title, table.note, _table(heads, cells)]
    rows = ([piece, setting(record), machines(record)] for piece, record in records.items())
    return (
        "\n\n".join(
            [*parts, "## Settings and versions", _table(["piece", "setting", "where"], rows)]
        )
        + "\n"
    )


def _claims(claims: Sequence[Mapping[str, Any]]) -> str:
    heads = ["where", "data", "claim", "paper", "dlADMM as in", "ours", "verdict"]
    rows = (
        [
            *(row[key] for key in ("place", "data", "claim", "paper", "variant")),
            row["ours"] or "",
            WORDS[row["holds"]] + (f" ({row['why']})" if row["why"] else ""),
        ]
        for row in claims
    )
    return _table(heads, rows)


def _beside(ours: float, theirs: float | None) -> str:
    return f"{ours:.4g}" + ("" if theirs is None else f"<br>*{theirs:.4g}*")


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(v.replace('|', BAR) for v in line)} |" for line in lines)
