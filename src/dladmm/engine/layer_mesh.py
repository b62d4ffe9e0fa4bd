"""Devices in groups, one for each run of consecutive layers: a mesh with axes `layer` x `data`.

A group's arrays live on its own devices, and its programs run there and nowhere else: a process
holds those of the groups it has a device of, and None for the others. Between groups arrays go to
neighbours only, by `exchange`. What all devices need at times, a whole network or rows spread over
all of them, is brought together by the other programs; bits are added, since zeros of the
groups that have nothing leave those as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dladmm.engine import trees
from dladmm.engine.arrays import Array, bit_pattern, from_bit_pattern, load_jax
from dladmm.engine.devices import EVERYWHERE, ROWS
from dladmm.engine.processes import process_index
from dladmm.engine.programs import compiled
from dladmm.engine.walks import AXIS, Folded

if TYPE_CHECKING:
    from jax import ShapeDtypeStruct
    from jax.sharding import Mesh

LAYER = "layer"  # the axis of a mesh that groups of layers are spread over

Parts = Sequence[Any]  # for each group its own, None where this process has none of its devices


class Received(NamedTuple):
    """What a group has received; where that is nothing, `after` is what a program must be given
    that is not to overtake the exchange."""

    sent: tuple[Array, ...]
    after: tuple[Array, ...]


@dataclass(frozen=True)
class LayerMesh:
    """The devices of `rows`, all on the axis `data`, dealt to so many groups.

    Neighbours in `rows` are those of one block of samples, in the order of the groups: so the rows
    of a process, which are consecutive, stay close to it.
    """

    rows: Mesh
    groups: int
    _zeros: dict[Any, Array] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def mesh(self) -> Mesh:
        """Axes `layer` and `data`."""
        dealt = self.rows.devices.reshape(-1, self.groups).T
        return load_jax().sharding.Mesh(dealt, (LAYER, AXIS))

    @cached_property
    def own(self) -> tuple[Mesh, ...]:
        """The devices of each group, on the axis `data`."""
        return tuple(load_jax().sharding.Mesh(one, (AXIS,)) for one in self.mesh.devices)

    @cached_property
    def mine(self) -> tuple[int, ...]:
        """The groups this process has a device of."""
        here = process_index()
        owners = [{d.process_index for d in mesh.devices} for mesh in self.own]
        return tuple(g for g, processes in enumerate(owners) if here in processes)

    def each(self, function: Callable[[int], Any]) -> tuple[Any, ...]:
        """function(g) of this process's groups, None for the others."""
        return tuple(function(g) if g in self.mine else None for g in range(self.groups))

    def part(self, g: int, v: Array, where: str = EVERYWHERE) -> Array:
        """What group g's devices hold of an array on all of them, without a copy."""
        own, data = self.own[g], _shards(v)
        held = [data[device] for device in own.local_devices]
        shape = held[0].shape
        if where == ROWS:
            shape = (own.size * shape[0], *shape[1:])
        return _array(shape, own, _spec(where, AXIS), held)

    def joined(self, parts: Mapping[int, Array], like: ShapeDtypeStruct, where: str) -> Array:
        """The arrays of groups as one on all devices, `like` being what each device has of it;
        zeros where a group has none."""
        data = {d: shard for v in parts.values() for d, shard in _shards(v).items()}
        held = [data[d] if d in data else self._zero(d, like) for d in self.mesh.local_devices]
        rows = self.groups * (self.own[0].size if where == ROWS else 1)
        shape = (rows * like.shape[0], *like.shape[1:])
        return _array(shape, self.mesh, _spec(where, (LAYER, AXIS), LAYER), held)

    def _zero(self, device: Any, like: ShapeDtypeStruct) -> Array:
        """Zeros that stay where they are: nobody writes to them."""
        key = (device, like)
        if key not in self._zeros:
            zeros = np.zeros(like.shape, like.dtype)
            self._zeros[key] = load_jax().device_put(zeros, device)
        return self._zeros[key]

    def exchange(
        self,
        step: int,
        sent: Parts,
        shapes: Sequence[Sequence[ShapeDtypeStruct]],
        conclude: Callable[..., Any] | None = None,
        folded: Parts = (),
        given: Any = (),
    ) -> tuple[Any, Any]:
        """Every group's arrays go to the next one (step = 1) or the one before (-1), and
        conclude(scalars of all groups together, *given) to all devices, by one program.

        shapes: what each device of a group sends.
        """
        kinds = list(dict.fromkeys(kind for one in shapes for kind in enumerate(one)))
        senders = [[g for g, one in enumerate(shapes) if k in list(enumerate(one))] for k in kinds]
        arrays = tuple(
            self.joined({g: sent[g][place] for g in who if g in self.mine}, like, ROWS)
            for (place, like), who in zip(kinds, senders, strict=True)
        )
        pairs = tuple(tuple((g, g + step) for g in who) for who in senders)
        scalars = None if conclude is None else self._folded(folded)
        received, concluded = crossed(self.mesh, pairs, conclude, arrays, scalars, given)

        def arrived(g: int) -> Received:
            own = [v for v, who in zip(received, senders, strict=True) if g - step in who]
            parts = tuple(self.part(g, v, ROWS) for v in (own or received[:1]))
            return Received(parts, ()) if own else Received((), parts)

        return self.each(arrived), concluded

    def _folded(self, folded: Parts) -> Any:
        def joined(*own: Array) -> Array:
            like = load_jax().ShapeDtypeStruct(own[0].shape, own[0].dtype)
            return self.joined(dict(zip(self.mine, own, strict=True)), like, EVERYWHERE)

        return trees.map(joined, *(folded[g] for g in self.mine))

    def gathered(self, owner: Sequence[int], parts: Parts, like: Sequence[Any], after: Any) -> Any:
        """Arrays of which each is some group's own, in full on all devices; not before `after`."""
        arrays = tuple(
            self.joined({g: v} if g in self.mine else {}, one, EVERYWHERE)
            for g, v, one in zip(owner, parts, like, strict=True)
        )
        return tuple(map(self.on_rows, _gathered(self.mesh, arrays, after)))

    def to_rows(self, g: int, v: Array | None, like: ShapeDtypeStruct) -> Array:
        """Group g's rows, spread over all devices; waited for, since the next one must."""
        dealt = _dealt(self.mesh, self.joined({} if v is None else {g: v}, like, ROWS))
        return self._as(dealt, self.rows, AXIS).block_until_ready()

    def from_rows(self, v: Array) -> Callable[[int], Array]:
        """Rows that are spread over all devices, as each group has them."""
        collected = _collected(self.mesh, self._as(v, self.mesh, (AXIS, LAYER)))
        collected.block_until_ready()
        return lambda g: self.part(g, collected, ROWS)

    def here(self, v: Array) -> Array:
        """An array that is the same on all devices, for programs of the groups together."""
        return self._same(v, self.mesh)

    def on_rows(self, v: Array) -> Array:
        """The same for programs of all samples."""
        return self._same(v, self.rows)

    def _same(self, v: Array, mesh: Mesh) -> Array:
        data = _shards(v)
        return _array(v.shape, mesh, _spec(EVERYWHERE), [data[d] for d in mesh.local_devices])

    def _as(self, v: Array, mesh: Mesh, axes: Any) -> Array:
        """The same rows on the same devices, by the other mesh."""
        data = _shards(v)
        held = [data[device] for device in mesh.local_devices]
        return _array(v.shape, mesh, _spec(ROWS, axes), held)


