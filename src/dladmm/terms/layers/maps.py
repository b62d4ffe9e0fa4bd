"""Linear maps without weights, which belong to the layer that follows them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Self

from dladmm.engine.arrays import Array, namespace, xp
from dladmm.engine.windows import added_windows, positions, window_rows
from dladmm.terms.layers.base import Layer, Shape, part
from dladmm.terms.layers.dense import Dense


@dataclass(frozen=True)
class LinearMap:
    """The contract: a map of one sample's numbers, and its adjoint."""

    inputs: Shape

    @property
    def out_shape(self) -> Shape:
        raise TypeError(f"{type(self).__name__} does not define out_shape")

    def __call__(self, a: Array) -> Array:
        raise TypeError(f"{type(self).__name__} does not define the map")

    def adjoint(self, r: Array) -> Array:
        """<map(a), r> = <a, adjoint(r)>."""
        raise TypeError(f"{type(self).__name__} does not define adjoint")


@part
@dataclass(frozen=True)
class Average(LinearMap):
    """The mean of every window, which do not overlap; what is left at the ends is not read."""

    window: Shape

    @property
    def _sliding(self) -> tuple[Shape, Shape, Shape]:
        return self.window, self.window, (1,) * len(self.window)

    @property
    def out_shape(self) -> Shape:
        return (*positions(self.inputs[:-1], *self._sliding), self.inputs[-1])

    def __call__(self, a: Array) -> Array:
        rows = window_rows(a, *self._sliding)
        return xp.mean(rows.reshape(*rows.shape[:-1], prod(self.window), -1), axis=-2)

    def adjoint(self, r: Array) -> Array:
        size = prod(self.window)
        rows = xp.concatenate([r / size] * size, axis=-1)
        return added_windows(rows, self.inputs[:-1], *self._sliding)


@part
@dataclass(frozen=True)
class LastStep(LinearMap):
    """The last of the steps, which are the first axis."""

    @property
    def out_shape(self) -> Shape:
        return self.inputs[1:]

    def __call__(self, a: Array) -> Array:
        return a[:, -1]

    def adjoint(self, r: Array) -> Array:
        before = namespace(r).zeros((r.shape[0], self.inputs[0] - 1, *r.shape[1:]), r.dtype)
        return xp.concatenate([before, r[:, None]], axis=1)


@part
@dataclass(frozen=True)
class After(Layer):
    """A layer whose inputs come through maps without weights."""

    maps: tuple[LinearMap, ...]
    then: Layer

    @property
    def in_shape(self) -> Shape:
        return self.maps[0].inputs

    @property
    def out_shape(self) -> Shape:
        return self.then.out_shape

    @property
    def fan_in(self) -> int:
        return self.then.fan_in

    def expand(self, a: Array) -> Array:
        for one in self.maps:
            a = one(a)
        return self.then.expand(a)

    def collapse(self, rows: Array) -> Array:
        a = self.then.collapse(rows)
        for one in reversed(self.maps):
            a = one.adjoint(a)
        return a

    def initial_weights(self, normal: Callable[[Shape], Array], scales: Sequence[float]) -> Array:
        return self.then.initial_weights(normal, scales)

    @classmethod
    def example(cls) -> Self:
        return cls((Average((4, 5, 2), (2, 2)),), Dense((2, 2, 2), 3))
