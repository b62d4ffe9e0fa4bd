"""Step rules and ideas for dlADMM, side by side on a validation split: docs/researchers.md.

5,000 MNIST images to train on, 5,000 others of the training images to score on, 784-100-100-10,
ReLU, rho = nu = 1e-3, no regulariser, 150 iterations, unless a trial says otherwise. The last group
is scored on the test images: settings were chosen without them. A record that is there is not made
again. Needs DLADMM_DATA or a download of MNIST.

    python benchmarks/dladmm_rules.py [--only PART_OF_A_NAME]
"""

import argparse
import json
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from dladmm import Options, Problem, solve
from dladmm.core import methods
from dladmm.core.data import make_data
from dladmm.core.evaluate import evaluate, relative_change
from dladmm.core.relaxed import matrix_steps
from dladmm.core.relaxed.blocks import Blocks
from dladmm.core.relaxed.lagrangian import lagrangian, lemma2_violation
from dladmm.core.relaxed.method import DLADMM, iterate
from dladmm.core.relaxed.schedules import CloseGap, Multiply
from dladmm.core.relaxed.state import State, refreshed, state_of
from dladmm.core.relaxed.step_rules import Matrix, SweepOptions, step_rule
from dladmm.core.relaxed.sweep import Record, dladmm_sweep
from dladmm.core.relaxed.weight_updates import add_product
from dladmm.data.datasets import load_dataset
from dladmm.engine import trees
from dladmm.engine.linalg import factored, identity, solve_factored
from dladmm.experiments.machine import describe_machine
from dladmm.io.files import write_file
from dladmm.terms.regularizers import L2

RESULTS = Path(__file__).parents[1] / "docs/results"
RECORD = RESULTS / "dladmm_rules.json"
IMAGES, ITERATIONS, SIZES = 5_000, 150, (784, 100, 100, 10)
SETTINGS = {"step_rule": "matrix", "rho": 1e-3, "nu": 1e-3}


# Sweeps of one's own: an order of blocks, perhaps with blocks that step otherwise.


def backward(blocks, last):
    for l in range(last, -1, -1):
        if l < last:
            blocks.step_a(l)
        blocks.step_z(l)
        blocks.step_b(l)
        blocks.step_W(l)


def forward(blocks, last, passes=1):
    for l in range(last + 1):
        blocks.step_W(l)
        blocks.step_b(l)
        blocks.step_z(l)
        for _ in range(passes if l < last else 0):
            blocks.step_a(l)
            if passes > 1:
                blocks.step_z(l)


def both(blocks, last, passes=1):
    """Algorithm 1, with so many passes over a and z in the forward sweep."""
    backward(blocks, last)
    blocks.turn()
    forward(blocks, last, passes)


def forward_first(blocks, last):
    blocks.turn()
    forward(blocks, last)
    blocks.now = blocks.backward
    backward(blocks, last)


def weights_last(blocks, last):
    """z and a of all layers there and back, then the weights of all layers."""
    for l in range(last, -1, -1):
        if l < last:
            blocks.step_a(l)
        blocks.step_z(l)
    for l in range(1, last + 1):
        blocks.step_a(l - 1)
        blocks.step_z(l)
    for l in range(last + 1):
        blocks.step_b(l)
        blocks.step_W(l)
        blocks.step_b(l)


def sweep_of(order, kind=Blocks):
    """A sweep in this order; its record has what this script reads."""

    def sweep(problem, options, data, state, rho, nu):
        blocks = kind(problem, options, data, state, rho, nu)
        order(blocks, problem.n_layers - 1)
        return recorded(problem, data, state, blocks.step_u(), rho, nu)

    return sweep


def recorded(problem, data, state, new, rho, nu):
    nan, none = np.full((), np.nan, new.u.dtype), np.zeros((), np.int32)
    unknown = dict.fromkeys(("moved", "bound", "theta", "tau", "zl_change"), nan)
    return new, Record(
        lagrangian=lagrangian(problem, data, new, rho, nu),
        lemma2=lemma2_violation(problem, data, new),
        change=relative_change(new, state),
        **unknown,
        **dict.fromkeys(("zl_iterations", "trials", "exhausted"), none),
    )


