"""Every command of README, CONTRIBUTING and docs: the program it names knows it, and it is run,
small where it would take minutes (`small_runs.py`). What is not run has its reason here.
"""

import re
import shlex
import shutil
import tomllib
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
import typer
from pages import ANY_BLOCK, WITH_COMMANDS, all_commands
from run_records import RESULTS, ROOT
from small_runs import SMALL, assert_left, made_small, prepared, ran

from dladmm.cli.app import app


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
SHOWN = sorted({one for one in all_commands() if one[2].split()[0] in PROGRAMS})
COMMANDS = sorted({(page, command) for page, _, command in SHOWN})


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


# Commands that are not run, by how they begin.
NOT_RUN = {
    "pip install": "it is for the reader's environment; .ci/base-install has one of its own",
    "dladmm --install-completion": "it writes to the user's shell; tests/cli/test_completion.py",
    "tensorboard": "a server that does not end; tests/callbacks/test_tracking.py asks it",
}


def is_run(page, language, command):
    """Whether it runs among the Python blocks of its page or here."""
    return not command.startswith(tuple(NOT_RUN)) and (
        page not in WITH_COMMANDS or language == "console"
    )


ALONE = sorted(one for one in SHOWN if one[0] not in WITH_COMMANDS and is_run(*one))


def filled(folder, page, command):
    """What a command of a page reads."""
    rng = np.random.default_rng(0)
    if page.endswith("scale.md"):
        rows = rng.normal(size=(60, 3))
        frame = pd.DataFrame(rows, columns=["distance", "wind", "delay"])
        frame.to_parquet(folder / "flights.parquet", row_group_size=20)
    if page.endswith("memory.md"):
        rows = rng.normal(size=(600, 3)).astype(np.float32)
        np.save(folder / "x.npy", rows)
        np.save(folder / "y.npy", rows[:, 0] - rows[:, 1])
        text = "".join(f"{a},{b},{c}\n" for a, b, c in rows)
        (folder / "flights.csv").write_text("distance,wind,delay\n" + text)
    if page.endswith("networks.md"):
        from PIL import Image

        for name, shade in (("dark", 60), ("light", 190)):
            (folder / "photos" / name).mkdir(parents=True)
            for k, noise in enumerate(rng.integers(-50, 50, (12, 32, 32, 3))):
                pixels = (shade + noise).astype(np.uint8)
                Image.fromarray(pixels).save(folder / "photos" / name / f"{k}.png")
        shown = ANY_BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
        (network,) = (text for language, text in shown if language == "json")
        (folder / "network.json").write_text(network, encoding="utf-8")
    if command.startswith("dladmm reproduce report"):
        shutil.copytree(RESULTS / "reproduce-quick", folder / "reproduced")


@pytest.mark.slow
@pytest.mark.float32
@pytest.mark.parametrize(("page", "command"), [(page, command) for page, _, command in ALONE])
def test_it_runs(page, command, tmp_path, monkeypatch, xla_flags):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XLA_FLAGS", xla_flags)
    filled(tmp_path, page, command)
    prepared(monkeypatch)
    words = made_small(command)
    assert_left(command, words, ran(words), tmp_path)


def test_every_command_runs_somewhere_or_has_its_reason():
    neither = [one for one in SHOWN if not is_run(*one) and not one[2].startswith(tuple(NOT_RUN))]
    assert neither == []
    assert len(ALONE) >= 5
    unused = [s for s in (*NOT_RUN, *SMALL) if not any(c.startswith(s) for *_, c in SHOWN)]
    assert unused == []


def test_a_command_that_would_not_run_is_noticed():
    """On a page whose console blocks are run, one in a block of another kind is not."""
    assert is_run("README.md", "console", "dladmm demo")
    assert not is_run("README.md", "text", "dladmm demo")
    assert not is_run("docs/start.md", "bash", "pip install 'dladmm[compare,onnx]'")


def test_a_command_that_leaves_nothing_is_noticed(tmp_path):
    command = "dladmm fit digits --out digits.model"
    with pytest.raises(AssertionError, match=r"digits\.model is not there"):
        assert_left(command, command.split(), "", tmp_path)
    with pytest.raises(AssertionError):
        assert_left("dladmm bench overhead", [], "nothing", tmp_path)
