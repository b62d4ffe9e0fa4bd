"""Restored sweeps: the relaxation is closed again before every step, so the true loss is minimised.

The objective is the training loss itself, with z_L the network's output:

    F(W, b) = sum_i omega_i R(z_L,i; y_i) + sum_l Omega_l(W_l).

One iteration:

1. Restore. z_l = p_l + b_l, a_l = f_l(z_l), u = -grad R(z_L) (Lemma 2): a feasible point, where
   L_rho is F. Nothing of it is kept but sums over samples: the memory is that of one block.
2. Backward sweep. The dual gives the gradient at a_{L-1}; each layer's residual target is
   r_l = f_l'(z_l) o g_l, g_l the gradient at a_l (*first-order*). Where f_l' says nothing (sign,
   step), or is not to be taken, the target comes from the paper's z update instead (*closed*).
3. W_l and b_l together, in a matrix metric: with A = [a_{l-1}, 1],

       [W b]+ = argmin_V <G, V - [W b]> + 1/(2 t) <S~ (V - [W b]) K~, V - [W b]> + Omega_l(W),
       K~ = A^T A + delta mean(diag(A^T A)) I,   S~ = (S/mean(diag(S)) + epsilon I)/(1 + epsilon),

   with G = r^T A and S = r^T r. Relatives: K-FAC, LocoProp, proximal backpropagation.
4. Safeguard. The step t is accepted only if F falls enough, else it is shortened. Below an
   activation with jumps no step is short enough to be sure of that: those layers have a step of
   their own, and where a step of all is refused they stay and the layers above go on.
"""

from typing import Any, NamedTuple

import numpy as np

from dladmm.core.data import Data, reads_x_alone
from dladmm.core.evaluate import regularization, relative_change
from dladmm.core.params import Params
from dladmm.core.problem import Problem
from dladmm.core.restored.evidence import (
    Weighing,
    first_weighing,
    in_records,
    is_asked,
    weigh,
)
from dladmm.core.restored.measure import (
    LayerSums,
    Measured,
    gradient_norm,
    measure,
    signal_to_noise,
)
from dladmm.core.restored.metric import (
    Metric,
    damped_inputs,
    damped_outputs,
    layer_gains,
    positions_of,
    prox_in_metric,
    with_quadratic,
)
from dladmm.engine.arrays import Array, xp
from dladmm.engine.linalg import solve_positive
from dladmm.engine.loops import either, repeat_while
from dladmm.terms.layers import Layer
from dladmm.terms.regularizers import Regularizer

DELTA = 3.0  # damping of the input side, relative to its mean diagonal
EPSILON = 0.1  # damping of the output side
MAX_TRIALS = 16
SUFFICIENT = 1e-4  # the share of the predicted decrease a step must bring
SHORTEST, SHORTER, LONGER = 0.1, 0.5, 4.0  # how far the step changes at once


class Restored(NamedTuple):
    """What an iteration hands to the next: the network, its step length and its measurement.

    `gains` are |r_l|^2 / |r_L|^2 of each layer at the start: how much a change at layer l changes
    the output. They make a step independent of the unit of the targets. `weighing` has the
    strengths of l2 where the run finds them by the evidence; `below` the step of the layers below
    an activation with jumps, where there are any.
    """

    params: Params
    step: Array
    gains: Array
    measured: Measured
    weighing: Weighing | None = None
    below: Array | None = None


class RestoredRecord(NamedTuple):
    """The record of one iteration. `lagrangian` is F: at a restored point L_rho is the true loss.

    `step` is the step taken, `trials` how many were measured, `accepted` whether one was taken,
    `gradient` the norm of F's smallest subgradient, `signal` how far the loss gradient exceeds its
    own sampling noise. Where the run finds the strengths of l2 by the evidence there is no signal;
    `alpha` is then the geometric mean of the layers' strengths, `effective_parameters` and `noise`
    are the gamma and sigma^2 they come from.
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
    alpha: Array
    effective_parameters: Array
    noise: Array
    train_loss: Array
    train_accuracy: Array


def weighed(problem: Problem, weighing: Weighing | None) -> Problem:
    """The problem with the strengths that the run has found; as it is where it finds none."""
    if weighing is None:
        return problem
    terms = zip(problem.regularizers, weighing.strengths, strict=True)
    return problem.with_regularizers(term.at(alpha) for term, alpha in terms)


def with_penalty(problem: Problem, measured: Measured, params: Params) -> Measured:
    """The measurement of a network, its Omega by these regularisers."""
    return measured._replace(penalty=regularization(problem, params.W))


def begin(problem: Problem, data: Data, params: Params) -> Restored:
    """The start of a run."""
    measured = measure(problem, data, params)
    squares = [xp.trace(sums.outputs) for sums in measured.layers]
    gains = layer_gains(positions_of(problem, data), squares)
    weighing = None
    if is_asked(problem):
        weighing = first_weighing(problem, data, params, measured.risk)
    measured = with_penalty(weighed(problem, weighing), measured, params)
    step = np.ones((), gains.dtype)
    below = step if layers_below_a_jump(problem) else None
    return Restored(params, step, gains, measured, weighing, below)


def reweighed(problem: Problem, data: Data, state: Restored) -> Restored:
    """The same network under the strengths that the evidence now says: another objective."""
    assert state.weighing is not None
    new = weigh(problem, data, state.params, state.measured.risk, state.weighing)
    measured = with_penalty(weighed(problem, new), state.measured, state.params)
    return state._replace(measured=measured, weighing=new)


def metric(sums: LayerSums, gradient: Array, gain: Array) -> Metric:
    """The matrix metric of a layer's sums, and `gradient` turned into a direction by it."""
    inputs = damped_inputs(sums.inputs, DELTA)
    outputs = damped_outputs(sums.outputs, EPSILON, gain)
    solved = solve_positive(inputs, gradient.T).T
    direction = -solve_positive(outputs, solved)
    return Metric(inputs, outputs, direction, (gradient * direction).sum())


