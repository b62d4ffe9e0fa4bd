"""The variables while a sweep of Algorithm 1 walks over them, and the account of its steps."""

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np

from dladmm.core.data import Data
from dladmm.core.problem import Problem
from dladmm.core.relaxed import matrix_steps, weight_updates
from dladmm.core.relaxed.state import State
from dladmm.core.relaxed.step_rules import ClosedForm, Matrix, SweepOptions
from dladmm.core.relaxed.updates import (
    Phi,
    Step,
    update_a,
    update_b,
    update_z,
    update_z_measured,
    update_zL,
)
from dladmm.engine.arrays import Array, xp


class Blocks:
    """Holds W, b, z, a, p of one sweep; each step_* method replaces one block of layer l.

    Lives only while an iteration is traced: arrays in, arrays out, nothing remembered after.
    """

    def __init__(
        self,
        problem: Problem,
        options: SweepOptions,
        data: Data,
        state: State,
        rho: Array,
        nu: Array,
    ):
        self.problem, self.options, self.data, self.samples = problem, options, data, data.samples
        self.start, self.rho, self.nu = state, rho, nu
        self.W, self.b, self.z = list(state.W), list(state.b), list(state.z)
        self.a, self.p = list(state.a), list(state.p)
        self.u_over_rho = None if state.u is None else state.u / rho
        self.c = [nu] * (problem.n_layers - 1) + [rho]
        self.masks = problem.masks(data.x)
        self.zl_iterations = np.zeros((), np.int32)
        # Squared distances of each kind of block, backward and forward: the terms of c_k.
        self.backward: dict[str, list[Array]] = {"W": [], "b": [], "z": [], "a": []}
        self.forward: dict[str, list[Array]] = {kind: [] for kind in self.backward}
        self.now = self.backward
        self.hidden_z_forward: list[Array] = []
        self.steps: dict[str, list[Step]] = {"W": [], "a": []}

    def turn(self) -> None:
        """From the backward to the forward pass."""
        self.now = self.forward

    def _phi(self, l: int, places: tuple[int, ...] = (0,)) -> Phi:
        """Layer l's part of phi, as it stands."""
        dual = self.u_over_rho if l == self.problem.n_layers - 1 else None
        layer = self.problem.layers[l]
        block = (layer, self.W[l], self.p[l], self.b[l], self.z[l])
        return Phi(*block, dual, self.c[l], places, self.masks[l])

    def _note(self, kind: Literal["W", "a"], step: Step, distances: dict[str, list[Array]]) -> None:
        self.steps[kind].append(step)
        distances[kind].append(step.moved)

    def _distance(self, new: Array, old: Array) -> Array:
        return self.samples.total((new - old) ** 2)

    def step_a(self, l: int) -> None:
        """a_l and, with it, p of every layer that reads it."""
        self.a[l], products, step = self._new_a(l)
        for (k, _), p in zip(self.problem.readers[l], products, strict=True):
            self.p[k] = p
        self._note("a", step, self.now)

    def _new_a(self, l: int) -> tuple[Array, tuple[Array, ...], Step]:
        above = [self._phi(k, places) for k, places in self.problem.readers[l]]
        block = (self.problem.activations[l], self.a[l], self.z[l], above, self.nu, self.samples)
        rule = self.options.step_rule
        if not isinstance(rule, Matrix):
            return update_a(rule, *block, self.masks[l])
        if matrix_steps.has_minimiser(above):
            return matrix_steps.update_a(*block)
        return update_a(ClosedForm(), *block, self.masks[l])

    def step_z(self, l: int) -> None:
        """z_l."""
        old = self.z[l]
        if l < self.problem.n_layers - 1:
            hidden = (self.problem.activations[l], old, self.p[l], self.b[l], self.a[l])
            if self.now is self.backward:
                self.z[l] = update_z(*hidden)
            else:  # c_k has no hidden z; Property 3 needs their forward distance
                self.z[l], distance = update_z_measured(*hidden, self.samples)
                self.hidden_z_forward.append(distance)
            return
        given = (self._phi(l), self.start.u, self.data.y, self.samples)
        self.z[l], used = update_zL(self.problem.loss, self.options.zl_solver, *given)
        self.zl_iterations = self.zl_iterations + used
        self.now["z"].append(self._distance(self.z[l], old))

    def step_b(self, l: int) -> None:
        """b_l."""
        old = self.b[l]
        self.b[l] = update_b(self._phi(l), self.samples)
        self.now["b"].append(xp.sum((self.b[l] - old) ** 2))

    def step_W(self, l: int) -> None:
        """W_l and, with it, p_l; W_1 takes its backward and its forward step together."""
        gram = self.data.gram if l == 0 else None
        if gram is not None and self.now is self.forward:
            return
        rule = self.options.step_rule
        how: Any = matrix_steps if isinstance(rule, Matrix) else weight_updates
        inputs = self.problem.inputs_of(l, self.data.x, self.a)
        layer = (self._phi(l), inputs, self.samples)
        block = (self.problem.regularizers[l], rule, *layer)
        if gram is not None:
            self.W[l], self.p[l], (backward, forward) = how.update_W_twice(*block, gram)
            self._note("W", backward, self.backward)
            self._note("W", forward, self.forward)
        else:
            self.W[l], self.p[l], step = how.update_W(*block)
            self._note("W", step, self.now)

    def step_u(self) -> State:
        """r = z_L - p_L - b_L and u + rho r: the state after the sweep."""
        r = self.z[-1] - self.p[-1] - self.b[-1]
        return self.state()._replace(u=self.start.u + self.rho * r)

    def state(self) -> State:
        """The state as it stands, u being the one it began with."""
        W, b, z, a, p = map(tuple, (self.W, self.b, self.z, self.a, self.p))
        return State(W, b, z, a, p, self.start.u)

    def moved(self) -> Array:
        """The sum in c_k of Theorem 3."""
        passes = (self.backward, self.forward)
        return _sum(d for distances in passes for kind in distances.values() for d in kind)

    def subgradient_bound(self, new: State) -> Array:
        """The sum of norms that bounds the subgradient in Property 3, without its constant C."""
        norms = [xp.sqrt(square) for square in self.squares(self.forward)]
        norms.append(xp.sqrt(self._distance(new.z[-1], self.start.z[-1])))
        return _sum(norms)

    def squares(self, distances: dict[str, list[Array]]) -> tuple[Array, ...]:
        """Of a pass, the squared distances of all W, b, a and z, the hidden z of the forward one
        included."""
        hidden = self.hidden_z_forward if distances is self.forward else []
        return (*(_sum(distances[kind]) for kind in "Wba"), _sum(hidden + distances["z"]))

    def least_curvature(self, kind: Literal["W", "a"]) -> Array:
        """The least theta (W) or tau (a) of the sweep; infinity where there was no such step."""
        values = [step.curvature for step in self.steps[kind]]
        return xp.min(xp.stack(values)) if values else np.full((), np.inf, self.rho.dtype)

    def count(self, what: Literal["trials", "exhausted"]) -> Array:
        return _sum(getattr(step, what) for kind in self.steps.values() for step in kind)


def _sum(values: Iterable[Array]) -> Array:
    values = list(values)
    return xp.sum(xp.stack(values)) if values else np.zeros(())
