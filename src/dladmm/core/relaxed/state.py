"""All variables of L_rho, as an immutable pytree, and where they start."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from dladmm.core.data import DATA, Data
from dladmm.core.params import Params, pass_layer
from dladmm.core.problem import Problem
from dladmm.engine.arrays import Array, xp
from dladmm.engine.devices import EVERYWHERE, ROWS, spread
from dladmm.engine.programs import compiled

Rows = tuple[tuple[Array, ...], tuple[Array, ...], tuple[Array, ...], Array]  # z, a, p, u


class State(NamedTuple):
    """All variables of L_rho, and the running products p_l = A_l(W_l, a_{l-1}).

    `a` holds a_1..a_{L-1}; `p` is kept so that no product is computed only to evaluate something.
    Where layers are in groups (layer_groups.py), None stands for what another group has.
    """

    W: tuple[Array, ...]
    b: tuple[Array, ...]
    z: tuple[Array, ...]
    a: tuple[Array, ...]
    p: tuple[Array, ...]
    u: Array

    @property
    def params(self) -> Params:
        return Params(self.W, self.b)

    @property
    def rows(self) -> Rows:
        """What has one row per sample."""
        return self.z, self.a, self.p, self.u


def state_of(rows: Rows, params: Params) -> State:
    """The state of these rows and this network."""
    z, a, p, u = rows
    return State(params.W, params.b, z, a, p, u)


# Where each part lives on a mesh, for `spread`.
STATE: Any = State(EVERYWHERE, EVERYWHERE, ROWS, ROWS, ROWS, ROWS)  # type: ignore[arg-type]


@compiled("problem", "dual_from_gradient", "authors_output")
def state_from_params(
    problem: Problem,
    params: Params,
    data: Data,
    dual_from_gradient: bool,
    authors_output: bool = False,
) -> State:
    """The feasible state of a forward pass, with u = -grad R(z_L) (Lemma 2) or u = 0.

    `authors_output` starts z_L at the loss's own point (+-1 for classes) instead of the output.
    """

    def own(params: Params, data: Data) -> State:
        z: list[Array] = []
        a: list[Array] = []
        p: list[Array] = []
        for l in range(problem.n_layers):
            passed = pass_layer(problem, params, l, data.x, a)
            p.append(passed.p)
            z.append(passed.z)
            a.append(passed.a)
        if authors_output:
            z[-1] = problem.loss.initial_output(data.y)
        u = -problem.loss.gradient(z[-1], data.y) if dual_from_gradient else xp.zeros_like(z[-1])
        return State(params.W, params.b, tuple(z), tuple(a[:-1]), tuple(p), u)

    return spread(data.samples, own, (EVERYWHERE, DATA), STATE)(params, data)


def product(problem: Problem, l: int, x: Array, a: Sequence[Array], W: Sequence[Array]) -> Array:
    """p_l = A_l(W_l, what layer l reads); None for a layer of another group."""
    return None if W[l] is None else problem.layers[l].apply(W[l], problem.inputs_of(l, x, a))


# Unused arguments are kept: the old p gives its memory to the new one, though nobody reads it.
@compiled("problem", donate="rows", keep_unused=True)
def refreshed(problem: Problem, data: Data, rows: Rows, params: Params) -> Rows:
    """The same rows with p recomputed from W and a: running products drift in float32."""

    def own(data: Data, rows: Rows, params: Params) -> Rows:
        z, a, _, u = rows
        p = tuple(product(problem, l, data.x, a, params.W) for l in range(problem.n_layers))
        return z, a, p, u

    return spread(data.samples, own, (DATA, ROWS, EVERYWHERE), ROWS)(data, rows, params)