class Together(Blocks):
    """W and b in one step: b is taken out of phi by its minimiser, which centres the inputs."""

    def step_W(self, l):
        phi, samples = self._phi(l), self.samples
        inputs = self.a[l - 1] if l else self.data.x
        count = samples.mass(inputs)
        mean = samples.sum(phi.layer.unit_sum(inputs, samples.weights)) / count
        G, energy = matrix_steps._gradient(phi, inputs, samples)
        r = phi.p + phi.b - phi.z - (0 if phi.u_over_rho is None else phi.u_over_rho)
        r_sum = samples.sum(phi.layer.unit_sum(r, samples.weights))
        G, energy = G - jnp.outer(r_sum, mean), energy - r_sum @ r_sum / count
        K = self.data.gram if l == 0 else None
        K = matrix_steps.moments(phi.layer, inputs, samples, exactly=True) if K is None else K
        K = K - count * jnp.outer(mean, mean)
        d = matrix_steps.damping(self.options.step_rule, phi.layer, K, G, energy, count)
        D = self.direction(phi, r, G, matrix_steps._factor(K, d))
        self.W[l], self.p[l] = phi.W + D, add_product(phi, D, inputs, samples)
        self.step_b(l)

    def direction(self, phi, r, G, factor):
        return -solve_factored(factor, G.T).T


class OutputMetric(Together):
    """theta = (I + S/mean(diag S)) x (K + d I), S the residuals' moments: it majorises phi too, and
    goes less far where many residuals point the same way."""

    def direction(self, phi, r, G, factor):
        S = self.samples.sum(phi.layer.unit_gram(r, self.samples.weights))
        more = factored(S / jnp.mean(jnp.diag(S)) + identity(S))
        return solve_factored(more, super().direction(phi, r, G, factor))


def completed(problem, data, W, b, z, a):
    """The state of these blocks with p = A(W, a) and u = -grad R(z_L)."""
    inputs = (data.x, *a)
    p = tuple(layer.apply(w, v) for layer, w, v in zip(problem.layers, W, inputs, strict=True))
    return State(W, b, z, a, p, -problem.loss.gradient(z[-1], data.y))


@dataclass(frozen=True)
class Anderson(DLADMM):
    """Anderson acceleration of (W, b, z, a) from the last sweeps, where L_rho is lower."""

    memory: ClassVar[int] = 5
    points: Any = field(default_factory=lambda: deque(maxlen=Anderson.memory), compare=False)

    def advance(self, data, state, penalties, with_loss):
        def blocks(state):
            return state.W, state.b, state.z, state.a

        flat, unravel = ravel_pytree(blocks(state))
        before = np.array(flat)  # a copy: the sweep takes over the state's memory
        new, params, vector = super().advance(data, state, penalties, with_loss)
        after = np.array(ravel_pytree(blocks(new))[0])
        self.points.append((after - before, after))
        if len(self.points) < 2:
            return new, params, vector
        residuals, images = (np.stack(v) for v in zip(*self.points, strict=True))
        steps = np.diff(residuals, axis=0)
        share, *_ = np.linalg.lstsq(steps @ steps.T, steps @ residuals[-1], rcond=1e-6)
        far = completed(
            self.problem, data, *unravel(jnp.asarray(after - share @ np.diff(images, axis=0)))
        )
        if self.objective(data, far, penalties) < self.objective(data, new, penalties):
            return far, far.params, vector
        return new, params, vector


@dataclass(frozen=True)
class Batches(DLADMM):
    """Sweeps over a tenth of the images at a time, each with its own z, a and u as it left them.

    W and b are those of the batch before, so L_rho of all images may rise.
    """

    count: ClassVar[int] = 10

    def advance(self, data, state, penalties, with_loss):
        rows, params, size = state.rows, state.params, IMAGES // self.count
        for first in range(0, IMAGES, size):
            some = slice(first, first + size)
            batch = make_data(self.problem, data.x[some], data.y[some], None)
            own = trees.map(lambda v, some=some: v[some], rows)
            own = refreshed(self.problem, batch, own, params)
            given = (self.problem, self.options, batch, own, params, *penalties, with_loss)
            own, params, vector = iterate(dladmm_sweep, *given)
            rows = trees.map(lambda v, new, some=some: v.at[some].set(new), rows, own)
        new = state_of(refreshed(self.problem, data, rows, params), params)
        of_all = self.objective(data, new, penalties)  # the record is of the last batch
        return new, params, vector.at[0].set(of_all)