def metrics_of(problem: Problem, state: Restored) -> list[Metric]:
    """The metric of every layer, and the direction in it."""
    blocks = zip(matrices(problem, state.params), state.measured.layers, state.gains, strict=True)
    return [
        metric(sums, with_quadratic(layer, term, sums.gradient, V), gain)
        for (layer, term, V), sums, gain in blocks
    ]


def layers_below_a_jump(problem: Problem) -> int:
    """How many layers, from the first one, have an activation with jumps above them: F jumps with
    them, and no step of theirs is short enough to be sure of a decrease."""
    return max((l for l, f in enumerate(problem.activations, 1) if not f.continuous), default=0)


def proposal(
    problem: Problem, state: Restored, metrics: list[Metric], step: Array, below: Array | None
) -> Any:
    """The network a step proposes, and the decrease of F its linear model promises; `below` is the
    step of the layers below a jump."""
    networks, n_below = [], layers_below_a_jump(problem)
    promised = np.zeros((), step.dtype)
    blocks = zip(matrices(problem, state.params), metrics, state.measured.layers, strict=True)
    for l, ((layer, term, V), m, sums) in enumerate(blocks):
        t = step if below is None or l >= n_below else below
        if term.quadratic is None:
            new = prox_in_metric(layer, term, V, sums.gradient, m, t)
            weights, changed = layer.from_matrix(V)[0], layer.from_matrix(new)[0]
            promised = promised + term.value(weights) - term.value(changed)
            promised = promised - xp.sum(sums.gradient * (new - V))
        else:
            new = V + t * m.direction
            promised = promised - t * m.slope
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
    return xp.exp2(xp.rint(2 * xp.log2(factor)) / 2)


def between(v: Array, least: float, most: float) -> Array:
    """v, clipped; for a single number NumPy's `clip` takes twice as long."""
    return xp.minimum(xp.maximum(v, least), most)


def accepts(rise: Array, promised: Array) -> Array:
    """The safeguard: F falls, and by a share of what was promised."""
    return (rise < 0) & (rise <= -SUFFICIENT * promised)


def restored_sweep(
    problem: Problem, data: Data, state: Restored
) -> tuple[Restored, RestoredRecord]:
    """One step for all layers at once, shortened until F falls enough; else the state stays.

    Layers below a jump move in the first trial only, twice as far as they last did, or half as far
    where F then did not fall.
    """
    before, asked, problem = state.measured, problem, weighed(problem, state.weighing)
    metrics = metrics_of(problem, state)

    def unfinished(carry: Any) -> Array:
        trials, *_, accepted = carry
        return (trials < MAX_TRIALS) & ~accepted

    def attempt(carry: Any) -> Any:
        trials, _, t, below, _, _ = carry
        params, promised = proposal(problem, state, metrics, t, below)
        known = before.layers[0].inputs if reads_x_alone(problem) else None
        measured = measure(asked, data, params, known)
        measured = with_penalty(problem, measured, params)
        rise = measured.objective - before.objective
        accepted = accepts(rise, promised)
        # The parabola through F, its promised slope and this trial: where it is lowest.
        bend = rise + promised
        lowest = xp.where(bend > 0, promised / (2 * xp.where(bend > 0, bend, 1)), LONGER)
        shorter = between(xp.where(xp.isfinite(rise), lowest, 0), SHORTEST, SHORTER)
        longer = between(lowest, SHORTER, LONGER)
        following = t * on_grid(xp.where(accepted, longer, shorter))
        if below is not None:  # the first trial moves all layers, the others those above a jump
            following = xp.where(accepted | (below == 0), following, t)
            below = xp.where(accepted, below, 0)
        return trials + 1, t, following, below, (params, measured), accepted

    nothing, no = np.zeros((), np.int32), np.zeros((), bool)
    start = (nothing, state.step, state.step, state.below, (state.params, before), no)
    trials, taken, following, below, tried, accepted = repeat_while(unfinished, attempt, start)
    if below is not None and state.below is not None:
        below = xp.where(below > 0, 2 * below, state.below / 2)
    params, measured = either(accepted, tried, (state.params, before))
    count, nothing = data.samples.mass(data.x), np.full((), np.nan, state.step.dtype)
    alpha, gamma, noise = in_records(state.weighing, state.step.dtype)
    record = RestoredRecord(
        lagrangian=measured.objective,
        risk=measured.risk,
        regularization=measured.penalty,
        change=relative_change(params, state.params),
        step=xp.where(accepted, taken, 0),
        trials=trials,
        accepted=accepted,
        gradient=gradient_norm(problem, params, measured),
        signal=signal_to_noise(measured, data) if state.weighing is None else nothing,
        alpha=alpha,
        effective_parameters=gamma,
        noise=noise,
        train_loss=measured.risk / count,
        train_accuracy=measured.hits / count,
    )
    return Restored(params, following, state.gains, measured, state.weighing, below), record
