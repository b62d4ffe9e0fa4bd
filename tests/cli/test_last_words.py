"""A process that is aborted or killed has its sentence printed; one that ends by itself has not."""

import subprocess
import sys

import pytest

BEGINS = """
import os, signal, sys
from dladmm.cli.last_words import LastWords
words = LastWords("it is gone")
"""


def errors_of(ending):
    ran = subprocess.run([sys.executable, "-c", BEGINS + ending], capture_output=True, text=True)
    return ran.stderr


@pytest.mark.parametrize(
    "ending",
    [
        "os.abort()",
        "os.kill(os.getpid(), signal.SIGKILL)",
        # Whoever asks all processes of a group to end asks the other one too.
        "words.process.send_signal(signal.SIGTERM); os.abort()",
    ],
)
def test_who_cannot_speak_any_more_is_spoken_for(ending):
    assert errors_of(ending) == "it is gone\n"


@pytest.mark.parametrize("ending", ["", "sys.exit(3)", "words.goodbye(); os._exit(3)"])
def test_who_ends_by_itself_is_not(ending):
    assert errors_of(ending) == ""


def test_the_other_one_may_be_gone_first():
    assert errors_of("words.process.kill(); words.process.wait()") == ""
