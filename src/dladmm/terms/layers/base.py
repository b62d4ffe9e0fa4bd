"""What a layer is: a map p = A(W, a), linear in W for fixed a and linear in a for fixed W.

Every map is a dense product on rows: `expand` turns a sample's input into rows of `fan_in` numbers,
one for each position of the output, and

    A(W, a) = expand(a) W^T.

A layer gives `expand` and its adjoint `collapse`; all else follows here, once for all layers.

Shapes: a is (N, *in_shape), expand(a) is (N, *positions, fan_in), p is (N, *positions, units).
Rows of W ("units") and samples are the blocks over which phi separates: units are the first axis of
W and b and the last of p, samples the first of a and p. Sample weights omega_i enter every sum over
samples, and nothing else.
"""

from dataclasses import dataclass, fields
from math import prod
from typing import Any, Self

from dladmm.engine.arrays import Array, namespace, xp
from dladmm.engine.sums import flat_rows, mass, weighted

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Layer:
    """The contract. A new layer defines the five members that raise here, and is registered."""

    @property
    def in_shape(self) -> Shape:
        """The shape of one sample's input."""
        raise self._undefined("in_shape")

    @property
    def out_shape(self) -> Shape:
        """The shape of one sample's output, units last."""
        raise self._undefined("out_shape")

    def expand(self, a: Array) -> Array:
        """The rows that W is multiplied with, (N, *positions, fan_in); linear in a."""
        raise self._undefined("expand")

    def collapse(self, rows: Array) -> Array:
        """The adjoint of `expand`: <expand(a), rows> = <a, collapse(rows)>."""
        raise self._undefined("collapse")

    @property
    def fan_in(self) -> int:
        """How many inputs a unit sees at one position."""
        raise self._undefined("fan_in")

    @classmethod
    def example(cls) -> Self:
        """A small layer of this kind, which the shared tests hold to the contract."""
        raise TypeError(f"{cls.__name__} does not define example")

    def _undefined(self, member: str) -> TypeError:
        return TypeError(f"{type(self).__name__} does not define {member}")

    # Sizes.

    @property
    def units(self) -> int:
        return self.out_shape[-1]

    @property
    def positions(self) -> int:
        """How many rows one sample has."""
        return prod(self.out_shape[:-1])

    @property
    def weight_shape(self) -> Shape:
        return (self.units, self.fan_in)

    @property
    def bias_shape(self) -> Shape:
        return (self.units,)

    @property
    def n_weights(self) -> int:
        return self.units * self.fan_in

    @property
    def initial_scale(self) -> float:
        """The spread of random weights that keeps the size of a signal through a ReLU."""
        return (2 / self.fan_in) ** 0.5

    def describe(self) -> dict[str, Any]:
        """The fields, as a model file and a checkpoint hold them beside the registered name."""
        return {field.name: _as_lists(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_description(cls, stored: dict[str, Any]) -> Self:
        """The layer that `describe` described; TypeError for fields it does not have."""
        return cls(**{name: _as_tuples(value) for name, value in stored.items()})

    # The map and its adjoints.

    def apply(self, W: Array, a: Array) -> Array:
        """A(W, a)."""
        return self.expand(a) @ W.T

    def adjoint_a(self, W: Array, r: Array) -> Array:
        """The adjoint of a -> A(W, a) at r: the a-gradient of 1/2 |A(W, a)|^2 where r = A(W, a)."""
        return self.collapse(r @ W)

    def adjoint_W(self, r: Array, a: Array, weights: Array | None) -> Array:
        """The adjoint of W -> A(W, a) at r, with sample weights."""
        return flat_rows(weighted(r, weights)).T @ flat_rows(self.expand(a))

    # [W b] as one matrix: what steps in a matrix metric move.

    def to_matrix(self, W: Array, b: Array) -> Array:
        """[W b], one row for each unit."""
        return xp.concatenate([W, b[:, None]], axis=1)

    def from_matrix(self, M: Array) -> tuple[Array, Array]:
        """(W, b) of M = [W b]."""
        return M[:, :-1], M[:, -1]

    def gradient_matrix(self, r: Array, a: Array, weights: Array | None) -> Array:
        """sum_i omega_i r_i [expand(a_i), 1]^T: the gradient in [W b] of what has slope r in p."""
        return self.to_matrix(self.adjoint_W(r, a, weights), self.unit_sum(r, weights))

    def squared_gradients(self, r: Array, a: Array, weights: Array | None) -> Array:
        """sum_i omega_i g_i^2, g_i the gradient in [W b] of sample i alone.

        A sample's gradient is a sum over its positions, which comes before the square.
        """
        rows = self.expand(a)
        if self.positions == 1:
            squares = weighted(flat_rows(r) ** 2, weights)
            return self.to_matrix(squares.T @ flat_rows(rows) ** 2, xp.sum(squares, axis=0))
        one_axis = (r.shape[0], self.positions)
        r, rows = r.reshape(*one_axis, -1), rows.reshape(*one_axis, -1)
        W = xp.einsum("npu,npf->nuf", r, rows)
        square = lambda g: xp.sum(weighted(g**2, weights), axis=0)  # noqa: E731
        return self.to_matrix(square(W), square(xp.sum(r, axis=1)))

    def gradient_gram(self, r: Array, a: Array) -> Array:
        """<g_i, g_j> for every two rows of r, g_i = r_i^T expand(a_i) the gradient in W of one.

        A sample may have several rows of r, one after the other, and one of a.
        """
        n, each, rows = a.shape[0], r.shape[0] // a.shape[0], self.expand(a)
        if self.positions == 1:
            r, rows = flat_rows(r), flat_rows(rows)
            of_rows = (r @ r.T).reshape(n, each, n, each) * (rows @ rows.T)[:, None, :, None]
            return of_rows.reshape(len(r), len(r))
        r = r.reshape(n, each, self.positions, -1)
        rows = rows.reshape(n, self.positions, -1)
        g = xp.einsum("nepu,npf->neuf", r, rows).reshape(n * each, -1)
        return g @ g.T

    # Second moments.

    def gram(self, a: Array, weights: Array | None) -> Array:
        """K with sum_i omega_i |A(D, a_i)|^2 = <D K, D> for every D, row by row."""
        return self.unit_gram(self.expand(a), weights)

    def gram_with_bias(self, a: Array, weights: Array | None) -> Array:
        """K with sum_i omega_i |A(D, a_i) + d|^2 = <[D d] K, [D d]>: the Gram matrix of [a, 1]."""
        rows = self.expand(a)
        column = self.unit_sum(rows, weights)[:, None]
        ones = self.unit_count(mass(rows.shape[0], weights, rows.dtype)).reshape(1, 1)
        below = xp.concatenate([column.T, ones], axis=1)
        return xp.concatenate(
            [xp.concatenate([self.unit_gram(rows, weights), column], axis=1), below]
        )

    def unit_gram(self, r: Array, weights: Array | None) -> Array:
        """sum_i omega_i r_i r_i^T, the second moments of what arrives at the units."""
        return flat_rows(weighted(r, weights)).T @ flat_rows(r)

    def unit_gram_times(self, r: Array, U: Array, weights: Array | None) -> Array:
        """unit_gram(r) U, without the matrix where U has few columns."""
        if 2 * U.shape[1] > U.shape[0]:
            return self.unit_gram(r, weights) @ U
        return flat_rows(r).T @ flat_rows(weighted(r @ U, weights))

    def gram_with_bias_times(self, a: Array, U: Array, weights: Array | None) -> Array:
        """gram_with_bias(a) U, without the matrix where U has few columns."""
        if 2 * U.shape[1] > U.shape[0]:
            return self.gram_with_bias(a, weights) @ U
        rows = self.expand(a)
        image = weighted(rows @ U[:-1] + U[-1], weights)
        return xp.concatenate(
            [flat_rows(rows).T @ flat_rows(image), self.unit_sum(image, None)[None]]
        )

    def input_gram(self, W: Array) -> Array:
        """K with |A(W, d)|^2 = <d K, d> for every input d, which is one row of all its numbers."""
        M = self.input_map(W)
        return M @ M.T

    def input_map(self, W: Array) -> Array:
        """M with A(W, a) = a M, a and p as one row each of all their numbers."""
        n = prod(self.in_shape)
        inputs = namespace(W).eye(n, dtype=W.dtype).reshape(n, *self.in_shape)
        return self.apply(W, inputs).reshape(n, -1)

    def times_gram(self, D: Array, K: Array) -> Array:
        """D K: the adjoint of W -> A(W, a) at A(D, a), without a pass over the samples."""
        return D @ K

    # Sums for each unit.

    def unit_squares(self, p: Array, weights: Array | None) -> Array:
        """sum_i omega_i p_ij^2 for each unit j, shaped to broadcast against W."""
        return self.unit_sum(p * p, weights)[:, None]

    def scale_units(self, p: Array, step: Array) -> Array:
        """A(step W, a) from p = A(W, a), for a step that broadcasts against the rows of W."""
        return p * step[:, 0]

    def unit_sum(self, r: Array, weights: Array | None) -> Array:
        """sum_i omega_i r_i for each unit: shaped like the bias, whose adjoint this is."""
        return xp.sum(weighted(r, weights), axis=tuple(range(r.ndim - 1)))

    def unit_count(self, mass: Array) -> Array:
        """What turns `unit_sum` into a mean: how often the bias enters p, `mass` all weights."""
        return mass * self.positions if self.positions > 1 else mass


def _as_lists(value: Any) -> Any:
    """Tuples as JSON knows them, at any depth."""
    return [_as_lists(one) for one in value] if isinstance(value, tuple) else value


def _as_tuples(value: Any) -> Any:
    return tuple(_as_tuples(one) for one in value) if isinstance(value, list) else value
