"""The site: built without a warning, opened page by page in a browser as on a phone."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
from browsing import (
    REQUESTS,
    a_phone,
    absent,
    in_colours,
    nameless,
    opened,
    page_width,
    poor_contrasts,
    without_words,
)
from figures import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if find_spec("mkdocs") is None:
        absent("the docs extra is")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "HTTPS_PROXY": "http://127.0.0.1:9"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def pages(site):
    return sorted(path for path in site.rglob("*.html") if path.name != "404.html")


def test_a_broken_link_is_a_warning_and_fails(tmp_path):
    if find_spec("mkdocs") is None:
        absent("the docs extra is")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# A page\n\n[nowhere](nowhere.md)\n")
    (tmp_path / "mkdocs.yml").write_text("site_name: x\n")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0
    assert "nowhere.md" in done.stderr


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_on_a_phone(site, browser, scheme):
    found = pages(site)
    assert len(found) > 25
    with in_colours(browser, scheme), a_phone(browser):
        for path in found:
            assert opened(browser, path) == [], path
            assert page_width(browser) <= 375, path
            assert browser.execute_script(REQUESTS) == [], path
            assert without_words(browser) == [], path
            assert poor_contrasts(browser, scheme) == [], path
            assert nameless(browser) == [], path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_on_a_desktop(site, browser, scheme):
    with in_colours(browser, scheme):
        window = browser.execute_script("return innerWidth")
        for path in pages(site):
            assert opened(browser, path) == [], path
            assert page_width(browser) <= window, path
            assert browser.execute_script(REQUESTS) == [], path
            assert poor_contrasts(browser, scheme) == [], path


def test_a_page_too_wide_and_a_request_are_noticed(browser, tmp_path):
    path = tmp_path / "poor.html"
    picture = '<img alt="x" src="http://127.0.0.1:9/x.png">'
    path.write_text(f'<!doctype html><title>x</title><p style="width:400px">x</p>{picture}')
    with a_phone(browser):
        assert len(opened(browser, path)) == 1  # the picture that is not there
        assert page_width(browser) > 375
        assert browser.execute_script(REQUESTS) == ["http://127.0.0.1:9/x.png"]


def test_a_command_is_copied_without_its_prompt(site, browser):
    """As the copy button does it: the theme marks the block and takes what is to be seen."""
    opened(browser, site / "start.html")
    shown, copied = browser.execute_script(
        "const block = [...document.querySelectorAll('code')]"
        ".find((one) => one.innerText.includes('dladmm fit'));"
        "const shown = block.innerText; block.setAttribute('data-md-copying', '');"
        "return [shown, block.innerText];"
    )
    assert shown.startswith("$ dladmm fit iris.csv")
    assert copied.startswith("dladmm fit iris.csv")


def test_formulas_are_drawn_by_the_browser(site, browser):
    opened(browser, site / "mathematics.html")
    widths = browser.execute_script(
        "return [...document.querySelectorAll('math')]"
        ".map((formula) => formula.getBoundingClientRect().width)"
    )
    assert len(widths) > 10
    assert all(widths)
    assert browser.execute_script("return document.querySelector('.arithmatex')") is None


def test_the_search_finds_pages_opened_from_a_file(site, browser):
    from selenium.webdriver.support.wait import WebDriverWait

    opened(browser, site / "index.html")
    browser.execute_script(
        "const field = document.querySelector('.md-search__input');"
        "field.focus(); field.value = 'monotone';"
        "field.dispatchEvent(new Event('keyup', {bubbles: true}));"
        "field.dispatchEvent(new Event('input', {bubbles: true}));"
    )
    script = "return document.querySelectorAll('.md-search-result__item').length"
    WebDriverWait(browser, 30).until(lambda window: window.execute_script(script) > 0)
    assert browser.execute_script(script) > 0
