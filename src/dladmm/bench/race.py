"""Restored sweeps against gradient methods: time and iterations to given losses and accuracies.

Every racer has the same data and network, and JAX's the same initial weights and gradient code. The
clock runs only while a racer trains; compilation is timed apart, by an iteration thrown away.
"""

import json
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from dladmm.core.restored.batches import LEAST_SIZE
from dladmm.data.datasets import Dataset
from dladmm.engine.devices import JAX
from dladmm.experiments import baselines
from dladmm.experiments.machine import describe_machine
from dladmm.experiments.plots import CLOCK, plot_picture
from dladmm.experiments.rivals import ADAM, RIVALS, rival
from dladmm.experiments.setup import Setup, image_setup
from dladmm.experiments.timing import timed
from dladmm.io.files import write_file
from dladmm.report.panels import BLUE, GREY, OTHERS, Line, Panel, Picture

FULL_RATES = (1e-3, 3e-3, 1e-2)
MINI_RATES, MINI_BATCHES = (1e-3, 3e-3), (128, 512)
RESTORED_BATCH = 512
SLACK = 1.0  # who takes longer than this times the run that set the target is out
PER_EPOCH = 8  # evaluations of a mini-batch racer per epoch
OURS = "restored"
REACHED = ("iteration", "seconds", "test_accuracy")  # what is reported where a target is reached
ACCURACIES = {"mnist": 0.98, "fashion-mnist": 0.885, "digits": 0.97}
NETWORK_ACCURACIES = {
    "lenet": {"mnist": 0.99, "fashion-mnist": 0.90, "mnist1d": 0.92, "digits": 0.97},
    "cnn-small": {"cifar10-jpeg": 0.65, "mnist1d": 0.92, "digits": 0.97},
    "rnn": {"mnist": 0.975, "digits": 0.95},
}


@dataclass(frozen=True)
class Racer:
    """A name, how it begins (problem, arrays, weights, seed), and iterations per `next`."""

    name: str
    start: Callable[..., baselines.Trainer]
    per_next: float = 1.0
    group: str = ""


def full_racers() -> list[Racer]:
    """Adam at each rate first: the first one sets the loss to reach."""
    adams = [
        Racer(f"adam {rate:g}", partial(baselines.full_batch, name="adam", rate=rate))
        for rate in FULL_RATES
    ]
    lbfgs = Racer("l-bfgs", partial(baselines.full_batch, name="lbfgs", rate=1.0))
    return [*adams, Racer("restored", baselines.restored), lbfgs]


def mini_racers(dense: bool = True) -> list[Racer]:
    """Restored sweeps, Adam over rates and batches in JAX and PyTorch, MLPClassifier, and what a
    knowledgeable person would pick, by groups. MLPClassifier has dense networks alone."""
    own_size = RESTORED_BATCH if dense else LEAST_SIZE
    ours = partial(baselines.restored_batches, size=own_size, per_epoch=PER_EPOCH)
    racers = [Racer(f"restored /{own_size}", ours, 1 / PER_EPOCH, OURS)]
    for rate, size in product(MINI_RATES, MINI_BATCHES):
        grid: dict[str, Any] = {"rate": rate, "size": size, "per_epoch": PER_EPOCH}
        for name, start in (
            ("adam", partial(baselines.mini_batch, name="adam", **grid)),
            ("torch adam", partial(baselines.torch_adam, **grid)),
        ):
            racers.append(Racer(f"{name} {rate:g} /{size}", start, 1 / PER_EPOCH, ADAM))
    if dense:
        racers.append(Racer("MLPClassifier", baselines.scikit_learn, group=ADAM))
    return [*racers, *_rivals()]


def _rivals() -> list[Racer]:
    """Every rival over its grid."""
    racers = []
    for one in RIVALS:
        for rate, epochs, size in product(one.rates, one.epochs, one.sizes):
            grid: dict[str, Any] = {"rate": rate, "epochs": epochs, "size": size}
            words = [one.name, rate and f"{rate:g}", epochs and f"over {epochs}", f"/{size}"]
            start = partial(rival, name=one.name, per_epoch=PER_EPOCH, **grid)
            name = " ".join(word for word in words if word)
            racers.append(Racer(name, start, 1 / PER_EPOCH, one.group))
    return racers


