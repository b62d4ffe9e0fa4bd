"""Figures, claims and the report of whatever records a folder holds; nothing is run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dladmm.experiments.claims import claims_table
from dladmm.experiments.records import read_record
from dladmm.experiments.reproduce import PIECES
from dladmm.files import write_atomically
from dladmm.report.markdown import summary
from dladmm.report.page import write_report
from dladmm.report.panels import pictures
from dladmm.report.plots import plot_picture


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
