"""Restored sweeps: the relaxation is closed again before every step, so the true loss is minimised.

The objective is the training loss itself, with z_L the network's output:

    F(W, b) = sum_i omega_i R(z_L,i; y_i) + sum_l Omega_l(W_l).

One iteration:

1. Restore. z_l = p_l + b_l, a_l = f_l(z_l), u = -grad R(z_L) (Lemma 2): a feasible point, where
   L_rho is F. Nothing of it is kept but sums over samples: the memory is that of one block.
2. Backward sweep. The dual gives the gradient at a_{L-1}; each layer's residual target is
   r_l = f_l'(z_l) o g_l, g_l the gradient at a_l (*first-order*). Where f_l' says nothing (sign,
   step) the target comes from the paper's z update instead (*closed*).
3. W_l and b_l together, in a matrix metric: with A = [a_{l-1}, 1],

       [W b]+ = argmin_V <G, V - [W b]> + 1/(2 t) <S~ (V - [W b]) K~, V - [W b]> + Omega_l(W),
       K~ = A^T A + delta mean(diag(A^T A)) I,   S~ = (S/mean(diag(S)) + epsilon I)/(1 + epsilon),

   with G = r^T A and S = r^T r. Relatives: K-FAC, LocoProp, proximal backpropagation.
4. Safeguard. The step t is accepted only if F falls enough, else it is shortened.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dladmm.core.data import Data
from dladmm.core.engine.linalg import factored, solve_factored
from dladmm.core.engine.loops import repeat_while
from dladmm.core.engine.walks import Folded
from dladmm.core.evaluate import hits, regularization, relative_change
from dladmm.core.params import Params
from dladmm.core.problem import Problem
from dladmm.core.restored.metric import (
    Metric,
    damped_inputs,
    damped_outputs,
    layer_gains,
    prox_in_metric,
    with_quadratic,
)
from dladmm.terms.activations import Activation
from dladmm.terms.layers import Layer
from dladmm.terms.regularizers import Regularizer
from dladmm.terms.sums import mass, total

DELTA = 3.0  # damping of the input side, relative to its mean diagonal
EPSILON = 0.1  # damping of the output side
MAX_TRIALS = 16
SUFFICIENT = 1e-4  # the share of the predicted decrease a step must bring
SHORTEST, SHORTER, LONGER = 0.1, 0.5, 4.0  # how far the step changes at once
SAMPLES_PER_UNIT = 8  # what the metric's second moments are estimated from


class LayerSums(NamedTuple):
    """Sums over samples that a layer's step needs.

    gradient: r^T [a, 1], the gradient in [W b] of the loss. inputs, outputs: the second moments
    [a, 1]^T [a, 1] and r^T r. squares: the sum of every sample's squared gradient.
    """

    gradient: Array
    inputs: Array
    outputs: Array
    squares: Array


class Measured(NamedTuple):
    """The network on the data: loss sum, Omega, weight of the rightly classified, layer sums."""

    risk: Array
    penalty: Array
    hits: Array
    layers: tuple[LayerSums, ...]

    @property
    def objective(self) -> Array:
        """F, the sum over samples and the regularisers."""
        return self.risk + self.penalty


class Restored(NamedTuple):
    """What an iteration hands to the next: the network, its step length and its measurement.

    `gains` are |r_l|^2 / |r_L|^2 of each layer at the start: how much a change at layer l changes
    the output. They make a step independent of the unit of the targets.
    """

    params: Params
    step: Array
    gains: Array
    measured: Measured


class RestoredRecord(NamedTuple):
    """The record of one iteration. `lagrangian` is F: at a restored point L_rho is the true loss.

    `step` is the step taken, `trials` how many were measured, `accepted` whether one was taken,
    `gradient` the norm of F's smallest subgradient, `signal` how far the loss gradient exceeds its
    own sampling noise.
    """

    lagrangian: Array
    risk: Array
    regularization: Array
    change: Array
    step: Array
    trials: Array
    accepted: Array
    gradient: Array
    signal: Array
    train_loss: Array
    train_accuracy: Array


def residual_target(f: Activation, z: Array, g: Array) -> Array:
    """The residual target r of a layer with pre-activations z from the gradient g at a = f(z).

    First-order: f'(z) o g. Closed, for a discontinuous f: z - z+ with z+ the paper's update
    towards a - g/nu, where nu is the root mean square of the sample's g; r is scaled back by nu.
    """
    if f.continuous:
        return f.slopes(z)[0] * g
    tiny = np.finfo(z.dtype).tiny
    nu = jnp.sqrt(jnp.mean(g * g, axis=tuple(range(1, g.ndim)), keepdims=True))
    target = f(z) - g / jnp.maximum(nu, tiny)
    return nu * (z - f.argmin_z(z, target))


class Point(NamedTuple):
    """A restored point: the inputs a_{l-1} of every layer, its residual targets r_l, and z_L."""

    inputs: tuple[Array, ...]
    targets: tuple[Array, ...]
    output: Array


def restore(problem: Problem, params: Params, x: Array, y: Array) -> Point:
    """The forward pass, and the backward sweep from u = -grad R(z_L)."""
    last = problem.n_layers - 1
    inputs, z = [x], []
    for l, layer in enumerate(problem.layers):
        z.append(layer.apply(params.W[l], inputs[l]) + params.b[l])
        if l < last:
            inputs.append(problem.activations[l](z[l]))
    targets = [problem.loss.gradient(z[last], y)]
    for l in range(last, 0, -1):
        g = problem.layers[l].adjoint_a(params.W[l], targets[-1])
        targets.append(residual_target(problem.activations[l - 1], z[l - 1], g))
    return Point(tuple(inputs), tuple(targets[::-1]), z[last])


def measure(problem: Problem, data: Data, params: Params) -> Measured:
    """The restored point of every block of samples, and every sum over it that a step needs."""
    rows, samples = data.x.shape[0], data.samples
    every = probe_every(problem, samples.count or rows)
    places = samples.first_row(rows) + jnp.arange(rows)

    def body(weights: Array | None, _: Any, read: Any) -> tuple[Any, Folded]:
        x, y, places = read
        point = restore(problem, params, x, y)
        chosen, few = probe(places, weights, every, x.dtype)
        sums = []
        for layer, a, r in zip(problem.layers, point.inputs, point.targets, strict=True):
            a_few, r_few = (a, r) if chosen is None else (a[chosen], r[chosen])
            sums.append(
                LayerSums(
                    layer.gradient_matrix(r, a, weights),
                    layer.gram_with_bias(a_few, few),
                    layer.unit_gram(r_few, few),
                    layer.squared_gradients(r_few, a_few, few),
                )
            )
        right = total(hits(problem, point.output, y), weights)
        risk = total(problem.loss.value(point.output, y), weights)
        return (), Folded(sum=(risk, right, mass(len(x), few, risk.dtype), sums))

    risk, right, probed, sums = samples.walk(body, (), (data.x, data.y, places))[1].sum
    # Moments of a part of the samples stand for those of all.
    share = samples.mass(data.x) / jnp.maximum(probed, 1e-30)
    layers = tuple(
        LayerSums(s.gradient, share * s.inputs, share * s.outputs, share * s.squares) for s in sums
    )
    return Measured(risk, regularization(problem, params.W), right, layers)


def probe_every(problem: Problem, n_samples: int) -> int:
    """Second moments are estimated from every k-th sample, this k: from all, unless N >> n."""
    widest = max(max(layer.fan_in, layer.units) for layer in problem.layers)
    return max(1, n_samples // (SAMPLES_PER_UNIT * widest))


def probe(
    places: Array, weights: Array | None, every: int, dtype: Any
) -> tuple[Array | None, Array | None]:
    """Rows of a block whose place among all samples is a multiple of `every`; their weights.

    The choice depends on neither blocks nor devices. A block may hold one row less than the next:
    a row beyond its end has weight zero. None where every row is taken.
    """
    if every == 1:
        return None, weights
    rows = places.shape[0]
    chosen = -places[0] % every + every * jnp.arange(-(-rows // every))
    inside = chosen < rows
    chosen = jnp.minimum(chosen, rows - 1)
    few = inside.astype(dtype)
    return chosen, few if weights is None else few * weights[chosen]


def begin(problem: Problem, data: Data, params: Params) -> Restored:
    """The start of a run."""
    measured = measure(problem, data, params)
    gains = layer_gains([sums.outputs for sums in measured.layers])
    return Restored(params, jnp.ones((), gains.dtype), gains, measured)


def metric(sums: LayerSums, gradient: Array, gain: Array) -> Metric:
    """The matrix metric of a layer's sums, and `gradient` turned into a direction by it."""
    inputs = damped_inputs(sums.inputs, DELTA)
    outputs = damped_outputs(sums.outputs, EPSILON, gain)
    solved = solve_factored(factored(inputs), gradient.T).T
    return Metric(inputs, outputs, -solve_factored(factored(outputs), solved))


