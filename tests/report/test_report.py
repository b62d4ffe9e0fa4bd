"""The page of a fitted network: what is in it for each task, and how it opens in a browser."""

import re

import numpy as np
import pytest
from browsing import (
    REQUESTS,
    a_phone,
    in_colours,
    nameless,
    opened,
    page_width,
    poor_contrasts,
    read_aloud,
    tab_stops,
    without_words,
)
from command_line import run
from scipy import sparse
from sklearn.datasets import load_diabetes, load_digits, make_multilabel_classification

from dladmm import Conv2D, Dense, DLADMMClassifier, DLADMMRegressor, MaxPool, Network
from dladmm.cli.reporting import cell_text
from dladmm.data.column_spec import ColumnSpec
from dladmm.data.numbers import NumberText
from dladmm.report.words import certificate_words

KINDS = ["classes", "numbers", "columns", "images"]
pytestmark = [
    pytest.mark.xdist_group("browser"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return (
        DLADMMClassifier((16,), max_iter=5, random_state=0).fit(X[:1000], y[:1000]),
        X[1000:],
        y[1000:],
    )


@pytest.fixture(scope="module")
def classes(digits):
    model, X, y = digits
    return model.report(X, y, image_shape=(8, 8), title="Digits & <co>").html


@pytest.fixture(scope="module")
def numbers():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = DLADMMRegressor((8,), max_iter=10, random_state=0).fit(X[:300], y[:300])
    return model.report(X[300:], y[300:]).html


@pytest.fixture(scope="module")
def columns(tmp_path_factory):
    """Of `dladmm fit --report`, with columns of every kind and one that was left out."""
    folder = tmp_path_factory.mktemp("columns")
    (folder / "t.csv").write_text(TABLE.replace("\n", ",0\n").replace("price,0", "price,id"))
    done = run("fit", folder / "t.csv", "--target", "price", "--out", folder / "m", "--drop", "id",
               "--report", folder / "r.html", "--hidden", "8", "--max-iter", "5")  # fmt: skip
    assert done.code == 0, done.err
    return (folder / "r.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def images():
    """Of a network with convolutions and pictures of what it gets wrong."""
    X, y = load_digits(return_X_y=True)
    network = Network((8, 8, 1), [Conv2D(4, 3), "relu", MaxPool(2), Dense(10)])
    model = DLADMMClassifier(network=network, max_iter=3, random_state=0).fit(X[:500], y[:500])
    return model.report(X[500:900], y[500:900], image_shape=(8, 8)).html


def headings(page):
    return re.findall(r'<section id="(\w+)"', page)


def test_a_page_of_classes_has_all_its_sections(classes, digits):
    expected = "scores curves confusion calibration importance mistakes certificate versions"
    assert headings(classes) == expected.split()
    assert classes.count('<img src="data:image/png;base64') == 10
    model, X, y = digits
    assert f"<b>{model.score(X, y):.4g}</b>" in classes
    assert "Digits &amp; &lt;co&gt;" in classes
    assert "<co>" not in classes


def test_a_page_of_numbers_has_residuals_and_names(numbers):
    assert "residuals" in headings(numbers)
    assert "confusion" not in headings(numbers)
    assert "bmi" in numbers  # the frame's own names


def test_pages_of_columns_and_of_images_have_what_others_have_not(columns, images):
    assert "<td>id</td><td></td><td>0</td><td>left out</td>" in columns
    assert "importance" in headings(columns)
    assert "Conv2D(" in images
    assert '<img src="data:image/png;base64' in images
    assert "columns" not in headings(images)


def test_a_page_needs_no_network(classes, numbers):
    for page in (classes, numbers):
        rest = page[: page.index("<script")] + page[page.rindex("</script>") :]
        assert "http" not in rest.replace("http://www.w3.org", "")
        assert 'src="http' not in page


@pytest.mark.parametrize("loss", ["hinge", "binary_log_loss"])
def test_losses_with_and_without_probabilities(digits, loss):
    _, X, y = digits
    model = DLADMMClassifier((8,), loss=loss, max_iter=3, random_state=0).fit(X[:300], y[:300])
    assert ("calibration" in headings(model.report(X[300:], y[300:]).html)) is (loss != "hinge")


def test_labels_sparse_rows_and_several_outputs(rng):
    rows, labels = make_multilabel_classification(120, 6, n_classes=3, random_state=0)
    tagger = DLADMMClassifier((8,), max_iter=5, random_state=0).fit(rows[:80], labels[:80])
    page = tagger.report(sparse.csr_matrix(rows[80:]), labels[80:]).html
    assert "labels" in headings(page)
    y = np.column_stack([rows[:, 0], rows[:, 1] - rows[:, 2]])
    two = DLADMMRegressor((8,), max_iter=5, random_state=0).fit(rows[:80], y[:80])
    assert "residuals" in headings(two.report(rows[80:], y[80:]).html)


def test_a_network_that_is_no_better_than_its_baseline_is_called_so(rng):
    X, y = rng.normal(size=(200, 3)), rng.permutation(np.repeat([0, 1], [120, 80]))
    model = DLADMMClassifier((4,), max_iter=1, random_state=0).fit(X[:100], 1 - y[:100])
    assert "NO better than its baseline" in model.report(X[100:], y[100:]).html


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"names": ["a"]}, "names has 1 entries; expected 64"),
        ({"image_shape": (3, 3)}, "has 9 pixels; expected 64"),
    ],
)
def test_what_does_not_fit_is_refused(digits, given, said):
    model, X, y = digits
    with pytest.raises(ValueError, match=re.escape(said)):
        model.report(X, y, **given)
    with pytest.raises(ValueError, match="X has 797 rows and y 3"):
        model.report(X, y[:3])


