"""Several inputs at one node: skips, and recurrence over time, of unequal lengths too."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from dladmm.engine.arrays import Array, namespace, xp
from dladmm.engine.loops import through_time
from dladmm.engine.sums import added
from dladmm.terms.layers.base import Layer, Shape, part
from dladmm.terms.layers.convolution import at_each_position

RECURRENT_SCALE = 0.9  # of the orthogonal matrix that a state is multiplied with at the start


@part
@dataclass(frozen=True)
class Skip(Layer):
    """p = a, without weights: its matrix has no columns."""

    inputs: Shape

    @property
    def in_shape(self) -> Shape:
        return self.inputs

    @property
    def out_shape(self) -> Shape:
        return self.inputs

    @property
    def fan_in(self) -> int:
        return 0

    def expand(self, a: Array) -> Array:
        return a[..., :0]

    def collapse(self, rows: Array) -> Array:
        return namespace(rows).zeros((rows.shape[0], *self.inputs), rows.dtype)

    def apply(self, W: Array, a: Array) -> Array:
        return a

    def change(self, D: Array, a: Array) -> Array:
        return xp.zeros_like(a)

    def adjoint_a(self, W: Array, r: Array) -> Array:
        return r

    def adjoint_W(self, r: Array, a: Array, weights: Array | None) -> Array:
        return namespace(r).zeros(self.weight_shape, r.dtype)

    def initial_weights(self, normal: Callable[[Shape], Array], scales: Sequence[float]) -> Array:
        return normal(self.weight_shape)


@part
@dataclass(frozen=True)
class Delayed(Layer):
    """At each step, a dense product with the states of the step before; with zeros at first."""

    inputs: Shape  # (steps, units)
    outputs: int

    @property
    def in_shape(self) -> Shape:
        return self.inputs

    @property
    def out_shape(self) -> Shape:
        return (self.inputs[0], self.outputs)

    @property
    def fan_in(self) -> int:
        return self.inputs[1]

    def expand(self, a: Array) -> Array:
        return xp.concatenate([xp.zeros_like(a[:, :1]), a[:, : self.inputs[0] - 1]], axis=1)

    def collapse(self, rows: Array) -> Array:
        return xp.concatenate([rows[:, 1:], xp.zeros_like(rows[:, :1])], axis=1)

    def initial_weights(self, normal: Callable[[Shape], Array], scales: Sequence[float]) -> Array:
        """A state neither grows nor fades much: part of an orthogonal matrix."""
        n = max(self.weight_shape)
        q = np.linalg.qr(normal((n, n)))[0]
        return RECURRENT_SCALE * q[: self.outputs, : self.fan_in]

    @classmethod
    def example(cls) -> Self:
        return cls((4, 3), 3)


@dataclass(frozen=True)
class Joined(Layer):
    """p = sum_k A_k(W_k, a_k): several maps with one output, W their matrices side by side.

    a is the tuple of all a_k. `own` is the place of the input that is the node's own output, one
    step of time earlier; None where there is none.
    """

    parts: tuple[Layer, ...]
    own: int | None = None

    @property
    def is_single(self) -> bool:
        return False

    @property
    def in_shape(self) -> Any:
        return tuple(one.in_shape for one in self.parts)

    @property
    def out_shape(self) -> Shape:
        return self.parts[0].out_shape

    @property
    def fan_in(self) -> int:
        return sum(one.fan_in for one in self.parts)

    def split(self, columns: Array) -> list[Array]:
        """The columns of each part: of W, or of rows that it is multiplied with."""
        ends = np.cumsum([one.fan_in for one in self.parts])
        return [
            columns[..., end - one.fan_in : end] for one, end in zip(self.parts, ends, strict=True)
        ]

    def skips(self, place: int) -> bool:
        """Whether this input is added as it is."""
        return isinstance(self.parts[place], Skip)

    def expand(self, a: Any) -> Array:
        pairs = zip(self.parts, a, strict=True)
        return xp.concatenate([one.expand(v) for one, v in pairs], axis=-1)

    def collapse(self, rows: Array) -> Any:
        pairs = zip(self.parts, self.split(rows), strict=True)
        return tuple(one.collapse(v) for one, v in pairs)

    def apply(self, W: Array, a: Any) -> Array:
        blocks = zip(self.parts, self.split(W), a, strict=True)
        return added(one.apply(V, v) for one, V, v in blocks)

    def adjoint_a(self, W: Array, r: Array) -> Any:
        pairs = zip(self.parts, self.split(W), strict=True)
        return tuple(one.adjoint_a(V, r) for one, V in pairs)

    def adjoint_W(self, r: Array, a: Any, weights: Array | None) -> Array:
        pairs = zip(self.parts, a, strict=True)
        return xp.concatenate([one.adjoint_W(r, v, weights) for one, v in pairs], axis=1)

    def image(self, W: Array, g: Array, places: Sequence[int] = (0,)) -> Array:
        columns = self.split(W)
        return added(self.parts[k].apply(columns[k], g) for k in places)

    def pullback(self, W: Array, r: Array, places: Sequence[int] = (0,)) -> Array:
        columns = self.split(W)
        return added(self.parts[k].adjoint_a(columns[k], r) for k in places)

    def initial_weights(self, normal: Callable[[Shape], Array], scales: Sequence[float]) -> Array:
        pairs = zip(self.parts, scales, strict=True)
        return np.concatenate([one.initial_weights(normal, [s]) for one, s in pairs], axis=1)

    def scaled_columns(self, W: Array, factors: Sequence[Any]) -> Array:
        pairs = zip(self.split(W), factors, strict=True)
        return xp.concatenate([V * factor for V, factor in pairs], axis=1)

    # A node that reads its own output goes step by step.

    @property
    def _others(self) -> list[int]:
        return [k for k in range(len(self.parts)) if k != self.own]

    def run(
        self, W: Array, b: Array, a: Any, f: Callable[[Array], Array]
    ) -> tuple[Array, Array, Array]:
        """p, z = p + b and f(z) of every step; a has anything in the place of its own output."""
        assert self.own is not None
        columns, V = self.split(W), self.split(W)[self.own]
        given = added(self.parts[k].apply(columns[k], a[k]) for k in self._others)

        def step(state: Array, given: Array) -> tuple[Array, Any]:
            p = given + state @ V.T
            z = p + b
            state = f(z)
            return state, (p, z, state)

        start = namespace(given).zeros((given.shape[0], self.units), given.dtype)
        p, z, states = through_time(step, start, given)
        return p, z, states

    def run_back(
        self, W: Array, z: Array, g: Array, target: Callable[[Array, Array], Array]
    ) -> Array:
        """r_t = target(z_t, g_t + V^T r_{t+1}) of every step, from the last to the first: g is what
        arrives at the states from elsewhere."""
        assert self.own is not None
        V = self.split(W)[self.own]

        def step(later: Array, given: Any) -> tuple[Array, Array]:
            z, g = given
            r = target(z, g + later)
            return r @ V, r

        reverse = lambda v: v[:, ::-1]  # noqa: E731
        start = xp.zeros_like(g[:, 0])
        return reverse(through_time(step, start, (reverse(z), reverse(g))))

    @classmethod
    def example(cls) -> Self:
        return cls((at_each_position((4, 2), 3), Delayed((4, 3), 3), Skip((4, 3))), own=1)


@part
@dataclass(frozen=True)
class Present(Layer):
    """p = w at each step of a sequence and 0 elsewhere, by the last channel of its input: a bias
    that has no say in the padding."""

    inputs: Shape  # (steps, channels), the last of which is 1 where a sequence is
    outputs: int

    @property
    def in_shape(self) -> Shape:
        return self.inputs

    @property
    def out_shape(self) -> Shape:
        return (self.inputs[0], self.outputs)

    @property
    def fan_in(self) -> int:
        return 1

    def expand(self, a: Array) -> Array:
        return a[..., -1:]

    def collapse(self, rows: Array) -> Array:
        others = namespace(rows).zeros((*rows.shape[:-1], self.inputs[1] - 1), rows.dtype)
        return xp.concatenate([others, rows], axis=-1)

    def initial_weights(self, normal: Callable[[Shape], Array], scales: Sequence[float]) -> Array:
        """Zeros, as any bias."""
        return 0 * normal(self.weight_shape)

    def scaled_columns(self, W: Array, factors: Sequence[Any]) -> Array:
        """The last channel's factor is that of W."""
        return W * np.atleast_1d(factors[0])[-1]


@dataclass(frozen=True)
class Masked(Joined):
    """A recurrence over sequences of unequal length, which all end at the last step.

    The last channel of x is 1 where a sequence is and 0 before it, as all of x is there. Its weight
    stands for the bias, so that before a sequence all rows are zero and the state stays where it
    starts, at f(0) = 0.
    """

    @property
    def has_bias(self) -> bool:
        return False

    @property
    def least_positions(self) -> int:
        return 1

    def mask(self, x: Array) -> Array | None:
        return (x[..., -1:] != 0).astype(x.dtype)

    @classmethod
    def example(cls) -> Self:
        inner = (at_each_position((4, 2), 3), Delayed((4, 3), 3), Present((4, 3), 3))
        return cls(inner, own=1)
