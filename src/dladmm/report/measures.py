"""What a page says of a network in figures: pure functions of predictions and targets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

LEAST_PROBABILITY = 1e-15  # the log-loss of what was held impossible is finite
BINS = 10


@dataclass(frozen=True)
class Score:
    """A figure beside that of who knows the targets' distribution only."""

    name: str
    value: float
    baseline: float | None
    words: str  # what the baseline does
    higher_is_better: bool = True

    @property
    def is_better(self) -> bool:
        if self.baseline is None:
            return True
        return (self.value > self.baseline) is self.higher_is_better


def class_scores(
    y: np.ndarray,
    predicted: np.ndarray,
    shares: np.ndarray | None,
    classes: np.ndarray,
    known: np.ndarray,
) -> list[Score]:
    """Accuracy, its mean over classes, and log-loss, beside the most frequent class of `known`."""
    found, counts = np.unique(known, return_counts=True)
    most = found[np.argmax(counts)]
    present = np.unique(y)
    recalls = [float(np.mean(predicted[y == name] == name)) for name in present]
    scores = [
        Score(
            "accuracy", float(np.mean(predicted == y)), float(np.mean(y == most)), f"always {most}"
        ),
        Score(
            "mean recall of the classes",
            float(np.mean(recalls)),
            1 / len(present),
            f"always {most}",
        ),
    ]
    if shares is not None:
        frequency = dict(zip(found.tolist(), (counts / counts.sum()).tolist(), strict=True))
        prior = [max(frequency.get(name, 0.0), LEAST_PROBABILITY) for name in y.tolist()]
        own = own_probability(y, shares, classes)
        words = "the classes' shares"
        scores.append(
            Score(
                "log-loss", float(-np.log(own).mean()), float(-np.log(prior).mean()), words, False
            )
        )
    return scores


def own_probability(y: np.ndarray, shares: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """What each row had for its own class."""
    place = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    found = np.where(classes[place] == y, shares[np.arange(len(y)), place], 0.0)
    return np.maximum(found, LEAST_PROBABILITY)


def number_scores(y: np.ndarray, predicted: np.ndarray, known: np.ndarray) -> list[Score]:
    """R2 and the mean absolute error, beside the mean of `known`."""
    off, mean = predicted - y, known.mean(axis=0)
    return [
        Score(
            "R²", r_squared(y, predicted), r_squared(y, np.broadcast_to(mean, y.shape)), "the mean"
        ),
        Score(
            "mean absolute error", float(np.abs(off).mean()), float(np.abs(y - mean).mean()),
            "the mean", False,
        ),
        Score(
            "root mean squared error", float(np.sqrt((off**2).mean())),
            float(np.sqrt(((y - mean) ** 2).mean())), "the mean", False,
        ),
    ]  # fmt: skip


def r_squared(y: np.ndarray, predicted: np.ndarray) -> float:
    """1 - (what is left)/(what there was), the mean over outputs."""
    left, spread = ((predicted - y) ** 2).sum(axis=0), ((y - y.mean(axis=0)) ** 2).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.mean(1 - left / spread))


def confusion(y: np.ndarray, predicted: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """How many rows of class i were taken for class j."""
    counts = np.zeros((len(classes), len(classes)), dtype=int)
    np.add.at(counts, (np.searchsorted(classes, y), np.searchsorted(classes, predicted)), 1)
    return counts


def calibration(right: np.ndarray, confidence: np.ndarray) -> list[tuple[float, float, int]]:
    """(mean confidence, share that was right, rows) of each tenth of confidence that has rows."""
    place = np.minimum((confidence * BINS).astype(int), BINS - 1)
    return [
        (
            float(confidence[place == k].mean()),
            float(right[place == k].mean()),
            int((place == k).sum()),
        )
        for k in range(BINS)
        if (place == k).any()
    ]


def coverage(off: np.ndarray, deviation: np.ndarray) -> list[tuple[float, float]]:
    """(level, share of targets inside) of intervals of a normal distribution around predictions."""
    from scipy.special import ndtri

    levels = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99]
    return [(p, float(np.mean(np.abs(off) <= ndtri((1 + p) / 2) * deviation))) for p in levels]


@dataclass(frozen=True)
class Importance:
    """By how much a score falls where a column is shuffled among the rows."""

    name: str
    falls: float
    spread: float


def importances(
    score: Callable[[np.ndarray], float],
    X: np.ndarray,
    groups: Sequence[tuple[str, Sequence[int]]],
    repeats: int = 3,
    seed: int = 0,
) -> list[Importance]:
    """Of each group of inputs, the greatest first. Inputs of a group are shuffled together."""
    rng = np.random.default_rng(seed)
    whole = score(X)
    found = []
    for name, inputs in groups:
        falls = []
        for _ in range(repeats):
            shuffled = X.copy()
            shuffled[:, list(inputs)] = X[rng.permutation(len(X))][:, list(inputs)]
            falls.append(whole - score(shuffled))
        found.append(Importance(name, float(np.mean(falls)), float(np.std(falls))))
    return sorted(found, key=lambda one: -one.falls)


def columns_of(values: Any) -> np.ndarray:
    """Values of one column or several, as a matrix."""
    return np.asarray(values, dtype=float).reshape(len(values), -1)