def proposal(problem: Problem, state: Restored, metrics: list[Metric], t: Array) -> Any:
    """The network a step t proposes, and the decrease of F its linear model promises."""
    networks = []
    promised = jnp.zeros((), t.dtype)
    blocks = zip(matrices(problem, state.params), metrics, state.measured.layers, strict=True)
    for (layer, term, V), m, sums in blocks:
        if term.quadratic is None:
            new = prox_in_metric(layer, term, V, sums.gradient, m, t)
            weights, changed = layer.from_matrix(V)[0], layer.from_matrix(new)[0]
            promised += term.value(weights) - term.value(changed)
            promised -= jnp.sum(sums.gradient * (new - V))
        else:
            new = V + t * m.direction
            promised -= t * jnp.sum(with_quadratic(layer, term, sums.gradient, V) * m.direction)
        networks.append(layer.from_matrix(new))
    W, b = zip(*networks, strict=True)
    return Params(W, b), promised


def matrices(problem: Problem, params: Params) -> list[tuple[Layer, Regularizer, Array]]:
    """Each layer with its regulariser and its [W b]."""
    blocks = zip(problem.layers, problem.regularizers, params.W, params.b, strict=True)
    return [(layer, term, layer.to_matrix(W, b)) for layer, term, W, b in blocks]