def method_of(sweep):
    """dlADMM with another sweep."""
    return type("Own", (DLADMM,), {"sweep": sweep})


@dataclass(frozen=True)
class Trial:
    """One row of the table; settings are those of the default where it does not name them."""

    options: dict[str, Any] = field(default_factory=dict)
    kind: type[DLADMM] = DLADMM
    seeds: tuple[int, ...] = (0,)
    l2: float | None = None  # a sample
    on_test: bool = False


def matrix(delta=None, reach=1.0, **more):
    return {"step_rule": Matrix(delta, reach), **more}


def growing(schedule, **start):
    return {"rho_schedule": schedule, "nu_schedule": schedule, **start}


VECTORS = {"step_rule": "closed-form"}
ALL = (0, 1, 2)
SCALED = {"init": "scaled"}
TRIALS = {
    # As it is.
    "matrix steps, delta = F": Trial(seeds=ALL),
    "vectors": Trial(VECTORS, seeds=ALL),
    "the default: over-relaxed, reach 2": Trial(matrix(reach=2.0), seeds=ALL),
    # Along a sweep.
    "reach 1.5": Trial(matrix(reach=1.5)),
    "reach 3": Trial(matrix(reach=3.0), seeds=ALL),
    "reach 5": Trial(matrix(reach=5.0)),
    "reach 2, init scaled": Trial(matrix(reach=2.0, **SCALED), seeds=ALL),
    "reach 2, delta = 1, init scaled": Trial(matrix(1.0, 2.0, **SCALED)),
    "reach 3, delta = 3, init scaled": Trial(matrix(3.0, 3.0, **SCALED)),
    "Anderson of 5 sweeps": Trial(kind=Anderson),
    "Anderson of 5 sweeps, delta = 3, init scaled": Trial(
        matrix(3.0, **SCALED), kind=Anderson, seeds=ALL
    ),
    "Anderson of 5 sweeps, delta = 1, init scaled": Trial(matrix(1.0, **SCALED), kind=Anderson),
    # Blocks and their order.
    "W and b together": Trial(kind=method_of(sweep_of(both, Together)), seeds=ALL),
    "W and b together, output metric": Trial(kind=method_of(sweep_of(both, OutputMetric))),
    "two passes over a and z": Trial(kind=method_of(sweep_of(partial(both, passes=2)))),
    "three passes over a and z": Trial(kind=method_of(sweep_of(partial(both, passes=3)))),
    "forward first": Trial(kind=method_of(sweep_of(forward_first))),
    "weights last": Trial(kind=method_of(sweep_of(weights_last))),
    # Batches: an iteration is a sweep over each tenth of the images.
    **{
        f"batches of 500, delta = {'F' if delta is None else f'{delta:g}'}": Trial(
            matrix(delta, engine="jax"), kind=Batches
        )
        for delta in (None, 1.0, 10.0)
    },
    # Penalties.
    "penalties from 1e-4, twofold every 20": Trial(
        growing(Multiply(1.0, 2.0, 20), rho=1e-4, nu=1e-4)
    ),
    "penalties from 1e-4, by 1.5 while the gap exceeds a tenth of the loss": Trial(
        growing(CloseGap(1.0, 1.5), rho=1e-4, nu=1e-4)
    ),
    "penalties from 1e-3, by 1.1 while the gap exceeds a tenth of the loss": Trial(
        growing(CloseGap(1.0, 1.1))
    ),
    **{f"rho = nu = {v:g}": Trial({"rho": v, "nu": v}) for v in (1e-6, 1e-4, 1e-2)},
    "rho = 0.1, nu = 1": Trial({"rho": 0.1, "nu": 1.0}),
    "rho = 1.2, nu = 1, inside the theorems": Trial({"rho": 1.2, "nu": 1.0}),
    "rho = 1.2, nu = 1, reach 2, inside the theorems": Trial(matrix(reach=2.0, rho=1.2, nu=1.0)),
    # Starts, dampings, regularisers.
    "init scaled": Trial(SCALED, seeds=ALL),
    "init paper": Trial({"init": "paper"}),
    **{f"delta = {delta:g}": Trial(matrix(delta)) for delta in (0.3, 1.0, 3.0)},
    "l2 of 1e-5 a sample": Trial(l2=1e-5),
    "vectors, rho = 0.1, nu = 1": Trial(VECTORS | {"rho": 0.1, "nu": 1.0}),
    # The test images, with what was chosen on the others.
    "test: the default": Trial(matrix(reach=2.0), seeds=ALL, on_test=True),
    "test: inside the theorems, rho = 1.2, nu = 1, reach 2": Trial(
        matrix(reach=2.0, rho=1.2, nu=1.0), seeds=ALL, on_test=True
    ),
    "test: matrix steps": Trial(seeds=ALL, on_test=True),
    "test: vectors": Trial(VECTORS, seeds=ALL, on_test=True),
    "test: Anderson of 5 sweeps, delta = 3, init scaled": Trial(
        matrix(3.0, **SCALED), kind=Anderson, seeds=ALL, on_test=True
    ),
}


