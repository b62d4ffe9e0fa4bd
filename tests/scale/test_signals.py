"""SIGTERM, SIGHUP and Ctrl-C end a fit with its best network and a checkpoint, alone or as several
processes; whoever goes on from there ends with the bits of a run that was left alone."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import numpy as np
import psutil
import pytest
from tolerances import WEIGHTED_RUN

from dladmm.estimators.model_files import load_model

PROMISED_SECONDS = 10  # within which a fit has ended
SLOWLY = Path(__file__).with_name("slowly")
FIT = ("fit", "digits", "--hidden", "12", "--max-iter", "25", "--dtype", "float64", "--json")
ASKED = [signal.SIGTERM, signal.SIGHUP, signal.SIGINT]
pytestmark = pytest.mark.slow


class Fit:
    """A fit in a process of its own, whose iterations can be counted from outside."""

    def __init__(self, folder, *arguments, seconds=0.2, stuck_after=999, count=1, keep=True, **how):
        self.folder, self.noted = folder, folder / "noted"
        where = ["--out", folder / "m"]
        if keep:  # only once it is asked to end
            where += ["--checkpoint", folder / "run", "--checkpoint-every", "1000"]
        several = ("launch", "-n", count, "--") if count > 1 else ()
        self.noted.write_bytes(b"")
        own = {"JAX_PLATFORMS": "cpu", "SLOWLY": str(seconds), "NOTED": str(self.noted)}
        own["STUCK_AFTER"] = str(stuck_after)
        own["PYTHONPATH"] = os.pathsep.join([str(SLOWLY), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dladmm", *map(str, (*several, *FIT, *where, *arguments))],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | own,
            text=True,
            **how,
        )

    def wait_for_iterations(self, number, seconds=120):
        end = time.monotonic() + seconds
        while self.noted.stat().st_size < number:
            if self.process.poll() is not None or time.monotonic() > end:
                self.process.kill()
                raise AssertionError(self.process.communicate())
            time.sleep(0.01)
        return self

    def asked(self, number, whom=None):
        (whom or self.process).send_signal(number)
        return self.ended(PROMISED_SECONDS)

    def ended(self, seconds=120):
        try:
            out, err = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return self.process.returncode, out, err

    @property
    def kept(self):
        return sorted(int(p.name) for p in (self.folder / "run").glob("*") if p.name.isdigit())

    def bits(self):
        model = load_model(self.folder / "m").estimator
        history = {name: np.array(v) for name, v in model.history_.items() if name != "seconds"}
        return [v.tobytes() for v in (*history.values(), *model.coefs_)]

    @property
    def losses(self):
        return load_model(self.folder / "m").estimator.history_["train_loss"]


@pytest.fixture(scope="module", autouse=True)
def programs(tmp_path_factory):
    """A run finds the programs that an earlier one has compiled."""
    with mock.patch.dict(os.environ, {"DLADMM_CACHE": str(tmp_path_factory.mktemp("programs"))}):
        yield


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    fit = Fit(tmp_path_factory.mktemp("alone"), seconds=0, keep=False)
    assert fit.ended()[0] == 0
    return fit


@pytest.mark.parametrize("number", ASKED, ids=lambda number: number.name)
def test_a_fit_that_is_asked_to_end_keeps_everything(tmp_path, undisturbed, number):
    fit = Fit(tmp_path).wait_for_iterations(4)
    code, out, err = fit.asked(number)
    assert code == 128 + number
    record = json.loads(out)
    assert (record["status"], record["n_iter"]) == ("interrupted", fit.kept[-1])
    assert f"interrupted after {fit.kept[-1]} iterations; the best network is kept" in err
    assert load_model(tmp_path / "m").estimator.n_iter_ == fit.kept[-1]
    resumed = Fit(tmp_path, "--resume", seconds=0)
    code, out, err = resumed.ended()
    assert (code, json.loads(out)["resumed_from"]) == (0, fit.kept[-1]), err
    assert resumed.bits() == undisturbed.bits()


def test_an_iteration_that_takes_too_long_is_given_up(tmp_path):
    fit = Fit(tmp_path, seconds=0, keep=False, stuck_after=3).wait_for_iterations(4)
    code, out, _ = fit.asked(signal.SIGTERM)
    assert (code, json.loads(out)["n_iter"]) == (128 + signal.SIGTERM, 3)
    assert load_model(tmp_path / "m").estimator.n_iter_ == 3


def test_a_signal_that_was_to_be_ignored_still_is(tmp_path):
    """As under `nohup`."""
    fit = Fit(tmp_path, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    fit.wait_for_iterations(3).process.send_signal(signal.SIGHUP)
    before = fit.noted.stat().st_size
    fit.wait_for_iterations(before + 3)
    assert fit.asked(signal.SIGTERM)[0] == 128 + signal.SIGTERM


@pytest.mark.parametrize("whom", ["the launcher", "process 1"])
def test_several_processes_agree_on_where_to_end(tmp_path, undisturbed, whom):
    fit = Fit(tmp_path, count=3).wait_for_iterations(9)
    children = {p.cmdline()[-1]: p for p in psutil.Process(fit.process.pid).children()}
    code, out, err = fit.asked(signal.SIGTERM, children["1"] if whom == "process 1" else None)
    assert code == 128 + signal.SIGTERM, err
    assert json.loads(out)["n_iter"] == fit.kept[-1]
    assert not any(child.is_running() for child in children.values())
    if whom == "the launcher":
        resumed = Fit(tmp_path, "--resume", seconds=0)  # by one process
        code, out, err = resumed.ended()
        assert (code, json.loads(out)["resumed_from"]) == (0, fit.kept[-1]), err
        assert resumed.losses == pytest.approx(undisturbed.losses, rel=WEIGHTED_RUN)
