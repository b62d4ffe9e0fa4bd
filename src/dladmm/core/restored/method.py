"""Restored sweeps as methods: over all samples at once, and over mini-batches."""

import math
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from typing import ClassVar

from dladmm.core.data import DATA, Arrays, Data, padded_data, reads_x_alone
from dladmm.core.method import Account, Guarantee, Method, Penalties, Start, no_argmin, stacked
from dladmm.core.params import Params
from dladmm.core.problem import Problem
from dladmm.core.restored import evidence, full_batch, mini_batch
from dladmm.core.restored.batches import LEAST_SIZE, Batches, auto_size, group_size
from dladmm.core.restored.full_batch import Restored, RestoredRecord
from dladmm.core.restored.measure import gradient_norm
from dladmm.core.restored.mini_batch import Stream, StreamRecord
from dladmm.core.restored.spectrum import RANK
from dladmm.engine import trees
from dladmm.engine.arrays import Array, xp
from dladmm.engine.devices import EVERYWHERE, JAX, Engine, spread
from dladmm.engine.processes import over_processes
from dladmm.engine.programs import compiled
from dladmm.engine.walks import BLOCK_ROWS, blocks_for
from dladmm.terms.losses import Loss


@dataclass(frozen=True)
class RestoredMethod(Method):
    """What both have in common: they iterate on the network alone."""

    name: ClassVar[str] = "restored"
    has_penalties: ClassVar[bool] = False
    init: ClassVar[str] = "scaled"
    streams: ClassVar[bool] = True
    alive: ClassVar[dict[str, int]]

    def requires(self) -> None:
        """Restored sweeps need what the relaxed methods do not: gradients."""
        if type(self.problem.loss).gradient is Loss.gradient:
            raise ValueError(
                "method='restored' needs the gradient of the loss, which"
                f" {type(self.problem.loss).__name__} does not define; expected method='dladmm'"
            )
        for l, f in enumerate(self.problem.activations, 1):
            if not f.uses_slope and not f.has_argmin:
                raise ValueError(no_argmin(f, l, "targets='closed'", "targets='first-order'"))
            if f.uses_slope and not f.has_slopes:
                raise ValueError(
                    f"method='restored' needs the slopes of activation {l}, which"
                    f" {type(f).__name__} does not define; expected method='dladmm'"
                )

    @property
    def can_reweigh(self) -> bool:
        return evidence.applies(self.problem)

    @cached_property  # asked several times in each iteration
    def reweighs(self) -> bool:
        return evidence.is_asked(self.problem)

    def _moments(self, rank: float = math.inf) -> int:
        """Numbers in the moments of a and r, known by so many columns."""
        sizes = [n for layer in self.problem.layers for n in (layer.n_columns, layer.units)]
        return sum(n * int(min(n, rank)) for n in sizes)

    def _bytes(self, fixed: int, block: int, itemsize: int) -> int:
        """`fixed` numbers, the temporaries of `block` rows, and the patches of some of them."""
        layers = self.problem.layers
        per_row = sum(self._alive(l) * prod(layer.out_shape) for l, layer in enumerate(layers))
        at_once = [(layer, min(block, layer.samples_at_once or 0)) for layer in layers]
        patches = max(n * layer.positions * layer.fan_in for layer, n in at_once)
        return (fixed + block * (prod(self.problem.in_shape) + per_row) + patches) * itemsize

    def _alive(self, l: int) -> int:
        """How many arrays of the size of a layer's outputs live at once. With positions that is the
        compiler's choice, and the factors are fitted to its account."""
        if self.problem.layers[l].positions == 1:
            return 3
        if self.problem.is_recurrent(l):
            return self.alive["recurrent"]
        pools = l < len(self.problem.activations) and self.problem.activations[l].pools
        return self.alive["pooled" if pools else "positions"]

    @property
    def _weights(self) -> int:
        """Numbers in [W b] of all layers."""
        return sum(layer.units * layer.n_columns for layer in self.problem.layers)


@dataclass(frozen=True)
class FullBatch(RestoredMethod):
    """Restored sweeps over all samples: F itself, which never rises while the
    strength of l2 stays the same."""

    objective_name: ClassVar[str] = "the true loss"
    alive: ClassVar[dict[str, int]] = {"pooled": 3, "positions": 5, "recurrent": 8}

    def prepare(self, arrays: Arrays, engine: Engine = JAX) -> Data:
        return padded_data(self.problem, arrays, with_gram=False, engine=engine)

    def begin(self, data: Data, params: Params, start: Start) -> Restored:
        return _begin(self.problem, data, params)

    def advance(
        self, data: Data, state: Restored, penalties: Penalties, with_loss: Array
    ) -> tuple[Restored, Params, Array]:
        return iterate_restored(self.problem, data, state)

    def before(self, k: int, data: Data, state: Restored) -> Restored:
        first = evidence.FIRST_UPDATE[evidence.kind(self.problem)]
        if self.reweighs and evidence.is_due(first, k):
            return full_batch.reweighed(self.problem, data, state)
        return state

    def names(self) -> list[str]:
        return list(RestoredRecord._fields)

    def objective(self, data: Data, state: Restored, penalties: Penalties) -> float:
        return float(state.measured.objective)

    def stationarity(self, data: Data, state: Restored, penalties: Penalties) -> float:
        problem = full_batch.weighed(self.problem, state.weighing)
        return float(gradient_norm(problem, state.params, state.measured))

    def run_bytes(self, n_samples: int, itemsize: int) -> int:
        rows = n_samples + blocks_for(n_samples)[1]
        kept = rows * (prod(self.problem.in_shape) + prod(self.problem.out_shape))
        # Two measurements are alive at once: the last accepted one and the one being tried.
        fixed = 2 * (self._moments() + 2 * self._weights) + 3 * self._moments()
        return self._bytes(kept + fixed, min(rows, BLOCK_ROWS), itemsize)

    def exchanged_bytes(self, itemsize: int) -> int:
        """Per trial of a step, of which one suffices nearly always: gradient and squares. The
        moments of a layer that reads x alone are those of the start."""
        of_x = self.problem.layers[0].n_columns ** 2 if reads_x_alone(self.problem) else 0
        return (2 * self._weights + self._moments() - of_x) * itemsize

    def guarantee(self, account: Account) -> Guarantee:
        found = {}
        if self.reweighs and account.rows:
            last = account.rows[-1]
            found["Strength of l2"] = (
                f"found by the evidence: {last['alpha']:.3g} (geometric mean over layers),"
                f" {last['effective_parameters']:.0f} effective parameters; the loss is compared"
                " where it stayed the same"
            )
        return Guarantee(
            {
                "Guarantee": f"every accepted step lowers the true loss{self._targets_in_words()}",
                **found,
                "Theorems 1-3": "are about L_rho away from feasible points, which this method"
                " restores",
            }
        )

    def _targets_in_words(self) -> str:
        """Whether steps follow the gradient of the loss, or targets of which some are closed."""
        closed = [l for l, f in enumerate(self.problem.activations, 1) if not f.uses_slope]
        if not closed:
            return " by a share of what its slope promises"
        how = (
            "no gradient passed through the derivative of an activation"
            if len(closed) == len(self.problem.activations)
            else f"the targets of activations {', '.join(map(str, closed))} are closed, gradients"
            " passed through the derivatives of the others"
        )
        return f"; {how}, so the subgradient is that of closed targets, not of the loss"


