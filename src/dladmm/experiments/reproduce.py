"""The paper's evaluation, piece by piece: every finished run is on disk and is not made again.

A piece is a figure or a table; `<piece>.json` holds its settings and its runs by name. Nothing here
draws or judges: figures, claims and the report are made from these records alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from dladmm.bench.iteration import describe_machine
from dladmm.bench.products import Product, floor_seconds, iteration_products
from dladmm.core.options import Options, Progress
from dladmm.core.solve import solve
from dladmm.data.datasets import Dataset, load_dataset
from dladmm.experiments import baselines, paper
from dladmm.experiments.compare import Contestant, library_run
from dladmm.experiments.course import Course, image_course
from dladmm.experiments.laps import Lap, timed
from dladmm.experiments.paper import Scale
from dladmm.files import write_atomically

PIECES = ("fig3", "fig4", "fig5", "fig6", "table2", "table3")
CONVERGENCE_RHO = {"fig3": 1.0, "fig4": 1e-6}
INIT = "he"  # the paper does not say where its weights start; all methods start alike
SERIES = ("lagrangian", "residual", "risk", "rho")  # of a method with penalties
SIGNIFICANT = 6  # digits of a recorded number

Record = dict[str, Any]
Told = Callable[[str, float], None]  # what runs, and how much of it is done


@dataclass(frozen=True)
class Unit:
    """One run of a piece: its name, roughly its floating-point operations, and how to make it.

    `twin` is the piece and the name of another run with the same settings, whose series will do.
    """

    name: str
    work: float
    run: Callable[[Record, Told], Any]
    twin: tuple[str, str] | None = None


def units(piece: str, scale: Scale, data_dir: Path | None) -> list[Unit]:
    """The runs of a piece, in an order in which each finds what it needs in the record."""
    if piece in CONVERGENCE_RHO:
        return list(_convergence_units(piece, scale, data_dir))
    if piece in paper.ACCURACY_FIGURES:
        return list(_accuracy_units(paper.ACCURACY_FIGURES[piece], scale, data_dir))
    return list(_time_units(piece, scale, data_dir))


def missing_units(folder: Path, piece: str, scale: Scale, data_dir: Path | None) -> list[Unit]:
    """The runs of a piece that are not on disk yet."""
    kept = load_record(folder, piece, scale)["runs"]
    return [unit for unit in units(piece, scale, data_dir) if unit.name not in kept]


def make(folder: Path, piece: str, scale: Scale, unit: Unit, tell: Told) -> None:
    """Make one run of a piece, or take it over from its twin, and put it on disk."""
    record = load_record(folder, piece, scale)
    run = _from_twin(folder, scale, unit) or unit.run(record, tell)
    record["runs"][unit.name] = {"machine": describe_machine()} | run
    with write_atomically(folder / f"{piece}.json") as part:
        part.write_text(json.dumps(record, allow_nan=False))


def _from_twin(folder: Path, scale: Scale, unit: Unit) -> Record | None:
    """What a convergence figure needs of its unit's twin, None if that one is not on disk."""
    if unit.twin is None:
        return None
    piece, name = unit.twin
    run = load_record(folder, piece, scale)["runs"].get(name)
    if run is None:
        return None
    first = run["curves"][0]
    return {key: run[key] for key in ("machine", "options")} | {key: first[key] for key in SERIES}


def load_record(folder: Path, piece: str, scale: Scale) -> Record:
    """The record of a piece, empty if there is none; one of another setting is refused."""
    fresh = {"piece": piece, "scale": json.loads(json.dumps(asdict(scale))), "runs": {}}
    record = read_record(folder, piece)
    if record is None:
        return fresh
    if record["scale"] != fresh["scale"]:
        raise ValueError(
            f"{folder / piece}.json was made with another setting ({record['scale']['name']});"
            f" expected a folder of its own for the {scale.name} one"
        )
    return record


def read_record(folder: Path, piece: str) -> Record | None:
    """What is on disk of a piece."""
    file = folder / f"{piece}.json"
    if not file.exists():
        return None
    try:
        record: Record = json.loads(file.read_text())
        if not {"piece", "scale", "runs"} <= record.keys():
            raise ValueError
    except ValueError:
        raise ValueError(f"{file} is not a record of this program; expected one, or none") from None
    return record


def seconds_needed(missing: Sequence[Unit]) -> float:
    """A guess, from the speed of one matrix product here."""
    product = Product("square", 1_500, 1_500, 1_500, 1)
    speed = product.flops / floor_seconds([product], 1_500, repeats=3)[product.why]
    return sum(unit.work for unit in missing) / (SHARE_OF_SPEED * speed) + START * len(missing)


SHARE_OF_SPEED, START = 0.6, 2.0  # of a product's speed, and seconds until a run is under way


def _course(
    data: str,
    scale: Scale,
    data_dir: Path | None,
    samples: int | None = None,
    width: int | None = None,
) -> Course:
    """The data and the network of this scale, or with other numbers of samples and neurons."""
    hidden = scale.hidden if width is None else (width, width)
    course = image_course(_dataset(data, data_dir), samples or scale.samples[data], hidden)
    x, y = course.test
    return replace(course, init=INIT, test=(x[: scale.test_samples], y[: scale.test_samples]))


