"""Restored sweeps against gradient methods: time and iterations to given losses and scores.

Every racer has the same data and network, and JAX's the same initial weights and gradient code. The
clock runs only while a racer trains; compilation is timed apart, by iterations thrown away: two, as
the memory of some changes its type with the first step, and compiles the second anew.
"""

import json
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from dladmm.bench.racers import Racer, chosen, full_racers, left_out, mini_racers
from dladmm.engine.devices import JAX
from dladmm.experiments.machine import describe_machine
from dladmm.experiments.plots import CLOCK, plot_picture
from dladmm.experiments.setup import Setup
from dladmm.experiments.tasks import Target, Task
from dladmm.experiments.timing import timed
from dladmm.io.files import write_file
from dladmm.report.panels import BLUE, GREY, OTHERS, Line, Panel, Picture

THROWN_AWAY = 2
SLACK = 1.0  # who takes longer than this times the run that set the target is out


def measured(
    racer: Racer, c: Setup, seed: int, limit: float, with_loss: bool
) -> Iterator[dict[str, float]]:
    """One record per `next` up to `limit` iterations; the first also has the compilation's time."""
    with JAX.threads():  # or others would still be asking for work while the clock runs
        weights = c.weights(seed)
        began = time.perf_counter()
        for _ in islice(racer.start(c.problem, c.arrays, weights, seed), THROWN_AWAY):
            pass
        cold = time.perf_counter() - began
    trainer = racer.start(c.problem, c.arrays, weights, seed)
    count = math.ceil(limit / racer.per_next - 1e-9)
    for k, point in enumerate(timed(trainer, c, count, with_loss), 1):
        row = {
            "iteration": k * racer.per_next,
            "seconds": point.seconds,
            f"test_{c.score_name}": c.score(point.test),
        }
        if point.train is not None:
            row["train_loss"] = float(point.train.loss)
        if k == 1:
            row["compile_seconds"] = max(cold - THROWN_AWAY * point.seconds, 0.0)
        yield {name: float(f"{value:.6g}") for name, value in row.items()}


