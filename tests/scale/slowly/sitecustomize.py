"""Where this folder is on PYTHONPATH, each iteration of every run takes SLOWLY seconds more, and is
noted as a byte in the file NOTED; the one after STUCK_AFTER never ends, and after SHORT_AFTER the
process gets no more memory. Processes lose patience with each other after HEARTBEAT seconds. PAUSED
names a function that is noted and waits for 2 seconds before it begins. See test_signals.py."""

import importlib
import os
import time

from dladmm.core.loop import Loop

absorb = Loop._absorb


def slowly(self, launched):
    with open(os.environ["NOTED"], "ab") as noted:
        noted.write(b".")
    if len(self.at.rows) == int(os.environ.get("SHORT_AFTER", -1)):
        run_short()
    stuck = len(self.at.rows) >= int(os.environ["STUCK_AFTER"])
    time.sleep(1e6 if stuck else float(os.environ["SLOWLY"]))
    return absorb(self, launched)


def run_short():
    import resource

    from dladmm.engine.limits import kernel_figure

    most = kernel_figure("/proc/self/status", "VmSize") + 2**20
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


Loop._absorb = slowly

if "PAUSED" in os.environ:
    module, _, path = os.environ["PAUSED"].partition(":")
    *within, name = path.split(".")
    where = importlib.import_module(module)
    for one in within:
        where = getattr(where, one)
    function = getattr(where, name)

    def paused(*given, **more):
        with open(os.environ["NOTED"], "ab") as noted:
            noted.write(b"|")
        time.sleep(2)
        return function(*given, **more)

    setattr(where, name, paused)

if "HEARTBEAT" in os.environ:
    from dladmm.cli import processes

    processes.HEARTBEAT_SECONDS = int(os.environ["HEARTBEAT"])
    processes.FROZEN_SECONDS = processes.HEARTBEAT_SECONDS / 2
