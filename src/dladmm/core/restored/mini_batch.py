"""Restored sweeps over mini-batches: memory that does not depend on the number of samples.

Each batch is restored as in `full_batch`, and every layer takes the step

    [W b]+ = [W b] - s S~^-1 G K~^-1,       G = r^T [a, 1] / (sum of weights),

with K~ and S~ made of running averages of the moments, factored anew every few batches. There is no
line search: the step decays over the epochs and is capped by s <= (1/<G, S~^-1 G K~^-1>)^(1/2), a
trust region in the metric's own norm. A loss that blows up all the same brings the last good
network back, with half the step.

A quadratic Omega enters G; another one is applied after the step as a prox with the metric's mean
diagonal in place of the metric, which keeps zeros and constraints exact.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from dladmm.core.data import DATA, Data
from dladmm.core.evaluate import hits, regularization, relative_change
from dladmm.core.params import Params
from dladmm.core.problem import Problem
from dladmm.core.restored.full_batch import matrices
from dladmm.core.restored.metric import (
    damped_inputs,
    damped_outputs,
    layer_gains,
    mean_diagonal,
    prox_of_weights,
    with_quadratic,
)
from dladmm.core.restored.point import restore
from dladmm.engine import trees
from dladmm.engine.arrays import Array, namespace, xp
from dladmm.engine.devices import EVERYWHERE, JAX, Engine, spread
from dladmm.engine.linalg import inverse
from dladmm.engine.loops import either
from dladmm.engine.processes import over_processes, process_index
from dladmm.engine.programs import compiled
from dladmm.engine.walks import Samples

DELTA = 10.0  # damping of the input side; larger than for the full batch, as is the step
EPSILON = 0.1
STEP = 20.0  # the first step; halved after an epoch, or after DECAY_BATCHES if those are more
DECAY_BATCHES = 100
MEMORY = 0.5  # of the running moments, per refresh
REFRESH_EVERY = 32  # batches between two factorisations, once there are moments of several batches
BLOW_UP = (2.0, 0.1)  # a loss above 2 x the last one + 0.1 x the first is a blow-up


@dataclass
class Batches:
    """The rows of x and y in random order, a batch at a time; x may be memory-mapped.

    Every batch has the same shape: the last one of an epoch is filled up with rows of weight zero.
    `seen` counts the batches of a run, `decay` says whether the step falls with them. On a mesh of
    several processes each draws from its own rows, its share of the `size` rows of a batch.
    """

    x: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None
    size: int
    seed: int
    decay: bool = True
    seen: int = 0
    engine: Engine = JAX
    per_epoch: int = field(init=False)
    mass: float = field(init=False)

    def __post_init__(self) -> None:
        own = float(self.x.shape[0] if self.weights is None else self.weights.sum())
        rows, masses = over_processes([self.x.shape[0], own]).T
        self.mass = float(masses.sum())
        self.size = min(-(-self.size // len(rows)), int(rows.max()))
        self.per_epoch = -(-int(rows.max()) // self.size)

    @property
    def step(self) -> float:
        """The step of the next batch, before its cap."""
        slow = max(self.per_epoch, DECAY_BATCHES)
        return STEP / (1 + self.seen / slow) if self.decay else STEP

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

    def placed(self, x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> Data:
        """A batch on the devices."""
        engine = self.engine
        if engine.mesh is None:
            return Data(x, y, Samples(weights), None)
        rows = -(-self.size // engine.devices)
        samples = Samples(engine.place_rows(weights, rows, filling="constant"), 1, engine.mesh)
        return Data(engine.place_rows(x, rows), engine.place_rows(y, rows), samples, None)


class Totals(NamedTuple):
    """Sums over an epoch: the loss before each step, right classes, weights, and the last step."""

    loss: Array
    hits: Array
    mass: Array
    step: Array


class Stream(NamedTuple):
    """What one batch hands to the next.

    inputs, outputs: the running moments; input_inverse, output_inverse: K~^-1 and S~^-1; `scale`
    is what blow-ups have left of the step, `seen` the number of batches; `kept` the last good
    network, its loss and the first loss; `recent` the loss and weight since then.
    """

    params: Params
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    input_inverse: tuple[Array, ...]
    output_inverse: tuple[Array, ...]
    gains: Array
    scale: Array
    seen: Array
    kept: Params
    kept_loss: Array
    first_loss: Array
    recent: tuple[Array, Array]
    totals: Totals


@compiled("problem")
def begin(problem: Problem, params: Params) -> Stream:
    """Before the first batch: no moments yet. Compiled, so that no two of its arrays are one."""
    dtype, zeros = params.W[0].dtype, namespace(params.W[0]).zeros
    zero, infinite = np.zeros((), dtype), np.full((), np.inf, dtype)
    inputs = tuple(zeros((layer.fan_in + 1,) * 2, dtype) for layer in problem.layers)
    outputs = tuple(zeros((layer.units,) * 2, dtype) for layer in problem.layers)
    return Stream(
        params,
        inputs,
        outputs,
        trees.map(xp.zeros_like, inputs),
        trees.map(xp.zeros_like, outputs),
        np.ones(problem.n_layers, dtype),
        np.ones((), dtype),
        np.zeros((), np.int32),
        params,
        infinite,
        infinite,
        (zero, zero),
        Totals(zero, zero, zero, zero),
    )


@compiled("problem", "first", donate="state")
def refresh(problem: Problem, state: Stream, batch: Data, first: bool) -> Stream:
    """This batch's moments into the running ones, new factors, and the look back for a blow-up."""
    own = partial(_refresh, problem, first)
    return spread(batch.samples, own, (EVERYWHERE, DATA), EVERYWHERE)(state, batch)


