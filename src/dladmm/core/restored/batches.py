"""The rows of a run in random order, a mini-batch at a time.

Batches go to the devices in groups, of which one is gathered while another one is computed: a
program for each batch would have to be launched by the cores that compute.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from dladmm.core.data import Data
from dladmm.engine.buffers import lendable
from dladmm.engine.devices import JAX, Engine
from dladmm.engine.processes import over_processes, process_index
from dladmm.engine.walks import Samples

SLOW_EPOCHS, SLOW_BATCHES = 10, 100  # the step is halved after so many, whichever are more
LONGEST = 1000.0  # batches that a run remembers, in its average and in its step

LEAST_SIZE = 128  # of a batch that is chosen here
GROUP, GROUP_NUMBERS = 8, 2**22  # batches of a group, and the numbers of their x, at most

S = TypeVar("S")


def auto_size(n_samples: int, width: int) -> int:
    """Rows of a mini-batch: an eighth of all, so that there are steps to average, but no more than
    512, or than half the widest layer, which the step itself costs; a power of 2 from 128 on."""
    most = max(512, width // 2)
    return 1 << max(LEAST_SIZE.bit_length(), min(n_samples // 8, most).bit_length()) - 1


def group_size(size: int, numbers: int, per_epoch: int) -> int:
    """How many batches go to the devices at once: so many rows of so many numbers each."""
    return min(GROUP, per_epoch, max(1, GROUP_NUMBERS // max(1, size * numbers)))


@dataclass
class _Lent:
    """Arrays that a group is gathered in, again and again: memory asked for anew costs as much as
    gathering. `done` is known when the program that reads them has ended."""

    x: np.ndarray
    y: np.ndarray
    done: Any = None


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
    group: int = field(init=False)
    _lent: list[_Lent] = field(init=False)

    @property
    def _own_mass(self) -> float:
        return float(self.x.shape[0] if self.weights is None else self.weights.sum())

    def __post_init__(self) -> None:
        rows, masses = over_processes([self.x.shape[0], self._own_mass]).T
        self.mass = float(masses.sum())
        self.size = min(-(-self.size // len(rows)), int(rows.max()))
        self.per_epoch = -(-int(rows.max()) // self.size)
        self.group = group_size(self.size, int(np.prod(self.x.shape[1:])), self.per_epoch)
        self._lent = []

    @property
    def slow(self) -> int:
        """The step is halved after so many batches."""
        return max(SLOW_EPOCHS * self.per_epoch, SLOW_BATCHES)

    def epoch(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The rows of every batch, and their weights."""
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
            yield rows, np.pad(weights, (0, missing))

    def stepped(
        self, step: Callable[[S, Data, Any], tuple[S, Any]], state: S, parts: int = 1
    ) -> Iterator[S]:
        """The state after each of so many equal parts of an epoch.

        step(state, group, count) -> (state, done) goes over the first `count` batches of a group,
        along whose arrays' first axis they are; when `done` is known, it reads the group no more.
        Meanwhile the next group is gathered, that of the next part too: whoever looks at a part's
        state waits for its last step, and then nothing would be under way.
        """
        ends = [part * self.per_epoch // parts for part in range(1, parts + 1)]
        groups, stop = self._groups(ends), 0
        ahead = next(groups, None)
        for end in ends:
            while stop < end:
                assert ahead is not None
                group, count, lent = ahead
                state, lent.done = step(state, group, np.int32(count))
                stop, self.seen = stop + count, self.seen + count
                ahead = next(groups, None)
            yield state

    def _groups(self, ends: list[int]) -> Iterator[tuple[Data, int, _Lent]]:
        """Each group of an epoch with the number of its batches, all of one part, and the arrays it
        lies in; gathered when it is asked for."""
        batches, start = self.epoch(), 0
        for end in ends:
            while start < end:
                few = list(islice(batches, min(self.group, end - start)))
                lent = self._next_lent()
                yield self._lend(few, lent), len(few), lent
                start += len(few)

    def _next_lent(self) -> _Lent:
        """Arrays for the next group, once nothing reads them any more."""
        if len(self._lent) < 2:
            shape = (self.group, self.size)
            pairs = ((shape + v.shape[1:], v.dtype) for v in (self.x, self.y))
            self._lent.append(_Lent(*(lendable(*pair) for pair in pairs)))
        else:
            self._lent.reverse()
        self.engine.wait_for(self._lent[-1].done)
        return self._lent[-1]

    def _lend(self, batches: list[tuple[np.ndarray, np.ndarray]], lent: _Lent) -> Data:
        """A group of batches on the devices; those that are missing have weight zero."""
        weights = np.zeros((self.group, self.size), self.x.dtype)
        for k, (rows, weights_of) in enumerate(batches):
            for source, target in ((self.x, lent.x), (self.y, lent.y)):
                np.take(source, rows, axis=0, out=target[k], mode="clip")
            weights[k] = weights_of
        engine, of_each = self.engine, -(-self.size // self.engine.devices)
        placed = engine.lend_batches(weights, of_each, filling="constant")
        x, y = (engine.lend_batches(v, of_each) for v in (lent.x, lent.y))
        return Data(x, y, Samples(placed, 1, engine.mesh), None)

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
