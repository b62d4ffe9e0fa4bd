"""Tab in a shell completes commands and options; what is installed is a shell's own script."""

import os
import subprocess
import sys

import pytest


def completed(line, shell="bash"):
    """What a shell is offered behind this line."""
    words = line.split(" ")
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    if shell != "bash":
        asked = {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    environment = {**os.environ, **asked, "_DLADMM_COMPLETE": f"complete_{shell}"}
    # The name that shells know it by.
    code = "import sys; sys.argv[0] = 'dladmm'; from dladmm.cli.app import main; main()"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True,
                          text=True)  # fmt: skip
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_command_and_its_options(shell):
    assert "export" in completed("dladmm ex", shell)
    assert "--target" in completed("dladmm fit --tar", shell)
    assert "export" not in completed("dladmm pre", shell)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_what_is_installed_is_a_script_of_the_shell(shell, tmp_path):
    """In a home of its own, whose shell is said by the environment."""
    code = (
        "import sys; sys.argv = ['dladmm', '--show-completion']\n"
        f"import shellingham; shellingham.detect_shell = lambda: ({shell!r}, {shell!r})\n"
        "from dladmm.cli.app import main; main()"
    )
    environment = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True,
                          text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "_DLADMM_COMPLETE" in done.stdout
    assert f"complete_{shell}" in done.stdout
    assert not any(tmp_path.iterdir())
