"""Who races: restored sweeps as they are by default, and gradient methods over their grids."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from dladmm.bench.kfac import DAMPINGS, kfac
from dladmm.core.restored.method import MiniBatch
from dladmm.experiments import baselines
from dladmm.experiments.rivals import ADAM, PRECONDITIONED, RIVALS, rival
from dladmm.experiments.setup import Setup
from dladmm.experiments.torch_rivals import TORCH_RIVALS, torch_rival
from dladmm.terms.layers import Dense

FULL_RATES = (1e-3, 3e-3, 1e-2)
MINI_RATES, MINI_BATCHES = (1e-3, 3e-3), (128, 512)
PER_EPOCH = 8  # evaluations of a mini-batch racer per epoch
OURS = "restored"
QUASI_NEWTON = "quasi-Newton"


@dataclass(frozen=True)
class Racer:
    """A name, how it begins (problem, arrays, weights, seed), iterations per `next`, the group of
    the table it is in, and whether it is this library's."""

    name: str
    start: Callable[..., baselines.Trainer]
    per_next: float = 1.0
    group: str = ""
    ours: bool = False


def full_racers(kfac_python: Path | None = None) -> list[Racer]:
    """Adam at each rate first: the first one sets the loss to reach, where none is given. kfac-jax
    where an interpreter is named that has it."""
    adams = [
        Racer(f"adam {rate:g}", partial(baselines.full_batch, name="adam", rate=rate), group=ADAM)
        for rate in FULL_RATES
    ]
    lbfgs = partial(baselines.full_batch, name="lbfgs", rate=1.0)
    kfacs = []
    if kfac_python is not None:
        for damping in DAMPINGS:
            start = partial(kfac, python=kfac_python, damping=damping)
            kfacs.append(Racer(f"kfac-jax {damping:g}", start, group=PRECONDITIONED))
    return [
        *adams,
        Racer("restored", baselines.restored, group=OURS, ours=True),
        Racer("l-bfgs", lbfgs, group=QUASI_NEWTON),
        *kfacs,
    ]


def mini_racers(c: Setup) -> list[Racer]:
    """Restored sweeps with the batches of batch_size="auto", Adam over rates and batches in JAX and
    PyTorch, scikit-learn where the network is dense, and what a knowledgeable person would pick, by
    groups."""
    own_size = MiniBatch(c.problem, "auto", 0).prepare(c.arrays).size
    ours = partial(baselines.restored_batches, size=own_size, per_epoch=PER_EPOCH)
    racers = [Racer(f"restored /{own_size}", ours, 1 / PER_EPOCH, OURS, ours=True)]
    for rate, size in product(MINI_RATES, MINI_BATCHES):
        adam = partial(baselines.mini_batch, name="adam", rate=rate, size=size, per_epoch=PER_EPOCH)
        racers.append(Racer(f"adam {rate:g} /{size}", adam, 1 / PER_EPOCH, ADAM))
    racers += _torch_racers()
    if all(type(layer) is Dense for layer in c.problem.layers):
        kind = "Classifier" if c.problem.loss.classifies else "Regressor"
        racers.append(Racer(f"MLP{kind}", baselines.scikit_learn, group=ADAM))
    return [*racers, *_rivals()]


def left_out() -> list[str]:
    """The optimisers of mini-batches whose package is not installed."""
    return [one.name for one in TORCH_RIVALS if not one.is_installed]


def _torch_racers() -> list[Racer]:
    """PyTorch's over their grids, of the packages that are installed."""
    racers = []
    for one in TORCH_RIVALS:
        if one.is_installed:
            for rate, size in product(one.rates, one.sizes):
                grid: dict[str, Any] = {"rate": rate, "size": size, "per_epoch": PER_EPOCH}
                start = partial(torch_rival, make=one.make, **grid)
                name = f"{one.name} {rate:g} /{size}"
                racers.append(Racer(name, start, 1 / PER_EPOCH, one.group))
    return racers


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


def chosen(racers: list[Racer], only: tuple[str, ...], with_first: bool) -> list[Racer]:
    """The racers whose names begin so; with the first one where that sets the target."""
    for name in only:
        if not any(racer.name.startswith(name) for racer in racers):
            known = ", ".join(racer.name for racer in racers)
            raise ValueError(f"racer {name!r} is unknown; expected the beginning of one of {known}")
    wanted = [racer for racer in racers if not only or racer.name.startswith(only)]
    return [racer for racer in racers if racer in wanted or (with_first and racer is racers[0])]
