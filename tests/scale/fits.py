"""Fits in processes of their own, which are watched, stopped or disturbed from outside."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from dladmm.estimators.model_files import load_model

PROMISED_SECONDS = 10  # within which a fit that is asked to has ended
SLOWLY = Path(__file__).with_name("slowly")
FIT = ("fit", "digits", "--hidden", "12", "--max-iter", "25", "--dtype", "float64", "--json")


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
    ):
        self.folder, self.noted = folder, folder / noted
        where = ["--out", folder / "m"]
        if keep:  # only once it is asked to end
            where += ["--checkpoint", folder / "run", "--checkpoint-every", "1000"]
        signals = {signal.SIGINT: signal.SIG_DFL} | dict.fromkeys(ignored, signal.SIG_IGN)
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
            # A shell ignores Ctrl-C for what it starts in the background, tests too.
            preexec_fn=lambda: [signal.signal(one, act) for one, act in signals.items()],
        )

    def wait_for_iterations(self, number, seconds=300):
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