def test_a_certificate_in_plain_words_says_what_does_not_hold(rng):
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(int)
    good = DLADMMClassifier((4,), method="dladmm", rho=1.5, max_iter=5, random_state=0).fit(X, y)
    bad = DLADMMClassifier((4,), method="dladmm", rho=0.1, max_iter=5, random_state=0).fit(X, y)
    batches = DLADMMClassifier((4,), batch_size=20, max_iter=5, random_state=0).fit(X, y)
    assert "this condition holds" in " ".join(certificate_words(good.certificate_))
    assert "this condition does not hold" in " ".join(certificate_words(bad.certificate_))
    assert "not guaranteed" in " ".join(certificate_words(batches.certificate_))


TABLE = "width,town,day,price\n" + "".join(
    f"{k % 17},{town},2020-01-{1 + k % 28:02d},{3 * (k % 17) + k % 3}.5\n"
    for k, town in zip(range(90), 30 * ["Ulm", "Ulm", "Bonn & Köln"], strict=True)
)


def test_fit_writes_a_report_in_the_words_of_the_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(TABLE, encoding="utf-8")
    done = run("fit", "t.csv", "--target", "price", "--out", "m", "--report", "r.html", "--json",
               "--hidden", "8")  # fmt: skip
    assert done.code == 0, done.err
    assert done.json["report"] == "r.html"
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "an input for each of" in page
    assert "Bonn &amp; Köln" in page
    assert "which has seen all rows" in page
    assert re.search(r"<td>2020-01-\d\d</td>", page)


def test_a_report_has_the_units_the_dates_and_the_dropped_columns_of_the_file(tmp_path):
    """The network it is about is trained on columns that were read before, as plain numbers."""
    rows = [f"M{k},${12 + k % 5}.50,{5 * (k % 3)} %,07/{1 + k % 28:02d}/2021,{k % 5 - k % 3}.5\n"
            for k in range(60)]  # fmt: skip
    (tmp_path / "t.csv").write_text("id,fee,off,day,y\n" + "".join(rows), encoding="utf-8")
    done = run("fit", tmp_path / "t.csv", "--target", "y", "--out", tmp_path / "m", "--drop", "id",
               "--report", tmp_path / "r.html", "--hidden", "8", "--max-iter", "3")  # fmt: skip
    assert done.code == 0, done.err
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    table = page[page.index('<section id="columns"') : page.index('<section id="certificate"')]
    assert re.search(r"mean [\d.]+ \$, deviation", table)
    assert re.search(r"mean [\d.]+ %, deviation", table)
    assert "written as %m/%d/%Y" in table
    assert "<td>id</td><td></td><td>0</td><td>left out</td>" in table
    worst = page[page.index('<section id="mistakes"') : page.index('<section id="columns"')]
    assert re.search(r"<td>\d+ %</td>", worst)
    assert re.search(r"<td>[\d.]+ \$</td>", worst)


