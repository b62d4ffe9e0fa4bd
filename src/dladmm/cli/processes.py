"""Several processes as one run: how each finds the others, and what a launcher does for them.

`launch` starts the processes of one machine and watches them: a run that has lost a process cannot
go on, and JAX's own heartbeat is slower to notice and may end the others without a word.
"""

import io
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from functools import partial
from typing import IO, Any, NamedTuple, NoReturn

from dladmm.cli.last_words import LastWords
from dladmm.cli.messages import print_message
from dladmm.engine.signals import SIGNALS

AUTO = "auto"  # the coordinator as SLURM, Kubernetes or MPI name it
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
CONNECT_SECONDS = 120
HEARTBEAT_SECONDS = 30
SHUTDOWN_SECONDS = 60
# The exit code of a process that has lost another one: not itself the cause.
LOST_ANOTHER = 3
# How long the others may take to end by themselves, and then once they are asked to.
GRACE_SECONDS = 5.0
# How long a process may be stopped, before JAX itself loses patience after HEARTBEAT_SECONDS.
FROZEN_SECONDS = 15.0
LOOK_SECONDS = 0.05
# How long all may take to keep what they have once a signal asks for it: a second or two mostly,
# and less than the half minute after which schedulers kill.
KEEP_SECONDS = 25.0
LAUNCHED = "DLADMM_LAUNCHED"  # set for a process that has a launcher, which speaks for it
_last_words: list[LastWords] = []


def join(coordinator: str | None, num_processes: int | None, process_id: int | None) -> None:
    """Make this process one of a run; nothing where no coordinator is named."""
    if coordinator is None:
        if num_processes is not None or process_id is not None:
            raise ValueError("--coordinator is missing; expected HOST:PORT of process 0, or auto")
        return
    import jax

    # It would catch SIGTERM, and a process that is asked to end would go on; JAX 0.8 has no switch.
    if hasattr(jax.config, "jax_enable_preemption_service"):
        jax.config.update("jax_enable_preemption_service", False)
    initialize = partial(
        jax.distributed.initialize,
        initialization_timeout=CONNECT_SECONDS,
        heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
        shutdown_timeout_seconds=SHUTDOWN_SECONDS,
    )
    if coordinator == AUTO:
        own_standard_output()
        expect_the_worst()
        try:
            initialize(num_processes=num_processes, process_id=process_id)
        except ValueError as error:
            raise ValueError(
                "--coordinator auto found no other processes; expected the variables of SLURM,"
                f" Kubernetes or MPI ({error})"
            ) from None
        return
    host, _, port = coordinator.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"--coordinator {coordinator!r} is not valid; expected HOST:PORT or auto")
    if num_processes is None or process_id is None:
        raise ValueError(
            "--num-processes and --process-id are missing; expected both beside --coordinator"
        )
    if not 0 <= process_id < num_processes:
        raise ValueError(
            f"--process-id {process_id} is not valid; expected 0 to {num_processes - 1}"
        )
    own_standard_output()
    expect_the_worst()
    # JAX listens on all interfaces by itself; processes of one machine need none but its own.
    bind = coordinator if host in LOOPBACK else None
    initialize(coordinator, num_processes, process_id, coordinator_bind_address=bind)


def expect_the_worst() -> None:
    """Have a sentence printed if this process is aborted or killed, where no launcher does it."""
    if LAUNCHED in os.environ or _last_words:
        return
    _last_words.append(
        LastWords(
            "dladmm: this process was ended without a word of its own: JAX ends one that has not"
            f" heard of another for {HEARTBEAT_SECONDS} s, which is gone, stopped or cut off, and"
            " the system one that takes too much memory; go on with --resume if the run has a"
            " --checkpoint"
        )
    )


def say_goodbye() -> None:
    for words in _last_words:
        words.goodbye()


def own_standard_output() -> None:
    """Keep standard output for results: gloo prints on it that it is connected."""
    if not isinstance(sys.stdout, io.TextIOWrapper):
        return  # not a stream of the system's
    ours = os.dup(1)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    sys.stdout = os.fdopen(ours, "w", encoding="utf-8")


def leave(code: int) -> NoReturn:
    """Exit; one process of several does not wait for the others, as JAX would at its end."""
    if is_one_of_several():
        sys.stdout.flush()
        sys.stderr.flush()
        say_goodbye()
        os._exit(code)
    sys.exit(code)


def leave_others(error: BaseException) -> None:
    """End one process of several at once after what it did not expect; nothing if it is alone."""
    if not is_one_of_several() or (isinstance(error, SystemExit) and not error.code):
        return
    if isinstance(error, SystemExit):
        leave(error.code if isinstance(error.code, int) else 1)
    import jax

    if isinstance(error, jax.errors.JaxRuntimeError):
        first_line = next(iter(str(error).splitlines()), "")
        print_message(f"another process of this run is gone: {first_line}")
        leave(LOST_ANOTHER)
    traceback.print_exception(error)
    leave(1)


def is_one_of_several() -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and jax.distributed.is_initialized() and jax.process_count() > 1


class Child(NamedTuple):
    """A process of the run; only the first one prints, what the others print is kept in a file."""

    number: int
    process: subprocess.Popen[bytes]
    output: IO[bytes] | None

    def last_words(self) -> str:
        if self.output is None:
            return ""
        self.output.seek(0)
        lines = self.output.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""