def _shards(v: Array) -> dict[Any, Array]:
    return {shard.device: shard.data for shard in v.addressable_shards}


def _array(shape: tuple[int, ...], mesh: Mesh, spec: Any, held: list[Array]) -> Array:
    jax = load_jax()
    sharding = jax.sharding.NamedSharding(mesh, spec)
    return jax.make_array_from_single_device_arrays(shape, sharding, held)


def _spec(where: str, rows: Any = (), everywhere: Any = None) -> Any:
    spec = load_jax().sharding.PartitionSpec
    return spec(rows) if where == ROWS else spec(everywhere) if everywhere else spec()


def _over_all(mesh: Mesh, function: Callable[..., Any], into: Any, out: Any) -> Any:
    return load_jax().shard_map(function, mesh=mesh, in_specs=into, out_specs=out, check_vma=False)


@compiled("mesh", "pairs", "conclude")
def crossed(
    mesh: Mesh, pairs: Any, conclude: Any, sent: tuple[Array, ...], scalars: Any, given: Any
) -> tuple[tuple[Array, ...], Any]:
    """All that crosses between groups in one direction: what `LayerMesh.exchange` launches."""
    lax = load_jax().lax
    split, whole = _spec(ROWS, (LAYER, AXIS)), _spec(EVERYWHERE)

    def own(sent: tuple[Array, ...], scalars: Any, given: Any) -> tuple[tuple[Array, ...], Any]:
        moves = zip(sent, pairs, strict=True)
        received = tuple(lax.ppermute(v, LAYER, links) for v, links in moves)
        if conclude is None:
            return received, None
        total = Folded(lax.psum(scalars.sum, LAYER), lax.pmin(scalars.least, LAYER))
        return received, conclude(total, *given)

    into = (split, _spec(EVERYWHERE, everywhere=LAYER), whole)
    return _over_all(mesh, own, into, (split, whole))(sent, scalars, given)


@compiled("mesh", keep_unused=True)
def _gathered(mesh: Mesh, arrays: tuple[Array, ...], after: Any) -> tuple[Array, ...]:
    added = lambda v: from_bit_pattern(load_jax().lax.psum(bit_pattern(v), LAYER), v)  # noqa: E731
    own = lambda arrays: tuple(map(added, arrays))  # noqa: E731
    into = _spec(EVERYWHERE, everywhere=LAYER)
    return _over_all(mesh, own, (into,), _spec(EVERYWHERE))(arrays)


@compiled("mesh")
def _dealt(mesh: Mesh, v: Array) -> Array:
    def own(v: Array) -> Array:
        bits = load_jax().lax.psum_scatter(bit_pattern(v), LAYER, tiled=True)
        return from_bit_pattern(bits, v)

    return _over_all(mesh, own, _spec(ROWS, (LAYER, AXIS)), _spec(ROWS, (AXIS, LAYER)))(v)


@compiled("mesh")
def _collected(mesh: Mesh, v: Array) -> Array:
    own = lambda v: load_jax().lax.all_gather(v, LAYER, tiled=True)  # noqa: E731
    return _over_all(mesh, own, _spec(ROWS, (AXIS, LAYER)), _spec(ROWS, AXIS))(v)
