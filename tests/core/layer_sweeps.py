"""Groups of layers on one device, exchanging by hand: the programs of a run without its devices."""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from dladmm.core.problem import Problem
from dladmm.core.relaxed.lagrangian import lagrangian
from dladmm.core.relaxed.layer_groups import Group, GroupBlocks, put, without_copy_above
from dladmm.core.relaxed.layer_messages import MESSAGES, Messages
from dladmm.core.relaxed.layer_programs import Conclusion, How, backward_keeping, forward
from dladmm.core.relaxed.state import State
from dladmm.core.relaxed.step_rules import STEP_RULES, SweepOptions
from dladmm.engine.walks import Folded


def own_data(group, data):
    x, gram = (data.x, data.gram) if group.is_bottom else (None, None)
    return data._replace(x=x, gram=gram, y=data.y if group.is_top else None)


def own_state(group, state):
    """What a group holds of a state, its neighbours' z and a at the boundaries included."""
    has, holds = group.has, group.holds
    W, b, p = (
        tuple(v if has(l) else None for l, v in enumerate(kind))
        for kind in (state.W, state.b, state.p)
    )
    z, a = (tuple(v if holds(l) else None for l, v in enumerate(k)) for k in (state.z, state.a))
    return State(W, b, z, a, p, state.u if group.is_top else None)


@dataclass
class Sweeps:
    """Iterations of groups by a rule that goes no further than a sweep does."""

    problem: Problem
    groups: tuple[Group, ...]
    data: object
    rule: str = "matrix"
    messages: Messages = MESSAGES["exact"]

    def how(self, group):
        options = SweepOptions(STEP_RULES[self.rule], "newton")
        return How(self.problem, options, self.messages, 1.0, group)

    def iterate(self, state, rho, nu):
        """The whole state after an iteration, and its record as `DLADMM.names` has it."""
        starts = [own_state(group, state) for group in self.groups]
        parts = [own_data(group, self.data) for group in self.groups]
        halves = [
            backward_keeping(self.how(group), part, one.rows, one.params, rho, nu)
            for group, part, one in zip(self.groups, parts, starts, strict=True)
        ]
        middle = [half.state for half in halves]
        for g, group in enumerate(self.groups[1:], 1):
            l, below = group.first - 1, halves[g - 1]
            z = self.received(below.state.z[l], middle[g].z[l], below.message)
            middle[g] = middle[g]._replace(z=put(middle[g].z, l, z))
        wholes = []
        for g, (group, part) in enumerate(zip(self.groups, parts, strict=True)):
            one, before = (without_copy_above(group, v) for v in (middle[g], starts[g]))
            given = (self.how(group), part, one.rows, one.params, before, halves[g].steps)
            wholes.append(forward(*given, rho, nu, ()))
        sums = sum(whole.scalars.sum for whole in wholes)
        least = np.min([whole.scalars.least for whole in wholes], axis=0)
        vector, _ = Conclusion(self.problem, 1.0)(Folded(sums, least), rho, nu)
        return self.joined([whole.swept for whole in wholes]), vector

    def received(self, sent, old, message):
        if not self.messages.rounds:
            return jnp.copy(sent)  # programs write to what they are given
        taken = self.messages.taken(old, message)
        np.testing.assert_array_equal(taken, sent, "the two sides of a boundary differ")
        return taken

    def joined(self, states):
        """The owners' variables of all groups."""
        owner = {
            l: one for group, one in zip(self.groups, states, strict=True) for l in group.layers
        }
        n = self.problem.n_layers
        W, b, z, p = (tuple(getattr(owner[l], kind)[l] for l in range(n)) for kind in "Wbzp")
        a = tuple(owner[l + 1].a[l] for l in range(n - 1))
        return State(W, b, z, a, p, states[-1].u)


def own_sweep(blocks):
    """A whole sweep of a group over all that is its own, both sides of its boundaries included."""
    group = blocks.group
    for l in reversed(group.layers):
        if l < group.last:
            blocks.step_a(l)
        blocks.step_z(l)
        blocks.step_b(l)
        blocks.step_W(l)
    if not group.is_bottom:
        blocks.step_a(group.first - 1)
    blocks.turn()
    if not group.is_bottom:
        blocks.step_a(group.first - 1)
    for l in group.layers:
        blocks.step_W(l)
        blocks.step_b(l)
        blocks.step_z(l)
        if l < group.last:
            blocks.step_a(l)
    return blocks.step_u() if group.is_top else blocks.state()


@partial(jax.jit, static_argnums=(0, 1))
def plain_jacobi(problem, groups, data, state, rho, nu):
    """An iteration without halves: every group sweeps at the same time, and sees of its neighbours
    what they had when it began. The state after it, and L_rho there."""
    how = (MESSAGES["exact"], problem, SweepOptions(STEP_RULES["matrix"], "newton"))
    swept = [
        own_sweep(GroupBlocks(group, *how, own_data(group, data), own_state(group, state), rho, nu))
        for group in groups
    ]
    new = Sweeps(problem, groups, data).joined(swept)
    return new, lagrangian(problem, data, new, rho, nu).value
