"""Every Python block of README, CONTRIBUTING and docs runs, page by page, in its own folder."""

import contextlib
import io
import re
import shlex
import subprocess
import sys

import pytest
from figures import ROOT

from dladmm.terms.activations import activations

PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"))
    if "```python" in path.read_text(encoding="utf-8") and path.parent.name != "gallery"
)
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.M | re.S)
# Pages whose commands are run too, in their order among the Python blocks.
WITH_COMMANDS = ("docs/start.md", "docs/guide/tables.md")


def blocks(page):
    return BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


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


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("page", PAGES)
def test_python_blocks_run(page, iris, monkeypatch):
    # What a page registers is the page's alone.
    monkeypatch.setattr(activations, "_classes", dict(activations._classes))
    run_python(page, iris, monkeypatch)


def test_a_block_that_fails_is_heard(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n```\n\n```python\nassert x == 2\n```\n")
    with pytest.raises(AssertionError):
        run_python(page, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("page", WITH_COMMANDS)
def test_commands_run_as_they_are_shown(page, tmp_path, monkeypatch):
    """Python blocks first: one of them writes the table that the commands read."""
    import pandas as pd

    monkeypatch.chdir(tmp_path)
    first = next(text for language, text in blocks(page) if language == "python")
    with contextlib.suppress(NameError):
        exec(first, {"__name__": "__main__"})
    ran = 0
    for language, text in blocks(page):
        for line in text.splitlines() if language == "console" else []:
            command = shlex.split(line.removeprefix("$ "), comments=True)
            assert command[0] == "dladmm"
            done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            ran += 1
    assert ran >= 2
    assert len(pd.read_csv("predicted.csv")) > 100
    pages = list(tmp_path.glob("*.html"))
    assert pages
    assert all(p.read_text(encoding="utf-8").startswith("<!doctype html>") for p in pages)
