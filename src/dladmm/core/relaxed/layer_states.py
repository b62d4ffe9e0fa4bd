"""The variables and the data of a run whose layers are in groups: from rows that are spread over
all devices to each group's own, and back.

Rows spread over all devices are what a run without groups has: it begins, ends and is kept in
checkpoints so, and another number of groups can go on with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dladmm.core.data import Data, make_data
from dladmm.core.params import Params
from dladmm.core.problem import Problem
from dladmm.core.relaxed.layer_groups import Group
from dladmm.core.relaxed.state import State
from dladmm.engine import trees
from dladmm.engine.arrays import Array, load_jax
from dladmm.engine.layer_mesh import LayerMesh, Parts
from dladmm.engine.trees import STATIC
from dladmm.engine.walks import Samples


class LayerData(NamedTuple):
    """The data of a run: rows spread over all devices, and what each group reads of them, x at the
    bottom and y at the top."""

    rows: Data
    groups: Parts
    where: LayerMesh


@trees.register
@dataclass(frozen=True)
class Grouped:
    """The states of this process's groups, None for the others."""

    groups: Parts
    where: LayerMesh = field(metadata=STATIC)

    @property
    def rows(self) -> tuple[int, Any]:
        """How many rows a device has of its group's arrays, and of what type they are."""
        one = next(trees.leaves(self.groups[self.where.mine[0]].p))
        return one.addressable_shards[0].data.shape[0], one.dtype


@dataclass(frozen=True)
class Places:
    """Which group has what of a network."""

    problem: Problem
    groups: tuple[Group, ...]

    def owner(self, l: int) -> int:
        """The group that has W, b, p and z of layer l, and a of the one before."""
        return next(g for g, group in enumerate(self.groups) if group.has(l))

    def data(self, where: LayerMesh, rows: Data) -> LayerData:
        parts = (None if v is None else where.from_rows(v) for v in (rows.x, rows.y, rows.weights))
        x, y, weights = parts
        blocks = rows.samples.blocks * where.groups

        def own(g: int) -> Data:
            group, omega = self.groups[g], None if weights is None else weights(g)
            targets: Any = y(g) if y and group.is_top else None
            if x and group.is_bottom:
                given = (omega, blocks, True, where.own[g], rows.samples.count)
                return make_data(self.problem, x(g), targets, *given)
            samples = Samples(omega, blocks, where.own[g], rows.samples.count)
            return Data(None, targets, samples, None)

        return LayerData(rows, where.each(own), where)

    def dealt(self, where: LayerMesh, whole: State) -> Grouped:
        """Each group's part of a state, the neighbours' z and a at its boundaries included."""

        def held(l: int, v: Array) -> Parts:
            part = where.from_rows(v)
            return where.each(lambda g: part(g) if self.groups[g].holds(l) else None)

        def owned(l: int, v: Array) -> Parts:
            part = where.from_rows(v)
            return where.each(lambda g: part(g) if self.groups[g].has(l) else None)

        z, a = ([held(l, v) for l, v in enumerate(kind)] for kind in (whole.z, whole.a))
        p = [owned(l, v) for l, v in enumerate(whole.p)]
        u = owned(self.problem.n_layers - 1, whole.u)

        def own(g: int) -> State:
            def network(kind: tuple[Array, ...]) -> tuple[Array | None, ...]:
                has = self.groups[g].has
                return tuple(where.part(g, v) if has(l) else None for l, v in enumerate(kind))

            def here(kind: list[Parts]) -> tuple[Array | None, ...]:
                return tuple(parts[g] for parts in kind)

            return State(network(whole.W), network(whole.b), here(z), here(a), here(p), u[g])

        return Grouped(where.each(own), where)

    def collected(self, state: Grouped) -> State:
        """The inverse of `dealt`: rows spread over all devices, the network on each of them."""
        n_layers, (n_rows, dtype) = self.problem.n_layers, state.rows

        def rows(g: int, shape: tuple[int, ...], kind: str, l: int | None) -> Array:
            one = state.groups[g]
            own = None if one is None else getattr(one, kind)
            v = own if own is None or l is None else own[l]
            return state.where.to_rows(g, v, _like((n_rows, *shape), dtype))

        out, passed = [v.out_shape for v in self.problem.layers], self.problem.out_shapes[:-1]
        owner = [self.owner(l) for l in range(n_layers)]
        z, p = (
            tuple(rows(owner[l], out[l], kind, l) for l in range(n_layers)) for kind in ("z", "p")
        )
        a = tuple(rows(owner[l + 1], shape, "a", l) for l, shape in enumerate(passed))
        u = rows(owner[-1], out[-1], "u", None)
        network = self.gathered(state.where, self.network(state.groups), dtype)
        return State(network.W, network.b, z, a, p, u)

    def network(self, groups: Parts) -> Params:
        """The network as it lies: each layer with its group, None where that is not here."""
        own = [groups[self.owner(l)] for l in range(self.problem.n_layers)]
        W = tuple(None if one is None else one.W[l] for l, one in enumerate(own))
        b = tuple(None if one is None else one.b[l] for l, one in enumerate(own))
        return Params(W, b)

    def gathered(self, where: LayerMesh, params: Params, dtype: Any, after: Any = None) -> Params:
        """The network on every device; brought together not before `after`."""
        layers, n = self.problem.layers, self.problem.n_layers
        shapes = [v.weight_shape for v in layers] + [v.bias_shape for v in layers]
        like = [_like(shape, dtype) for shape in shapes]
        owner = [self.owner(l) for l in range(n)]
        found = where.gathered((*owner, *owner), (*params.W, *params.b), like, after)
        return Params(found[:n], found[n:])

    def boundary(self, g: int, step: int) -> int | None:
        """The layer whose z group g sends up (step 1), or whose a it sends down (-1), if any."""
        group = self.groups[g]
        if step == 1:
            return None if group.is_top else group.last
        return None if group.is_bottom else group.first - 1

    def sent(self, step: int, n_rows: int, dtype: Any) -> tuple[Any, ...]:
        """What each device of each group has of what it sends, None where it sends nothing."""

        def of(l: int | None) -> Any:
            if l is None:
                return None
            shape = self.problem.layers[l].out_shape if step == 1 else self.problem.out_shapes[l]
            return _like((n_rows, *shape), dtype)

        return tuple(of(self.boundary(g, step)) for g in range(len(self.groups)))


def _like(shape: tuple[int, ...], dtype: Any) -> Any:
    return load_jax().ShapeDtypeStruct(shape, dtype)
