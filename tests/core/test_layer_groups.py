"""Layers in groups that work at the same time: Algorithm 1 in another order, and why that order."""

import itertools
import re

import jax.numpy as jnp
import numpy as np
import pytest
from layer_sweeps import Sweeps, own_data, own_state, plain_jacobi
from problems import RHO, biggest_difference, scattered, small, start, sweep
from test_sweep import HOW, Algorithm1, as_tuple
from tolerances import EXACT_STEP, LAGRANGIAN_RISE

from dladmm import Options, Problem
from dladmm.core.data import make_data
from dladmm.core.methods import method_for
from dladmm.core.relaxed.blocks import Blocks
from dladmm.core.relaxed.lagrangian import lagrangian
from dladmm.core.relaxed.layer_groups import Group, balanced_groups
from dladmm.core.relaxed.layer_programs import backward_keeping
from dladmm.core.relaxed.method import DLADMM
from dladmm.core.relaxed.state import State
from dladmm.core.relaxed.theory import descent_constant

SIZES = (4, 5, 6, 7, 5, 3)
RHO_NU = (np.float64(2.5), np.float64(0.7))
THREE = (Group(0, 1, 5), Group(2, 2, 5), Group(3, 4, 5))
NAMES = DLADMM(Problem.dense(SIZES), HOW).names()


class InGroups(Algorithm1):
    """One iteration in groups, one group after the other: `boundaries` are layers from 1 whose z
    and a are in two of them."""

    def __init__(self, boundaries, *given):
        super().__init__(*given)
        self.boundaries = boundaries

    def iterate(self):
        for l in range(self.L, 0, -1):
            if l < self.L and l not in self.boundaries:
                self.step_a(l)
            self.step_z(l)
            self.step_b(l)
            self.step_W(l)
        for l in range(1, self.L + 1):
            if l - 1 in self.boundaries:
                self.step_a(l - 1)
            self.step_W(l)
            self.step_b(l)
            if l not in self.boundaries:
                self.step_z(l)
                if l < self.L:
                    self.step_a(l)
        self.u = self.u + self.rho * (self.z[-1] - self.a[-1] @ self.W[-1].T - self.b[-1])


@pytest.mark.parametrize("n_in", [4, 50], ids=["with_gram", "without_gram"])
def test_an_iteration_in_groups_is_its_order_in_plain_numpy(n_in):
    problem, x, y = small(n=40, sizes=(n_in, *SIZES[1:]))
    data, state = scattered(problem, x, y)
    by_hand = InGroups({2, 3}, x, y, state, *map(float, RHO_NU))
    by_hand.iterate()
    new, vector = Sweeps(problem, THREE, data, "closed-form").iterate(state, *RHO_NU)
    expected = (*by_hand.W[1:], *by_hand.b[1:], *by_hand.z[1:], *by_hand.a[1:], by_hand.u)
    assert biggest_difference(expected, as_tuple(new)) <= EXACT_STEP
    products = [a @ W.T for a, W in zip(by_hand.a, by_hand.W[1:], strict=True)]
    assert biggest_difference(products, new.p) <= EXACT_STEP
    record = dict(zip(NAMES, np.asarray(vector), strict=True))
    for name, value in (
        ("moved", by_hand.moved),
        ("theta", min(by_hand.theta)),
        ("tau", min(by_hand.tau)),
        ("zl_change", np.linalg.norm(by_hand.z[-1] - state.z[-1])),
        ("lagrangian", lagrangian(problem, data, new, *RHO_NU).value),
    ):
        np.testing.assert_allclose(record[name], value, rtol=EXACT_STEP, err_msg=name)


def test_another_order_is_told_apart_from_that_of_groups():
    problem, x, y = small(n=40, sizes=SIZES)
    data, state = scattered(problem, x, y)
    in_order = Algorithm1(x, y, state, *map(float, RHO_NU))
    in_order.iterate()
    new, _ = Sweeps(problem, THREE, data, "closed-form").iterate(state, *RHO_NU)
    assert biggest_difference(in_order.z[1:], new.z) > 1e-3


def test_one_group_is_the_sweep_itself():
    problem, x, y = small(n=40, sizes=SIZES)
    data, state = scattered(problem, x, y)
    new, vector = Sweeps(problem, (Group(0, 4, 5),), data, "closed-form").iterate(state, *RHO_NU)
    expected, record = sweep("dladmm", problem, HOW, data, state, *RHO_NU)
    assert biggest_difference(as_tuple(expected), as_tuple(new)) <= EXACT_STEP
    assert vector[0] == pytest.approx(float(record.lagrangian.value), rel=EXACT_STEP)


def values(sweeps, state, count, rho=RHO["squared_error"], nu=1.0):
    """L_rho at the start and after each iteration, and their records."""
    penalties, names = (jnp.asarray(rho), jnp.asarray(nu)), DLADMM(sweeps.problem, HOW).names()
    found = [float(lagrangian(sweeps.problem, sweeps.data, state, *penalties).value)]
    rows = []
    for _ in range(count):
        state, vector = sweeps.iterate(state, *penalties)
        rows.append(dict(zip(names, np.asarray(vector).tolist(), strict=True)))
        found.append(rows[-1]["lagrangian"])
    return np.array(found), rows


def rises(found):
    return int((np.diff(found) > LAGRANGIAN_RISE * np.abs(found[1:])).sum())


def test_property_2_holds_in_groups_with_the_constants_of_the_sweep():
    for activation in ("relu", "tanh"):
        problem, x, y = small(n=60, sizes=SIZES, activation=activation)
        data, state = start(problem, x, y)
        for rule in ("closed-form", "matrix"):
            found, rows = values(Sweeps(problem, THREE, data, rule), state, 60)
            H = problem.loss.lipschitz
            for before, after, row in zip(found, found[1:], rows, strict=False):
                C2 = descent_constant(RHO["squared_error"], 1.0, H, row["theta"], row["tau"])
                assert before - after >= C2 * row["moved"] - LAGRANGIAN_RISE * abs(after)