def images():
    """Training images, others of the training images to choose by, and the test images."""
    data = load_dataset("mnist")
    one_hot = np.eye(10, dtype=np.float32)
    x, y = data.x_train, one_hot[data.y_train]
    held_out = {False: (x[-IMAGES:], y[-IMAGES:]), True: (data.x_test, one_hot[data.y_test])}
    return (x[:IMAGES], y[:IMAGES]), held_out


def measured(trial, train, scored, seed):
    """Loss and accuracy of the network at the end, and how often L_rho rose."""
    regularizer = "none" if trial.l2 is None else L2(trial.l2 * IMAGES)
    problem = Problem.dense(SIZES, regularizer=regularizer)
    chosen = SETTINGS | trial.options
    run = {"max_iter": ITERATIONS, "tol": None, "evaluate_every": 10, "dtype": "float32"}
    options = Options(method="trial", seed=seed, **run, **chosen)

    def build(problem, options):
        return trial.kind(problem, SweepOptions(step_rule(options.step_rule), options.zl_solver))

    methods.METHODS["trial"] = methods.Kind(build, own_options=("step_rule",))
    result = solve(problem, *train, options=options)
    network = result.params
    return {
        "seed": seed,
        "loss": round(float(evaluate(problem, network, *train).loss), 5),
        "accuracy": round(float(evaluate(problem, network, *scored).accuracy), 4),
        "rises": result.certificate.rises,
    }


def table(rows):
    lines = ["| | network's loss | accuracy | rises of L_rho |", "|---|---|---|---|"]
    for name, row in rows.items():
        runs = row["runs"]
        cells = (
            ", ".join(f"{run['loss']:.3f}" for run in runs),
            ", ".join(f"{run['accuracy']:.1%}" for run in runs),
            ", ".join(str(run["rises"]) for run in runs),
        )
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def kept_trials():
    return json.loads(RECORD.read_text())["trials"] if RECORD.exists() else {}


def main(only):
    train, held_out = images()
    for name, trial in TRIALS.items():
        if only not in name or name in kept_trials():
            continue
        runs = [measured(trial, train, held_out[trial.on_test], seed) for seed in trial.seeds]
        # Read again: another process may have added to it.
        trials = kept_trials() | {name: {"runs": runs, "machine": describe_machine()}}
        write_file(RECORD, json.dumps({"trials": trials}, indent=1))
        print(name, runs, flush=True)
    trials = kept_trials()
    kept = {name: trials[name] for name in TRIALS if name in trials}
    write_file(RESULTS / "dladmm_rules.md", table(kept) + "\n")
    print(table(kept))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="only trials whose name has this in it")
    main(parser.parse_args().only)
