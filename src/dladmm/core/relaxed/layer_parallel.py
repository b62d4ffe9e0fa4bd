"""dlADMM with its layers in groups, each on devices of its own: `Options(layer_devices=...)`.

An iteration is two programs of each group and two exchanges. Between iterations a group has its own
variables, and of its neighbours the z and a of the boundary.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import frexp, prod
from typing import Any, ClassVar

import numpy as np

from dladmm.core.data import Arrays, padded_data
from dladmm.core.evaluate import Evaluation, evaluate_run
from dladmm.core.method import Account, Guarantee, Method, Penalties, Start
from dladmm.core.params import Params
from dladmm.core.relaxed.layer_groups import balanced_groups, put, without_copy_above
from dladmm.core.relaxed.layer_messages import Message, Messages, taken
from dladmm.core.relaxed.layer_programs import (
    Conclusion,
    Half,
    How,
    Whole,
    backward,
    backward_keeping,
    forward,
    settled,
    with_real,
)
from dladmm.core.relaxed.layer_states import Grouped, LayerData, Places
from dladmm.core.relaxed.method import DLADMM
from dladmm.core.relaxed.over_relaxation import reach_of
from dladmm.core.relaxed.state import Rows, State, state_of
from dladmm.engine.arrays import Array, load_jax
from dladmm.engine.devices import JAX, Engine
from dladmm.engine.layer_mesh import LayerMesh, Received


@dataclass(frozen=True)
class LayerDLADMM(Method):
    """dlADMM in so many groups of layers, whose neighbours exchange such messages.

    of: the same run in one group, which says what does not depend on groups.
    """

    name: ClassVar[str] = DLADMM.name
    has_penalties: ClassVar[bool] = DLADMM.has_penalties
    init: ClassVar[str] = DLADMM.init
    objective_name: ClassVar[str] = DLADMM.objective_name
    crossing: ClassVar[float] = DLADMM.crossing
    # What crosses between devices must do so in the same order in all processes.
    overlaps: ClassVar[bool] = False

    of: DLADMM
    count: int
    messages: Messages

    def requires(self) -> None:
        self.of.requires()
        if not self.problem.is_chain:
            raise ValueError(
                f"layer_devices={self.count} does not fit this network, whose layers are not a"
                " chain; expected layers one after the other, or layer_devices=None"
            )
        if self.count > self.problem.n_layers:
            raise ValueError(
                f"layer_devices={self.count} is more than the network has layers; expected a"
                f" number from 1 to {self.problem.n_layers}"
            )
        if frexp(self.reach)[0] != 0.5:
            raise ValueError(
                f"step_rule with reach={self.reach:g} does not fit layer_devices; expected a power"
                " of two, with which both sides of a boundary round alike"
            )

    @cached_property
    def reach(self) -> float:
        return reach_of(self.problem, self.of.options.step_rule)

    @cached_property
    def places(self) -> Places:
        return Places(self.problem, balanced_groups(self.problem, self.count))

    def prepare(self, arrays: Arrays, engine: Engine = JAX) -> LayerData:
        assert engine.mesh is not None  # core/choice.py makes one
        rows = padded_data(self.problem, arrays, with_gram=False, engine=engine)
        return self.places.data(LayerMesh(engine.mesh, self.count), rows)

    def begin(self, data: LayerData, params: Params, start: Start) -> Grouped:
        return self.places.dealt(data.where, self.of.begin(data.rows, params, start))

    def split(self, state: Grouped) -> tuple[Rows, Params]:
        whole = self.places.collected(state)
        return whole.rows, whole.params

    def join(self, by_sample: Rows, rest: Params) -> Grouped:
        where = LayerMesh(by_sample[-1].sharding.mesh, self.count)
        return self.places.dealt(where, state_of(by_sample, rest))

    def whole(self, data: LayerData, params: Params) -> Params:
        everywhere = data.where.rows.size
        if all(v is not None and len(v.sharding.device_set) == everywhere for v in params.W):
            return params
        found: Params = load_jax().block_until_ready(
            self.places.gathered(data.where, params, data.rows.y.dtype)
        )
        return found

    def advance(
        self, data: LayerData, state: Grouped, penalties: Penalties, with_loss: Array
    ) -> tuple[Grouped, Params, Array]:
        where, rows = state.where, state.rows
        own = where.each(lambda g: tuple(where.part(g, v) for v in penalties))
        halves = where.each(lambda g: self._backward(g, data, state.groups[g], own[g]))
        sent = where.each(lambda g: self._sent(g, +1, halves[g].state, halves[g].message))
        below, _ = where.exchange(+1, sent, self._shapes(+1, *rows))

        wholes = where.each(
            lambda g: self._forward(g, data, state.groups[g], halves[g], below[g], own[g])
        )
        sent = where.each(lambda g: self._sent(g, -1, wholes[g].swept, wholes[g].message))
        scalars = where.each(lambda g: wholes[g].scalars)
        conclude = Conclusion(self.problem, self.reach)
        given = tuple(map(where.here, penalties))
        above, (vector, further) = where.exchange(
            -1, sent, self._shapes(-1, *rows), conclude, scalars, given
        )

        groups = where.each(
            lambda g: self._next(g, halves[g], wholes[g], above[g], where.part(g, further))
        )
        network = self.places.network(groups)
        if bool(np.asarray(with_loss)):
            everywhere = self.places.gathered(where, network, vector.dtype, after=vector)
            real = evaluate_run(self.problem, data.rows, everywhere)
            vector = with_real(where.on_rows(vector), real)
        return Grouped(groups, where), network, vector

    def _how(self, g: int) -> How:
        group = self.places.groups[g]
        return How(self.problem, self.of.options, self.messages, self.reach, group)

    def _backward(self, g: int, data: LayerData, start: State, own: Penalties) -> Half:
        half = backward if self.reach == 1 else backward_keeping
        found: Half = half(self._how(g), data.groups[g], start.rows, start.params, *own)
        return found

    def _forward(
        self, g: int, data: LayerData, start: State, half: Half, below: Received, own: Penalties
    ) -> Whole:
        group, state, n_layers = self.places.groups[g], half.state, self.problem.n_layers
        if not group.is_bottom:
            l = group.first - 1
            state = state._replace(z=put(state.z, l, taken(self.messages, state.z[l], *below.sent)))
        state = without_copy_above(group, state)
        if self.reach > 1:
            before = without_copy_above(group, start)
        else:  # written over since, but for the network and z_L
            nothing: tuple[Any, ...] = (None,) * n_layers
            z = put(nothing, n_layers - 1, half.z_last)
            before = State(start.W, start.b, z, nothing[1:], nothing, None)
        given = (self._how(g), data.groups[g], state.rows, state.params, before, half.steps)
        found: Whole = forward(*given, *own, below.after)
        return found

    def _next(self, g: int, half: Half, whole: Whole, above: Received, further: Array) -> State:
        """What a group goes on from: the end of its sweep or further along, and the new a above."""
        group, copies, swept = self.places.groups[g], None, whole.swept
        if not group.is_top:
            old = half.state.a[group.last]
            copies = (old, taken(self.messages, old, *above.sent))
        if self.reach > 1:
            given = (self.reach, group.last, further, whole.ahead, swept, copies)
            state: State = settled(*given)
            return state
        return swept if copies is None else swept._replace(a=put(swept.a, group.last, copies[1]))

    def _sent(self, g: int, step: int, state: State, message: Message) -> Message:
        l = self.places.boundary(g, step)
        if l is None:
            return ()
        return message if self.messages.rounds else ((state.z if step == 1 else state.a)[l],)

    def _shapes(self, step: int, n_rows: int, dtype: Any) -> tuple[tuple[Any, ...], ...]:
        """The arrays of each group's message, a device's part of each."""
        sent = self.places.sent(step, n_rows, dtype)
        return tuple(() if v is None else self.messages.shapes(v) for v in sent)

    def evaluate(self, data: LayerData, params: Params) -> Evaluation:
        return self.of.evaluate(data.rows, self.whole(data, params))

    def refresh(self, data: LayerData, state: Grouped) -> Grouped:
        own = lambda g: self.of.refresh(data.groups[g], state.groups[g])  # noqa: E731
        return Grouped(state.where.each(own), state.where)

    def objective(self, data: LayerData, state: Grouped, penalties: Penalties) -> float:
        return self.of.objective(data.rows, self.places.collected(state), penalties)

    def stationarity(self, data: LayerData, state: Grouped, penalties: Penalties) -> float:
        return self.of.stationarity(data.rows, self.places.collected(state), penalties)

    def names(self) -> list[str]:
        return self.of.names()

    def run_bytes(self, n_samples: int, itemsize: int) -> int:
        """Besides what a run in one group has: a copy of each boundary's z and a, rows as they are
        dealt to groups and collected, and where the loss is measured the whole network."""
        hidden = [prod(layer.out_shape) for layer in self.problem.layers]
        boundaries = sum(2 * hidden[group.last] for group in self.places.groups[:-1])
        dealt = prod(self.problem.in_shape) + 3 * sum(hidden)
        weights = sum(layer.n_weights for layer in self.problem.layers)
        more = n_samples * (boundaries + dealt) + self.count * weights
        return self.of.run_bytes(n_samples, itemsize) + more * itemsize

    def exchanged_bytes(self, itemsize: int) -> int:
        """Within groups, of all of them together: what one group adds up over its samples."""
        return self.of.exchanged_bytes(itemsize)

    def message_bytes(self, itemsize: int) -> int:
        """What goes over all boundaries in an iteration, up and down, for each sample."""
        layers, passed = self.problem.layers, self.problem.out_shapes
        shapes = [
            shape
            for group in self.places.groups[:-1]
            for shape in (layers[group.last].out_shape, passed[group.last])
        ]
        return sum(self.messages.bytes_of(prod(shape), itemsize) for shape in shapes)

    def gathered_bytes(self, itemsize: int) -> int:
        """What all devices are given of the network where its loss is measured."""
        return sum(layer.n_parameters for layer in self.problem.layers) * itemsize

    def guarantee(self, account: Account) -> Guarantee:
        found = self.of.guarantee(account)
        groups = ", ".join(f"{one.first + 1}-{one.last + 1}" for one in self.places.groups)
        more = {"Layers": f"{groups} at the same time, in halves that share no term of L_rho"}
        if self.messages.rounds:
            more["Theorem 1"] = "does not apply: a step that stays does not bound the subgradient"
            more["Messages"] = (
                "rounded, and L_rho is that of the rounded variables: it cannot rise, since a"
                " sample whose step rounding would spoil stays where it is"
            )
        return found._replace(theorems=found.theorems | more)
