"""Every Python block of README, CONTRIBUTING and docs runs, page by page, in its own folder.

Commands run where they take seconds, in their order among the Python blocks; every other one is
parsed by the program it names.
"""

import contextlib
import doctest
import io
import re
import shlex
import subprocess
import sys
import tomllib
from importlib.util import find_spec

import pytest
import typer
from figures import ROOT

import dladmm
from dladmm.cli.app import app
from dladmm.network.presets import read_network
from dladmm.terms.activations import activations

PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"))
    if "```python" in path.read_text(encoding="utf-8") and path.parent.name != "gallery"
)
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.M | re.S)
ANY_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
# Pages whose commands are run.
WITH_COMMANDS = ("README.md", "docs/start.md", "docs/guide/tables.md", "docs/models.md")


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


def commands(text):
    """The commands of a block, without prompts, remarks and breaks in the middle."""
    lines = text.replace("\\\n", " ").splitlines()
    shown = (line.removeprefix("$ ").split("  #")[0].strip() for line in lines)
    return [line for line in shown if line and not line.startswith("#")]


def all_commands():
    """(page, command) of README, CONTRIBUTING and docs, those outside of console blocks too."""
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")):
        for language, text in ANY_BLOCK.findall(page.read_text(encoding="utf-8")):
            for command in commands(text) if language in ("console", "bash", "text", "") else ():
                if command.split()[0] in PROGRAMS:
                    yield page.name, command


def parsed(words):
    """Read by the program itself, which refuses what it does not know; nothing is run."""
    command, (name, *rest) = typer.main.get_command(app), words
    while hasattr(command, "commands"):
        name, *rest = rest
        command = command.commands[name]
    command.make_context(name, rest)


def extras(words):
    """A requirement such as 'dladmm[onnx]' names extras that there are."""
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = re.findall(r"dladmm\[([\w,]+)\]", " ".join(words))
    for extra in ",".join(asked).split(",") if asked else ():
        assert extra in known["optional-dependencies"]


def a_file(words):
    assert (ROOT / words[1]).exists()


def a_target(words):
    makefile = (ROOT / "Makefile").read_text()
    for target in (word for word in words[1:] if word.isidentifier()):
        assert re.search(rf"^{target}:", makefile, re.M), target


def installed(words):
    assert find_spec(words[0])


PROGRAMS = {
    "dladmm": parsed,
    "srun": lambda words: parsed(words[1:]),
    "pip": extras,
    "python": a_file,
    "make": a_target,
    "tensorboard": installed,
}
COMMANDS = sorted(set(all_commands()))


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_the_program_knows_every_command(page, command):
    if "--install-completion" in command or "--show-completion" in command:
        return  # these act where they are parsed; tests/cli/test_completion.py has them
    words = shlex.split(command)
    PROGRAMS[words[0]](words)


def test_an_unknown_option_is_noticed():
    assert len(COMMANDS) > 30
    parsed(["dladmm", "fit", "t.csv", "--target", "y", "--out", "m", "--seed", "3"])
    with pytest.raises(Exception, match="No such option"):
        parsed(["dladmm", "fit", "t.csv", "--out", "m", "--sead", "3"])
    with pytest.raises(KeyError, match="exprot"):
        parsed(["dladmm", "exprot", "m", "m.onnx"])
    with pytest.raises(AssertionError):
        extras(["pip", "install", "dladmm[magic]"])


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
