"""Figures, claims and the report of whatever records a folder holds; nothing is run."""

import json
from pathlib import Path
from typing import Any

from dladmm.experiments.plots import plot_picture
from dladmm.io.files import write_file
from dladmm.paper.claims import claims_table
from dladmm.paper.page import report_page
from dladmm.paper.panels import pictures
from dladmm.paper.records import read_record
from dladmm.paper.reproduce import PIECES
from dladmm.paper.tables import summary


def present(folder: Path) -> dict[str, Any]:
    """Draw <piece>*.png, claims.json, claims.md and report.html, and say where they are."""
    found = {piece: read_record(folder, piece) for piece in PIECES}
    records = {piece: record for piece, record in found.items() if record and record["runs"]}
    drawn = []
    for record in records.values():
        for picture in pictures(record):
            drawn.append(folder / f"{picture.name}.png")
            plot_picture(picture, drawn[-1])
    rows = claims_table(records)
    write_file(folder / "claims.json", json.dumps(rows, indent=1))
    write_file(folder / "claims.md", summary(records, rows))
    report = folder / "report.html"
    write_file(report, report_page(records, rows))
    return {"claims": rows, "pictures": [str(p) for p in drawn], "report": str(report)}
