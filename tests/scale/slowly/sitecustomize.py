"""Where this folder is on PYTHONPATH, each iteration of every run takes SLOWLY seconds more, and is
noted as a byte in the file NOTED; the one after STUCK_AFTER never ends. Processes lose patience
with each other after HEARTBEAT seconds, if it is set. See test_signals.py."""

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

if "HEARTBEAT" in os.environ:
    from dladmm.cli import processes

    processes.HEARTBEAT_SECONDS = int(os.environ["HEARTBEAT"])
    processes.FROZEN_SECONDS = processes.HEARTBEAT_SECONDS / 2
