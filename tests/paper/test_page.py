"""The report: what is in it, and how it opens in a real browser."""

import math
import os
import re
from itertools import combinations
from pathlib import Path

import pytest
from browsing import REQUESTS, a_phone, in_colours, nameless, opened, poor_contrasts, tab_stops
from evaluation_records import RECORDS

from dladmm.experiments.plots import plot_picture
from dladmm.paper import records, reproduce
from dladmm.paper.answers import LINES, answered
from dladmm.paper.claims import claims_table
from dladmm.paper.page import VERDICTS, report_page
from dladmm.paper.panels import pictures
from dladmm.paper.tables import claims_cells
from dladmm.report.page import html_table

pytestmark = pytest.mark.xdist_group("browser")  # one is enough
PANELS = sum(len(picture.panels) for record in RECORDS.values() for picture in pictures(record))


def page_of(records_):
    return report_page(records_, claims_table(records_))


def test_the_page_needs_no_network():
    page = page_of(RECORDS)
    head = page[: page.index("<script")] + page[page.rindex("</script>") :]
    assert 'src="http' not in page
    assert "http" not in head
    assert page.count('class="plotly-graph-div"') == PANELS == 18


def test_it_opens_with_the_answer_and_folds_the_rows_away():
    claims = claims_table(RECORDS)
    page = page_of(RECORDS)
    lead = page[page.index('<ol class="answer">') : page.index("</ol>")]
    assert lead.count("<li>") == 5
    held = sum(row["holds"] is True for row in claims)
    assert f"{held} of {len(claims)} rows of claims hold" in lead
    assert page.index('id="fig3"') < page.index('id="table2"') < page.index('id="claims"')
    folds = re.findall(r"<summary>([^<]*): (\d+) of (\d+) rows hold</summary>", page)
    assert [name for name, _, _ in folds][:2] == ["Figure 3", "Figure 4"]
    assert sum(int(count) for _, _, count in folds) == len(claims)
    assert sum(int(count) for _, count, _ in folds) == held


def test_every_row_of_a_figure_is_asked_about_and_counts_follow_the_verdicts():
    claims = claims_table(RECORDS)
    asked = [row for line in LINES for one in line.questions for row in one.rows(claims)]
    missed = {row["claim"] for row in claims if row["holds"] is not None and row not in asked}
    rest = ("rate of", "exceptions", "for example", "ADMM rockets")
    assert all(any(words in claim for words in rest) for claim in missed)
    for line in LINES:
        for holds, said in ((True, ": yes ("), (False, ": no (")):
            text = answered(line, [{**row, "holds": holds} for row in claims])
            assert text.count(said) == len(line.questions)
            assert (line.why in text) is (holds is False)
        assert (
            answered(line, [{**row, "holds": None} for row in claims])
            == f"{line.title}: no record."
        )


def test_what_is_written_is_escaped():
    row = {"place": "Fig. 3(a)", "data": "<b>", "claim": "a < b", "paper": "&", "variant": "text",
           "ours": "<script>", "holds": False, "why": "a > b"}  # fmt: skip
    html = html_table(claims_cells([row]), marks=VERDICTS)
    assert "<script>" not in html
    assert "a &lt; b" in html
    assert "does not hold" in html


def test_missing_runs_are_missing_lines():
    record = {**RECORDS["fig3"], "runs": dict(list(RECORDS["fig3"]["runs"].items())[:1])}
    assert [len(panel.lines) for panel in pictures(record)[0].panels] == [1, 1]


@pytest.mark.parametrize("piece", RECORDS)
def test_the_lines_of_a_panel_can_be_told_apart(piece):
    """By their strokes, or by the distance of their colours: two pinks are 26 apart."""
    for picture in pictures(RECORDS[piece]):
        for one, other in combinations(picture.panels[0].lines, 2):
            assert one.dashed != other.dashed or distance(one.colour, other.colour) > 35
    assert distance("#b56a8d", "#c65f9e") < 35


def distance(*colours):
    one, other = (bytes.fromhex(colour[1:]) for colour in colours)
    return math.dist(one, other)


@pytest.mark.parametrize("piece", RECORDS)
def test_every_picture_is_a_png(piece, tmp_path):
    for picture in pictures(RECORDS[piece]):
        path = tmp_path / f"{picture.name}.png"
        plot_picture(picture, path)
        assert path.read_bytes().startswith(b"\x89PNG")


def test_it_opens_without_an_error_and_draws_every_figure(browser, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(page_of(RECORDS), encoding="utf-8")
    assert opened(browser, path) == []
    assert drawn_figures(browser) == PANELS


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        ("<script>nothing()</script>", "nothing is not defined"),
        ("<script>console.error('spoken', 'aloud')</script>", "spoken aloud"),
        ("<script>Promise.reject('broken')</script>", "broken"),
        ("<img src='nowhere.png'>", "nowhere.png"),
    ],
)
def test_a_faulty_page_is_heard(browser, tmp_path, fault, complaint):
    path = tmp_path / "faulty.html"
    path.write_text(page_of({}).replace("<main>", f"<main>{fault}"))
    (said,) = opened(browser, path)
    assert complaint in said


def test_a_phone_shows_it_without_scrolling_sideways(browser, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(page_of(RECORDS), encoding="utf-8")
    size = {"width": 390, "height": 840, "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        opened(browser, path)
        width = browser.execute_script("return document.documentElement.scrollWidth")
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert width <= 390


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_read_in_any_light_and_aloud_and_by_the_keyboard(scheme, browser, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(page_of(RECORDS), encoding="utf-8")
    with in_colours(browser, scheme), a_phone(browser):
        opened(browser, path)
        assert browser.execute_script(REQUESTS) == []
        assert poor_contrasts(browser, scheme) == []
        assert nameless(browser) == []
        stops = tab_stops(browser)
        assert len(stops) > 10
        assert all(seen for _, _, seen in stops)


@pytest.mark.skipif(
    "DLADMM_REPORT" not in os.environ,
    reason="DLADMM_REPORT names no folder of `dladmm reproduce all --quick`",
)
def test_a_real_reproduction_is_whole(browser):
    folder = Path(os.environ["DLADMM_REPORT"])
    found = {piece: records.read_record(folder, piece) for piece in reproduce.PIECES}
    assert all(found.values())
    assert opened(browser, folder / "report.html") == []
    assert drawn_figures(browser) == PANELS
    cells = browser.execute_script(
        "return [...document.querySelectorAll('.claims tbody tr')]"
        ".map(row => [row.cells[5].textContent, row.cells[6].textContent])"
    )
    assert len(cells) > 40
    assert all(ours and verdict for ours, verdict in cells)


def drawn_figures(browser):
    """Figures with at least one line in their drawing."""
    return browser.execute_script(
        "return [...document.querySelectorAll('.plotly-graph-div')]"
        ".filter(figure => figure.querySelector('.scatterlayer path.js-line')).length"
    )
