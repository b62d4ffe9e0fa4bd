"""A sentence for a process that cannot say it itself.

JAX aborts a process that has lost the others of its run, and the system kills one that takes too
much memory: no Python runs in it any more. A small process beside it prints the sentence then.
"""

import atexit
import subprocess
import sys

# It ends with the process it watches; whoever asks both to end means the other one.
WATCHES = """
import signal, sys
for name in ("SIGINT", "SIGTERM", "SIGHUP"):
    if hasattr(signal, name):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
print(flush=True)
if not sys.stdin.buffer.read():
    sys.stderr.write(sys.argv[1])
"""


class LastWords:
    """Prints a sentence on standard error if this process ends before it has said `goodbye`."""

    def __init__(self, sentence: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", WATCHES, sentence + "\n"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        self.process.stdout.readline()  # from here on it listens to no signal
        self.process.stdout.close()
        atexit.register(self.goodbye)

    def goodbye(self) -> None:
        pipe = self.process.stdin
        if pipe is None or pipe.closed:
            return
        try:
            pipe.write(b".")
            pipe.close()
        except OSError:  # it is gone, and says nothing either
            return
        self.process.wait()