def _refresh(problem: Problem, first: bool, state: Stream, batch: Data) -> Stream:
    loss, weight = state.recent
    mean = loss / xp.maximum(weight, np.finfo(loss.dtype).tiny)
    factor, share = BLOW_UP
    blown = (weight > 0) & ~(mean <= factor * state.kept_loss + share * state.first_loss)
    params = either(blown, state.kept, state.params)
    scale = xp.where(blown, state.scale / 2, state.scale)
    known = weight > 0
    kept_loss = xp.where(known & ~blown, mean, state.kept_loss)
    first_loss = xp.where(known & xp.isinf(state.first_loss), mean, state.first_loss)

    point, weights = restore(problem, params, batch.x, batch.y), batch.weights
    count = batch.samples.mass(batch.x)
    inputs, outputs = [], []
    for l, layer in enumerate(problem.layers):
        K = batch.samples.sum(layer.gram_with_bias(point.inputs[l], weights)) / count
        S = batch.samples.sum(layer.unit_gram(point.targets[l], weights)) / count
        inputs.append(K if first else MEMORY * state.inputs[l] + (1 - MEMORY) * K)
        outputs.append(S if first else MEMORY * state.outputs[l] + (1 - MEMORY) * S)
    gains = layer_gains(outputs) if first else state.gains
    zero = xp.zeros_like(loss)
    return state._replace(
        params=params,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        input_inverse=tuple(inverse(damped_inputs(K, DELTA)) for K in inputs),
        output_inverse=tuple(
            inverse(damped_outputs(S, EPSILON, gain))
            for S, gain in zip(outputs, gains, strict=True)
        ),
        gains=gains,
        scale=scale,
        kept=params,
        kept_loss=kept_loss,
        first_loss=first_loss,
        recent=(zero, zero),
    )


@compiled("problem", donate="state")
def batch_step(problem: Problem, state: Stream, batch: Data, step: Array, mass: Array) -> Stream:
    """One step for all layers at once; `step` before the cap, `mass` the weight of all samples."""
    own = partial(_batch_step, problem)
    into = (EVERYWHERE, DATA, EVERYWHERE, EVERYWHERE)
    return spread(batch.samples, own, into, EVERYWHERE)(state, batch, step, mass)


