"""Being asked to end: by Ctrl-C, by SIGTERM as schedulers send it, by SIGHUP as a closing terminal.

A command listens. While a run iterates, a signal is only noted: the loop looks at it between two
iterations, where the state is whole and can be written down. From the end of the loop until its
network is saved nothing disturbs. Anywhere else a signal interrupts at once.
"""

import itertools
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dladmm.engine.processes import agreed_step, process_count

SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
# For the iteration under way; then it is given up, and the best network recorded is kept.
PATIENCE_SECONDS = 5.0
# A scheduler and a launcher may both send a signal; one that comes later is impatience.
AGAIN_SECONDS = 1.0
ANYWHERE, ITERATING, SAVING = "anywhere", "iterating", "saving"
# Each loop of a process has a number; the same in all processes of a run.
LOOPS = itertools.count(1)


class Listener:
    """What was heard, and whether the moment allows to interrupt."""

    def __init__(self) -> None:
        self.heard = 0  # the first signal's number
        self.at = 0.0
        self.moment = ANYWHERE

    def hear(self, number: int, _: Any) -> None:
        first = not self.heard
        if first:
            self.heard, self.at = number, time.monotonic()
        elif time.monotonic() - self.at < AGAIN_SECONDS:
            return
        if self.moment == SAVING:
            return
        if first and self.moment == ITERATING:
            _alarm(PATIENCE_SECONDS)
            return
        self.interrupt()

    def hear_alarm(self, *_: Any) -> None:
        if self.moment == ITERATING:
            self.interrupt()

    def interrupt(self) -> None:
        """One process of several leaves at once: the others cannot be asked any more."""
        if process_count() > 1:
            raise SystemExit(128 + self.heard)
        raise KeyboardInterrupt


_listener: Listener | None = None


@contextmanager
def listening() -> Iterator[None]:
    """Listen to signals that ask to end; those that were to be ignored still are (nohup)."""
    global _listener
    if threading.current_thread() is not threading.main_thread() or _listener is not None:
        yield
        return
    _listener = Listener()
    heard = [one for one in SIGNALS if signal.getsignal(one) is not signal.SIG_IGN]
    former = {one: signal.signal(one, _listener.hear) for one in heard}
    if hasattr(signal, "SIGALRM"):
        former[signal.SIGALRM] = signal.signal(signal.SIGALRM, _listener.hear_alarm)
    try:
        yield
    finally:
        _alarm(0)
        _listener = None
        for one, handler in former.items():
            signal.signal(one, handler or signal.SIG_DFL)


def asked_to_end() -> int:
    """The number of the signal that was heard; 0 while there was none."""
    return 0 if _listener is None else _listener.heard


def interruptible() -> None:
    """What was to be saved is saved: from here on a signal interrupts at once."""
    if _listener is not None:
        _listener.moment = ANYWHERE


class Iterating:
    """A loop that is under way, and whether to end it before an iteration."""

    def __enter__(self) -> "Iterating":
        self.number = next(LOOPS)
        self.several = process_count() > 1
        if _listener is not None:
            _listener.moment = ITERATING
        return self

    def __exit__(self, *_: Any) -> None:
        if _listener is not None:
            _listener.moment = SAVING
            _alarm(0)

    def ends(self, k: int) -> bool:
        """Whether to end before iteration k; all processes of a run say the same.

        One that has heard a signal before iteration k names k + 2: no other can be further, since
        it has absorbed iteration k - 1 at most without this one, and sees the name before k + 2.
        """
        if self.several:
            step = agreed_step(f"end-{self.number}", k + 2 if asked_to_end() else None)
            ends = step is not None and k >= step
        else:
            ends = asked_to_end() > 0
        if ends:
            self.__exit__()  # a checkpoint is to be written, which nothing must disturb
        return ends


def _alarm(seconds: float) -> None:
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)