def launch(command: Sequence[str], count: int) -> tuple[int, str]:
    """Run `dladmm COMMAND` as `count` processes of this machine until all have ended, or one died.

    Returns the exit code and, where a process has died, one sentence that names it and says how to
    go on.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        coordinator = f"127.0.0.1:{free.getsockname()[1]}"
    children: list[Child] = []
    heard: list[int] = []

    def hear(number: int, _: Any) -> None:
        heard.append(number)
        raise KeyboardInterrupt

    for one in SIGNALS:  # no orphans by `kill` either
        if signal.getsignal(one) is not signal.SIG_IGN:
            signal.signal(one, hear)
    try:
        for index in range(count):
            children.append(start(command, coordinator, count, index))
        dead = wait_for_all(children)
        words = dead.last_words() if dead else ""
        frozen = dead is not None and dead.process.poll() is None
        if frozen:  # the others wait for it inside a sum, and hear nothing
            kill(children)
    except KeyboardInterrupt:
        asked = heard[0] if heard else signal.SIGINT
        pass_on(asked, children)
        return 128 + asked, f"ended by {signal_name(asked)}; {how_to_resume(command, count)}"
    finally:
        end(children)
    if dead is None:
        return 0, ""
    first, code = children[0].process.returncode, dead.process.returncode
    if frozen:
        return 1, (
            f"process {dead.number} of {count} has been stopped for {FROZEN_SECONDS:.0f} s, so all"
            f" were ended; {how_to_resume(command, count)}"
        )
    if code == first and code > 0 and code != LOST_ANOTHER:
        return code, ""  # a refusal, which the first process has printed itself
    how = f"failed with code {code}" if code > 0 else f"was ended by {signal_name(-code)}"
    return 1, (
        f"process {dead.number} of {count} {how}{f' ({words})' if words else ''}, so the others"
        f" were stopped; {how_to_resume(command, count)}"
    )


def pass_on(number: int, children: Sequence[Child]) -> None:
    """Let the processes agree on where to end and keep what they have; kill who takes too long."""
    ignore_signals()
    for child in children:
        child.process.send_signal(number)
    wait_while_running(children, KEEP_SECONDS)
    kill(children)


def kill(children: Sequence[Child]) -> None:
    for child in children:
        child.process.kill()


def ignore_signals() -> None:
    for one in SIGNALS:
        signal.signal(one, signal.SIG_IGN)


def wait_while_running(children: Sequence[Child], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(c.process.poll() is None for c in children):
        time.sleep(LOOK_SECONDS)


def signal_name(number: int) -> str:
    known = {s.value: s.name for s in signal.Signals}
    return known.get(number, f"signal {number}")


def wait_for_all(children: Sequence[Child]) -> Child | None:
    """Wait until all have ended well, which is None, or one has not: the one to blame.

    One that is stopped (SIGSTOP) is as good as dead after a while: the others wait for it. Looks
    are counted and not seconds, since Ctrl-Z stops this process too.
    """
    stopped = dict.fromkeys(range(len(children)), 0)
    while True:
        codes = [child.process.poll() for child in children]
        if all(code == 0 for code in codes):
            return None
        bad = [child for child, code in zip(children, codes, strict=True) if code]
        if bad:
            return min(bad, key=lambda child: _blame(child.process.returncode))
        for k, child in enumerate(children):
            stopped[k] = stopped[k] + 1 if codes[k] is None and is_stopped(child.process.pid) else 0
            if stopped[k] * LOOK_SECONDS >= FROZEN_SECONDS:
                return child
        time.sleep(LOOK_SECONDS)


def is_stopped(pid: int) -> bool:
    """Whether this child is stopped by a signal, as the system says."""
    if not hasattr(os, "waitid"):
        return False
    try:
        how = os.WSTOPPED | os.WNOHANG | os.WNOWAIT  # it is only looked at
        return os.waitid(os.P_PID, pid, how) is not None
    except ChildProcessError:  # it has ended
        return False


def _blame(code: int) -> int:
    """Least for who was killed, then who failed, then who was aborted, as JAX aborts who has lost
    another for long, then who has reported that it lost another."""
    if code < 0:
        return 2 if -code == signal.SIGABRT else 0
    return 3 if code == LOST_ANOTHER else 1


def start(command: Sequence[str], coordinator: str, count: int, index: int) -> Child:
    own = ("--coordinator", coordinator, "--num-processes", str(count), "--process-id", str(index))
    output = tempfile.TemporaryFile() if index else None  # noqa: SIM115 (closed by `end`)
    share = str(max(1, (os.cpu_count() or 1) // count))
    process = subprocess.Popen(
        [sys.executable, "-m", "dladmm", *command, *own],
        stdout=subprocess.DEVNULL if index else None,
        stderr=output,
        env={"NPROC": share} | os.environ | {LAUNCHED: "1"},  # each its share of the cores
    )
    return Child(index, process, output)


def end(children: Sequence[Child]) -> None:
    """Wait a little for those that still run, then end them, politely first; not to be hurried."""
    ignore_signals()
    for last_resort in (subprocess.Popen.terminate, subprocess.Popen.kill):
        wait_while_running(children, GRACE_SECONDS)
        for child in children:
            if child.process.poll() is None:
                last_resort(child.process)
    for child in children:
        child.process.wait()
        if child.output is not None:
            child.output.close()


def how_to_resume(command: Sequence[str], count: int) -> str:
    if not any(argument.split("=")[0] == "--checkpoint" for argument in command):
        return "without --checkpoint DIR there is nothing to go on from"
    resumed = [*command, *(() if "--resume" in command else ("--resume",))]
    return f"go on with: {shlex.join(['dladmm', 'launch', '-n', str(count), '--', *resumed])}"