def _batch_step(problem: Problem, state: Stream, batch: Data, step: Array, mass: Array) -> Stream:
    params, samples, weights = state.params, batch.samples, batch.weights
    point = restore(problem, params, batch.x, batch.y)
    count = samples.mass(batch.x)
    directions, slope = [], np.zeros((), step.dtype)
    blocks = matrices(problem, params)
    for l, (layer, term, V) in enumerate(blocks):
        own = layer.gradient_matrix(point.targets[l], point.inputs[l], weights)
        G = samples.sum(own) / count
        G = with_quadratic(layer, term, G * mass, V) / mass
        directions.append(-(state.output_inverse[l] @ G @ state.input_inverse[l]))
        slope = slope - xp.sum(G * directions[l])
    s = step * state.scale
    s = xp.minimum(s, step_cap(slope))
    networks = []
    for l, (layer, term, V) in enumerate(blocks):
        new = V + s * directions[l]
        if term.quadratic is None:
            diagonal = (1 + DELTA) * mean_diagonal(state.inputs[l]) * state.gains[l]
            new = prox_of_weights(layer, term, new, s / (diagonal * mass))
        networks.append(layer.from_matrix(new))
    W, b = zip(*networks, strict=True)
    loss = samples.total(point.losses)
    right = samples.total(hits(problem, point.output, batch.y))
    t = state.totals
    return state._replace(
        params=Params(W, b),
        seen=state.seen + 1,
        recent=(state.recent[0] + loss, state.recent[1] + count),
        totals=Totals(t.loss + loss, t.hits + right, t.mass + count, s),
    )


def step_cap(slope: Array) -> Array:
    """The longest step of the trust region, from <G, S~^-1 G K~^-1>."""
    return 1 / xp.sqrt(xp.maximum(slope, np.finfo(slope.dtype).tiny))


class StreamRecord(NamedTuple):
    """The record of an epoch. Losses are means over its batches, each before its own step."""

    lagrangian: Array
    risk: Array
    regularization: Array
    change: Array
    step: Array
    scale: Array
    train_loss: Array
    train_accuracy: Array


@compiled("problem")
def summary(problem: Problem, before: Params, state: Stream, mass: Array) -> StreamRecord:
    """The epoch's record, from its totals."""
    t = state.totals
    loss = t.loss / t.mass
    penalty = regularization(problem, state.params.W)
    return StreamRecord(
        lagrangian=loss * mass + penalty,
        risk=loss * mass,
        regularization=penalty,
        change=relative_change(state.params, before),
        step=t.step,
        scale=state.scale,
        train_loss=loss,
        train_accuracy=t.hits / t.mass,
    )


def refreshes(k: int) -> bool:
    """Whether batch k renews the factors: 0, 1, 2, 4, 8, ... at first, then every 32nd."""
    return k % REFRESH_EVERY == 0 or (k < REFRESH_EVERY and k & (k - 1) == 0)


def epoch(problem: Problem, batches: Batches, state: Stream) -> tuple[Stream, StreamRecord]:
    """Every sample once, in random order, and the record of it."""
    before = trees.map(xp.copy, state.params)
    *_, state = steps(problem, batches, state)
    return state, summary(problem, before, state, np.asarray(batches.mass, state.scale.dtype))


def steps(problem: Problem, batches: Batches, state: Stream) -> Iterator[Stream]:
    """The state after each batch of an epoch; a batch is gathered while the last one computes."""
    dtype = state.scale.dtype
    mass = np.asarray(batches.mass, dtype)
    nothing = [np.zeros((), dtype) for _ in Totals._fields]
    state = state._replace(totals=Totals(*batches.engine.replicate(nothing)))
    for rows in batches.epoch():
        batch, k = batches.placed(*rows), batches.seen
        if refreshes(k):
            state = refresh(problem, state, batch, first=k == 0)
        state = batch_step(problem, state, batch, np.asarray(batches.step, dtype), mass)
        yield state
