"""The report of the paper's evaluation: one self-contained HTML file, from saved records only."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from dladmm.paper import settings as paper
from dladmm.paper.answers import answer
from dladmm.paper.claims import WORDS
from dladmm.paper.panels import pictures
from dladmm.paper.reproduce import best_rate
from dladmm.paper.tables import claims_cells, seconds_tables, settings_cells
from dladmm.paper.verdicts import Records, rises_in_a_row
from dladmm.report.figures import curves, library
from dladmm.report.page import Bold, Cell, Section, Table, document, folded, html_table

PLACES = {f"Fig. {k}": f"Figure {k}" for k in (3, 4, 5, 6)} | {
    "5.1.3": "Section 5.1.3, the rates of the others"
}
VERDICTS: dict[Cell, str] = {WORDS[True]: "yes", WORDS[False]: "no"}
TITLES = {
    "fig3": "Figure 3: convergence at rho = 1",
    "fig4": "Figure 4: rho = 1e-6",
    "fig5": "Figure 5: accuracy on MNIST",
    "fig6": "Figure 6: accuracy on Fashion-MNIST",
    "table2": "Table 2: seconds per iteration by neurons",
    "table3": "Table 3: seconds per iteration by training samples",
}


def report_page(records: Records, claims: Sequence[Mapping[str, Any]]) -> str:
    """The answer, figures, tables, settings and versions of whatever records there are, and the
    claims row by row for those who check."""
    setting = " and ".join(sorted({record["scale"]["name"] for record in records.values()}))
    lines = "".join(f"<li>{escape(line)}</li>" for line in answer(claims, setting))
    sections = {
        **{piece: (title, _piece(records.get(piece))) for piece, title in TITLES.items()},
        "settings": ("Settings and versions", html_table(settings_cells(records))),
        "claims": ("Claims of Section 5, row by row", _folded_claims(claims)),
    }
    return document(
        "dlADMM: the paper's evaluation, reproduced",
        "The evaluation of dlADMM (KDD 2019), reproduced",
        f'<ol class="answer">{lines}</ol>',
        [
            Section(name, title, content, title.split(":")[0])
            for name, (title, content) in sections.items()
        ],
        library(),
    )


def _folded_claims(claims: Sequence[Mapping[str, Any]]) -> str:
    """A fold for each figure and table, with how many of its rows hold."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in claims:
        groups.setdefault(row["place"].split("(")[0], []).append(row)
    folds = []
    for place, rows in sorted(groups.items(), key=lambda group: group[0].startswith("5")):
        held = sum(bool(row["holds"]) for row in rows)
        name = PLACES.get(place, place)
        table = html_table(claims_cells(rows), "claims", VERDICTS)
        folds.append(folded(f"{name}: {held} of {len(rows)} rows hold", table))
    return "".join(folds)


def _piece(record: Mapping[str, Any] | None) -> str:
    if record is None:
        return "<p>No record of this piece.</p>"
    parts = []
    for picture in pictures(record):
        figures = "".join(
            curves(panel, f"{picture.name}-{k}") for k, panel in enumerate(picture.panels)
        )
        parts.append(f'<h3>{escape(picture.title)}</h3><div class="figures">{figures}</div>')
    if record["piece"].startswith("table"):
        for table in seconds_tables(record):
            parts.append(f"<h3>{table.title}</h3><p>{escape(table.note)}</p>")
            parts.append(html_table(table.cells(), "numbers"))
    if any(name.endswith(" grid") for name in record["runs"]):
        parts.append(_rates(record))
    if "dladmm authors" in record["runs"]:
        parts.append(f"<p>{escape(_authors_rule(record))}</p>")
    return "".join(parts)


def _rates(record: Mapping[str, Any]) -> str:
    """Which rates were tried, and what they gave."""
    rows: list[list[Cell]] = []
    for name in paper.GRIDS:
        if f"{name} grid" in record["runs"]:
            rows.append([name])
            best = best_rate(dict(record), name)
            for tried in record["runs"][f"{name} grid"]["rates"]:
                style = Bold if tried["rate"] == best else str
                accuracy = f"{tried['train_accuracy'] or 0:.3f}"
                rows[-1].append((style(f"{tried['rate']:g}"), accuracy))
    scale = record["scale"]
    return (
        f"<h3>Rates tried</h3><p>Training accuracy after {scale['grid_iterations']} iterations on"
        f" {scale['grid_samples']:,} images; the best is bold.</p>"
        + html_table(Table((), rows), "numbers")
    )


def _authors_rule(record: Mapping[str, Any]) -> str:
    """Whether the rule by which the authors' code raises rho would ever have acted."""
    acts = [
        rises_in_a_row(curve["train_loss"], paper.AUTHORS_RISES)
        for curve in record["runs"]["dladmm authors"]["curves"]
    ]
    most = max(acts, key=len)
    return (
        f"The authors' code raises rho, tau and theta tenfold when the training loss has risen"
        f" {paper.AUTHORS_RISES} times in a row; here they stay as they are. In this record that"
        f" happens {len(most)} times"
        + (f", first at iteration {most[0]}" if most else "")
        + (", in the worst of the seeds." if acts[1:] else ".")
    )
