"""The command line in this process: arguments in, exit code and both outputs back."""

import contextlib
import io
import json
import sys
from dataclasses import dataclass
from unittest import mock

from dladmm.cli.app import main

# Small enough to train at once; the commands, not the networks, are tested.
QUICK = ("--hidden", "3", "--max-iter", "3")


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


def run(*arguments):
    """`dladmm` with these arguments, through its real entry point."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    argv = mock.patch.object(sys, "argv", ["dladmm", *map(str, arguments)])
    with argv, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    return Ran(code, out.getvalue(), err.getvalue())
