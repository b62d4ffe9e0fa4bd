"""Every Python block of README, CONTRIBUTING and docs runs, page by page, in its own folder.

Commands that need what a Python block before them has made run in their order among those blocks;
of all others `test_commands.py` knows.
"""

import contextlib
import doctest
import io
import re
import shlex
import subprocess
import sys

import pytest
from pages import ANY_BLOCK, WITH_COMMANDS, blocks, commands
from run_records import ROOT

import dladmm
from dladmm.network.presets import read_network
from dladmm.terms.activations import activations

PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"))
    if "```python" in path.read_text(encoding="utf-8") and path.parent.name != "gallery"
)


def run_python(page, folder, monkeypatch, console=lambda text: None):
    """The blocks of a page in one namespace; what goes wrong is raised."""
    monkeypatch.chdir(folder)
    namespace = {"__name__": "__main__"}
    out = io.StringIO()
    for language, text in blocks(page):
        if language == "console":
            console(text)
            continue
        with contextlib.redirect_stdout(out):
            exec(compile(text, page, "exec"), namespace)
    return out.getvalue()


@pytest.fixture
def iris(tmp_path):
    """What pages about model files begin with: a table and the model of it."""
    from sklearn.datasets import load_iris

    from dladmm.cli.fit_job import FitJob

    table = load_iris(as_frame=True)
    frame = table.frame.assign(species=table.target_names[table.target]).drop(columns="target")
    frame.to_csv(tmp_path / "iris.csv", index=False)
    settings = {"batch_size": None, "devices": None, "dtype": "auto", "random_state": 0}
    job = FitJob(
        str(tmp_path / "iris.csv"), "species", None, None, [], 0, settings,
        tmp_path / "iris.model", as_json=True,
    )  # fmt: skip
    assert job.run()["task"] == "classification"
    return tmp_path


@pytest.mark.optimised  # as whoever copies them has it
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("page", PAGES)
def test_python_blocks_run(page, iris, monkeypatch):
    # What a page registers is the page's alone.
    monkeypatch.setattr(activations, "_classes", dict(activations._classes))
    ran = []

    def run(text):
        """Where a page begins with commands, they read what its first Python block writes."""
        if not ran and text == blocks(page)[0][1]:
            first = next(block for language, block in blocks(page) if language == "python")
            exec(compile(first, page, "exec"), {"__name__": "__main__"})
        for command in map(shlex.split, commands(text)):
            if command[0] != "dladmm" or "--install-completion" in command:
                continue
            done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True)
            assert done.returncode == 0, (command, done.stderr)
            ran.append(command)

    run_python(page, iris, monkeypatch, run if page in WITH_COMMANDS else lambda text: None)
    assert len(ran) >= 2 or page not in WITH_COMMANDS
    for command in ran:
        for option, starts in (("--report", b"<!doctype html>"), ("--out", b"")):
            if option in command:
                made = iris / command[command.index(option) + 1]
                assert made.is_dir() or made.read_bytes().startswith(starts)


def examples():
    """(name, examples) of docstrings of what is public."""
    finder = doctest.DocTestFinder(recurse=False)
    for name in dladmm._HOME:
        for test in finder.find(getattr(dladmm, name), name):
            if test.examples:
                yield name, test


EXAMPLES = dict(examples())


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_of_docstrings_give_what_they_show(name):
    assert doctest.DocTestRunner().run(EXAMPLES[name]).failed == 0


def test_examples_are_found_and_a_wrong_one_is_heard(capsys):
    assert {"DLADMMClassifier", "DLADMMRegressor", "solve"} <= set(EXAMPLES)
    wrong = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, None)
    assert doctest.DocTestRunner().run(wrong).failed == 1
    assert "Expected" in capsys.readouterr().out


def test_networks_written_as_json_are_networks(tmp_path):
    found = 0
    for page in (ROOT / "docs").rglob("*.md"):
        for language, text in ANY_BLOCK.findall(page.read_text(encoding="utf-8")):
            if language == "json":
                (tmp_path / "network.json").write_text(text, encoding="utf-8")
                assert read_network(tmp_path / "network.json").graph.layers
                found += 1
    assert found


INNER = re.compile(r"\b(?:from|import) (dladmm\.\w+)|`(dladmm\.\w+)\.")
ROOMS = {path.name for path in (ROOT / "src" / "dladmm").iterdir() if path.is_dir()}


def inner_rooms(text):
    """What a text imports, or names as to be imported, that is not of `dladmm` itself."""
    named = ("".join(found).split(".")[1] for found in INNER.findall(text))
    return sorted(ROOMS.intersection(named))


def test_nobody_is_sent_to_an_inner_room():
    """What changed between versions, and how a first hour went, is told as it was."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    pages += (ROOT / "docs" / "gallery").glob("*.py")
    shown = [page for page in pages if page.parent.name not in ("releases", "results")]
    found = {page.name: inner_rooms(page.read_text(encoding="utf-8")) for page in shown}
    assert {name: rooms for name, rooms in found.items() if rooms} == {}
    assert inner_rooms("from dladmm.terms.losses import Huber") == ["terms"]
    assert inner_rooms("`dladmm.engine.devices.own_rows(n, mesh)` says which") == ["engine"]
    assert inner_rooms("import dladmm.torch\nfrom dladmm import Huber") == []


def test_a_block_that_fails_is_heard(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n```\n\n```python\nassert x == 2\n```\n")
    with pytest.raises(AssertionError):
        run_python(page, tmp_path, monkeypatch)
