"""The report of the paper's evaluation: one self-contained HTML file, from saved records only."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from dladmm.experiments.plots import GREY, Panel
from dladmm.paper import settings as paper
from dladmm.paper.claims import WORDS
from dladmm.paper.panels import pictures
from dladmm.paper.reproduce import best_rate
from dladmm.paper.tables import (
    Bold,
    Cell,
    Table,
    claims_cells,
    seconds_tables,
    settings_cells,
)
from dladmm.paper.verdicts import Records, rises_in_a_row

try:
    import plotly.graph_objects as go
    import plotly.io
    from plotly.colors import hex_to_rgb
    from plotly.offline import get_plotlyjs
except ImportError as error:  # the extra is optional
    raise ImportError("plotly is not installed; pip install 'dladmm[compare]'") from error

TITLES = {
    "fig3": "Figure 3: convergence at rho = 1",
    "fig4": "Figure 4: rho = 1e-6",
    "fig5": "Figure 5: accuracy on MNIST",
    "fig6": "Figure 6: accuracy on Fashion-MNIST",
    "table2": "Table 2: seconds per iteration by neurons",
    "table3": "Table 3: seconds per iteration by training samples",
}


def report_page(records: Records, claims: Sequence[Mapping[str, Any]]) -> str:
    """Claims, figures, tables, settings and versions of whatever records there are."""
    sections = {
        "claims": ("Claims of Section 5", html_table(claims_cells(claims), "claims")),
        **{piece: (title, _piece(records.get(piece))) for piece, title in TITLES.items()},
        "settings": ("Settings and versions", html_table(settings_cells(records))),
    }
    links = " ".join(
        f'<a href="#{name}">{escape(title.split(":")[0])}</a>'
        for name, (title, _) in sections.items()
    )
    body = "".join(
        f'<section id="{name}"><h2>{escape(title)}</h2>{content}</section>\n'
        for name, (title, content) in sections.items()
    )
    # The library once, so that the page needs no network; the figures follow without it.
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>dlADMM: the paper's evaluation, reproduced</title>
<link rel="icon" href="data:,">
<style>{STYLE}</style>
<script>{get_plotlyjs()}</script>
</head>
<body>
<header>
<h1>The evaluation of dlADMM (KDD 2019), reproduced</h1>
<p>{escape(_summary(records, claims))}</p>
<nav>{links}</nav>
</header>
<main>
{body}
</main>
</body>
</html>
"""


def _summary(records: Records, rows: Sequence[Mapping[str, Any]]) -> str:
    counts = {verdict: sum(row["holds"] is verdict for row in rows) for verdict in (True, False)}
    empty = len(rows) - sum(counts.values())
    setting = " and ".join(sorted({record["scale"]["name"] for record in records.values()}))
    text = f"{counts[True]} of {len(rows)} rows of claims hold, {counts[False]} do not"
    text += f", {empty} have no record" if empty else ""
    return f"{setting.capitalize() or 'No'} setting. {text}. Every figure comes from a record."


def html_table(table: Table, kind: str = "") -> str:
    """A table of this CSS class; the verdict a row ends with has its colour."""
    marks: dict[Cell, str] = {WORDS[True]: "yes", WORDS[False]: "no"}
    heads = "".join(f"<th>{escape(name)}</th>" for name in table.heads)
    rows = "".join(
        f'<tr class="{marks.get(row[-1], "")}">{"".join(map(_html_cell, row))}</tr>'
        for row in table.rows
    )
    head = f"<thead><tr>{heads}</tr></thead>"
    return f'<div class="wide"><table class="{kind}">{head}<tbody>{rows}</tbody></table></div>'


def _html_cell(cell: Cell) -> str:
    text, below = (cell, "") if isinstance(cell, str) else cell
    shown = f"<b>{escape(text)}</b>" if isinstance(text, Bold) else escape(text)
    return f"<td>{shown}{f'<small>{escape(below)}</small>' if below else ''}</td>"


def _piece(record: Mapping[str, Any] | None) -> str:
    if record is None:
        return "<p>No record of this piece.</p>"
    parts = []
    for picture in pictures(record):
        figures = "".join(
            _figure(panel, f"{picture.name}-{k}") for k, panel in enumerate(picture.panels)
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


def _figure(panel: Panel, name: str) -> str:
    figure = go.Figure()
    for line in panel.lines:
        if line.low is not None and line.high is not None:
            edge = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
            shared = {"legendgroup": line.label, "showlegend": False, **edge}
            figure.add_scatter(x=line.x, y=list(line.high), **shared)
            fill = f"rgba{(*hex_to_rgb(line.colour), 0.18)}"
            figure.add_scatter(x=line.x, y=list(line.low), fill="tonexty", fillcolor=fill, **shared)
        figure.add_scatter(
            x=list(line.x),
            y=list(line.y),
            name=line.label,
            legendgroup=line.label,
            mode="lines+markers" if len(line.x) < 10 else "lines",
            line={
                "color": line.colour,
                "width": 3 if line.wide else 1.8,
                "dash": "dash" if line.dashed else "solid",
            },
        )
    grid = {"gridcolor": "rgba(128,128,128,0.25)", "zerolinecolor": "rgba(128,128,128,0.4)"}
    figure.update_layout(
        title={"text": f"{panel.title} by {panel.x_title}", "x": 0.02, "font": {"size": 15}},
        template="none",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": GREY, "family": "system-ui, sans-serif"},
        margin={"l": 50, "r": 12, "t": 44, "b": 40},
        height=460,
        xaxis=grid,
        yaxis={"type": "log" if panel.log else "linear", **grid},
        legend={
            "orientation": "h",
            "yref": "container",
            "yanchor": "bottom",
            "y": 0,
            "font": {"size": 11},
        },
        modebar={"bgcolor": "rgba(0,0,0,0)", "color": GREY},
        hovermode="closest",
    )
    config = {"responsive": True, "displaylogo": False}
    html = plotly.io.to_html(
        figure, config=config, full_html=False, include_plotlyjs=False, div_id=name
    )
    return f'<div class="figure">{html}</div>'


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


STYLE = """
:root { color-scheme: light dark; --line: #8884; --yes: #2e8b57; --no: #c0392b; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 76rem; padding: 1rem; }
h1 { font-size: 1.6rem; } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
nav a { margin-right: .8rem; white-space: nowrap; }
.figures { display: grid; grid-template-columns: 1fr 1fr; }
.figure { min-width: 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .88rem; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid var(--line);
  vertical-align: top; }
.numbers td, .numbers th { text-align: right; font-variant-numeric: tabular-nums; }
.numbers { width: auto; } .numbers td:first-child { font-weight: bold; }
small { display: block; opacity: .7; }
.yes td:last-child { color: var(--yes); } .no td:last-child { color: var(--no); }
td:last-child { white-space: nowrap; }
td:first-child { white-space: nowrap; }
@media (max-width: 52rem) { .figures { grid-template-columns: 1fr; } }
@media (max-width: 40rem) { body { padding: .6rem; } th, td { padding: .3rem; } }
"""
