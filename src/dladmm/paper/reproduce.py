"""The paper's evaluation, piece by piece: every finished run is on disk and is not made again.

A piece is a figure or a table; `<piece>.json` holds its settings and its runs by name. Nothing here
draws or judges: figures, claims and the report are made from these records alone.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from dladmm.bench.products import Product, floor_seconds, iteration_products
from dladmm.core.params import Params
from dladmm.data.datasets import Dataset, load_dataset
from dladmm.experiments.compare import gradient_run, library_run, solved
from dladmm.experiments.setup import Setup, image_setup
from dladmm.experiments.timing import series
from dladmm.paper import settings as paper
from dladmm.paper.records import Record, Show, Unit, load_record, recorded, short
from dladmm.paper.settings import Scale

PIECES = ("fig3", "fig4", "fig5", "fig6", "table2", "table3")
CONVERGENCE_RHO = {"fig3": 1.0, "fig4": 1e-6}
INIT = "he"  # the paper does not say where its weights start; all methods start alike


@dataclass(frozen=True)
class Images:
    """A data set at a scale."""

    data: str
    scale: Scale
    data_dir: Path | None

    @property
    def samples(self) -> int:
        return self.scale.samples[self.data]

    def setup(self, samples: int | None = None, width: int | None = None) -> Setup:
        """The data and the network of this scale, or with other numbers of samples and neurons."""
        hidden = self.scale.hidden if width is None else (width, width)
        loaded = _dataset(self.data, self.data_dir)
        setup = image_setup(loaded, samples or self.samples, hidden)
        x, y = (v[: self.scale.test_samples] for v in setup.test)
        return replace(setup, init=INIT, test=(x, y))

    def started(self, options: Mapping[str, Any]) -> Setup:
        """The setup with the weights dlADMM's variant starts from; all other methods have the same.

        ADMM's `init` is where its z_L starts, not its weights.
        """
        init = INIT if options == paper.ADMM else options.get("init", INIT)
        return replace(self.setup(), init=init)


@lru_cache(maxsize=1)
def _dataset(data: str, data_dir: Path | None) -> Dataset:
    return load_dataset(data, data_dir)


def units(piece: str, scale: Scale, data_dir: Path | None) -> list[Unit]:
    """The runs of a piece, in an order in which each finds what it needs in the record."""
    if piece in paper.ACCURACY_FIGURES:
        return list(_accuracy_units(Images(paper.ACCURACY_FIGURES[piece], scale, data_dir)))
    of_data = _convergence_units if piece in CONVERGENCE_RHO else _time_units
    return [unit for data in paper.DATA for unit in of_data(piece, Images(data, scale, data_dir))]


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


def _sweep_work(samples: int, width: int) -> float:
    sizes = (784, width, width, 10)
    return sum(product.flops for product in iteration_products(samples, sizes))


def _convergence_units(piece: str, images: Images) -> Iterator[Unit]:
    """L_rho and the residual at a constant rho."""
    data, scale = images.data, images.scale
    more = paper.BETWEEN if piece == "fig4" and scale.with_between else {}
    work = scale.convergence_iterations * _sweep_work(images.samples, scale.width)
    for name in (*paper.VARIANTS, *more):
        options = paper.variant(name, CONVERGENCE_RHO[piece])
        # The authors' rho stays at 1e-6: their run of the accuracy figure is that of fig4.
        as_long = scale.iterations == scale.convergence_iterations
        same = piece == "fig4" and name == "authors" and as_long
        twin = (paper.accuracy_figure(data), f"dladmm {name}") if same else None
        run = partial(_convergence, images, options)
        yield Unit(f"{data} {name}", work, run, twin, {"options": _plain(options)})


def _convergence(images: Images, options: dict[str, Any], record: Record, show: Show) -> Any:
    count, label = images.scale.convergence_iterations, f"{record['piece']} {images.data}"
    report = lambda progress: show(label, progress.iteration / count)  # noqa: E731
    result = solved(options, images.started(options), 0, count, report, evaluate_every=count)
    return {"options": _plain(options)} | recorded(result)


def _accuracy_units(images: Images) -> Iterator[Unit]:
    """Training and test accuracy of every method, optimisers at the paper's and their best rate."""
    scale, samples = images.scale, images.samples
    sweep = _sweep_work(samples, scale.width)
    variants = {
        f"dladmm {name}": paper.variant(name, 1e-6, every=scale.iterations // 2)
        for name in paper.VARIANTS
    }
    few = min(scale.iterations, paper.RESTORED_ITERATIONS)
    for name, options in (variants | {"admm": paper.ADMM, "restored": paper.RESTORED}).items():
        count = few if options is paper.RESTORED else scale.iterations
        work = scale.seeds * count * sweep / (1 if name in variants else 1.5)
        run = partial(_library, images, options, count)
        yield Unit(name, work, run, setting={"options": _plain(options)})
    whole = scale.seeds * scale.iterations * sweep / 3

    def rated(run: str, name: str, rate: float) -> Unit:
        return Unit(run, whole, partial(_gradient, images, name, rate), setting={"rate": rate})

    for name, grid in paper.GRIDS.items():
        work = len(grid) * scale.grid_iterations * scale.grid_samples / samples
        yield Unit(f"{name} grid", work * sweep / 3, partial(_grid, images, name))
        if name in paper.RATES:
            yield rated(f"{name} paper", name, paper.RATES[name])
        if name == "sgd":  # at its rate the mean loss stands still; the paper's may be a sum
            yield rated("sgd summed", name, paper.RATES[name] * samples)
        yield Unit(f"{name} best", whole, partial(_gradient, images, name, None))
    yield replace(rated("lbfgs", "lbfgs", 1.0), work=1.5 * whole)


def _library(
    images: Images, options: dict[str, Any], iterations: int, record: Record, show: Show
) -> Any:
    setup, seeds = images.started(options), images.scale.seeds
    curves = []
    for seed in range(seeds):

        def report(k: int, seed: int = seed) -> None:
            show(f"{images.data} {options['method']}", (seed + k / iterations) / seeds)

        points, result, network = library_run(options, setup, seed, iterations, report)
        # A run that broke down has no network from there on.
        missing: list[float | None] = [None] * (iterations - len(points))
        curves.append(
            {"seed": seed, "seconds": short(point.seconds for point in points)}
            | {key: short(values) + missing for key, values in series(points).items()}
            | {"weights_moved": _relative_changes(setup.weights(seed), network)}
            | recorded(result)
        )
    return {"options": _plain(options), "curves": curves}


def _relative_changes(before: Params, after: Params) -> list[float | None]:
    """|W_l - W_l at the start| / |W_l at the start| for each layer."""
    pairs = [(np.asarray(old), np.asarray(new)) for old, new in zip(before.W, after.W, strict=True)]
    return short(np.linalg.norm(new - old) / np.linalg.norm(old) for old, new in pairs)


def _grid(images: Images, name: str, record: Record, show: Show) -> Any:
    """Every rate of an optimiser's grid, from one seed, on a part of the images."""
    setup = images.setup(samples=images.scale.grid_samples)
    x, y = setup.test
    setup = replace(setup, test=(x[:1], y[:1]))  # a rate is chosen without any test image
    pairs = [(rate, 0) for rate in paper.GRIDS[name]]
    report = partial(show, f"{images.data} {name} rates")
    curves = gradient_curves(setup, name, pairs, images.scale.grid_iterations, report)
    return {
        "rates": [
            {"rate": rate} | {key: curve[key][-1] for key in ("train_accuracy", "train_loss")}
            for (rate, _), curve in zip(pairs, curves, strict=True)
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


def _gradient(images: Images, name: str, rate: float | None, record: Record, show: Show) -> Any:
    rate = best_rate(record, name) if rate is None else rate
    at_papers = record["runs"].get(f"{name} paper")
    if at_papers is not None and at_papers["rate"] == rate:
        return at_papers  # the best rate is the paper's
    pairs = [(rate, seed) for seed in range(images.scale.seeds)]
    report = partial(show, f"{images.data} {name} {rate:g}")
    curves = gradient_curves(images.setup(), name, pairs, images.scale.iterations, report)
    return {"rate": rate, "curves": curves}


def gradient_curves(
    setup: Setup,
    name: str,
    pairs: Sequence[tuple[float, int]],
    iterations: int,
    show: Callable[[float], None],
) -> list[dict[str, Any]]:
    """One curve per (rate, seed); only a single one has a clock of its own."""
    points = gradient_run(setup, name, pairs, iterations, lambda k: show(k / iterations))
    clock = {"seconds": short(point.seconds for point in points)} if len(pairs) == 1 else {}
    figures = {key: values.reshape(len(points), -1) for key, values in series(points).items()}
    return [
        {"seed": seed, **{key: short(values[:, k]) for key, values in figures.items()}, **clock}
        for k, (_, seed) in enumerate(pairs)
    ]


def _time_units(piece: str, images: Images) -> Iterator[Unit]:
    """Seconds per iteration over rho and neurons (Table 2) or training samples (Table 3)."""
    data, scale, whole = images.data, images.scale, (images.samples, images.scale.width)
    by_neurons = [(images.samples, width) for width in scale.neurons]
    by_size = [(samples, scale.width) for samples in scale.sizes[data]]
    for samples, width in by_neurons if piece == "table2" else by_size:
        work = 2 * len(paper.RHOS) * (scale.timed_iterations + 2) * _sweep_work(samples, width)
        names = {"table2": f"{data} {width}", "table3": f"{data} {samples}"}
        # All samples at full width: the tables share this column.
        other = "table3" if piece == "table2" else "table2"
        twin = (other, names[other]) if (samples, width) == whole else None
        yield Unit(names[piece], work, partial(_times, images, samples, width), twin)


def _times(images: Images, samples: int, width: int, record: Record, show: Show) -> Any:
    setup, label = images.setup(samples, width), f"{record['piece']} {images.data}"
    times: dict[float, list[float]] = {rho: [] for rho in paper.RHOS}
    newton: dict[float, list[float]] = {rho: [] for rho in paper.RHOS}
    # There and back again, so that a machine that slows down does not look like an effect of rho.
    for k, rho in enumerate([*paper.RHOS, *reversed(paper.RHOS)]):
        show(f"{label} {samples:,} x {width}", k / (2 * len(paper.RHOS)))
        options = paper.variant("text", rho)
        history = solved(options, setup, 0, images.scale.timed_iterations + 2).history
        # The first iteration may compile, and the last is read without another one beside it.
        times[rho] += np.diff(history["seconds"])[:-1].tolist()
        newton[rho] += history["zl_iterations"][1:-1]
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


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    """Options as JSON knows them."""
    return {k: v if isinstance(v, str | int | float) else repr(v) for k, v in options.items()}
