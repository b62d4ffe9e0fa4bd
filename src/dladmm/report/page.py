"""One self-contained HTML page: its frame, its style, its tables."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple


class Bold(str):
    """A text that stands out."""


Cell = str | tuple[str, str]  # with a second text below the first


class Table(NamedTuple):
    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]


class Section(NamedTuple):
    """A part of a page: its anchor, its heading, its HTML, and what links call it."""

    name: str
    title: str
    content: str
    link: str = ""


def document(
    title: str, heading: str, lead: str, sections: Sequence[Section], scripts: str = ""
) -> str:
    """The page: `lead` and the sections' contents are HTML, everything else is text.

    It asks nobody for anything: scripts, style and pictures are in it.
    """
    links = " ".join(
        f'<a href="#{part.name}">{escape(part.link or part.title)}</a>' for part in sections
    )
    body = "".join(
        f'<section id="{part.name}" aria-labelledby="{part.name}-title">'
        f'<h2 id="{part.name}-title">{escape(part.title)}</h2>{part.content}</section>\n'
        for part in sections
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>{STYLE}</style>
{f"<script>{scripts}</script>" if scripts else ""}
</head>
<body>
<header>
<h1>{escape(heading)}</h1>
{lead}
<nav aria-label="Sections">{links}</nav>
</header>
<main>
{body}
</main>
</body>
</html>
"""


def paragraphs(sentences: Sequence[str]) -> str:
    return "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)


def listed(sentences: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(sentence)}</li>' for sentence in sentences)}</ul>"


def folded(summary: str, content: str, is_open: bool = False) -> str:
    """HTML that unfolds where its summary is clicked, or Enter is pressed on it."""
    state = " open" if is_open else ""
    return f"<details{state}><summary>{escape(summary)}</summary>{content}</details>"


def html_table(table: Table, kind: str = "", marks: Mapping[Cell, str] | None = None) -> str:
    """A table of this CSS class; a row whose last cell is one of `marks` has that class too."""
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.heads)
    rows = "".join(
        f'<tr class="{(marks or {}).get(row[-1], "")}">{"".join(map(_html_cell, row))}</tr>'
        for row in table.rows
    )
    head = f"<thead><tr>{heads}</tr></thead>"
    return (
        f'<div class="wide" tabindex="0" role="group" aria-label="Table"><table class="{kind}">'
        f"{head}<tbody>{rows}</tbody></table></div>"
    )


def _html_cell(cell: Cell) -> str:
    text, below = (cell, "") if isinstance(cell, str) else cell
    shown = f"<b>{escape(text)}</b>" if isinstance(text, Bold) else escape(text)
    return f"<td>{shown}{f'<small>{escape(below)}</small>' if below else ''}</td>"


STYLE = """
:root { color-scheme: light dark; --line: #8884; --yes: #1f7a4a; --no: #b3271b; --soft: #5a606b;
  --shade: #2a6fbb; --paper: #fff; }
@media (prefers-color-scheme: dark) { :root { --yes: #5fce93; --no: #ff8a7a; --soft: #a9b0bb;
  --shade: #4d93dd; --paper: #121417; } }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 76rem; padding: 1rem;
  background: var(--paper); }
h1 { font-size: 1.6rem; } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
a { color: light-dark(#1d5fae, #7db7f5); }
nav a { margin-right: .8rem; white-space: nowrap; display: inline-block; padding: .15rem 0; }
.figures { display: grid; grid-template-columns: 1fr 1fr; }
.figure { min-width: 0; margin: 0; }
.figure text { fill: currentColor !important; }
figcaption { color: var(--soft); font-size: .88rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .88rem; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid var(--line);
  vertical-align: top; }
.numbers td, .numbers th { text-align: right; font-variant-numeric: tabular-nums; }
.numbers { width: auto; } .numbers td:first-child, .numbers th:first-child { text-align: left; }
.numbers td:first-child { font-weight: bold; }
small { display: block; color: var(--soft); }
.yes td:last-child { color: var(--yes); } .no td:last-child { color: var(--no); }
.claims td:last-child, .claims td:first-child { white-space: nowrap; }
details { margin: .6rem 0; } summary { cursor: pointer; padding: .3rem 0; }
summary:focus-visible, a:focus-visible, .wide:focus-visible, .modebar-btn:focus-visible {
  outline: 2px solid var(--shade); }
.modebar:focus-within { opacity: 1 !important; }
pre { overflow-x: auto; font-size: .85rem; }
.answer li { margin: .35rem 0; }
.tiles { display: flex; flex-wrap: wrap; gap: .8rem; padding: 0; }
.tile { border: 1px solid var(--line); border-radius: .4rem; padding: .5rem .9rem;
  min-width: 8rem; }
.tile b { display: block; font-size: 1.5rem; font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: .88rem; }
.confusion td { background: color-mix(in srgb, var(--shade) var(--part, 0%), transparent);
  text-align: right; min-width: 2.2rem; font-variant-numeric: tabular-nums; }
.confusion { width: auto; }
.mistakes { display: flex; flex-wrap: wrap; gap: 1rem; }
.mistakes figure { margin: 0; } .mistakes img { width: 6rem; image-rendering: pixelated; }
@media (max-width: 52rem) { .figures { grid-template-columns: 1fr; } }
@media (max-width: 40rem) { body { padding: .6rem; } th, td { padding: .3rem; } }
@media print { nav { display: none; } details::details-content { display: block; } }
"""
