"""What the site needs beyond Markdown: formulas as MathML, and files from outside docs as pages.

MathML is drawn by the browser itself, so that a page needs neither scripts nor fonts for formulas.
"""

import re
from html import unescape
from pathlib import Path
from urllib.parse import urlsplit

from latex2mathml.converter import convert
from mkdocs.utils import get_relative_url

ROOT = Path(__file__).parents[2]
SOURCE = "https://github.com/dladmm/dladmm"
SHIM = "https://unpkg.com/iframe-worker/shim"
# Pages that are a file of the repository.
INCLUDED = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\(?P<open>[(\[])(?P<latex>.*?)\\[)\]]</(?P=tag)>', re.S
)
EMPTY_HEAD = re.compile(r"<th([^>]*)></th>")
LONG = 40  # characters of LaTeX: such a formula may be wider than a phone
LINK = re.compile(r"(?<=\]\()(?P<target>[^)\s]+)(?=\))")


def on_page_markdown(markdown, page, config, files):
    """The file that a page stands for, and links that hold on the site."""
    name = page.file.src_uri
    if name in INCLUDED:
        markdown = (ROOT / INCLUDED[name]).read_text(encoding="utf-8")
        markdown = LINK.sub(lambda link: _from_root(link["target"]), markdown)
    folder = (Path(config.docs_dir) / name).parent
    return LINK.sub(lambda link: _to_source(link["target"], folder), markdown)


def _from_root(target):
    """A link of a file at the root, as a page of docs has it."""
    if urlsplit(target).scheme or target.startswith("#"):
        return target
    pages = {source: page for page, source in INCLUDED.items()}
    return pages.get(target) or target.removeprefix("docs/")


def _to_source(target, folder):
    """A link to a folder of records or to a file outside docs goes to the repository."""
    address = urlsplit(target)
    if address.scheme or not address.path:
        return target
    path = (folder / address.path).resolve()
    outside = not path.is_relative_to(ROOT / "docs")
    if path.exists() and (path.is_dir() or outside):
        kind = "tree" if path.is_dir() else "blob"
        return f"{SOURCE}/{kind}/main/{path.relative_to(ROOT)}"
    return target


def on_page_content(html, page, config, files):
    """Formulas drawn by the browser; the empty corner of a table is no column's name."""
    return FORMULA.sub(_mathml, EMPTY_HEAD.sub(r"<td\1></td>", html))


def _mathml(found):
    display = "inline" if found["open"] == "(" else "block"
    latex = unescape(found["latex"]).strip()
    drawn = convert(latex, display=display)
    if display == "inline":
        return drawn if len(latex) < LONG else f'<span class="long-formula">{drawn}</span>'
    return f'<div class="formula" tabindex="0">{drawn}</div>'


def on_post_page(output, page, config):
    """The search's shim for pages opened from a file: the site's own copy, not one from afar."""
    return output.replace(SHIM, get_relative_url("assets/iframe-worker.js", page.url))


def on_post_template(output_content, template_name, config):
    return output_content.replace(SHIM, "/assets/iframe-worker.js")
