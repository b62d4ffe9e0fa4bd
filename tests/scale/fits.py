"""Fits in processes of their own, which are watched, stopped or disturbed from outside."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from dladmm.estimators.model_files import load_model

HANGS_SECONDS = 60  # a fit that was asked to end and still runs never will
SLOWLY = Path(__file__).with_name("slowly")
# Not by preexec_fn: that would fork the tests' own process, whose JAX has threads.
EXEC = "; import os, sys; os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"


def dladmm_after(settings, *arguments):
    """The command line, in a Python process that executes these statements first."""
    return [sys.executable, "-c", settings + EXEC, "-m", "dladmm", *map(str, arguments)]


FIT = ("--hidden", "12", "--max-iter", "25", "--dtype", "float64", "--json")


class Fit:
    """A fit in a process of its own, whose iterations can be counted from outside."""

    def __init__(
        self,
        folder,
        *arguments,
        seconds=0.2,
        stuck_after=999,
        count=1,
        keep=True,
        noted="noted",
        ignored=(),
        within=(),
        heartbeat=None,
        data=("digits",),
        **settings_of_slowly,
    ):
        self.folder, self.noted = folder, folder / noted
        where = ["--out", folder / "m"]
        if keep:  # only once it is asked to end
            where += ["--checkpoint", folder / "run", "--checkpoint-every", "1000"]
        # A shell ignores Ctrl-C for what it starts in the background, nohup SIGHUP; tests too.
        listened = dict.fromkeys((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), "SIG_DFL")
        actions = listened | dict.fromkeys(ignored, "SIG_IGN")
        settings = "; ".join(
            ["import signal", *(f"signal.signal({int(n)}, signal.{a})" for n, a in actions.items())]
        )
        several = ("launch", "-n", count, "--") if count > 1 else ()
        self.noted.write_bytes(b"")
        own = {"JAX_PLATFORMS": "cpu", "SLOWLY": str(seconds), "NOTED": str(self.noted)}
        own["STUCK_AFTER"] = str(stuck_after)
        if heartbeat is not None:
            own["HEARTBEAT"] = str(heartbeat)
        own |= {name.upper(): str(value) for name, value in settings_of_slowly.items()}
        own["PYTHONPATH"] = os.pathsep.join([str(SLOWLY), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            [*within, *dladmm_after(settings, *several, "fit", *data, *FIT, *where, *arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | own,
            text=True,
        )

    def wait_for_iterations(self, number, seconds=300):
        return self.wait_for(lambda: self.noted.stat().st_size >= number, seconds)

    def wait_for(self, done, seconds=300):
        end = time.monotonic() + seconds
        while not done():
            if self.process.poll() is not None or time.monotonic() > end:
                self.process.kill()
                raise AssertionError(self.process.communicate())
            time.sleep(0.01)
        return self

    def wait_for_checkpoint(self, seconds=300):
        end = time.monotonic() + seconds
        while not self.kept and self.process.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        return self

    def asked(self, number, whom=None):
        (whom or self.process).send_signal(number)
        return self.ended(HANGS_SECONDS)

    def ended(self, seconds=300):
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
