"""The paper's evaluation, piece by piece: every finished run is on disk and is not made again.

A piece is a figure or a table; `<piece>.json` holds its settings and its runs by name. Nothing here
draws or judges: figures, claims and the report are made from these records alone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from dladmm.bench.products import Product, floor_seconds, iteration_products
from dladmm.core.options import Options
from dladmm.core.params import Params
from dladmm.core.results import Progress
from dladmm.core.solve import solve
from dladmm.data.datasets import Dataset, load_dataset
from dladmm.experiments import baselines
from dladmm.experiments.compare import Contestant, library_run, not_interrupted
from dladmm.experiments.setup import Setup, image_setup
from dladmm.experiments.timing import Measurement, timed
from dladmm.paper import settings as paper
from dladmm.paper.records import Record, Show, Unit, load_record, recorded, short
from dladmm.paper.settings import Scale

PIECES = ("fig3", "fig4", "fig5", "fig6", "table2", "table3")
CONVERGENCE_RHO = {"fig3": 1.0, "fig4": 1e-6}
INIT = "he"  # the paper does not say where its weights start; all methods start alike


def units(piece: str, scale: Scale, data_dir: Path | None) -> list[Unit]:
    """The runs of a piece, in an order in which each finds what it needs in the record."""
    if piece in CONVERGENCE_RHO:
        return list(_convergence_units(piece, scale, data_dir))
    if piece in paper.ACCURACY_FIGURES:
        return list(_accuracy_units(paper.ACCURACY_FIGURES[piece], scale, data_dir))
    return list(_time_units(piece, scale, data_dir))


def missing_units(folder: Path, piece: str, scale: Scale, data_dir: Path | None) -> list[Unit]:
    """The runs of a piece that are not on disk yet, or there with another setting."""
    kept = load_record(folder, piece, scale)["runs"]
    return [u for u in units(piece, scale, data_dir) if not u.is_kept(kept.get(u.name))]


def seconds_needed(missing: Sequence[Unit]) -> float:
    """A guess, from the speed of one matrix product here."""
    product = Product("square", 1_500, 1_500, 1_500, 1)
    speed = product.flops / floor_seconds([product], 1_500, repeats=3)[product.why]
    return sum(unit.work for unit in missing) / (SHARE_OF_SPEED * speed) + START * len(missing)


SHARE_OF_SPEED, START = 0.6, 2.0  # of a product's speed, and seconds until a run is under way


def _setup(
    data: str,
    scale: Scale,
    data_dir: Path | None,
    samples: int | None = None,
    width: int | None = None,
) -> Setup:
    """The data and the network of this scale, or with other numbers of samples and neurons."""
    hidden = scale.hidden if width is None else (width, width)
    setup = image_setup(_dataset(data, data_dir), samples or scale.samples[data], hidden)
    x, y = setup.test
    return replace(setup, init=INIT, test=(x[: scale.test_samples], y[: scale.test_samples]))


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
            work = scale.convergence_iterations * _sweep_work(scale.samples[data], scale.width)
            run = partial(_convergence, data, scale, data_dir, options)
            # The authors' rho stays at 1e-6: their run of the accuracy figure is that of fig4.
            as_long = scale.iterations == scale.convergence_iterations
            same = piece == "fig4" and name == "authors" and as_long
            twin = (paper.accuracy_figure(data), f"dladmm {name}") if same else None
            yield Unit(f"{data} {name}", work, run, twin, {"options": _plain(options)})


def _convergence(
    data: str, scale: Scale, data_dir: Path | None, options: dict[str, Any],
    record: Record, show: Show,
) -> Any:  # fmt: skip
    setup = _started(_setup(data, scale, data_dir), options)
    x, y, _ = setup.arrays
    iterations = scale.convergence_iterations

    def report(progress: Progress) -> None:
        show(f"{record['piece']} {data}", progress.iteration / iterations)

    kind = str(x.dtype)
    chosen = Options(
        **options, max_iter=iterations, tol=None, evaluate_every=iterations, dtype=kind
    )
    result = solve(
        setup.problem, x, y, options=chosen, params=setup.weights(0), callback=report
    )  # fmt: skip
    not_interrupted(result)
    return {"options": _plain(options)} | recorded(result)


def _accuracy_units(data: str, scale: Scale, data_dir: Path | None) -> Iterator[Unit]:
    """Training and test accuracy of every method, optimisers at the paper's and their best rate."""
    where = (data, scale, data_dir)
    samples, sweep = scale.samples[data], _sweep_work(scale.samples[data], scale.width)
    ours = scale.seeds * scale.iterations
    for name in paper.VARIANTS:
        options = paper.variant(name, 1e-6, every=scale.iterations // 2)
        run = partial(_library, *where, options, scale.iterations)
        setting = {"options": _plain(options)}
        yield Unit(f"dladmm {name}", ours * sweep, run, setting=setting)
    few = min(scale.iterations, paper.RESTORED_ITERATIONS)
    for name, options, iterations in (
        ("admm", paper.ADMM, scale.iterations),
        ("restored", paper.RESTORED, few),
    ):
        work = scale.seeds * iterations * sweep / 1.5
        setting = {"options": _plain(options)}
        yield Unit(name, work, partial(_library, *where, options, iterations), setting=setting)

    def rated(run: str, name: str, rate: float) -> Unit:
        gradient = partial(_gradient, *where, name, rate)
        return Unit(run, ours * sweep / 3, gradient, setting={"rate": rate})

    for name, grid in paper.GRIDS.items():
        work = len(grid) * scale.grid_iterations * scale.grid_samples / samples
        yield Unit(f"{name} grid", work * sweep / 3, partial(_grid, *where, name))
        if name in paper.RATES:
            yield rated(f"{name} paper", name, paper.RATES[name])
        if name == "sgd":  # at its rate the mean loss stands still; the paper's may be a sum
            yield rated("sgd summed", name, paper.RATES[name] * samples)
        yield Unit(f"{name} best", ours * sweep / 3, partial(_gradient, *where, name, None))
    lbfgs = partial(_gradient, *where, "lbfgs", 1.0)
    yield Unit("lbfgs", ours * sweep / 2, lbfgs, setting={"rate": 1.0})


def _library(
    data: str, scale: Scale, data_dir: Path | None, options: dict[str, Any], iterations: int,
    record: Record, show: Show,
) -> Any:  # fmt: skip
    setup = _started(_setup(data, scale, data_dir), options)
    who = Contestant(options["method"], options=options)
    curves = []
    for seed in range(scale.seeds):

        def report(k: int, seed: int = seed) -> None:
            show(f"{data} {who.name}", (seed + k / iterations) / scale.seeds)

        curve = library_run(who, setup, seed, iterations, report)
        assert curve.result is not None
        assert curve.network is not None
        figures = {
            "train_accuracy": (e.accuracy for e in curve.training),
            "test_accuracy": (e.accuracy for e in curve.test),
            "train_loss": (e.loss for e in curve.training),
            "test_loss": (e.loss for e in curve.test),
        }
        # A run that broke down has no network from there on.
        missing: list[float | None] = [None] * (iterations - len(curve.seconds))
        curves.append(
            {"seed": seed, "seconds": short(curve.seconds)}
            | {key: short(values) + missing for key, values in figures.items()}
            | {"weights_moved": _relative_changes(setup.weights(seed), curve.network)}
            | recorded(curve.result)
        )
    return {"options": _plain(options), "curves": curves}


def _relative_changes(before: Params, after: Params) -> list[float | None]:
    """|W_l - W_l at the start| / |W_l at the start| for each layer."""
    pairs = [(np.asarray(old), np.asarray(new)) for old, new in zip(before.W, after.W, strict=True)]
    return short(np.linalg.norm(new - old) / np.linalg.norm(old) for old, new in pairs)


def _grid(
    data: str, scale: Scale, data_dir: Path | None, name: str, record: Record, show: Show
) -> Any:
    """Every rate of an optimiser's grid, from one seed, on a part of the images."""
    setup = _setup(data, scale, data_dir, samples=scale.grid_samples)
    x, y = setup.test
    setup = replace(setup, test=(x[:1], y[:1]))  # a rate is chosen without any test image
    rates = paper.GRIDS[name]
    report = partial(show, f"{data} {name} rates")
    pairs = [(rate, 0) for rate in rates]
    curves = gradient_curves(setup, name, pairs, scale.grid_iterations, report)
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
    if not finite:  # all of them exploded
        return float(min(row["rate"] for row in rows))
    chosen = max(finite, key=lambda row: (row["train_accuracy"], -row["train_loss"]))
    return float(chosen["rate"])


def _gradient(
    data: str, scale: Scale, data_dir: Path | None, name: str, rate: float | None,
    record: Record, show: Show,
) -> Any:  # fmt: skip
    setup = _setup(data, scale, data_dir)
    rate = best_rate(record, name) if rate is None else rate
    at_papers = record["runs"].get(f"{name} paper")
    if at_papers is not None and at_papers["rate"] == rate:
        return at_papers  # the best rate is the paper's
    pairs = [(rate, seed) for seed in range(scale.seeds)]
    report = partial(show, f"{data} {name} {rate:g}")
    return {"rate": rate, "curves": gradient_curves(setup, name, pairs, scale.iterations, report)}


def gradient_curves(
    setup: Setup,
    name: str,
    pairs: Sequence[tuple[float, int]],
    iterations: int,
    show: Callable[[float], None],
) -> list[dict[str, Any]]:
    """One curve per (rate, seed); several are one vectorised program, which has one clock."""
    starts = [setup.weights(seed) for _, seed in pairs]
    rates = [rate for rate, _ in pairs]
    if len(pairs) == 1:
        trainer = baselines.full_batch(
            setup.problem, setup.arrays, starts[0], 0, name=name, rate=rates[0]
        )
    else:
        trainer = baselines.full_batches(setup.problem, setup.arrays, starts, rates, name)
    curve: list[Measurement] = []
    for point in timed(trainer, setup, iterations, with_training=True):
        curve.append(point)
        show(len(curve) / iterations)

    def by_run(part: str, figure: str) -> np.ndarray:
        """A row per run; a single run has no axis of its own."""
        values = [np.atleast_1d(getattr(getattr(point, part), figure)) for point in curve]
        return np.stack(values, axis=1)

    figures = {
        "train_accuracy": by_run("training", "accuracy"),
        "test_accuracy": by_run("test", "accuracy"),
        "train_loss": by_run("training", "loss"),
        "test_loss": by_run("test", "loss"),
    }
    clock = {"seconds": short(point.seconds for point in curve)} if len(pairs) == 1 else {}
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
            work = 2 * len(paper.RHOS) * (scale.timed_iterations + 2) * _sweep_work(samples, width)
            run = partial(_times, data, samples, width, scale, data_dir)
            names = {"table2": f"{data} {width}", "table3": f"{data} {samples}"}
            # All samples at full width: the tables share this column.
            same = (samples, width) == (scale.samples[data], scale.width)
            other = "table3" if piece == "table2" else "table2"
            yield Unit(names[piece], work, run, (other, names[other]) if same else None)


def _times(
    data: str, samples: int, width: int, scale: Scale, data_dir: Path | None,
    record: Record, show: Show,
) -> Any:  # fmt: skip
    setup = _setup(data, scale, data_dir, samples, width)
    x, y, _ = setup.arrays
    times: dict[float, list[float]] = {rho: [] for rho in paper.RHOS}
    newton: dict[float, list[float]] = {rho: [] for rho in paper.RHOS}
    # There and back again, so that a machine that slows down does not look like an effect of rho.
    for k, rho in enumerate([*paper.RHOS, *reversed(paper.RHOS)]):
        show(f"{record['piece']} {data} {samples:,} x {width}", k / (2 * len(paper.RHOS)))
        options = Options(
            **paper.variant("text", rho), max_iter=scale.timed_iterations + 2, tol=None,
            evaluate_every=10**9, dtype=str(x.dtype),
        )  # fmt: skip
        result = solve(setup.problem, x, y, options=options, params=setup.weights(0))
        not_interrupted(result)
        # The first iteration may compile, and the last is read without another one beside it.
        times[rho] += np.diff(result.history["seconds"])[:-1].tolist()
        newton[rho] += result.history["zl_iterations"][1:-1]
    rows = [
        {
            "rho": rho,
            "seconds": short([np.median(times[rho])])[0],
            "times": short(times[rho]),
            "zl_iterations": short([np.mean(newton[rho])])[0],
        }
        for rho in paper.RHOS
    ]
    return {"samples": samples, "neurons": width, "rows": rows}


def _started(setup: Setup, options: dict[str, Any]) -> Setup:
    """The setup with the weights dlADMM's variant starts from; all other methods have the same.

    ADMM's `init` is where its z_L starts, not its weights.
    """
    return setup if options == paper.ADMM else replace(setup, init=options.get("init", INIT))


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    """Options as JSON knows them."""
    return {k: v if isinstance(v, str | int | float) else repr(v) for k, v in options.items()}