def race(
    task: Task,
    *,
    seeds: int,
    mini: bool,
    iterations: int,
    limit_seconds: float = math.inf,
    only: tuple[str, ...] = (),
    kfac_python: Path | None = None,
    records: Path | None = None,
    show: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Run every racer from every seed to the last target; a record on disk is not run again.

    A task without targets is a race to the training loss that the first racer, Adam at 1e-3, has
    after `iterations`; who takes longer than that run is out, as is who takes longer than
    `limit_seconds` in any race. Of mini-batches `iterations` are epochs. `only` leaves out racers
    whose names begin otherwise. `kfac_python` is an interpreter that has kfac-jax, a racer at full
    batch then.
    """
    c = task.setup
    racers = chosen(mini_racers(c) if mini else full_racers(kfac_python), only, not task.targets)
    mode = "mini" if mini else "full"
    runs: list[dict[str, Any]] = []
    for seed in range(seeds):
        targets, deadline = task.targets, limit_seconds
        for racer in racers:
            label = f"{task.name}-{mode}-{len(c.arrays[0])}-{task.network}-{racer.name}-{seed}"
            file = records and records / f"{label.replace(' ', '-').replace('/', 'b')}.json"
            run = json.loads(file.read_text()) if file and file.exists() else {}
            if not _is_finished(run, iterations, targets, deadline):
                run = _run(racer, c, seed, iterations, targets, deadline, not mini)
                if file:
                    file.parent.mkdir(parents=True, exist_ok=True)
                    write_file(file, json.dumps(run))
            if not targets:  # Adam at 1e-3 has run to its end
                last = run["curve"][-1]
                targets = (Target("train_loss", last["train_loss"], falls=True),)
                deadline = min(deadline, SLACK * last["seconds"])
            figures = ("iteration", "seconds", f"test_{c.score_name}")
            run |= {"reached": [_reached(run["curve"], target, figures) for target in targets]}
            runs.append(run)
            for reached in run["reached"]:
                show(f"{task.name} seed {seed}  {racer.name:<34} {in_words(reached)}")
    return {
        "data": task.name,
        "words": task.words,
        "samples": len(c.arrays[0]),
        "network": task.network,
        "mode": "mini-batch" if mini else "full batch",
        "iterations": iterations,
        "left_out": left_out() if mini else [],
        "table": (table := _table(runs, racers)),
        "best": _best(table),
        "runs": runs,
        "machine": describe_machine(),
    }


def _run(
    racer: Racer,
    c: Setup,
    seed: int,
    limit: int,
    targets: Sequence[Target],
    deadline: float,
    with_loss: bool,
) -> dict[str, Any]:
    kept: list[dict[str, float]] = []
    for point in measured(racer, c, seed, limit, with_loss):
        kept.append(point)
        if _is_over(point, targets, deadline):
            break
    machine = describe_machine()
    return {"racer": racer.name, "seed": seed, "limit": limit, "curve": kept, "machine": machine}


def _is_over(point: Mapping[str, float], targets: Sequence[Target], deadline: float) -> bool:
    """Whether all targets are reached, or the time is up. The last target is the hardest."""
    return bool(targets and targets[-1].reached(point)) or point["seconds"] > deadline


def _is_finished(
    run: Mapping[str, Any], limit: int, targets: Sequence[Target], deadline: float
) -> bool:
    """Whether a kept run of as many iterations went as far as this race lets it go."""
    if run.get("limit") != limit or not run.get("curve"):
        return False
    last = run["curve"][-1]
    return last["iteration"] >= limit - 1e-9 or _is_over(last, targets, deadline)


def _reached(
    kept: Sequence[Mapping[str, float]], target: Target, figures: Sequence[str]
) -> dict[str, Any]:
    """Where the target was reached; None, printed as never, where it was not."""
    point: Mapping[str, float] = next((point for point in kept if target.reached(point)), {})
    return {"figure": target.figure, "target": target.value} | {
        name: point.get(name) for name in figures
    }


def score_of(row: Mapping[str, Any]) -> str:
    """The score of a row in words: an accuracy, or R^2."""
    if "test_r2" in row:
        return f"{row['test_r2']:.4f}"
    return f"{row['test_accuracy']:.2%}"


def in_words(reached: Mapping[str, Any]) -> str:
    """Where a target was reached, on a line."""
    target = f"{reached['figure']} {reached['target']:g}:"
    if reached["seconds"] is None:
        return f"{target} never"
    figures = f"{reached['iteration']:7.2f} iterations  {reached['seconds']:8.2f} s"
    return f"{target} {figures}  test {score_of(reached)}"


def _table(runs: list[dict[str, Any]], racers: list[Racer]) -> list[dict[str, Any]]:
    """Medians over seeds for each target; never where most seeds never got there."""
    rows = []
    for racer in racers:
        mine = [run for run in runs if run["racer"] == racer.name]
        for points in zip(*(run["reached"] for run in mine), strict=True):
            row = {
                "racer": racer.name,
                "group": racer.group,
                "ours": racer.ours,
                "seeds": len(mine),
            }
            row |= {"figure": points[0]["figure"]}
            for key in points[0].keys() - {"figure"}:
                never = math.inf
                middle = statistics.median(never if p[key] is None else p[key] for p in points)
                row[key] = middle if math.isfinite(middle) else None
            # Only the first seed compiles; the others find the program.
            row["compile_seconds"] = max(run["curve"][0]["compile_seconds"] for run in mine)
            rows.append(row)
    return rows


def _best(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The fastest racer of each group for each target, None where none of it ever arrived, and
    what part of its time the fastest of ours takes."""
    best = []
    for target in dict.fromkeys(row["target"] for row in table):
        rows = [row for row in table if row["target"] == target]
        rows.sort(key=lambda row: math.inf if row["seconds"] is None else row["seconds"])
        ours = next((row["seconds"] for row in rows if row["ours"]), None)
        for group in dict.fromkeys(row["group"] for row in table):
            first = next(row for row in rows if row["group"] == group)
            seconds = first["seconds"]
            arrived = None if seconds is None else first["racer"]
            share = ours / seconds if ours and seconds and not first["ours"] else None
            best.append(
                {"target": target, "group": group, "racer": arrived, "seconds": seconds}
                | {"ours_takes": share}
            )
    return best


def plot_race(figures: Mapping[str, Any], path: Path) -> None:
    """What the targets are of (training loss or test score) over wall clock, as a PNG.

    One curve per group: its best racer's, from the seed of median time, or the last one if it
    never arrived: who arrives first or, of those that never do, who gets furthest.
    """
    key = figures["table"][0]["figure"]
    sign = -1 if key == "train_loss" else 1
    groups: dict[str, list[tuple[tuple[float, float], str, Sequence[Any]]]] = {}
    ours = {row["racer"] for row in figures["table"] if row["ours"]}
    of_group = {row["racer"]: row["group"] for row in figures["table"]}
    for name, group in of_group.items():
        runs = [run for run in figures["runs"] if run["racer"] == name]
        last = [run["reached"][-1]["seconds"] for run in runs]
        times = [math.inf if seconds is None else seconds for seconds in last]
        middle = sorted(range(len(runs)), key=times.__getitem__)[len(runs) // 2]
        curve = runs[middle]["curve"]
        furthest = max(sign * point[key] for point in curve)
        groups.setdefault(group, []).append(((times[middle], -furthest), name, curve))
    lines = []
    for place, racers in enumerate(groups.values()):
        _, name, curve = min(racers, key=lambda racer: racer[0])
        x, y = ([point[what] for point in curve] for what in ("seconds", key))
        colour = BLUE if name in ours else OTHERS[place % len(OTHERS)]
        lines.append(Line(name, x, y, colour, wide=name in ours))
    targets = {one["target"] for run in figures["runs"] for one in run["reached"]}
    ends = [end(x for line in lines for x in line.x) for end in (min, max)]
    lines += [Line("_target", ends, [target, target], GREY, dashed=True) for target in targets]
    falls = key == "train_loss"
    bottom = None if falls else min(targets) - 0.05
    words = f"{figures['words']}: {key.replace('_', ' ')}"
    panel = Panel(words, lines, CLOCK, log=falls, log_x=True, bottom=bottom)
    plot_picture(Picture("", [panel]), path)
