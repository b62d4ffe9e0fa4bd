"""The evaluation's tables for a document: claims, seconds per iteration, settings and versions."""

from collections.abc import Mapping, Sequence
from typing import Any

from dladmm.paper.tables import Cell, Table, claims_cells, seconds_tables, settings_cells
from dladmm.paper.verdicts import Records

BAR = r"\|"  # within a cell


def summary(records: Records, claims: Sequence[Mapping[str, Any]]) -> str:
    """Everything that is not a curve."""
    parts = ["# The evaluation of dlADMM (KDD 2019)", "## Claims of Section 5"]
    parts.append(_table(claims_cells(claims)))
    for piece, words in (("table2", "neurons"), ("table3", "training samples")):
        for table in seconds_tables(records[piece]) if piece in records else ():
            title = f"## Table {piece[-1]}: seconds per iteration by {words}, {table.title}"
            parts += [title, table.note, _table(table.cells())]
    parts += ["## Settings and versions", _table(settings_cells(records))]
    return "\n\n".join(parts) + "\n"


def _table(table: Table) -> str:
    lines = [table.heads, ["---"] * len(table.heads), *table.rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(cell: Cell) -> str:
    text, below = (cell, "") if isinstance(cell, str) else cell
    return (text + (f"<br>*{below}*" if below else "")).replace("|", BAR)