def measured(
    racer: Racer, c: Setup, seed: int, limit: float, with_loss: bool
) -> Iterator[dict[str, float]]:
    """One record per `next` up to `limit` iterations; the first also has the compilation's time."""
    with JAX.threads():  # or others would still be asking for work while the clock runs
        weights = c.weights(seed)
        began = time.perf_counter()
        next(racer.start(c.problem, c.arrays, weights, seed))
        cold = time.perf_counter() - began
    trainer = racer.start(c.problem, c.arrays, weights, seed)
    count = math.ceil(limit / racer.per_next - 1e-9)
    for k, point in enumerate(timed(trainer, c, count, with_loss), 1):
        row = {
            "iteration": k * racer.per_next,
            "seconds": point.seconds,
            "test_accuracy": float(point.test.accuracy),
        }
        if point.train is not None:
            row["train_loss"] = float(point.train.loss)
        if k == 1:
            row["compile_seconds"] = max(cold - point.seconds, 0.0)
        yield {name: float(f"{value:.6g}") for name, value in row.items()}


def race(
    data: Dataset,
    *,
    samples: int | None,
    hidden: tuple[int, ...],
    seeds: int,
    mini: bool,
    iterations: int,
    network: str | None = None,
    only: tuple[str, ...] = (),
    records: Path | None = None,
    show: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Run every racer from every seed to the target; a record on disk is not run again.

    Full batch: the target is the training loss that Adam at 1e-3 has after `iterations`; who takes
    longer than that run is out. Mini-batches: it is the data set's test accuracy, and `iterations`
    are epochs. `network` is a preset's name, in place of hidden layers. `only` leaves out racers
    whose names begin otherwise.
    """
    c = image_setup(data, samples, hidden, network)
    racers = _chosen(mini_racers(network is None) if mini else full_racers(), only)
    layers = [network] if network else hidden
    size = "-".join(str(n) for n in (len(c.arrays[0]), *layers))
    accuracies = NETWORK_ACCURACIES.get(network, {}) if network else ACCURACIES
    if mini and data.name not in accuracies:
        raise ValueError(
            f"there is no accuracy to race to on {data.name}; expected {', '.join(accuracies)}"
        )
    runs: list[dict[str, Any]] = []
    for seed in range(seeds):
        target, deadline = (accuracies[data.name] if mini else math.nan), math.inf
        for racer in racers:
            label = f"{data.name}-{'mini' if mini else 'full'}-{size}-{racer.name}-{seed}"
            file = records and records / f"{label.replace(' ', '-').replace('/', 'b')}.json"
            run = json.loads(file.read_text()) if file and file.exists() else {}
            if run.get("limit") != iterations or "curve" not in run:
                run = _run(racer, c, seed, iterations, target, deadline, mini)
                if file:
                    file.parent.mkdir(parents=True, exist_ok=True)
                    write_file(file, json.dumps(run))
            if math.isnan(target):  # Adam at 1e-3 has run to its end
                last = run["curve"][-1]
                target, deadline = last["train_loss"], SLACK * last["seconds"]
            run |= _reached(run["curve"], target, mini)
            runs.append(run)
            show(f"{data.name} seed {seed}  {_line(run)}")
    return {
        "data": data.name,
        "samples": len(c.arrays[0]),
        "hidden": list(layers),
        "mode": "mini-batch" if mini else "full batch",
        "iterations": iterations,
        "target": {"test_accuracy": accuracies[data.name]} if mini else "adam 0.001's last loss",
        "table": (table := _table(runs, racers)),
        "best": _best(table) if mini else {},
        "runs": runs,
        "machine": describe_machine(),
    }


def _chosen(racers: list[Racer], only: tuple[str, ...]) -> list[Racer]:
    """The racers asked for; a full-batch race keeps the one that sets its target."""
    for name in only:
        if not any(racer.name.startswith(name) for racer in racers):
            known = ", ".join(racer.name for racer in racers)
            raise ValueError(f"racer {name!r} is unknown; expected the beginning of one of {known}")
    chosen = [racer for racer in racers if not only or racer.name.startswith(only)]
    target_setter = f"adam {FULL_RATES[0]:g}"
    return [racer for racer in racers if racer in chosen or racer.name == target_setter]


def _run(
    racer: Racer, c: Setup, seed: int, limit: int, target: float, deadline: float, mini: bool
) -> dict[str, Any]:
    kept: list[dict[str, float]] = []
    for point in measured(racer, c, seed, limit, with_loss=not mini):
        kept.append(point)
        reached = not math.isnan(target) and _has_reached(point, target, mini)
        if reached or point["seconds"] > deadline:
            break
    machine = describe_machine()
    return {"racer": racer.name, "seed": seed, "limit": limit, "curve": kept, "machine": machine}


def _has_reached(point: dict[str, float], target: float, mini: bool) -> bool:
    return point["test_accuracy"] >= target if mini else point["train_loss"] <= target


def _reached(kept: list[dict[str, float]], target: float, mini: bool) -> dict[str, Any]:
    """Where the target was reached; None, printed as never, where it was not."""
    point = next((point for point in kept if _has_reached(point, target, mini)), {})
    return {"target": target} | {name: point.get(name) for name in REACHED}


def _line(run: dict[str, Any]) -> str:
    if run["seconds"] is None:
        return f"{run['racer']:<34} never"
    figures = f"{run['iteration']:7.2f} iterations  {run['seconds']:8.2f} s"
    return f"{run['racer']:<34} {figures}  test accuracy {run['test_accuracy']:.2%}"


def _best(table: list[dict[str, Any]]) -> dict[str, str | None]:
    """The fastest racer of each group; None where none of it ever arrived."""
    best: dict[str, str | None] = {}
    for row in sorted(table, key=lambda row: row["seconds"] or math.inf):
        best.setdefault(row["group"], row["racer"] if row["seconds"] is not None else None)
    return best


def _table(runs: list[dict[str, Any]], racers: list[Racer]) -> list[dict[str, Any]]:
    """Medians over seeds; never where most seeds never got there."""
    rows = []
    for racer in racers:
        name = racer.name
        mine = [run for run in runs if run["racer"] == name]
        row: dict[str, Any] = {"racer": name, "group": racer.group, "seeds": len(mine)}
        for key in REACHED:
            middle = statistics.median(math.inf if run[key] is None else run[key] for run in mine)
            row[key] = middle if math.isfinite(middle) else None
        # Only the first seed compiles; the others find the program.
        row["compile_seconds"] = max(run["curve"][0]["compile_seconds"] for run in mine)
        rows.append(row)
    return rows


def plot_race(figures: Mapping[str, Any], path: Path) -> None:
    """Loss (full batch) or test accuracy (mini-batches) over wall clock, as a PNG.

    One curve per racer: its seed of median time, or its last one if it never arrived.
    """
    mini = figures["mode"] == "mini-batch"
    key = "test_accuracy" if mini else "train_loss"
    lines = []
    for place, name in enumerate(row["racer"] for row in figures["table"]):
        runs = [run for run in figures["runs"] if run["racer"] == name]
        runs.sort(key=lambda run: math.inf if run["seconds"] is None else run["seconds"])
        curve, ours = runs[len(runs) // 2]["curve"], name.startswith("restored")
        x, y = ([point[what] for point in curve] for what in ("seconds", key))
        lines.append(Line(name, x, y, BLUE if ours else OTHERS[place % len(OTHERS)], wide=ours))
    targets = {run["target"] for run in figures["runs"]}
    ends = [end(x for line in lines for x in line.x) for end in (min, max)]
    lines += [Line("_target", ends, [target, target], GREY, dashed=True) for target in targets]
    network = "-".join(str(n) for n in figures["hidden"])
    title = f"{figures['data']}, {figures['samples']:,} images, hidden layers {network}"
    bottom = max(0.8, min(targets) - 0.05) if mini else None
    words = f"{title}: {key.replace('_', ' ')}"
    panel = Panel(words, lines, CLOCK, log=not mini, log_x=True, bottom=bottom)
    plot_picture(Picture("", [panel]), path)
