"""One algorithm, two engines: what NumPy computes at once and JAX compiles is the same run."""

from dataclasses import dataclass

import jax
import numpy as np
import pytest
from agreement import AGREED, apart, check_agreement
from layer_examples import Selected
from problems import inputs
from tolerances import ENGINES, FLOAT32_ENGINES

from dladmm import Options, Problem, solve
from dladmm.terms.activations import activations
from dladmm.terms.layers import Dense
from dladmm.terms.losses import losses
from dladmm.terms.registry import needs_jax
from dladmm.terms.regularizers import Evidence, regularizers

ROUNDED = ("quantized_relu", "float32")


def targets(loss, n=60):
    """Targets of three outputs that fit this loss; not linear in the inputs."""
    values = np.sin(inputs(n) @ np.random.default_rng(1).normal(size=(6, 3)))
    if losses.get(loss).classifies:
        return np.eye(3)[np.argmax(values, axis=1)]
    return np.round(3 + 3 * values) if loss == "poisson" else values


def run(engine, activation="tanh", loss="log_loss", regularizer="l2", layers=None, **options):
    layers = layers or (Dense((6,), 7), Dense((7,), 3))
    n = options.pop("n", 60)
    problem = Problem.of_layers(layers, activation, loss, regularizer)
    how = {"max_iter": 20, "tol": None, "dtype": "float64", "engine": engine, "seed": 4} | options
    return solve(problem, inputs(n), targets(loss, n), options=Options(**how))


def agree(dtype="float64", within=None, **terms):
    one, other = (run(engine, dtype=dtype, **terms) for engine in ("numpy", "jax"))
    check_agreement(one, other, dtype, within)
    return one


# Every registered term, among others that are smooth: where a loss is flat, a constraint binds or a
# unit is on the edge of two levels, rounding decides which way a run goes, on any engine. The start
# is one from which that does not happen within 20 iterations.
TERMS = [
    {kind: name}
    for kind, registry in (
        ("activation", activations),
        ("loss", losses),
        ("regularizer", regularizers),
    )
    for name in registry
]


# Of seven starts tried with quantized_relu in float32, rounding decided in all where XLA compiles
# quickly, and in five where it compiles as for users: its levels make steps of the loss.
CASES = [
    pytest.param(
        term,
        dtype,
        marks=[pytest.mark.optimised] if (*term.values(), dtype) == ROUNDED else [],
        id=f"{term}-{dtype}",
    )
    for term in TERMS
    for dtype in AGREED
]


@pytest.mark.parametrize(("term", "dtype"), CASES)
def test_restored_sweeps_agree(term, dtype):
    agree(dtype, **term)


@pytest.mark.slow
@pytest.mark.parametrize("term", TERMS, ids=str)
@pytest.mark.parametrize("dtype", AGREED)
def test_the_papers_sweeps_agree(term, dtype):
    agree(dtype, method="dladmm", step_rule="closed-form", **term)


MATRIX = {"method": "dladmm", "step_rule": "matrix"}


@pytest.mark.parametrize(
    "how",
    [
        {"method": "admm"},
        {"batch_size": 20},
        {"method": "dladmm"},
        {"method": "dladmm", "step_rule": "closed-form"},
        MATRIX,
        MATRIX | {"n": 3100},
        MATRIX | {"regularizer": "l1"},
    ],
    ids=str,
)
def test_the_other_methods_agree(how):
    agree(**how)


@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
def test_the_evidence_agrees(loss):
    found = agree(loss=loss, regularizer=Evidence(), activation="relu")
    assert np.isfinite(found.history["alpha"][-1])


@dataclass(frozen=True)
class SelectedAnywhere(Selected):
    """The example of a layer, written for the arrays of either engine."""

    any_arrays = True

    def expand(self, a):
        return a @ self._choice(a.dtype).T

    def collapse(self, rows):
        return rows @ self._choice(rows.dtype)

    def _choice(self, dtype):
        return np.eye(self.inputs, dtype=dtype)[list(self.seen)]


@pytest.mark.parametrize("dtype", AGREED)
def test_layers_agree(dtype):
    agree(dtype, layers=(SelectedAnywhere(6, (0, 1, 4), 7), Dense((7,), 3)))


@pytest.mark.parametrize("method", ["restored", "dladmm"])
def test_runs_of_several_blocks_of_samples_agree(method):
    agree(n=3100, method=method)


def test_a_run_that_differs_is_told_apart():
    assert apart(run("numpy"), run("numpy", seed=0)) > 1e3 * FLOAT32_ENGINES
    assert apart(run("numpy"), run("jax", regularizer="none")) > ENGINES


def test_terms_from_elsewhere_compute_with_jax():
    assert needs_jax(activations.get(jax.nn.silu))
    assert needs_jax(Selected.example())
    assert not needs_jax(SelectedAnywhere.example())
    assert not any(needs_jax(activations.get(name)) for name in activations)