@lru_cache(maxsize=1)
def _dataset(data: str, data_dir: Path | None) -> Dataset:
    return load_dataset(data, data_dir)


def _sweep_work(samples: int, width: int) -> float:
    sizes = (784, width, width, 10)
    return sum(product.flops for product in iteration_products(samples, sizes))


def _convergence_units(piece: str, scale: Scale, data_dir: Path | None) -> Iterator[Unit]:
    """L_rho and the residual at a constant rho."""
    for data in paper.DATA:
        more = paper.BETWEEN if piece == "fig4" and scale.with_between else {}
        for name in (*paper.VARIANTS, *more):
            options = paper.variant(name, CONVERGENCE_RHO[piece])
            work = scale.iterations * _sweep_work(scale.samples[data], scale.width)
            run = partial(_convergence, data, scale, data_dir, options)
            # The authors' rho stays at 1e-6: their run of the accuracy figure is that of fig4.
            same = piece == "fig4" and name == "authors"
            twin = (paper.accuracy_figure(data), f"dladmm {name}") if same else None
            yield Unit(f"{data} {name}", work, run, twin)


def _convergence(
    data: str, scale: Scale, data_dir: Path | None, options: dict[str, Any],
    record: Record, tell: Told,
) -> Any:  # fmt: skip
    course = _started(_course(data, scale, data_dir), options)
    x, y, _ = course.arrays

    def watch(progress: Progress) -> None:
        tell(f"{record['piece']} {data}", progress.iteration / scale.iterations)

    chosen = Options(**options, max_iter=scale.iterations, tol=0, evaluate_every=scale.iterations)
    result = solve(
        course.problem, x, y, options=chosen, params=course.weights(0), callback=watch
    )  # fmt: skip
    return {"options": _plain(options)} | {key: short(result.history[key]) for key in SERIES}