def on_grid(factor: Array) -> Array:
    """The nearest power of 2^(1/2). Rounding in F, which depends on the devices, then almost never
    changes a step; else it would grow from step to step until runs differ."""
    return jnp.exp2(jnp.round(2 * jnp.log2(factor)) / 2)


def accepts(rise: Array, promised: Array) -> Array:
    """The safeguard: F falls, and by a share of what was promised."""
    return (rise < 0) & (rise <= -SUFFICIENT * promised)


def restored_sweep(
    problem: Problem, data: Data, state: Restored
) -> tuple[Restored, RestoredRecord]:
    """One step for all layers at once, shortened until F falls enough; else the state stays."""
    before = state.measured
    metrics = [
        metric(sums, with_quadratic(layer, term, sums.gradient, V), gain)
        for (layer, term, V), sums, gain in zip(
            matrices(problem, state.params), before.layers, state.gains, strict=True
        )
    ]

    def unfinished(carry: Any) -> Array:
        trials, _, _, _, accepted = carry
        return (trials < MAX_TRIALS) & ~accepted

    def attempt(carry: Any) -> Any:
        trials, _, t, _, _ = carry
        params, promised = proposal(problem, state, metrics, t)
        measured = measure(problem, data, params)
        rise = measured.objective - before.objective
        accepted = accepts(rise, promised)
        # The parabola through F, its promised slope and this trial: where it is lowest.
        bend = rise + promised
        lowest = jnp.where(bend > 0, promised / (2 * jnp.where(bend > 0, bend, 1)), LONGER)
        shorter = jnp.clip(jnp.where(jnp.isfinite(rise), lowest, 0), SHORTEST, SHORTER)
        longer = jnp.clip(lowest, SHORTER, LONGER)
        following = t * on_grid(jnp.where(accepted, longer, shorter))
        return trials + 1, t, following, (params, measured), accepted

    nothing = jnp.zeros((), jnp.int32)
    start = (nothing, state.step, state.step, (state.params, before), jnp.zeros((), bool))
    trials, taken, following, tried, accepted = repeat_while(unfinished, attempt, start)
    params, measured = jax.tree.map(
        lambda new, old: jnp.where(accepted, new, old), tried, (state.params, before)
    )
    count = data.samples.mass(data.x)
    record = RestoredRecord(
        lagrangian=measured.objective,
        risk=measured.risk,
        regularization=measured.penalty,
        change=relative_change(params, state.params),
        step=jnp.where(accepted, taken, 0),
        trials=trials,
        accepted=accepted,
        gradient=gradient_norm(problem, params, measured),
        signal=signal_to_noise(measured, data),
        train_loss=measured.risk / count,
        train_accuracy=measured.hits / count,
    )
    return Restored(params, following, state.gains, measured), record


def gradient_norm(problem: Problem, params: Params, measured: Measured) -> Array:
    """The norm of F's smallest subgradient in (W, b)."""
    square = jnp.zeros((), measured.risk.dtype)
    blocks = zip(problem.layers, problem.regularizers, params.W, measured.layers, strict=True)
    for layer, term, W, sums in blocks:
        G, g = layer.from_matrix(sums.gradient)
        square += jnp.sum(term.subgradient(W, G) ** 2)
        square += jnp.sum(g**2)
    return jnp.sqrt(square)


def signal_to_noise(measured: Measured, data: Data) -> Array:
    """The mean over all weights of g^2/(v/n): g the mean gradient, v its variance over n samples.

    About 1 where the gradient is what n random samples give by chance: the evidence-based criterion
    of Mahsereci et al. (2017), which needs no held-out data. n is the sum of the weights, so that a
    weight of 2 is a row given twice, but at least their effective number, so that a common factor
    below 1 is not taken for fewer samples.
    """
    count = n = data.samples.mass(data.x)
    if data.weights is not None:
        n = jnp.maximum(count, count**2 / data.samples.sum(jnp.sum(data.weights**2)))
    ratio = known = jnp.zeros((), measured.risk.dtype)
    for sums in measured.layers:
        g, square = sums.gradient / count, sums.squares / count
        varies = square > 0  # a weight that no sample touches says nothing
        variance = jnp.maximum(square - g**2, np.finfo(g.dtype).eps * square)
        ratio += jnp.sum(jnp.where(varies, n * g**2 / jnp.where(varies, variance, 1), 0))
        known += jnp.sum(varies)
    return ratio / jnp.maximum(known, 1)
