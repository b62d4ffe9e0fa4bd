"""Functions called in processes of their own, which begin with everything imported: forks of one.

A fork has no backend of JAX yet, so that each begins as a new process would: with devices, and a
place among several processes, that are its own. As all of these tests it needs a Unix.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import psutil

LIMIT_SECONDS = 600  # for what takes seconds; two cores may be busy
NO_DEADLOCK = f"--xla_cpu_collective_call_terminate_timeout_seconds={LIMIT_SECONDS}"


@dataclass(frozen=True)
class Run:
    """A function under way: its process, and where its result and its last words go."""

    pid: int
    out: Path
    err: Path


class Server:
    """Starts runs, whose results go to a folder."""

    def __init__(self, folder):
        self.folder, self.count = folder, 0
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            env=os.environ | {"JAX_PLATFORMS": "cpu"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._said("ready")

    def _said(self, expected=None):
        line = self.process.stdout.readline().strip()
        assert line, "the server has ended"
        assert expected in (None, line)
        return line

    def _asked(self, **order):
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return int(self._said())

    def start(self, module, name, devices=1, **settings):
        """A function of a module here, on so many devices; its settings as JSON."""
        self.count += 1
        out, err = (self.folder / f"{self.count}.{kind}" for kind in ("json", "err"))
        pid = self._asked(
            call=[module, name, settings], devices=devices, out=str(out), err=str(err)
        )
        return Run(pid, out, err)

    def wait(self, run):
        """The exit code of a run; one that hangs is ended."""
        limit = threading.Timer(LIMIT_SECONDS, _end, [run.pid])
        limit.start()
        try:
            return self._asked(wait=run.pid)
        finally:
            limit.cancel()

    def kill(self, run, happened):
        """SIGKILL this run once something has happened; False where it had ended before."""
        end = time.monotonic() + LIMIT_SECONDS
        while not happened() and not _is_over(run.pid):
            assert time.monotonic() < end, "it did not happen"
            time.sleep(0.001)
        _end(run.pid)
        return self.wait(run) == -signal.SIGKILL

    def result(self, run):
        assert self.wait(run) == 0, run.err.read_text()[-4000:]
        return json.loads(run.out.read_text())

    def call(self, module, name, devices=1, **settings):
        """The result of a function, run to its end."""
        return self.result(self.start(module, name, devices, **settings))

    def as_processes(self, module, count, **settings):
        """The result of `as_process` in each process of a run, which must be the same."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            shared = {"coordinator": f"127.0.0.1:{free.getsockname()[1]}", "count": count}
        shared |= settings
        runs = [self.start(module, "as_process", index=index, **shared) for index in range(count)]
        found, *others = [self.result(run) for run in runs]
        assert all(other == found for other in others)
        return found

    def close(self):
        self.process.communicate()
        with suppress(ProcessLookupError):  # what a failed test has left behind
            os.killpg(self.process.pid, signal.SIGKILL)


def _end(pid):
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _is_over(pid):
    """Whether it has ended; until it is waited for, its number stays."""
    return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def _call(module, name, settings, devices, out):
    import jax

    host = f"--xla_force_host_platform_device_count={devices}"
    os.environ["XLA_FLAGS"] = f"{os.environ['XLA_FLAGS']} {host} {NO_DEADLOCK}"
    made = getattr(import_module(module), name)(**settings)
    assert jax.local_device_count() == devices  # a backend that was there before would have others
    Path(out).write_text(json.dumps(made))
    jax.distributed.shutdown()  # the processes of a run leave together


def _forked(order):
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        words = os.open(order["err"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for stream in (1, 2):  # of which the first one is the server's own
            os.dup2(words, stream)
        _call(*order["call"], order["devices"], order["out"])
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError):
            sys.stderr.flush()
        os._exit(code)


def serve():
    import jax  # noqa: F401
    import orbax.checkpoint  # noqa: F401

    import dladmm.core.solve
    import dladmm.io.checkpoints  # noqa: F401

    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        if "wait" in order:
            print(os.waitstatus_to_exitcode(os.waitpid(order["wait"], 0)[1]), flush=True)
        else:
            print(_forked(order), flush=True)


if __name__ == "__main__":
    serve()