def _accuracy_units(data: str, scale: Scale, data_dir: Path | None) -> Iterator[Unit]:
    """Training and test accuracy of every method, optimisers at the paper's and their best rate."""
    where = (data, scale, data_dir)
    samples, sweep = scale.samples[data], _sweep_work(scale.samples[data], scale.width)
    ours = scale.seeds * scale.iterations
    for name in paper.VARIANTS:
        options = paper.variant(name, 1e-6, every=scale.iterations // 2)
        run = partial(_library, *where, options, scale.iterations)
        yield Unit(f"dladmm {name}", ours * sweep, run)
    few = min(scale.iterations, paper.RESTORED_ITERATIONS)
    for name, options, iterations in (
        ("admm", paper.ADMM, scale.iterations),
        ("restored", paper.RESTORED, few),
    ):
        work = scale.seeds * iterations * sweep / 1.5
        yield Unit(name, work, partial(_library, *where, options, iterations))
    for name, grid in paper.GRIDS.items():
        work = len(grid) * scale.grid_iterations * scale.grid_samples / samples
        yield Unit(f"{name} grid", work * sweep / 3, partial(_grid, *where, name))
        if name in paper.RATES:
            rate = paper.RATES[name]
            yield Unit(f"{name} paper", ours * sweep / 3, partial(_gradient, *where, name, rate))
        yield Unit(f"{name} best", ours * sweep / 3, partial(_gradient, *where, name, None))
    yield Unit("lbfgs", ours * sweep / 2, partial(_gradient, *where, "lbfgs", 1.0))


def _library(
    data: str, scale: Scale, data_dir: Path | None, options: dict[str, Any], iterations: int,
    record: Record, tell: Told,
) -> Any:  # fmt: skip
    course = _started(_course(data, scale, data_dir), options)
    who = Contestant(options["method"], options=options)
    curves = []
    for seed in range(scale.seeds):

        def watch(k: int, seed: int = seed) -> None:
            tell(f"{data} {who.name}", (seed + k / iterations) / scale.seeds)

        laps = library_run(who, course, seed, iterations, watch)
        figures = {
            "train_accuracy": (e.accuracy for e in laps.training),
            "test_accuracy": (e.accuracy for e in laps.test),
            "train_loss": (e.loss for e in laps.training),
        }
        recorded = [key for key in ("seconds", *SERIES) if key in laps.history]
        curves.append(
            {"seed": seed}
            | {key: held(short(values), scale.iterations) for key, values in figures.items()}
            | {key: short(laps.history[key]) for key in recorded}
        )
    return {"options": _plain(options), "curves": curves}


def _grid(
    data: str, scale: Scale, data_dir: Path | None, name: str, record: Record, tell: Told
) -> Any:
    """Every rate of an optimiser's grid, from one seed, on a part of the images."""
    course = _course(data, scale, data_dir, samples=scale.grid_samples)
    rates = paper.GRIDS[name]
    told = partial(tell, f"{data} {name} rates")
    curves = gradient_curves(
        course, name, [(rate, 0) for rate in rates], scale.grid_iterations, told
    )
    last = [(curve["train_accuracy"][-1], curve["train_loss"][-1]) for curve in curves]
    return {
        "rates": [
            {"rate": rate, "train_accuracy": accuracy, "train_loss": loss}
            for rate, (accuracy, loss) in zip(rates, last, strict=True)
        ]
    }


def best_rate(record: Record, name: str) -> float:
    """By training accuracy, as the paper chose; of equals the lower loss."""
    rows = record["runs"][f"{name} grid"]["rates"]
    finite = [row for row in rows if row["train_loss"] is not None]
    chosen = max(finite, key=lambda row: (row["train_accuracy"], -row["train_loss"]))
    return float(chosen["rate"])


def _gradient(
    data: str, scale: Scale, data_dir: Path | None, name: str, rate: float | None,
    record: Record, tell: Told,
) -> Any:  # fmt: skip
    course = _course(data, scale, data_dir)
    rate = best_rate(record, name) if rate is None else rate
    at_papers = record["runs"].get(f"{name} paper")
    if at_papers is not None and at_papers["rate"] == rate:
        return at_papers  # the best rate is the paper's
    pairs = [(rate, seed) for seed in range(scale.seeds)]
    told = partial(tell, f"{data} {name} {rate:g}")
    return {"rate": rate, "curves": gradient_curves(course, name, pairs, scale.iterations, told)}


def gradient_curves(
    course: Course,
    name: str,
    pairs: Sequence[tuple[float, int]],
    iterations: int,
    tell: Callable[[float], None],
) -> list[dict[str, Any]]:
    """One curve per (rate, seed); several are one vectorised program, which has one clock."""
    starts = [course.weights(seed) for _, seed in pairs]
    rates = [rate for rate, _ in pairs]
    if len(pairs) == 1:
        trainer = baselines.full_batch(
            course.problem, course.arrays, starts[0], 0, name=name, rate=rates[0]
        )
    else:
        trainer = baselines.full_batches(course.problem, course.arrays, starts, rates, name)
    laps: list[Lap] = []
    for lap in timed(trainer, course, iterations, with_training=True):
        laps.append(lap)
        tell(len(laps) / iterations)

    def by_run(part: str, figure: str) -> np.ndarray:
        """A row per run; a single run has no axis of its own."""
        values = [np.atleast_1d(getattr(getattr(lap, part), figure)) for lap in laps]
        return np.stack(values, axis=1)

    figures = {
        "train_accuracy": by_run("training", "accuracy"),
        "test_accuracy": by_run("test", "accuracy"),
        "train_loss": by_run("training", "loss"),
    }
    clock = {"seconds": short(lap.seconds for lap in laps)} if len(pairs) == 1 else {}
    return [
        {"seed": seed, **{key: short(rows[k]) for key, rows in figures.items()}, **clock}
        for k, (_, seed) in enumerate(pairs)
    ]


def _time_units(piece: str, scale: Scale, data_dir: Path | None) -> Iterator[Unit]:
    """Seconds per iteration over rho and neurons (Table 2) or training samples (Table 3)."""
    for data in paper.DATA:
        cells = (
            [(scale.samples[data], width) for width in scale.neurons]
            if piece == "table2"
            else [(samples, scale.width) for samples in scale.sizes[data]]
        )
        for samples, width in cells:
            work = len(paper.RHOS) * (scale.timed_iterations + 2) * _sweep_work(samples, width)
            run = partial(_times, data, samples, width, scale, data_dir)
            yield Unit(f"{data} {width if piece == 'table2' else samples}", work, run)


def _times(
    data: str, samples: int, width: int, scale: Scale, data_dir: Path | None,
    record: Record, tell: Told,
) -> Any:  # fmt: skip
    course = _course(data, scale, data_dir, samples, width)
    x, y, _ = course.arrays
    rows = []
    for k, rho in enumerate(paper.RHOS):
        tell(f"{record['piece']} {data} {samples:,} x {width}", k / len(paper.RHOS))
        options = Options(
            **paper.variant("text", rho), max_iter=scale.timed_iterations + 2, tol=0,
            evaluate_every=10**9,
        )  # fmt: skip
        result = solve(course.problem, x, y, options=options, params=course.weights(0))
        # The first iteration may compile, and the last is read without another one beside it.
        clock = np.asarray(result.history["seconds"])
        took = np.diff(clock)[:-1] if len(clock) > 2 else np.diff(clock)
        rows.append({"rho": rho, "seconds": short([took.mean()])[0], "iterations": len(took)})
    return {"samples": samples, "neurons": width, "rows": rows}


def _started(course: Course, options: dict[str, Any]) -> Course:
    """The course with the weights this variant starts from."""
    return replace(course, init=options.get("init", INIT))


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    """Options as JSON knows them."""
    return {k: v if isinstance(v, str | int | float) else repr(v) for k, v in options.items()}


def held(values: list[float | None], count: int) -> list[float | None]:
    """A run that ended before `count` iterations stays where it is."""
    return values + values[-1:] * (count - len(values))


def short(values: Any) -> list[float | None]:
    """A series as it is recorded; None, which JSON knows, for what is not finite."""
    return [float(f"{v:.{SIGNIFICANT}g}") if np.isfinite(v) else None for v in map(float, values)]
