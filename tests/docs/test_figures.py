"""Figures on README and docs are those of the records, and every figure of the README has one."""

import re

import pytest
from figures import PAGES, ROOT, Records

# Numbers that nobody measured, in all of the README and in the tables of others: names, settings,
# counts of what is compared.
SETTINGS = {
    "README.md": {"2", "2019", "2.0", "10,000"},
    "docs/guide/networks.md": set(),
    "docs/performance.md": set(),
}


def plain(text):
    """Without what sets the best of a table in bold."""
    return text.replace("**", "")


def page_text(page):
    return plain((ROOT / page).read_text(encoding="utf-8"))


def missing(lines, text):
    """The lines that the text has not, by spaces and line ends alike."""
    words = " ".join(text.split())
    return [line for line in lines if " ".join(plain(line).split()) not in words]


@pytest.mark.parametrize("page", PAGES)
def test_figures_are_those_of_the_records(page):
    assert missing(PAGES[page](Records()), page_text(page)) == []


@pytest.mark.parametrize("page", PAGES)
def test_a_changed_record_is_noticed(page):
    # Not by one factor, which a quotient of two numbers would not show.
    lines = list(PAGES[page](Records(lambda number: 1.1 * number + 0.1 * number * abs(number))))
    assert len(missing(lines, page_text(page))) > 0.8 * len(lines)


@pytest.mark.parametrize("page", PAGES)
def test_a_changed_figure_on_a_page_is_noticed(page):
    lines, words = list(map(plain, PAGES[page](Records()))), " ".join(page_text(page).split())
    for line in (" ".join(line.split()) for line in lines):
        digit = re.search(r"\d(?=[^\d]*$)", line)
        changed = line[: digit.start()] + str((int(digit[0]) + 1) % 10) + line[digit.end() :]
        assert missing(lines, words.replace(line, changed)) != []


def uncovered(page, text, record):
    """Numbers that no record has given: of the README all, of other pages those of their tables."""
    shown = re.sub(r"```.*?```", "", plain(text), flags=re.S)
    if page != "README.md":
        shown = "\n".join(line for line in shown.splitlines() if line.startswith("|"))
    words = " ".join(shown.split())
    for line in PAGES[page](record):
        words = words.replace(" ".join(plain(line).split()), "")
    words = re.sub(r"\]\([^)]*\)|`[^`]*`", "", words)
    return set(re.findall(r"\b\d[\d,.]*\b", words)) - SETTINGS[page]


@pytest.mark.parametrize("page", SETTINGS)
def test_every_figure_has_a_record(page):
    text = page_text(page)
    assert uncovered(page, text, Records()) == set()
    sentence = "It is 17 times as fast." if page == "README.md" else "| it is | 17 × |"
    assert uncovered(page, f"{text}\n{sentence}", Records()) == {"17"}


REPOSITORY = re.compile(r"https://(?:github|raw\.githubusercontent)\.com/dladmm/dladmm/([^)\s]+)")


def test_links_of_the_readme_hold_on_the_package_page_too():
    """They are absolute, and lead to files that are there."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert [link for link in links if not link.startswith("https://")] == []
    paths = [re.sub(r"^(blob/|tree/)?main/", "", path) for path in REPOSITORY.findall(text)]
    assert len(paths) > 10
    assert [path for path in paths if not (ROOT / path).exists()] == []
