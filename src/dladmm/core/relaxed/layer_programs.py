"""What a group of layers computes in an iteration, as programs for its own devices, and what all
devices conclude from the scalars of all groups."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dladmm.core.data import DATA, Data
from dladmm.core.evaluate import Evaluation
from dladmm.core.method import stacked
from dladmm.core.params import Params
from dladmm.core.problem import Problem
from dladmm.core.relaxed.lagrangian import Sums
from dladmm.core.relaxed.layer_groups import (
    Group,
    GroupBlocks,
    Point,
    Steps,
    backward_half,
    forward_half,
    point_of,
    put,
    recorded,
    steps_of,
)
from dladmm.core.relaxed.layer_messages import Message, Messages
from dladmm.core.relaxed.over_relaxation import ahead_of, along, is_lower
from dladmm.core.relaxed.state import STATE, Rows, State, state_of
from dladmm.core.relaxed.step_rules import SweepOptions
from dladmm.engine import trees
from dladmm.engine.arrays import Array, xp
from dladmm.engine.devices import EVERYWHERE, ROWS, spread
from dladmm.engine.programs import compiled
from dladmm.engine.walks import Folded


class How(NamedTuple):
    """What a group's programs are compiled for: its layers, and how they and messages are made."""

    problem: Problem
    options: SweepOptions
    messages: Messages
    reach: float
    group: Group

    def blocks(self, data: Data, state: State, rho: Array, nu: Array) -> GroupBlocks:
        given = (self.problem, self.options, data, state, rho, nu)
        return GroupBlocks(self.group, self.messages, *given)


class Half(NamedTuple):
    """What a group's backward half leaves: its state, z_L before it, its message and its steps."""

    state: State
    z_last: Array | None
    message: Message
    steps: Folded


class Whole(NamedTuple):
    """What its forward half leaves: its state, the one further along where a rule asks for it, its
    message, and the scalars of the iteration."""

    swept: State
    ahead: State | None
    message: Message
    scalars: Folded


def _backward(how: How, data: Data, rows: Rows, params: Params, rho: Array, nu: Array) -> Half:
    """The backward half of an iteration."""

    def own(data: Data, rows: Rows, params: Params, rho: Array, nu: Array) -> Half:
        start = state_of(rows, params)
        blocks = how.blocks(data, start, rho, nu)
        backward_half(blocks)
        return Half(blocks.state(), start.z[-1], blocks.message, steps_of(blocks))

    into = (DATA, ROWS, EVERYWHERE, EVERYWHERE, EVERYWHERE)
    out = Half(STATE, ROWS, ROWS, EVERYWHERE)  # type: ignore[arg-type]
    return spread(data.samples, own, into, out)(data, rows, params, rho, nu)


# Where a rule goes further along a step, the point before it is still needed.
backward = compiled("how", donate="rows", keep_unused=True)(_backward)
backward_keeping = compiled("how")(_backward)


@compiled("how", donate="rows", keep_unused=True)
def forward(
    how: How, data: Data, rows: Rows, params: Params, before: State, steps: Folded, rho: Array,
    nu: Array, after: Any,
) -> Whole:  # fmt: skip
    """The forward half, which ends the iteration that began at `before` and has made `steps`; it
    waits for `after`, so that exchanges keep their order."""
    problem, group = how.problem, how.group

    def own(
        data: Data, rows: Rows, params: Params, before: State, steps: Folded, *penalties: Array
    ) -> Whole:
        blocks = how.blocks(data, state_of(rows, params), *penalties)
        forward_half(blocks)
        swept = blocks.step_u() if group.is_top else blocks.state()
        states, points = [swept], [point_of(problem, group, data, before, swept)]
        if how.reach > 1:
            states.append(ahead_of(problem, how.reach, data, before, swept))
            points.append(point_of(problem, group, data, before, states[1]))
        total, dtype = steps.joined(steps_of(blocks)), penalties[0].dtype
        scalars = Folded(stacked((total.sum, points), dtype), stacked(total.least, dtype))
        return Whole(swept, states[1] if how.reach > 1 else None, blocks.message, scalars)

    into = (DATA, ROWS, EVERYWHERE, STATE, EVERYWHERE, EVERYWHERE, EVERYWHERE)
    further = STATE if how.reach > 1 else None
    out = Whole(STATE, further, ROWS, EVERYWHERE)  # type: ignore[arg-type]
    return spread(data.samples, own, into, out)(data, rows, params, before, steps, rho, nu)


@compiled("reach", "above", donate="ahead")
def settled(
    reach: float, above: int, further: Array, ahead: State, swept: State, copies: Any
) -> State:
    """The state a group goes on from, further along or not; `copies` are a_l of the group above,
    l = above, before the iteration and after its sweep, or None."""
    choose = partial(xp.where, further)
    state: State = trees.map(choose, ahead, swept)
    if copies is None:
        return state
    copy = choose(along(reach, *copies), copies[1])
    return state._replace(a=put(state.a, above, copy))


@dataclass(frozen=True)
class Conclusion:
    """From the scalars of all groups: the record of an iteration, and whether to go further."""

    problem: Problem
    reach: float

    def __call__(self, scalars: Folded, rho: Array, nu: Array) -> tuple[Array, Array]:
        steps, points = _unstacked(scalars.sum, self._like())
        swept, at, further = points[0], points[0], np.zeros((), bool)
        if self.reach > 1:
            values = [recorded(steps, scalars.least, swept, p, rho, nu) for p in points]
            further = is_lower(values[1].lagrangian, values[0].lagrangian, rho, nu)
            at = trees.map(partial(xp.where, further), points[1], points[0])
        record = recorded(steps, scalars.least, swept, at, rho, nu)
        nan = xp.full_like(rho, np.nan)
        return stacked((record, Evaluation(nan, nan)), rho.dtype), further

    def _like(self) -> Any:
        hidden = (0.0,) * (self.problem.n_layers - 1)
        point = Point(Sums(0.0, 0.0, 0.0, 0.0, hidden, hidden), 0.0, 0.0, 0.0, 0.0)
        points = [point] * (2 if self.reach > 1 else 1)
        return Steps(0.0, (0.0,) * 4, 0.0, 0.0, 0.0), points


def _unstacked(vector: Array, like: Any) -> Any:
    numbers = iter(range(vector.shape[0]))
    return trees.map(lambda _: vector[next(numbers)], like)


@compiled()
def with_real(vector: Array, real: Evaluation) -> Array:
    """A record with the network's own loss and accuracy."""
    return xp.concatenate([vector[:-2], xp.stack(real).astype(vector.dtype)])
