"""Every fault again and again: how often the promise was kept, and the longest it took.

    python benchmarks/faults.py --out docs/results/faults.json
    python benchmarks/faults.py --only "SIGTERM" --times 50 --out docs/results/faults.json

Tests assert what a fit leaves behind; here the seconds from the fault to the last end are
measured too, and a promise in seconds counts as kept only within them: run it where nothing else
runs. Faults that were tried before stay in the record unless they are tried again. Needs root for
what is done to networks and control groups; without, those are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil

SCALE = Path(__file__).parents[1] / "tests" / "scale"
sys.path.insert(0, str(SCALE))

from control_groups import control_group, inside  # noqa: E402
from fits import Fit, dladmm_after  # noqa: E402
from networks import ADDRESS, Networks, allowed  # noqa: E402

from dladmm.estimators.model_files import load_model  # noqa: E402
from dladmm.experiments.machine import commit_of, describe_machine  # noqa: E402
from dladmm.io.files import write_file  # noqa: E402

LIMIT = 1_500_000_000
SENTENCE = "this process was ended without a word of its own"


@dataclass(frozen=True)
class Ended:
    """One attempt: the seconds from the fault to the last end, and what was not as promised."""

    seconds: float
    wrong: list[str]


@dataclass(frozen=True)
class Fault:
    attempt: Callable[[Path, random.Random], Ended]
    promise: str
    within: float  # seconds
    times: int
    possible: Callable[[], bool] = lambda: True


def wrongs(**kept: bool) -> list[str]:
    return [name for name, as_promised in kept.items() if not as_promised]


def timed(fit: Fit, do: Callable[[], None]) -> tuple[float, int, str, str]:
    began = time.monotonic()
    do()
    code, out, err = fit.ended(200)
    return time.monotonic() - began, code, out, err


def goes_on(folder: Path, at: int) -> bool:
    """Whether a run that is resumed goes on at this iteration, and ends well."""
    code, out, err = Fit(folder, "--resume", seconds=0).ended()
    if code == 0 and json.loads(out)["resumed_from"] == at:
        return True
    print(f"resumed from {at}: code {code}, {out[:200]} {err[-500:]}", flush=True)
    return False


def asked(number: int) -> Callable[[Path, random.Random], Ended]:
    def attempt(folder: Path, moment: random.Random) -> Ended:
        fit = Fit(folder).wait_for_iterations(moment.randint(1, 15))
        time.sleep(moment.uniform(0, 0.2))
        seconds, code, _, err = timed(fit, lambda: fit.process.send_signal(number))
        at = fit.kept[-1] if fit.kept else 0
        model = load_model(folder / "m").estimator if (folder / "m").exists() else None
        return Ended(
            seconds,
            wrongs(
                code=code == 128 + number,
                sentence=f"interrupted after {at} iterations; the best network is kept" in err,
                model=model is not None and model.n_iter_ == at,
                goes_on=at > 0 and goes_on(folder, at),
            ),
        )

    return attempt


def too_long(folder: Path, moment: random.Random) -> Ended:
    fit = Fit(folder, seconds=0, keep=False, stuck_after=3).wait_for_iterations(4)
    seconds, code, _, _ = timed(fit, lambda: fit.process.send_signal(signal.SIGTERM))
    model = load_model(folder / "m").estimator if (folder / "m").exists() else None
    return Ended(seconds, wrongs(code=code == 143, model=model is not None and model.n_iter_ == 3))


def children(fit: Fit) -> dict[str, psutil.Process]:
    return {p.cmdline()[-1]: p for p in psutil.Process(fit.process.pid).children()}


def several_asked(folder: Path, moment: random.Random) -> Ended:
    """SIGTERM to the launcher, or to one of its processes."""
    fit = Fit(folder, count=3).wait_for_iterations(moment.randint(3, 30))
    whom = moment.choice([fit.process, *children(fit).values()])
    seconds, code, _, _ = timed(fit, lambda: whom.send_signal(signal.SIGTERM))
    at = fit.kept[-1] if fit.kept else 0
    return Ended(seconds, wrongs(code=code == 143, goes_on=at > 0 and goes_on(folder, at)))


def several_with(number: int, words: str) -> Callable[[Path, random.Random], Ended]:
    """This signal to one of the processes of a launcher, which names it."""

    def attempt(folder: Path, moment: random.Random) -> Ended:
        fit = Fit(folder, "--checkpoint-every", "3", count=3).wait_for_checkpoint()
        which, all_of_them = moment.choice("012"), children(fit)
        seconds, code, _, err = timed(fit, lambda: all_of_them[which].send_signal(number))
        return Ended(
            seconds,
            wrongs(
                code=code == 1,
                sentence=f"process {which} of 3 {words}" in err,
                nobody_left=not any(p.is_running() for p in all_of_them.values()),
                goes_on=goes_on(folder, fit.kept[-1]),
            ),
        )

    return attempt


def one_of_three(folder: Path, where: str, k: int, within: tuple[str, ...] = ()) -> Fit:
    of_all = ("--checkpoint-every", "3", "--coordinator", where, "--num-processes", 3)
    return Fit(folder, *of_all, "--process-id", k, noted=f"noted-{k}", within=within)


def ended_with_a_sentence(fits: list[Fit]) -> list[str]:
    wrong = []
    for fit in fits:
        code, _, err = fit.ended(200)
        wrong += wrongs(code=code != 0, sentence=SENTENCE in (err.splitlines() or [""])[-1])
    return wrong


def stopped_alone(folder: Path, moment: random.Random) -> Ended:
    """Without a launcher; once it goes on, it ends and has harmed nothing."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        where = f"127.0.0.1:{free.getsockname()[1]}"
    fits = [one_of_three(folder, where, k) for k in range(3)]
    stopped = fits.pop(moment.randrange(3))
    stopped.wait_for_checkpoint().process.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    wrong = ended_with_a_sentence(fits)
    seconds = time.monotonic() - began
    stopped.process.send_signal(signal.SIGCONT)
    wrong += wrongs(ends_too=stopped.ended(200)[0] != 0, no_model=not (folder / "m").exists())
    return Ended(seconds, wrong + wrongs(goes_on=goes_on(folder, stopped.kept[-1])))


