"""Where this folder is on PYTHONPATH, each iteration of every run takes SLOWLY seconds more, and is
noted as a byte in the file NOTED; the one after STUCK_AFTER never ends. See test_signals.py."""

import os
import time

from dladmm.core.loop import Loop

absorb = Loop._absorb


def slowly(self, launched):
    with open(os.environ["NOTED"], "ab") as noted:
        noted.write(b".")
    stuck = len(self.at.rows) >= int(os.environ["STUCK_AFTER"])
    time.sleep(1e6 if stuck else float(os.environ["SLOWLY"]))
    return absorb(self, launched)


Loop._absorb = slowly
