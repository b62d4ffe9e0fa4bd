"""Figures of a page to hover and zoom, by plotly, whose library is put into the page once."""

from collections.abc import Sequence
from html import escape
from typing import Any

from dladmm.report.panels import BLUE, GREY, Panel

try:
    import plotly.graph_objects as go
    import plotly.io
    from plotly.colors import hex_to_rgb
    from plotly.offline import get_plotlyjs
except ImportError as error:  # the extra is optional
    raise ImportError("plotly is not installed; pip install 'dladmm[compare]'") from error

BUTTONS = [["zoomIn2d", "zoomOut2d", "resetScale2d"]]  # more would cover a title on a phone
GRID = {"gridcolor": "rgba(128,128,128,0.25)", "zerolinecolor": "rgba(128,128,128,0.4)"}
LEGEND = {"orientation": "h", "yref": "container", "yanchor": "bottom", "y": 0}


# What plotly leaves out: its buttons by the keyboard, and no bare tick labels for who has the page
# read aloud, as there is a table.
REACHABLE = """
document.addEventListener("DOMContentLoaded", () => {
  for (const plot of document.querySelectorAll(".js-plotly-plot")) {
    const mark = () => {
      for (const drawing of document.querySelectorAll(".main-svg, #js-plotly-tester"))
        drawing.setAttribute("aria-hidden", "true");
      for (const button of plot.querySelectorAll(".modebar-btn")) {
        button.tabIndex = 0;
        button.setAttribute("role", "button");
        button.setAttribute("aria-label", button.dataset.title);
        for (const icon of button.children) icon.setAttribute("aria-hidden", "true");
      }
    };
    mark();
    plot.on("plotly_afterplot", mark);
  }
});
document.addEventListener("keydown", (event) => {
  const button = event.target.closest(".modebar-btn");
  if (!button || (event.key !== "Enter" && event.key !== " ")) return;
  event.preventDefault();
  button.click();
});
"""


def library() -> str:
    """The scripts that draw all figures of a page and make them reachable."""
    return f"{get_plotlyjs()}\n;{REACHABLE}"


def curves(panel: Panel, name: str, caption: str = "") -> str:
    """The lines of a panel, with their spread where they have one."""
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
    figure.update_layout(
        xaxis={"type": "log" if panel.log_x else "linear"},
        yaxis={"type": "log" if panel.log else "linear"},
    )
    return _drawn(figure, f"{panel.title} by {panel.x_title}", name, caption)


def points(
    groups: Sequence[tuple[str, Sequence[float], Sequence[float], Sequence[str]]],
    title: str,
    axes: tuple[str, str],
    name: str,
    caption: str = "",
    straight: tuple[float, float, float, float] | None = None,
) -> str:
    """Dots by groups of (label, x, y, what a dot says), and a dashed line x0, y0 to x1, y1."""
    from dladmm.report.panels import COLOURS

    figure = go.Figure()
    for (label, x, y, texts), colour in zip(groups, COLOURS, strict=False):
        figure.add_scatter(
            x=list(x), y=list(y), name=label, text=list(texts), mode="markers",
            marker={"color": colour, "size": 5, "opacity": 0.55}, showlegend=len(groups) > 1,
        )  # fmt: skip
    if straight is not None:
        figure.add_scatter(
            x=list(straight[::2]), y=list(straight[1::2]), mode="lines", hoverinfo="skip",
            line={"color": GREY, "dash": "dash", "width": 1.5}, showlegend=False,
        )  # fmt: skip
    figure.update_layout(xaxis={"title": axes[0]}, yaxis={"title": axes[1]})
    return _drawn(figure, title, name, caption)


def bars(
    labels: Sequence[str],
    values: Sequence[float],
    spreads: Sequence[float],
    title: str,
    name: str,
    caption: str = "",
) -> str:
    """Bars to the right, the first at the top, with their spreads."""
    figure = go.Figure(
        go.Bar(
            x=list(values)[::-1],
            y=[label if len(label) < 26 else f"{label[:24]}…" for label in labels][::-1],
            orientation="h",
            marker={"color": BLUE},
            error_x={"array": list(spreads)[::-1], "color": GREY, "thickness": 1.2},
        )
    )
    height = 120 + 22 * len(labels)
    figure.update_layout(yaxis={"type": "category", "automargin": True})
    return _drawn(figure, title, name, caption, height)


def _drawn(figure: Any, title: str, name: str, caption: str, height: int = 460) -> str:
    """A figure without a ground of its own, so that it suits light and dark."""
    figure.update_layout(
        title={"text": title, "x": 0.02, "font": {"size": 15}},
        template="none",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": GREY, "family": "system-ui, sans-serif"},
        margin={"l": 50, "r": 12, "t": 44, "b": 70},
        height=height,
        legend={**LEGEND, "font": {"size": 11}},
        modebar={"bgcolor": "rgba(0,0,0,0)", "color": GREY},
        hovermode="closest",
    )
    figure.update_xaxes(**GRID)
    figure.update_yaxes(**GRID)
    html = plotly.io.to_html(
        figure,
        config={"responsive": True, "displaylogo": False, "modeBarButtons": BUTTONS},
        full_html=False,
        include_plotlyjs=False,
        div_id=name,
    )
    words = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    label = escape(title, quote=True)
    return f'<figure class="figure" role="group" aria-label="{label}">{html}{words}</figure>'
