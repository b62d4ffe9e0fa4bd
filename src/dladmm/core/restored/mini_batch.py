"""Restored sweeps over mini-batches: memory that does not depend on the number of samples.

Each batch is restored as in `full_batch`, and every layer takes the step

    [W b]+ = [W b] - s S~^-1 G K~^-1,       G = r^T [a, 1] / (sum of weights),

with K~ and S~ made of running averages of the moments, known by their largest eigenvalues
(`spectrum`) and renewed when they have changed. There is no line search: the step is the longest
one of a trust region in the metric's own norm, s = 1.4/<G, S~^-1 G K~^-1>^(1/2), at most 20, and
falls slowly with the batches seen (`Batches.share`). The metric knows each layer as if the others
stood still, and what layers change multiplies from one to the next: in a deep network the step is
so short that their relative changes, |D_l|/|[W_l b_l]|, add up to 1/2 at most. A loss that blows up
all the same brings the last good network back, with half the step.

The network of a run is an average of its iterates V_k, those of the last batches foremost:

    Z_k = Z_{k-1} + c_k (V_k - Z_{k-1}),    c_k = max(9/(k + 9), 1/1000),

so that weights in the mean grow as k^8: it is of the last ninth of the batches, however many there
were, and of a stream without an end of the last thousand (Shamir and Zhang, 2013).

A quadratic Omega enters G; another one is applied after the step as a prox with the metric's mean
diagonal in place of the metric, which keeps zeros and constraints exact: what is zero in V_k is
zero in Z_k.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dladmm.core.data import STACKED, Data
from dladmm.core.evaluate import evaluate_run, hits, regularization, relative_change
from dladmm.core.params import Params
from dladmm.core.problem import Problem
from dladmm.core.restored.batches import LONGEST, Batches
from dladmm.core.restored.evidence import Weighing, first_weighing, in_records, most_samples, weigh
from dladmm.core.restored.full_batch import matrices, weighed
from dladmm.core.restored.metric import (
    layer_gains,
    positions_of,
    prox_of_weights,
    with_quadratic,
)
from dladmm.core.restored.point import Point, restore
from dladmm.core.restored.spectrum import (
    Spectrum,
    change,
    damped_inputs,
    damped_outputs,
    renewed,
    unknown,
)
from dladmm.engine import trees
from dladmm.engine.arrays import Array, xp
from dladmm.engine.devices import EVERYWHERE, spread
from dladmm.engine.loops import branch, either, over
from dladmm.engine.programs import compiled
from dladmm.engine.sums import squared_norm

DELTA = 5.0  # damping of the input side; larger than for the full batch, as is the step
EPSILON = 0.1
MEMORY = 0.5  # of the running moments, per renewal
# Moments of the inputs that have changed by less than CHANGED of themselves are left alone for
# twice as long as the last time, others for half as long; a blow-up is looked for where they are
# renewed, so that this is never more than LOOK_BACK batches.
CHANGED = 0.1
LOOK_BACK = 32
STEP = 20.0  # the longest; the trust region is shorter until little is left to learn
RADIUS = 1.4  # of the trust region
MOST_CHANGE = 0.5  # the relative changes of all layers by one step, added up
BLOW_UP = (2.0, 0.1)  # a loss above 2 x the last one + 0.1 x the first is a blow-up
AVERAGED = 9.0  # the average is of the last ninth of the batches, and of LONGEST at most


class Totals(NamedTuple):
    """Sums over an epoch: the loss before each step, right classes, weights, and the last step."""

    loss: Array
    hits: Array
    mass: Array
    step: Array


class Moments(NamedTuple):
    """The running moments of [a, 1] and r of every layer, and the gains of the first batch; to be
    renewed by batch number `due`, `wait` batches after the last time."""

    inputs: tuple[Spectrum, ...]
    outputs: tuple[Spectrum, ...]
    gains: Array
    wait: Array
    due: Array


class Stream(NamedTuple):
    """What one batch hands to the next.

    params: the iterate V; average: Z, the network of the run; moments: what the metric is made of.
    `scale` is what blow-ups have left of the step, `seen` the number of batches; `kept` the last
    good average, its loss and the first loss; `recent` the loss and weight since then; `weighing`
    has the strengths of l2 where the run finds them by the evidence.
    """

    params: Params
    average: Params
    moments: Moments
    scale: Array
    seen: Array
    kept: Params
    kept_loss: Array
    first_loss: Array
    recent: tuple[Array, Array]
    totals: Totals
    weighing: Weighing | None = None


@compiled("problem")
def begin(problem: Problem, params: Params) -> Stream:
    """Before the first batch: no moments yet. Compiled, so that no two of its arrays are one."""
    dtype = params.W[0].dtype
    zero, infinite = np.zeros((), dtype), np.full((), np.inf, dtype)
    moments = Moments(
        tuple(unknown(layer.n_columns, dtype) for layer in problem.layers),
        tuple(unknown(layer.units, dtype) for layer in problem.layers),
        np.ones(problem.n_layers, dtype),
        np.ones((), np.int32),
        np.zeros((), np.int32),
    )
    return Stream(
        params,
        params,
        moments,
        np.ones((), dtype),
        np.zeros((), np.int32),
        params,
        infinite,
        infinite,
        (zero, zero),
        Totals(zero, zero, zero, zero),
    )


@compiled("problem", donate="state")
def batch_steps(
    problem: Problem, state: Stream, group: Data, count: Array, slow: Array, mass: Array
) -> tuple[Stream, Array]:
    """A step for each of the first `count` batches of a group, as one program; and how many were
    seen, which is known once the group's rows are read no more. slow: after so many batches the
    step is halved; mass: the weight of all samples."""
    own = partial(_batch_steps, problem)
    into = (EVERYWHERE, STACKED, EVERYWHERE, EVERYWHERE, EVERYWHERE)
    return spread(group.samples, own, into, EVERYWHERE)(state, group, count, slow, mass)


def _batch_steps(
    problem: Problem, state: Stream, group: Data, count: Array, slow: Array, mass: Array
) -> tuple[Stream, Array]:
    def step(state: Stream, batch: Data) -> Stream:
        return batch_step(problem, state, batch, share(state.seen, slow), mass)

    state = over(count, step, state, group)
    return state, state.seen + 0


def share(seen: Array, slow: Array) -> Array:
    """1/(1 + k/slow) of the longest step after k batches, of which it counts LONGEST at most: a
    stream without an end goes on learning."""
    return 1 / (1 + xp.minimum(seen.astype(slow.dtype), np.asarray(LONGEST, slow.dtype)) / slow)


def batch_step(problem: Problem, state: Stream, batch: Data, share: Array, mass: Array) -> Stream:
    """One step for all layers at once, this `share` of the longest; `mass` is the weight of all
    samples. Where the moments are to be renewed, after a look back for a blow-up."""
    problem = weighed(problem, state.weighing)
    is_due = state.seen >= state.moments.due
    enough = xp.minimum(mass, LOOK_BACK * batch.samples.mass(batch.x))
    state = branch(is_due, partial(looked_back, enough=enough), lambda state: state, state)
    point = restore(problem, state.params, batch.x, batch.y)
    renew = partial(renewed_moments, problem, batch=batch, point=point, seen=state.seen)
    moments = branch(is_due, renew, lambda moments: moments, state.moments)
    samples, weights = batch.samples, batch.weights
    count = samples.mass(batch.x)
    directions, slope = [], np.zeros((), mass.dtype)
    blocks = matrices(problem, state.params)
    for l, (layer, term, V) in enumerate(blocks):
        own = layer.gradient_matrix(point.targets[l], point.inputs[l], weights)
        G = samples.sum(own) / count
        G = with_quadratic(layer, term, G * mass, V) / mass
        K = damped_inputs(moments.inputs[l], DELTA)
        S = damped_outputs(moments.outputs[l], EPSILON, moments.gains[l])
        directions.append(-S.solve(K.solve_right(G)))
        slope = slope - xp.sum(G * directions[l])
    s = share * state.scale * longest_step(slope, [V for _, _, V in blocks], directions)
    networks = []
    for l, (layer, term, V) in enumerate(blocks):
        new = V + s * directions[l]
        if term.quadratic is None:
            diagonal = (1 + DELTA) * moments.inputs[l].mean * moments.gains[l]
            new = prox_of_weights(layer, term, new, s / (diagonal * mass))
        networks.append(layer.from_matrix(new))
    W, b = zip(*networks, strict=True)
    loss = samples.total(point.losses)
    right = samples.total(hits(problem, point.output, batch.y))
    t = state.totals
    return state._replace(
        params=Params(W, b),
        average=averaged(problem, state.average, Params(W, b), state.seen),
        moments=moments,
        seen=state.seen + 1,
        recent=(state.recent[0] + loss, state.recent[1] + count),
        totals=Totals(t.loss + loss, t.hits + right, t.mass + count, s),
    )


def averaged(problem: Problem, old: Params, new: Params, seen: Array) -> Params:
    """Z + c (V - Z), c = max(9/(k + 9), 1/1000) after k batches; zeros of V under a prox stay."""
    dtype = new.b[0].dtype
    c = xp.maximum(AVERAGED / (seen.astype(dtype) + AVERAGED), np.asarray(1 / LONGEST, dtype))
    W, b = trees.map(lambda Z, V: Z + c * (V - Z), tuple(old), tuple(new))
    kinks = [term.quadratic is None for term in problem.regularizers]
    pairs = zip(kinks, W, new.W, strict=True)
    return Params(tuple(xp.where(V == 0, 0, Z) if kink else Z for kink, Z, V in pairs), b)


def longest_step(slope: Array, blocks: Sequence[Array], directions: Sequence[Array]) -> Array:
    """min(20, 1.4/slope^(1/2), 1/2/sum_l |D_l|/|V_l|), slope = <G, S~^-1 G K~^-1>; a layer of
    zeros has no relative change."""
    tiny = np.finfo(slope.dtype).tiny
    sizes = xp.sqrt(xp.stack([squared_norm(V) for V in blocks]))
    changes = xp.sqrt(xp.stack([squared_norm(D) for D in directions]))
    change = xp.sum(xp.where(sizes > 0, changes / xp.where(sizes > 0, sizes, 1), 0))
    in_the_metric = RADIUS / xp.sqrt(xp.maximum(slope, tiny))
    return xp.minimum(xp.minimum(STEP, in_the_metric), MOST_CHANGE / xp.maximum(change, tiny))


def looked_back(state: Stream, enough: Array) -> Stream:
    """Back to the last good average with half the step, if the loss has blown up since. It is not
    judged before `enough` weight was seen, unless it overflows: a batch may have the outlier."""
    loss, weight = state.recent
    mean = loss / xp.maximum(weight, np.finfo(loss.dtype).tiny)
    factor, share = BLOW_UP
    first = (weight > 0) & xp.isinf(state.first_loss)
    known = first | (weight >= enough) | ~xp.isfinite(loss)
    blown = known & ~(mean <= factor * state.kept_loss + share * state.first_loss)
    params, average = either(blown, (state.kept, state.kept), (state.params, state.average))
    zero = xp.zeros_like(loss)
    return state._replace(
        params=params,
        average=average,
        scale=xp.where(blown, state.scale / 2, state.scale),
        kept=either(known, average, state.kept),
        kept_loss=xp.where(known & ~blown, mean, state.kept_loss),
        first_loss=xp.where(known & xp.isinf(state.first_loss), mean, state.first_loss),
        recent=either(known, (zero, zero), state.recent),
    )


def renewed_moments(
    problem: Problem, old: Moments, batch: Data, point: Point, seen: Array
) -> Moments:
    """This batch's moments into the running ones, of which the first batch has none."""
    samples, weights = batch.samples, batch.weights
    count, first = samples.mass(batch.x), seen == 0
    memory = xp.where(first, 0, np.asarray(MEMORY, count.dtype))
    inputs, outputs, changes = [], [], []
    for l, layer in enumerate(problem.layers):
        a, r, K, S = point.inputs[l], point.targets[l], old.inputs[l], old.outputs[l]
        of_inputs = samples.sum(layer.gram_with_bias_times(a, K.vectors, weights)) / count
        of_outputs = samples.sum(layer.unit_gram_times(r, S.vectors, weights)) / count
        squares = samples.sum(layer.gram_trace(a, weights)) / count
        squares = squares + layer.positions * (layer.n_columns - layer.fan_in)
        inputs.append(renewed(K, of_inputs, squares, memory))
        outputs.append(renewed(S, of_outputs, samples.total(r**2) / count, memory))
        changes.append(change(K, of_inputs, DELTA))
    settled = ~first & (xp.max(xp.stack(changes)) < CHANGED)
    wait = xp.clip(xp.where(settled, 2 * old.wait, old.wait // 2), 1, LOOK_BACK)
    now = layer_gains(positions_of(problem, batch), [S.trace for S in outputs])
    gains = xp.where(first, now, old.gains)
    return Moments(tuple(inputs), tuple(outputs), gains, wait, seen + wait)


def reweighed(problem: Problem, batches: Batches, state: Stream) -> Stream:
    """The same network under the strengths that the evidence now says, of a bounded number of rows
    that stand for all; at the start, under the first strengths."""
    rows = batches.sample(most_samples(problem))
    risk = evaluate_run(problem, rows, state.average).loss * batches.mass
    if state.weighing is None:
        new = first_weighing(problem, rows, state.average, risk)
        each = xp.full_like(risk, batches.per_weight)
        return state._replace(weighing=new._replace(per_weight=each))
    return state._replace(weighing=weigh(problem, rows, state.average, risk, state.weighing))


class StreamRecord(NamedTuple):
    """The record of an epoch. Losses are means over its batches, each of the iterate before its own
    step; `change` is that of the average."""

    lagrangian: Array
    risk: Array
    regularization: Array
    change: Array
    step: Array
    scale: Array
    alpha: Array
    effective_parameters: Array
    noise: Array
    train_loss: Array
    train_accuracy: Array


@compiled("problem")
def summary(problem: Problem, before: Params, state: Stream, mass: Array) -> StreamRecord:
    """The epoch's record, from its totals."""
    t, problem = state.totals, weighed(problem, state.weighing)
    loss = t.loss / t.mass
    penalty = regularization(problem, state.average.W)
    alpha, gamma, noise = in_records(state.weighing, loss.dtype)
    return StreamRecord(
        lagrangian=loss * mass + penalty,
        risk=loss * mass,
        regularization=penalty,
        change=relative_change(state.average, before),
        step=t.step,
        scale=state.scale,
        alpha=alpha,
        effective_parameters=gamma,
        noise=noise,
        train_loss=loss,
        train_accuracy=t.hits / t.mass,
    )


def epoch(problem: Problem, batches: Batches, state: Stream) -> tuple[Stream, StreamRecord]:
    """Every sample once, in random order, and the record of it."""
    before = trees.map(xp.copy, state.average)
    *_, state = steps(problem, batches, state)
    return state, summary(problem, before, state, np.asarray(batches.mass, state.scale.dtype))


def steps(problem: Problem, batches: Batches, state: Stream, parts: int = 1) -> Iterator[Stream]:
    """The state after each of so many equal parts of an epoch."""
    dtype = state.scale.dtype
    mass, slow = (np.asarray(v, dtype) for v in (batches.mass, batches.slow))
    nothing = [np.zeros((), dtype) for _ in Totals._fields]
    state = state._replace(totals=Totals(*batches.engine.replicate(nothing)))

    def step(state: Stream, group: Data, count: Any) -> tuple[Stream, Array]:
        return batch_steps(problem, state, group, count, slow, mass)

    return batches.stepped(step, state, parts)
