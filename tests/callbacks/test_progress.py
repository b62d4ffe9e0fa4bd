"""What a bar shows while it trains: on a terminal, from the command line, in a notebook."""

import io
import json
import math
import re
import subprocess
import sys

import pytest
from command_line import run
from rich.console import Console

from dladmm import DLADMMClassifier
from dladmm.callbacks import progress
from dladmm.callbacks.progress import figures_text

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture
def terminal(monkeypatch):
    """A terminal in place of standard error: what a reader would see, styles left out."""
    seen = io.StringIO()

    def console(stderr):
        return Console(file=seen, force_terminal=True, color_system=None, width=200)

    monkeypatch.setattr(progress, "Console", console)
    return seen


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(120, 3))
    return X, (X[:, 0] > 0).astype(int)


def test_figures_are_those_of_the_record():
    row = {"train_loss": 0.25, "train_accuracy": 0.9}
    assert figures_text(row) == "loss 0.2500  accuracy 90.0%"
    assert figures_text(row | {"validation_score": 0.875}).endswith("  held out 87.5%")
    numbers = {"train_loss": 0.25, "train_accuracy": math.nan, "validation_score": -0.5}
    assert figures_text(numbers) == "loss 0.2500  held out 0.5000"
    assert figures_text(numbers | {"train_loss": math.nan}) == ""


def test_a_terminal_shows_loss_score_and_time_left(rows, terminal):
    X, y = rows
    model = DLADMMClassifier((4,), max_iter=7, tol=None, random_state=0, verbose=True)
    model.fit(X[:80], y[:80], validation=(X[80:], y[80:]))
    last = terminal.getvalue()
    assert "7/7" in last
    assert f"loss {model.history_['train_loss'][-1]:.4f}" in last
    assert f"held out {model.validation_scores_[-1]:.1%}" in last
    assert re.search(r"left *\d:\d\d:\d\d", last)


@pytest.mark.parametrize("engine", ["jax", "numpy"])
def test_a_bar_says_compiling_until_the_first_figures_where_it_compiles(rows, terminal, engine):
    model = DLADMMClassifier((4,), max_iter=3, tol=None, engine=engine, verbose=True)
    model.fit(*rows)
    first, *_ = terminal.getvalue().split("loss ")
    assert ("compiling" in first) is (engine == "jax")
    assert "0/3" in first
    assert "compiling" not in terminal.getvalue()[len(first) :]


def test_nothing_is_drawn_into_a_file(rows, capfd):
    DLADMMClassifier((4,), max_iter=3, random_state=0, verbose=True).fit(*rows)
    assert capfd.readouterr() == ("", "")


def test_fit_shows_the_held_out_score_as_it_trains(rows, terminal, tmp_path):
    X, y = rows
    lines = [",".join(map(str, [*x, "yes" if c else "no"])) for x, c in zip(X, y, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,c,is", *lines]))
    fit = ("fit", tmp_path / "t.csv", "--target", "is", "--out", tmp_path / "m", "--hidden", "4")
    done = run(*fit, "--max-iter", "5")
    assert done.code == 0, done.err
    score = float(re.search(r"held-out accuracy ([\d.]+)", done.out)[1])
    assert f"held out {score:.1%}" in terminal.getvalue()
    # The model of all rows has none: what is shown is of the network that has not seen them.
    first = next(line for line in terminal.getvalue().splitlines() if "loss" in line)
    assert "held out" not in first


def test_fit_shows_the_test_score_of_a_named_data_set(terminal, tmp_path):
    fit = ("fit", "digits", "--out", tmp_path / "m", "--hidden", "4", "--max-iter", "3", "--json")
    done = run(*fit)
    assert done.code == 0, done.err
    assert f"held out {done.json['test_score']:.1%}" in terminal.getvalue()


NOTEBOOK = """
import warnings
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from dladmm import DLADMMClassifier
warnings.simplefilter("ignore", ConvergenceWarning)
X, y = load_iris(return_X_y=True)
model = DLADMMClassifier((4,), max_iter=40, tol=None, verbose=True, random_state=0)
model.fit(X[::2], y[::2], validation=(X[1::2], y[1::2]))
print(model.validation_scores_[-1])
"""

# Runs a notebook in a kernel of this interpreter, whatever kernels the machine knows; in a process
# of its own, as sockets are left behind.
JUPYTER = """
import json, sys
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

drawn = []

class Client(NotebookClient):
    def process_message(self, message, *where):
        if message["msg_type"] in ("display_data", "update_display_data"):
            drawn.append(message["content"]["data"]["text/html"])
        return super().process_message(message, *where)

kernels, code = sys.argv[1:]
specs = KernelSpecManager(kernel_dirs=[kernels])
manager = AsyncKernelManager(kernel_name="here", kernel_spec_manager=specs)
notebook = new_notebook(cells=[new_code_cell(code)])
(cell,) = Client(notebook, km=manager, timeout=600).execute().cells
print(json.dumps({"drawn": drawn, "outputs": cell.outputs}))
"""


@pytest.mark.slow
def test_a_real_notebook_shows_one_bar_that_moves(tmp_path):
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    pytest.importorskip("nbclient", reason="nbclient is not installed")
    kernel = tmp_path / "kernels" / "here"
    kernel.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": command, "display_name": "here", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(spec))
    program = [sys.executable, "-W", "ignore", "-c", JUPYTER, str(kernel.parent), NOTEBOOK]
    done = subprocess.run(program, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    printed = [one for one in found["outputs"] if one["output_type"] == "stream"]
    assert [one["name"] for one in printed] == ["stdout"]  # no warning, no escape codes
    (shown,) = (one for one in found["outputs"] if one["output_type"] == "display_data")
    last = shown["data"]["text/html"]  # in one place, drawn anew
    assert '<progress value="40" max="40" aria-label="DLADMMClassifier">' in last
    assert f"held out {float(printed[0]['text']):.1%}" in last
    assert re.search(r"left \d:\d\d:\d\d", last)
    assert len(found["drawn"]) > 1
    assert found["drawn"][0] != last