@compiled("problem")
def _begin(problem: Problem, data: Data, params: Params) -> Restored:
    own = partial(full_batch.begin, problem)
    return spread(data.samples, own, (DATA, EVERYWHERE), EVERYWHERE)(data, params)


@compiled("problem", donate="state")
def iterate_restored(
    problem: Problem, data: Data, state: Restored
) -> tuple[Restored, Params, Array]:
    """One restored sweep as one program."""

    def own(data: Data, state: Restored) -> tuple[Restored, Params, Array]:
        state, record = full_batch.restored_sweep(problem, data, state)
        return state, state.params, stacked(record, state.step.dtype)

    return spread(data.samples, own, (DATA, EVERYWHERE), EVERYWHERE)(data, state)


@dataclass(frozen=True)
class MiniBatch(RestoredMethod):
    """Restored sweeps over mini-batches; one iteration is an epoch."""

    overlaps: ClassVar[bool] = False  # launching an epoch takes as long as the epoch
    objective_name: ClassVar[str] = "the mean loss"
    alive: ClassVar[dict[str, int]] = {"pooled": 6, "positions": 6, "recurrent": 9}
    unit: ClassVar[str] = "epochs"

    batch_size: int | str  # or "auto"
    seed: int

    def prepare(self, arrays: Arrays, engine: Engine = JAX) -> Batches:
        rows = int(over_processes(arrays[0].shape[0]).sum())
        return Batches(*arrays, self._size(rows), self.seed, engine=engine)

    def _size(self, n_samples: int) -> int:
        if isinstance(self.batch_size, str):
            layers = self.problem.layers
            widest = max(max(layer.fan_in, layer.units) for layer in layers)
            size = auto_size(n_samples, widest)
            # With positions a sample is many rows already.
            return min(size, LEAST_SIZE) if any(v.positions > 1 for v in layers) else size
        return self.batch_size

    def rows_at_once(self, n_samples: int) -> int:
        return min(self._size(n_samples), n_samples)

    def begin(self, data: Batches, params: Params, start: Start) -> Stream:
        state = mini_batch.begin(self.problem, params)
        return mini_batch.reweighed(self.problem, data, state) if self.reweighs else state

    def before(self, k: int, data: Batches, state: Stream) -> Stream:
        # An epoch is many steps: the first one has found what the strengths can be judged by.
        if self.reweighs and evidence.is_due(1, k):
            return mini_batch.reweighed(self.problem, data, state)
        return state

    def advance(
        self, data: Batches, state: Stream, penalties: Penalties, with_loss: Array
    ) -> tuple[Stream, Params, Array]:
        state, record = mini_batch.epoch(self.problem, data, state)
        params = trees.map(xp.copy, state.average)  # the next epoch donates its own
        return state, params, stacked(record, state.scale.dtype)

    def names(self) -> list[str]:
        return list(StreamRecord._fields)

    def resumed(self, data: Batches, state: Stream) -> None:
        data.seen = int(state.seen)  # the batches to come are drawn from what has been seen

    def run_bytes(self, n_samples: int, itemsize: int) -> int:
        # Iterate, average and the last good one, each of them old and new; gradients, directions.
        size = self._size(n_samples)
        numbers, outputs = prod(self.problem.in_shape), prod(self.problem.out_shape)
        # Of two groups of batches, one is gathered while the other one is computed.
        rows = 2 * size * group_size(size, numbers, -(-n_samples // size))
        fixed = 10 * self._weights + 3 * self._moments(RANK) + rows * (numbers + outputs)
        return self._bytes(fixed, size, itemsize)

    def exchanged_bytes(self, itemsize: int) -> int:
        """Per batch, one that renews the metric."""
        return (self._weights + self._moments(RANK)) * itemsize

    def guarantee(self, account: Account) -> Guarantee:
        return Guarantee(
            {
                "Guarantee": "none: steps on mini-batches are capped and watched for blow-ups, but"
                " no step is checked against the loss of all samples"
            }
        )
