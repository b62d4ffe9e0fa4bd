"""Algorithm 1 with consecutive layers in groups that work at the same time.

At a boundary, between layer l of one group and l + 1 of the next, the upper group has a_l, the
input of its first layer. So all that couples the two is nu/2 |a_l - f(z_l)|^2. While all groups go
backward a_l rests, and then z_l goes up; while all go forward z_l rests, and then a_l goes down. In
either half no two groups move variables of one term of L_rho: their steps add up, every lemma holds
with the constants of the sweep, and nothing need be damped (docs/mathematics.md).
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from dladmm.core.data import Data
from dladmm.core.evaluate import relative, squared_change
from dladmm.core.problem import Problem
from dladmm.core.relaxed.blocks import Blocks
from dladmm.core.relaxed.lagrangian import Sums, from_sums, lagrangian_sums, lemma2_violation
from dladmm.core.relaxed.layer_messages import Message, Messages
from dladmm.core.relaxed.state import State
from dladmm.core.relaxed.sweep import Record
from dladmm.core.relaxed.updates import Phi, Step, residual
from dladmm.engine import trees
from dladmm.engine.arrays import Array, xp
from dladmm.engine.sums import squares_of_each
from dladmm.engine.walks import Folded, Samples
from dladmm.terms.activations import Activation


class Group(NamedTuple):
    """Layers first..last of a network of n_layers, from index 0."""

    first: int
    last: int
    n_layers: int

    @property
    def is_bottom(self) -> bool:
        return self.first == 0

    @property
    def is_top(self) -> bool:
        return self.last == self.n_layers - 1

    @property
    def layers(self) -> range:
        return range(self.first, self.last + 1)

    def has(self, l: int) -> bool:
        """Whether W, b, p and z of layer l are its own."""
        return self.first <= l <= self.last

    def holds(self, l: int) -> bool:
        """Whether it has z_l and a_l, its own or its neighbour's: of its own layers, and of the one
        below, whose a is its own."""
        return self.first - 1 <= l <= self.last


def balanced_groups(problem: Problem, count: int) -> tuple[Group, ...]:
    """So many groups, of which the one with the most products has as few as can be."""
    costs = [layer.positions * layer.n_weights for layer in problem.layers]
    n = len(costs)
    # For so many layers from the first, and so many groups: the least cost of the largest of them,
    # and where the groups but the last one end.
    best: dict[int, tuple[int, tuple[int, ...]]] = {
        end: (sum(costs[:end]), ()) for end in range(1, n + 1)
    }
    for groups in range(2, count + 1):
        best = {
            end: min(
                (max(best[cut][0], sum(costs[cut:end])), (*best[cut][1], cut))
                for cut in range(groups - 1, end)
            )
            for end in range(groups, n + 1)
        }
    cuts = (0, *best[n][1], n)
    return tuple(Group(first, end - 1, n) for first, end in pairwise(cuts))


def put(values: tuple[Array | None, ...], l: int, v: Array | None) -> tuple[Array | None, ...]:
    """z or a with this array at l."""
    return (*values[:l], v, *values[l + 1 :])


def without_copy_above(group: Group, state: State) -> State:
    """The state of a group without the a_l of the group above, which has moved on."""
    return state if group.is_top else state._replace(a=put(state.a, group.last, None))


class GroupBlocks(Blocks):
    """The variables of a group during one half of an iteration. Where messages are rounded, its
    boundary goes no further than the message does, and `message` is that."""

    def __init__(self, group: Group, messages: Messages, *given: object):
        super().__init__(*given)  # type: ignore[arg-type]
        self.group, self.messages = group, messages
        self.message: Message = ()

    def step_z(self, l: int) -> None:
        super().step_z(l)
        if l == self.group.last and not self.group.is_top and self.messages.rounds:
            fixed = (self.problem.activations[l], self.p[l] + self.b[l], self.a[l])
            self.z[l], self.message = rounded_z(self.messages, self.start.z[l], self.z[l], *fixed)

    def _new_a(self, l: int) -> tuple[Array, tuple[Array, ...], Step]:
        new, products, step = super()._new_a(l)
        if l != self.group.first - 1 or not self.messages.rounds:
            return new, products, step
        fixed = (self.problem.activations[l], self.z[l], self._phi(l + 1), self.nu, self.samples)
        a, p, step, self.message = rounded_a(self.messages, self.start.a[l], new, *fixed)
        return a, (p,), step


def backward_half(blocks: GroupBlocks) -> None:
    """All groups at once, from the last layer of each to its first; a of boundaries rests."""
    group = blocks.group
    for l in reversed(group.layers):
        if l < group.last:
            blocks.step_a(l)
        blocks.step_z(l)
        blocks.step_b(l)
        blocks.step_W(l)


def forward_half(blocks: GroupBlocks) -> None:
    """All groups at once, from the first layer of each to its last; z of boundaries rests."""
    group = blocks.group
    blocks.turn()
    if not group.is_bottom:
        blocks.step_a(group.first - 1)
    for l in group.layers:
        blocks.step_W(l)
        blocks.step_b(l)
        if l < group.last or group.is_top:
            blocks.step_z(l)
        if l < group.last:
            blocks.step_a(l)


def rounded_z(
    messages: Messages, old: Array, new: Array, f: Activation, m: Array, a: Array
) -> tuple[Array, Message]:
    """Each sample's z as far as its message goes, and the message; where that would raise
    |z - m|^2 + |a - f(z)|^2 above its old value, z stays."""
    message = messages.encoded(new - old)
    z = messages.taken(old, message)
    cost = lambda z: squares_of_each(z - m) + squares_of_each(a - f(z))  # noqa: E731
    message = messages.silent(message, cost(z) <= cost(old))
    return messages.taken(old, message), message


def rounded_a(
    messages: Messages,
    old: Array,
    new: Array,
    f: Activation,
    z: Array,
    above: Phi,
    nu: Array,
    samples: Samples,
) -> tuple[Array, Array, Step, Message]:
    """Each sample's a as far as its message goes, p above it, the step and the message; a stays
    where phi would not fall by nu/4 |D|^2: that is a step with tau = nu/2."""

    def cost(a: Array, p: Array) -> Array:
        r = residual(p, above.b, above.z, above.u_over_rho)
        return above.c / nu * squares_of_each(r) + squares_of_each(a - f(z))

    message = messages.encoded(new - old)
    a = messages.taken(old, message)
    gain = cost(old, above.p) - cost(a, above.layer.apply(above.W, a))
    message = messages.silent(message, gain >= squares_of_each(a - old) / 2)
    a = messages.taken(old, message)
    none = np.zeros((), np.int32)
    step = Step(samples.total((a - old) ** 2), nu / 2, none, none)
    return a, above.layer.apply(above.W, a), step, message


class Steps(NamedTuple):
    """Sums over a group's steps: the one in c_k, the squared distances of all W, b, a and z, and
    what else a record counts."""

    moved: Array
    squares: tuple[Array, ...]
    zl_iterations: Array
    trials: Array
    exhausted: Array


class Point(NamedTuple):
    """Sums over a group's layers at a point, which an iteration may go on from."""

    sums: Sums
    lemma2: Array
    change: Array
    size: Array
    zl_change: Array