def at_a_jump():
    """Two layers of one unit, and 100 samples alike, whose z_1 is about to jump over the kink of
    ReLU while a_1 is about to go the other way; W and b are at rest."""
    problem, n = Problem.dense((1, 1, 1), "relu", "squared_error"), 100
    rows = lambda v: jnp.full((n, 1), v, float)  # noqa: E731
    W, b = (jnp.zeros((1, 1)), jnp.ones((1, 1))), (jnp.asarray([-1.0]), jnp.zeros(1))
    data = make_data(problem, rows(0.0), rows(4.6), None)
    state = State(W, b, (rows(-1.0), rows(4.6)), (rows(2.42),), (rows(0.0), rows(2.42)), rows(0.0))
    return problem, data, state


def boundary_moved(problem, data, state, *order):
    """L_rho after steps of z_1 and a_1, those of one entry of `order` at the same time."""
    one = jnp.asarray(1.0)
    for both in order:
        blocks = Blocks(problem, HOW, data, state, one, one)
        moved = [Blocks(problem, HOW, data, state, one, one) for _ in both]
        for kind, own in zip(both, moved, strict=True):
            getattr(own, f"step_{kind}")(0)
            setattr(blocks, kind, getattr(own, kind))
            blocks.p = own.p if kind == "a" else blocks.p
        state = blocks.state()
    return float(lagrangian(problem, data, state, one, one).value)


def test_both_sides_of_a_boundary_at_once_raise_the_lagrangian_where_halves_do_not():
    """The control of the halves. Between convex quadratics along a chain nothing rises either way:
    it takes a z that jumps."""
    given = at_a_jump()
    before = boundary_moved(*given)
    assert boundary_moved(*given, "za") > before * (1 + 1e-3)  # plain Jacobi
    assert boundary_moved(*given, "z") < before
    assert boundary_moved(*given, "a") < before
    assert boundary_moved(*given, "z", "a") < before  # the halves


def test_without_halves_the_lagrangian_rises_where_with_them_it_never_does():
    """Plain Jacobi and the halves from one scattered state, each layer a group, with sign, whose z
    jumps again and again. Between ReLU layers plain Jacobi was never seen to raise it."""
    problem, x, y = small(n=30, sizes=(4, 5, 5, 3), activation="sign")
    data, begun = scattered(problem, x, y)
    groups = tuple(Group(l, l, 3) for l in range(3))
    penalties = (jnp.asarray(RHO["squared_error"]), jnp.asarray(1.0))
    found, state = [], begun
    for _ in range(200):
        state, value = plain_jacobi(problem, groups, data, state, *penalties)
        found.append(float(value))
    assert rises(np.array(found)) > 50
    with_halves, _ = values(Sweeps(problem, groups, data), begun, 200)
    assert rises(with_halves) == 0


def backward_text(sweeps, group, state):
    """The program of a group's backward half as JAX has it before it is compiled, without names."""
    one, part = own_state(group, state), own_data(group, sweeps.data)
    given = (part, one.rows, one.params, *map(jnp.asarray, RHO_NU))
    lowered = backward_keeping.lower(sweeps.how(group), *given).as_text()
    return re.sub(r'jax.result_info = "[^"]*"', "", lowered)


def test_groups_of_one_shape_have_one_program():
    """Its text says nothing of where in the network they are; that of another shape is another."""
    problem, x, y = small(n=20, sizes=(4, 5, 5, 5, 6, 3))
    data, state = start(problem, x, y)
    groups = tuple(Group(l, l, 5) for l in range(5))
    sweeps = Sweeps(problem, groups, data)
    texts = [backward_text(sweeps, group, state) for group in groups[1:4]]
    assert texts[0] == texts[1] != texts[2]


def test_groups_are_as_even_as_can_be():
    problem = Problem.dense((30, 7, 20, 5, 5, 16, 9))
    costs = [layer.n_weights for layer in problem.layers]
    for count in range(1, 7):
        groups = balanced_groups(problem, count)
        assert [l for group in groups for l in group.layers] == list(range(6))
        most = max(sum(costs[l] for l in group.layers) for group in groups)
        cuts = itertools.combinations(range(1, 6), count - 1)
        possible = [
            max(sum(costs[a:b]) for a, b in itertools.pairwise((0, *cut, 6))) for cut in cuts
        ]
        assert most == min(possible)
    assert max(possible) == most  # a group for each layer leaves no choice


def test_bytes_of_messages_and_of_a_run_are_counted_by_hand():
    problem = Problem.dense((4, 10, 20, 30, 5))
    methods = {
        name: method_for(problem, Options(method="dladmm", layer_devices=2, layer_messages=name))
        for name in ("exact", "bfloat16", "8bit")
    }
    assert methods["exact"].places.groups == (Group(0, 1, 4), Group(2, 3, 4))
    found = {name: method.message_bytes(4) for name, method in methods.items()}
    assert found == {"exact": 2 * 20 * 4, "bfloat16": 2 * 20 * 2, "8bit": 2 * 21}
    alone = method_for(problem, Options(method="dladmm"))
    more = methods["exact"].run_bytes(1_000, 4) - alone.run_bytes(1_000, 4)
    # The boundary twice, x, three arrays of every layer, and for each group the network once more.
    network = 4 * 10 + 10 * 20 + 20 * 30 + 30 * 5
    assert more == 4 * (1_000 * (2 * 20 + 4 + 3 * 65) + 2 * network)
