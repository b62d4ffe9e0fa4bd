"""The floor is made of exactly the products of the compiled iteration."""

import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from math import prod

import jax.numpy as jnp
import pytest

from dladmm.bench import overhead, products
from dladmm.bench.iteration import (
    VECTORS,
    bench_iteration,
    bench_rules,
    fitted_exponent,
    random_run,
)
from dladmm.bench.products import Product, floor_seconds, iteration_products, products_of
from dladmm.core.problem import Problem
from dladmm.core.relaxed.method import iterate
from dladmm.core.relaxed.step_rules import SweepOptions
from dladmm.core.relaxed.sweep import dladmm_sweep
from dladmm.network import Conv2D, Dense, MaxPool, Network, Recurrent
from dladmm.terms.losses import losses

pytestmark = pytest.mark.float32

SHAPE = r"f32\[([\d,]*)\]"


def compiled_products(n_samples, problem):
    """(m, k, n) of every dot in the compiled iteration, without the real loss's forward pass."""
    problem = replace(problem, loss=losses.get("squared_error"))
    data, state = random_run(problem, n_samples)
    penalties = (jnp.float32(1.5), jnp.float32(1.0), jnp.asarray(False))
    given = (data, state.rows, state.params, *penalties)
    options = SweepOptions(VECTORS, "newton")
    text = iterate.lower(dladmm_sweep, problem, options, *given).compile().as_text()
    found = Counter()
    shapes = {
        name: tuple(int(d) for d in dims.split(",") if d)
        for name, dims in re.findall(rf"%(\S+) = {SHAPE}", text)
    }
    for out, left, contracting in re.findall(
        rf"= {SHAPE}\S* dot\(%?(\S+?), .*?lhs_contracting_dims={{(\d)}}", text
    ):
        *m, n = (int(d) for d in out.split(","))
        m = prod(m)
        found[tuple(sorted((m, shapes[left][int(contracting)], n)))] += 1
    return found


@pytest.mark.parametrize("sizes", [(7, 11, 13, 3), (7, 11, 3), (40, 11, 13, 3)])
def test_the_floor_lists_the_products_of_the_compiled_iteration(sizes):
    n_samples = 37
    listed = Counter()
    for product in iteration_products(n_samples, sizes):
        listed[tuple(sorted((product.m, product.k, product.n)))] += product.count
    forward_pass = Counter(tuple(sorted((n_samples, m, n))) for m, n in pairwise(sizes))
    assert compiled_products(n_samples, Problem.dense(sizes)) == listed + forward_pass


CNN = Network((7, 6, 2), [Conv2D(4, 3), "relu", MaxPool(2), Conv2D(3, 2), "relu", Dense(3)])


@pytest.mark.parametrize("n_samples", [5, 37])
def test_the_floor_of_a_cnn_lists_its_products_over_patches(n_samples):
    problem = Problem.of_network(CNN)
    listed = Counter()
    for product in products_of(problem, n_samples):
        listed[tuple(sorted((product.m, product.k, product.n)))] += product.count
    forward_pass = Counter(
        tuple(sorted((n_samples * layer.positions, layer.fan_in, layer.units)))
        for layer in problem.layers
    )
    assert compiled_products(n_samples, problem) == listed + forward_pass


def test_the_products_of_recurrences_are_not_listed():
    network = Network((5, 2), [Recurrent(3), Dense(2)])
    with pytest.raises(ValueError, match="without recurrence and skips, such as lenet"):
        products_of(Problem.of_network(network), 10)


def test_a_part_of_the_patches_is_timed_for_all_of_them(monkeypatch):
    product = Product("W gradient", 4, 1000 * 9, 6, 1, at_once=10, positions=9)
    assert products._ways(product, 1000) == (1000 * 9, {100})
    monkeypatch.setattr(products, "HELD", 5 * 10 * 9 * 6)
    assert products._ways(product, 1000) == (5 * 10 * 9, {5})
    monkeypatch.setattr(products.time, "perf_counter", iter([0.0, 0.25]).__next__)
    assert floor_seconds([product], 1000, repeats=1) == {"W gradient": 0.25 * 20}


def test_the_comparison_sees_a_product_that_is_missing():
    sizes = (7, 11, 13, 3)
    listed = Counter(
        tuple(sorted((p.m, p.k, p.n)))
        for p in iteration_products(37, sizes)
        for _ in range(p.count)
    )
    assert compiled_products(37, Problem.dense(sizes)) != listed


def test_a_power_law_gives_its_exponent():
    assert fitted_exponent([1, 2, 4, 8], [3.0, 6.0, 12.0, 24.0]) == pytest.approx(1)
    assert fitted_exponent([1, 2, 4, 8], [1.0, 4.0, 16.0, 64.0]) == pytest.approx(2)


def test_bench_iteration_reports_what_it_promises():
    figures = bench_iteration(60, (5,), repeats=2, n_in=7, n_out=3)
    promised = {
        "seconds_per_iteration", "floor_seconds", "ratio", "peak_bytes", "state_bytes",
        "compile_seconds",
    }  # fmt: skip
    assert promised <= figures.keys()
    rows = 7 + 3 + 2 * (5 + 3) + 5 + 3  # x, y, z and p, a, u
    assert figures["state_bytes"] == 4 * (60 * rows + 5 * 7 + 3 * 5 + 5 + 3)


def test_bench_rules_sets_each_rule_beside_the_vectors():
    rules = bench_rules(60, (5,), repeats=1, n_in=7, n_out=3)["rules"]
    seconds = {name: run["seconds_per_iteration"] for name, run in rules.items()}
    assert list(rules) == ["closed-form", "matrix", "over-relaxed"]
    assert {name: run["over_vectors"] for name, run in rules.items()} == {
        name: each / seconds["closed-form"] for name, each in seconds.items()
    }


def test_the_overhead_is_what_does_not_grow_with_the_iterations(monkeypatch):
    clock = [0.0]

    class Fake:
        """A fit of half a second and a tenth of a second per iteration; the first takes 3 more."""

        fits = 0

        def __init__(self, *, max_iter, **_):
            self.max_iter = max_iter

        def fit(self, X, y):
            clock[0] += 0.5 + 0.1 * self.max_iter + (0 if Fake.fits else 3)
            Fake.fits += 1

    monkeypatch.setattr(overhead, "DLADMMClassifier", Fake)
    monkeypatch.setattr(overhead.time, "perf_counter", lambda: clock[0])
    (row,) = overhead.bench_overhead(2, methods=("restored",))["rows"]
    assert row["overhead_seconds"] == pytest.approx(0.5)
    assert row["seconds_per_iteration"] == pytest.approx(0.1)
    assert row["compile_seconds"] == pytest.approx(3)


@pytest.mark.parametrize("module", ["bench.products", "bench.iteration", "experiments.setup"])
def test_jax_knows_our_trees_whoever_imports_it_first(module):
    """In a process of its own: here something else has told it already."""
    code = f"import dladmm.{module}; from dladmm.engine.walks import Samples; import jax;"
    code += "print(len(jax.tree.leaves(Samples(1.0))))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stdout.strip() == "1", ran.stderr
