"""The rows of a run in random order, a mini-batch at a time."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from dladmm.core.data import Data
from dladmm.engine.devices import JAX, Engine
from dladmm.engine.processes import over_processes, process_index
from dladmm.engine.walks import Samples

SLOW_EPOCHS, SLOW_BATCHES = 10, 100  # the step is halved after so many, whichever are more
LONGEST = 1000.0  # batches that a run remembers, in its average and in its step

LEAST_SIZE = 128  # of a batch that is chosen here


def auto_size(n_samples: int, width: int) -> int:
    """Rows of a mini-batch: an eighth of all, so that there are steps to average, but no more than
    512, or than half the widest layer, which the step itself costs; a power of 2 from 128 on."""
    most = max(512, width // 2)
    return 1 << max(LEAST_SIZE.bit_length(), min(n_samples // 8, most).bit_length()) - 1


@dataclass
class Batches:
    """The rows of x and y in random order, a batch at a time; x may be memory-mapped.

    Every batch has the same shape: the last one of an epoch is filled up with rows of weight zero.
    `seen` counts the batches of a run. On a mesh of several processes each draws from its own rows,
    its share of the `size` rows of a batch.
    """

    x: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None
    size: int
    seed: int
    seen: int = 0
    engine: Engine = JAX
    per_epoch: int = field(init=False)
    mass: float = field(init=False)

    @property
    def _own_mass(self) -> float:
        return float(self.x.shape[0] if self.weights is None else self.weights.sum())

    def __post_init__(self) -> None:
        rows, masses = over_processes([self.x.shape[0], self._own_mass]).T
        self.mass = float(masses.sum())
        self.size = min(-(-self.size // len(rows)), int(rows.max()))
        self.per_epoch = -(-int(rows.max()) // self.size)

    @property
    def share(self) -> float:
        """1/(1 + k/slow) after k batches, of which it counts LONGEST at most: a stream without an
        end goes on learning."""
        slow = max(SLOW_EPOCHS * self.per_epoch, SLOW_BATCHES)
        return 1 / (1 + min(self.seen, LONGEST) / slow)

    def epoch(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        # From what has been seen, not from a generator that lives on: a resumed run draws the same.
        random = np.random.default_rng([self.seed, process_index(), self.seen])
        order = random.permutation(self.x.shape[0])
        for k in range(self.per_epoch):
            rows = np.sort(order[k * self.size : (k + 1) * self.size])  # in the file's order
            missing = self.size - len(rows)
            ones = np.ones(len(rows), self.x.dtype)
            weights = ones if self.weights is None else self.weights[rows]
            # A process with fewer rows than another fills its last batches up, with any row.
            rows = np.pad(rows, (0, missing), mode="edge" if len(rows) else "constant")
            yield self.x[rows], self.y[rows], np.pad(weights, (0, missing))
            self.seen += 1

    def sample(self, count: int) -> Data:
        """About `count` rows, evenly spaced, whose weights add up to those of all."""
        rows = over_processes(self.x.shape[0])
        share = max(1, -(-count * self.x.shape[0] // int(rows.sum())))
        chosen = np.unique(np.linspace(0, self.x.shape[0] - 1, share).astype(int))
        ones = np.ones(len(chosen), self.x.dtype)
        weights = ones if self.weights is None else self.weights[chosen]
        shown = over_processes(float(weights.sum())).sum()
        scaled = (weights * (self.mass / max(shown, 1e-30))).astype(self.x.dtype)
        return self.placed(self.x[chosen], self.y[chosen], scaled)

    @property
    def per_weight(self) -> float:
        """As `evidence.samples_per_weight`, of all rows."""
        if self.weights is None:
            squares = self._own_mass
        else:
            squares = float((self.weights.astype(float) ** 2).sum())
        squares = float(over_processes(squares).sum())  # of tiny weights they underflow
        return max(1.0, self.mass / max(squares, np.finfo(float).tiny))

    def placed(self, x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> Data:
        """A batch on the devices."""
        engine = self.engine
        if engine.mesh is None:
            # Placed here: a program that is handed NumPy's arrays waits for the one before it.
            x, y, weights = engine.replicate((x, y, weights))
            return Data(x, y, Samples(weights), None)
        most = int(over_processes(len(x)).max())
        rows = -(-most // engine.devices)
        samples = Samples(engine.place_rows(weights, rows, filling="constant"), 1, engine.mesh)
        return Data(engine.place_rows(x, rows), engine.place_rows(y, rows), samples, None)