def cut_off(which: int) -> Callable[[Path, random.Random], Ended]:
    def attempt(folder: Path, moment: random.Random) -> Ended:
        where = f"{ADDRESS.format(1)}:4000"
        with Networks(folder, 3) as networks:
            fits = [one_of_three(folder, where, k, networks.inside(k)) for k in range(3)]
            fits[0].wait_for_checkpoint()
            networks.cut(which)
            began = time.monotonic()
            wrong = ended_with_a_sentence(fits)
            seconds = time.monotonic() - began
        return Ended(seconds, wrong + wrongs(goes_on=goes_on(folder, fits[0].kept[-1])))

    return attempt


def rows(folder: Path) -> None:
    x = np.random.default_rng(0).normal(size=(350_000, 20)).astype(np.float32)
    np.savez(folder / "rows.npz", X=x, y=np.sin(x[:, 0]) + x[:, 1])


def refused(folder: Path, command: list[str]) -> Ended:
    rows(folder)
    began = time.monotonic()
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return Ended(
        time.monotonic() - began,
        wrongs(
            code=ran.returncode == 2,
            sentence="this fit needs about 4." in ran.stderr and "batch_size=1024" in ran.stderr,
            no_model=not (folder / "m").exists(),
        ),
    )


BIG = ("fit", "rows.npz", "--hidden", "1000", "--out", "m", "--method", "dladmm")
BIG = (*BIG, "--step-rule", "closed-form")  # the default holds twice as much


def refused_by_ulimit(folder: Path, moment: random.Random) -> Ended:
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({LIMIT}, {LIMIT}))"
    return refused(folder, dladmm_after(limit, *BIG))


def refused_by_control_group(folder: Path, moment: random.Random) -> Ended:
    with control_group(LIMIT) as group:
        return refused(folder, [*inside(group), *dladmm_after("import os", *BIG)])


def may_limit() -> bool:
    with control_group(LIMIT) as group:
        return group is not None