def test_a_cell_that_was_nothing_is_nothing_again_in_the_networks_precision():
    spec = ColumnSpec("off", "number", mean=8.05, scale=9.396, written=NumberText("%"))
    inputs = ((np.array([[0.0], [15.0], [0.25]]) - spec.mean) / spec.scale).astype(np.float32)
    assert [cell_text(spec, one) for one in inputs] == ["0 %", "15 %", "0.25 %"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--test-size", "0"], "--report needs rows held out; expected --test-size above 0"),
        (["--out", "r.html"], "is --out as well; expected another file"),
        (["--report", "none/r.html"], "there is no folder"),
    ],
)
def test_a_report_that_cannot_be_is_refused_before_training(tmp_path, more, said, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(TABLE, encoding="utf-8")
    done = run("fit", "t.csv", "--target", "price", "--out", "m", "--report", "r.html", *more)
    assert done.code == 2
    assert said in done.err
    assert not (tmp_path / "m").exists()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_it_opens_in_a_browser(kind, scheme, browser, tmp_path, request):
    path = tmp_path / "report.html"
    path.write_text(request.getfixturevalue(kind), encoding="utf-8")
    with in_colours(browser, scheme), a_phone(browser):
        assert opened(browser, path) == []
        assert page_width(browser) <= 375
        assert browser.execute_script(REQUESTS) == []
        assert poor_contrasts(browser, scheme) == []
        assert without_words(browser) == []
    drawn = browser.execute_script(
        "return [...document.querySelectorAll('.plotly-graph-div')]"
        ".every((one) => one.querySelector('.js-line, .points path'))"
    )
    assert drawn


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_keyboard_reaches_everything_and_leaves_again(kind, browser, tmp_path, request):
    from selenium.webdriver import Keys

    path = tmp_path / "report.html"
    path.write_text(request.getfixturevalue(kind), encoding="utf-8")
    with a_phone(browser):
        opened(browser, path)
        stops = tab_stops(browser)
        assert all(seen for _, _, seen in stops), [tag for _, tag, seen in stops if not seen]
        reached = {element for element, _, _ in stops}
        wanted = "nav a, summary, .modebar-btn, .wide"
        for element in browser.find_elements("css selector", wanted):
            hidden = "return !arguments[0].checkVisibility()"
            assert element in reached or browser.execute_script(hidden, element)
        assert len([tag for _, tag, _ in stops if tag == "SUMMARY"]) >= 3
    # A link of the menu leads to its section, a fold opens, a figure is zoomed into.
    opened(browser, path)
    menu = browser.find_element("css selector", "nav a:last-child")
    menu.send_keys(Keys.ENTER)
    assert browser.execute_script("return location.hash") == "#versions"
    fold = browser.find_element("css selector", "summary")
    fold.send_keys(Keys.ENTER)
    assert browser.execute_script("return arguments[0].parentElement.open", fold)
    axis = "return document.querySelector('#curve-0').layout.xaxis.range.slice()"
    before = browser.execute_script(axis)
    zoom = browser.find_element("css selector", "#curve-0 [data-title='Zoom in']")
    browser.execute_script("arguments[0].focus()", zoom)
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    after = browser.execute_script(axis)
    assert after[1] - after[0] < before[1] - before[0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_it_can_be_read_aloud(kind, browser, tmp_path, request):
    path = tmp_path / "report.html"
    path.write_text(request.getfixturevalue(kind), encoding="utf-8")
    opened(browser, path)
    for fold in browser.find_elements("css selector", "details"):
        browser.execute_script("arguments[0].open = true", fold)
    assert nameless(browser) == []
    found = read_aloud(browser)
    roles = [role for role, _, _ in found]
    assert roles.count("main") == 1
    assert ("navigation", "Sections") in [(role, name) for role, name, _ in found]
    assert [said["level"] for role, _, said in found if role == "heading"].count(1) == 1
    assert browser.execute_script("return document.documentElement.lang") == "en"
    assert browser.title.startswith("Report: ")
    # A figure has a name, and what it shows is in a table: not its bare tick labels.
    figures = browser.execute_script("return document.querySelectorAll('.figure').length")
    assert len([name for role, name, _ in found if role == "group" and " by " in name]) >= 2
    drawings = "return [...document.querySelectorAll('.main-svg')].map((one) => one.ariaHidden)"
    assert set(browser.execute_script(drawings)) == {"true"}
    tables = "return [...document.querySelectorAll('details table')].length"
    assert browser.execute_script(tables) >= figures - 2  # two figures may share a table
    heads = [name for role, name, _ in found if role == "columnheader"]
    assert {"iteration", "training loss"} <= set(heads)


@pytest.mark.slow
def test_what_a_keyboard_or_a_screen_reader_misses_is_noticed(browser, tmp_path):
    path = tmp_path / "poor.html"
    body = (
        '<h1>x</h1><h3>y</h3><button></button><a href="#">to</a>'
        '<a href="#" style="outline:none">unseen</a>'
    )
    path.write_text(f'<!doctype html><html lang="en"><title>x</title><body>{body}</body></html>')
    opened(browser, path)
    assert nameless(browser) == ["button", "h1 before h3"]
    assert [seen for _, _, seen in tab_stops(browser)] == [True, True, False]


@pytest.mark.slow
def test_grey_on_grey_and_pictures_without_words_are_noticed(browser, tmp_path):
    path = tmp_path / "poor.html"
    grey = '<body style="background:#fff"><p style="color:#aaa">hardly</p><img src="data:,"></body>'
    path.write_text(f"<!doctype html><title>x</title>{grey}")
    opened(browser, path)
    (found,) = poor_contrasts(browser, "light")
    assert "hardly" in found
    assert len(without_words(browser)) == 1
