"""The report of the paper's evaluation: one self-contained HTML file, from saved records only."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from dladmm.experiments.plots import GREY, Panel
from dladmm.paper import settings as paper
from dladmm.paper.claims import WORDS
from dladmm.paper.panels import pictures
from dladmm.paper.reproduce import PIECES, best_rate
from dladmm.paper.tables import machines, seconds_tables, setting
from dladmm.paper.verdicts import Records, rises_in_a_row

try:
    import plotly.graph_objects as go
    import plotly.io
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
    sections = [_section("claims", "Claims of Section 5", claims_html(claims))]
    for piece in PIECES:
        record = records.get(piece)
        body = "<p>No record of this piece.</p>" if record is None else _piece(record)
        sections.append(_section(piece, TITLES[piece], body))
    sections.append(_section("settings", "Settings and versions", _settings(records)))
    links = " ".join(
        f'<a href="#{name}">{escape(title.split(":")[0])}</a>'
        for name, title in {"claims": "Claims", **TITLES, "settings": "Settings"}.items()
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
{"".join(sections)}
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


def _section(name: str, title: str, body: str) -> str:
    return f'<section id="{name}"><h2>{escape(title)}</h2>{body}</section>\n'


def claims_html(rows: Sequence[Mapping[str, Any]]) -> str:
    """The table of claims; a row without a record has empty cells."""
    cells = []
    for row in rows:
        verdict = WORDS[row["holds"]]
        mark = {True: "yes", False: "no", None: "none"}[row["holds"]]
        why = f"<small>{escape(row['why'])}</small>" if row["why"] else ""
        cells.append(
            f'<tr class="{mark}"><td>{row["place"]}</td><td>{escape(row["data"])}</td>'
            f"<td>{escape(row['claim'])}{why}</td><td>{escape(row['paper'])}</td>"
            f"<td>{row['variant']}</td><td>{escape(row['ours'] or '')}</td><td>{verdict}</td></tr>"
        )
    names = ("where", "data", "claim", "paper", "dlADMM as in", "ours", "verdict")
    head = "".join(f"<th>{name}</th>" for name in names)
    return (
        f'<div class="wide"><table class="claims"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(cells)}</tbody></table></div>"
    )


def _piece(record: Mapping[str, Any]) -> str:
    parts = []
    for picture in pictures(record):
        figures = "".join(
            _figure(panel, f"{picture.name}-{k}") for k, panel in enumerate(picture.panels)
        )
        parts.append(f'<h3>{escape(picture.title)}</h3><div class="figures">{figures}</div>')
    if record["piece"].startswith("table"):
        parts.append(_seconds(record))
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
            red, green, blue = (int(line.colour[k : k + 2], 16) for k in (1, 3, 5))
            fill = f"rgba({red},{green},{blue},0.18)"
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


def _seconds(record: Mapping[str, Any]) -> str:
    """Tables 2 and 3, the paper's seconds below ours."""
    parts = []
    for table in seconds_tables(record):
        head = "".join(f"<th>{size:,}</th>" for size in table.sizes)
        body = ""
        for rho, row in table.rows.items():
            cells = "".join(
                f"<td>{ours:.4g}" + (f"<small>{theirs:.4g}</small>" if theirs else "") + "</td>"
                for ours, theirs in row
            )
            body += f"<tr><th>{rho:g}</th>{cells}</tr>"
        parts.append(
            f"<h3>{table.title}</h3><p>{escape(table.note)}</p><div class='wide'>"
            f"<table class='numbers'><thead><tr><th>rho</th>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table></div>"
        )
    return "".join(parts)


def _rates(record: Mapping[str, Any]) -> str:
    """Which rates were tried, and what they gave."""
    rows = []
    for name in paper.GRIDS:
        grid = record["runs"].get(f"{name} grid")
        if grid is None:
            continue
        best = best_rate(dict(record), name)
        cells = "".join(
            f"<td>{'<b>' if row['rate'] == best else ''}{row['rate']:g}"
            f"{'</b>' if row['rate'] == best else ''}<small>{row['train_accuracy'] or 0:.3f}"
            "</small></td>"
            for row in grid["rates"]
        )
        rows.append(f"<tr><th>{name}</th>{cells}</tr>")
    scale = record["scale"]
    return (
        f"<h3>Rates tried</h3><p>Training accuracy after {scale['grid_iterations']} iterations on"
        f" {scale['grid_samples']:,} images; the best is bold.</p><div class='wide'>"
        f"<table class='numbers'><tbody>{''.join(rows)}</tbody></table></div>"
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


def _settings(records: Records) -> str:
    rows = "".join(
        f"<tr><th>{piece}</th><td>{escape(setting(record))}</td>"
        f"<td>{escape(machines(record))}</td></tr>"
        for piece, record in records.items()
    )
    return f"<div class='wide'><table><tbody>{rows}</tbody></table></div>"


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
.numbers { width: auto; }
small { display: block; opacity: .7; }
.yes td:last-child { color: var(--yes); } .no td:last-child { color: var(--no); }
td:last-child { white-space: nowrap; }
td:first-child { white-space: nowrap; }
@media (max-width: 52rem) { .figures { grid-template-columns: 1fr; } }
@media (max-width: 40rem) { body { padding: .6rem; } th, td { padding: .3rem; } }
"""
