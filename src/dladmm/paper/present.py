"""Figures, claims and the report of whatever records a folder holds; nothing is run."""

import json
from pathlib import Path
from typing import Any

from dladmm.experiments.plots import plot_picture
from dladmm.io.files import write_atomically
from dladmm.paper.claims import claims_table
from dladmm.paper.markdown import summary
from dladmm.paper.page import write_report
from dladmm.paper.panels import pictures
from dladmm.paper.records import read_record
from dladmm.paper.reproduce import PIECES


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
    for name, text in (
        ("claims.json", json.dumps(rows, indent=1)),
        ("claims.md", summary(records, rows)),
    ):
        with write_atomically(folder / name) as part:
            part.write_text(text, encoding="utf-8")
    report = folder / "report.html"
    write_report(records, report)
    return {"claims": rows, "pictures": [str(p) for p in drawn], "report": str(report)}