KEEPS = "best network and checkpoint, exit code 128 + signal, goes on from there"
OTHERS_END = "the others end with a sentence; goes on from the last checkpoint"
FAULTS = {
    "SIGTERM": Fault(asked(signal.SIGTERM), KEEPS, 10, 20),
    "SIGHUP": Fault(asked(signal.SIGHUP), KEEPS, 10, 20),
    "Ctrl-C": Fault(asked(signal.SIGINT), KEEPS, 10, 20),
    "SIGTERM in an iteration that does not end": Fault(
        too_long, "given up after 5 s; best network saved", 10, 5
    ),
    "SIGTERM to the launcher of three processes, or to one of them": Fault(
        several_asked, KEEPS + "; all agree", 10, 20
    ),
    "one of three processes killed, with a launcher": Fault(
        several_with(signal.SIGKILL, "was ended by SIGKILL"), "named; " + OTHERS_END, 60, 10
    ),
    "one of three processes stopped, with a launcher": Fault(
        several_with(signal.SIGSTOP, "has been stopped for 15 s"), "named; " + OTHERS_END, 60, 5
    ),
    "one of three processes stopped, without a launcher": Fault(
        stopped_alone, OTHERS_END + "; when it goes on it harms nothing", 60, 5
    ),
    "one of three processes cut off from the network": Fault(
        cut_off(1), "all end with a sentence; goes on", 60, 5, allowed
    ),
    "the coordinator cut off from the network": Fault(
        cut_off(0), "all end with a sentence; goes on", 60, 5, allowed
    ),
    "a fit that needs 4 GB where `ulimit -v` allows 1.5 GB": Fault(
        refused_by_ulimit, "refused with what would fit", 5, 10
    ),
    "a fit that needs 4 GB in a control group of 1.5 GB": Fault(
        refused_by_control_group, "refused with what would fit", 5, 10, may_limit
    ),
}


def repeated(name: str, times: int, seed: int) -> Iterator[dict[str, Any]]:
    """The record of this fault after each attempt."""
    fault, moment = FAULTS[name], random.Random(f"{seed} {name}")
    took: list[float] = []
    broken: list[dict[str, Any]] = []
    loads: list[float] = []
    before = processor_seconds()
    for k in range(times):
        with tempfile.TemporaryDirectory() as folder:
            ended = fault.attempt(Path(folder), moment)
        wrong = ended.wrong + (["late"] if ended.seconds > fault.within else [])
        took.append(ended.seconds)
        loads.append(os.getloadavg()[0])
        if wrong:
            broken.append({"attempt": k, "seconds": round(ended.seconds, 1), "not_kept": wrong})
        print(f"{name} {k + 1}: {ended.seconds:.1f} s {wrong or 'kept'}", flush=True)
        yield {
            "promise": fault.promise,
            "within_seconds": fault.within,
            "tried": len(took),
            "kept": len(took) - len(broken),
            "longest_seconds": round(max(took), 1),
            "median_seconds": round(statistics.median(took), 1),
            "not_kept": broken,
            "processor_seconds_each": round((processor_seconds() - before) / len(took), 1),
            "load": round(statistics.median(loads), 1),
            "niceness": os.nice(0),
            "seed": seed,
            "machine": describe_machine() | {"commit": commit_of(SCALE.parents[1])},
        }


def processor_seconds() -> float:
    """Of all processes that were started here and have ended: no other load counts."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def table(record: dict[str, Any]) -> str:
    """The record as docs/reliability.md has it."""
    lines = ["| fault | promise | within | tried | kept | longest |", "|---|---|---|---|---|---|"]
    for name in FAULTS:
        if name in record:
            r = record[name]
            lines.append(
                f"| {name} | {r['promise']} | {r['within_seconds']} s | {r['tried']} | {r['kept']}"
                f" | {r['longest_seconds']} s |"
            )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", choices=list(FAULTS), action="append")
    parser.add_argument("--times", type=int, help="in place of each fault's own")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--table", action="store_true", help="only print the record as a table")
    chosen = parser.parse_args()
    record = json.loads(chosen.out.read_text()) if chosen.out.exists() else {}
    with tempfile.TemporaryDirectory() as programs:  # what one run compiles, the next one finds
        os.environ["DLADMM_CACHE"] = programs
        for name in [] if chosen.table else chosen.only or FAULTS:
            if not FAULTS[name].possible():
                print(f"{name}: needs root", flush=True)
                continue
            for so_far in repeated(name, chosen.times or FAULTS[name].times, chosen.seed):
                record[name] = so_far
                ordered = {known: record[known] for known in FAULTS if known in record}
                write_file(chosen.out, json.dumps(ordered, indent=1) + "\n")
    print(table(record))
    return 0 if all(r["kept"] == r["tried"] for r in record.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
