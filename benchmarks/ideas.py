"""Ideas for restored sweeps, each tried over three seeds, as a Markdown table.

Iterations to a training loss, in brackets the passes over the data they took, then the validation
accuracy there. Every idea keeps the safeguard: a point is taken only where F is lower. Needs
DLADMM_DATA or a download of MNIST and Fashion-MNIST.
"""

import statistics
from collections import deque

import jax
import jax.numpy as jnp
import numpy as np
from ablations import SEEDS, TARGETS, changed, split
from jax.flatten_util import ravel_pytree

from dladmm import Problem
from dladmm.core.evaluate import evaluate
from dladmm.core.initial import params_for_data
from dladmm.core.method import Start
from dladmm.core.restored import full_batch as restored
from dladmm.core.restored.measure import measure
from dladmm.core.restored.method import FullBatch, iterate_restored
from dladmm.core.restored.metric import (
    Metric,
    damped_inputs,
    damped_outputs,
    layer_gains,
    positions_of,
)
from dladmm.experiments.machine import describe_machine

MAX_ITER = 60
TRIALS = restored.RestoredRecord._fields.index("trials")
measured_at = jax.jit(measure, static_argnames="problem")


def plain(problem, data):
    """Restored sweeps as they are."""

    def advance(state):
        state, _, record = iterate_restored(problem, data, jax.tree.map(jnp.copy, state))
        return state, int(record[TRIALS])

    return advance


def moved_to(problem, data, state, params):
    """The state at `params` if F is lower there."""
    measured = measured_at(problem, data, params)
    if float(measured.objective) < float(state.measured.objective):
        return state._replace(params=params, measured=measured)
    return state


def over_relaxed(problem, data):
    """A step of 1.5 times the accepted one where F is lower still."""
    sweep = plain(problem, data)

    def advance(state):
        new, passes = sweep(state)
        ahead = jax.tree.map(lambda n, o: n + 0.5 * (n - o), new.params, state.params)
        return moved_to(problem, data, new, ahead), passes + 1

    return advance


def anderson(problem, data, memory=5):
    """Anderson acceleration of (W, b) from the last sweeps, where F is lower than the sweep's."""
    sweep = plain(problem, data)
    points, images = deque(maxlen=memory), deque(maxlen=memory)

    def advance(state):
        before, unravel = ravel_pytree(state.params)
        new, passes = sweep(state)
        points.append(np.asarray(before, np.float64))
        images.append(np.asarray(ravel_pytree(new.params)[0], np.float64))
        if len(points) < 2:
            return new, passes
        residuals = np.stack(images) - np.stack(points)
        differences = np.diff(residuals, axis=0).T
        share, *_ = np.linalg.lstsq(differences, residuals[-1], rcond=1e-8)
        mixed = images[-1] - np.diff(np.stack(images), axis=0).T @ share
        params = unravel(jnp.asarray(mixed, before.dtype))
        return moved_to(problem, data, new, params), passes + 1

    return advance


def balanced(problem, data):
    """Residual balancing: each layer's gain from its residual targets of now, not of the start."""
    sweep = plain(problem, data)

    def advance(state):
        squares = [jnp.trace(sums.outputs) for sums in state.measured.layers]
        gains = layer_gains(positions_of(problem, data), squares)
        return sweep(state._replace(gains=gains))

    return advance


def damping(values, every):
    """Penalties that change: the damping of the inputs takes these values, each for a while."""

    def idea(problem, data):
        sweep, count = plain(problem, data), [0]

        def advance(state):
            value = values[min(count[0] // every, len(values) - 1)]
            count[0] += 1
            if value != restored.DELTA:
                restored.DELTA = value
                jax.clear_caches()
            return sweep(state)

        return advance

    return idea


def conjugate_gradients(steps):
    """CG on K~ in place of its Cholesky factor."""

    def direction(sums, gradient, gain):
        inputs = damped_inputs(sums.inputs, restored.DELTA)
        outputs = damped_outputs(sums.outputs, restored.EPSILON, gain)
        solved = jax.scipy.sparse.linalg.cg(lambda v: inputs @ v, gradient.T, maxiter=steps)[0].T
        factor = jax.scipy.linalg.cho_factor(outputs)
        found = -jax.scipy.linalg.cho_solve(factor, solved)
        return Metric(inputs, outputs, found, (gradient * found).sum())

    return direction


IDEAS = {
    "as it is": (plain, {}),
    "over-relaxation 1.5": (over_relaxed, {}),
    "Anderson, memory 5": (anderson, {}),
    "residual balancing every iteration": (balanced, {}),
    "growing damping: 1, 3, 10, each 5 iterations": (damping((1.0, 3.0, 10.0), 5), {"DELTA": 1.0}),
    "falling damping: 10, 3, 1, each 5 iterations": (damping((10.0, 3.0, 1.0), 5), {"DELTA": 10.0}),
    "CG, 3 steps": (plain, {"metric": conjugate_gradients(3)}),
    "CG, 10 steps": (plain, {"metric": conjugate_gradients(10)}),
}


def run(idea, name):
    """For each target: iterations, passes and validation accuracy, over the seeds."""
    x, y, *held_out = split(name, 5_000)
    problem = Problem.dense((784, 100, 100, 10))
    method = FullBatch(problem)
    data = method.prepare((x, y, None))
    reached = {target: [] for target in TARGETS}
    for seed in SEEDS:
        params = params_for_data(problem, "scaled", seed, (x, y, None))
        state, advance, passes = (
            method.begin(data, params, Start()),
            idea(problem, data),
            0,
        )
        for k in range(1, MAX_ITER + 1):
            state, more = advance(state)
            passes += more
            loss = float(state.measured.risk) / len(x)
            for target in TARGETS:
                if loss <= target and len(reached[target]) <= seed:
                    accuracy = float(evaluate(problem, state.params, *held_out).accuracy)
                    reached[target].append((k, passes, accuracy))
            if all(len(hits) > seed for hits in reached.values()):
                break
    return [cell(hits) for hits in reached.values()]


def cell(hits):
    if len(hits) < len(SEEDS):
        return "never"
    iterations, passes, accuracies = zip(*hits, strict=True)
    middle = statistics.median(iterations), statistics.median(passes)
    return f"{middle[0]} [{middle[1]}] {statistics.mean(accuracies):.2%}"


if __name__ == "__main__":
    columns = [f"{name} to {t:g}" for name in ("MNIST", "Fashion") for t in TARGETS]
    print("| | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for label, (idea, settings) in IDEAS.items():
        with changed(restored, settings | {"DELTA": settings.get("DELTA", restored.DELTA)}):
            cells = [c for name in ("mnist", "fashion-mnist") for c in run(idea, name)]
        print(f"| {label} | " + " | ".join(cells) + " |", flush=True)
    print(describe_machine())