def steps_of(blocks: GroupBlocks) -> Folded:
    """What a half has done: sums over its steps, and the least theta and tau."""
    steps = Steps(
        blocks.moved(),
        trees.map(xp.add, blocks.squares(blocks.backward), blocks.squares(blocks.forward)),
        blocks.zl_iterations,
        blocks.count("trials"),
        blocks.count("exhausted"),
    )
    return Folded(sum=steps, least=(blocks.least_curvature("W"), blocks.least_curvature("a")))


def point_of(problem: Problem, group: Group, data: Data, before: State, state: State) -> Point:
    """The sums at this state of a group, which began the iteration at `before`."""
    sums = lagrangian_sums(problem, data, state)
    zero = xp.zeros_like(sums.penalty)
    lemma2, zl_change = zero, zero
    if group.is_top:
        lemma2 = lemma2_violation(problem, data, state)
        zl_change = data.samples.total((state.z[-1] - before.z[-1]) ** 2)
    return Point(sums, lemma2, *squared_change(state, before), zl_change)


def recorded(steps: Steps, least: tuple[Array, Array], swept: Point, at: Point,
             rho: Array, nu: Array) -> Record:  # fmt: skip
    """The record of an iteration from the sums over all groups: at the end of its sweep, and where
    the next one goes on from.

    A boundary moves in one half only, so that all distances enter the bound of Property 3.
    """
    return Record(
        lagrangian=from_sums(at.sums, rho, nu),
        lemma2=at.lemma2,
        moved=steps.moved,
        bound=sum(map(xp.sqrt, steps.squares), xp.sqrt(swept.zl_change)),
        theta=least[0],
        tau=least[1],
        change=relative(at.change, at.size),
        zl_change=xp.sqrt(at.zl_change),
        zl_iterations=steps.zl_iterations,
        trials=steps.trials,
        exhausted=steps.exhausted,
    )
