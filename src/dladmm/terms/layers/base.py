"""What a layer is: a map p = A(W, a), linear in W for fixed a and linear in a for fixed W.

Every map is a dense product on rows: `expand` turns a sample's input into rows of `fan_in` numbers,
one for each position of the output, and

    A(W, a) = expand(a) W^T.

A layer gives `expand` and its adjoint `collapse`; all else follows here, once for all layers.

Shapes: a is (N, *in_shape), expand(a) is (N, *positions, fan_in), p is (N, *positions, units).
A layer with several inputs (`Joined`) has a tuple in place of a, and of in_shape.
Rows of W ("units") and samples are the blocks over which phi separates: units are the first axis of
W and b and the last of p, samples the first of a and p. Sample weights omega_i enter every sum over
samples, and nothing else.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from math import prod
from typing import Any, Self

from dladmm.engine.arrays import Array, namespace, xp
from dladmm.engine.sums import flat_rows, mass, row_gram, total, weighted
from dladmm.engine.windows import in_parts

Shape = tuple[int, ...]
ROWS_AT_ONCE = 2**20  # numbers in the rows that `expand` makes, which the caches should hold
PARTS: dict[str, Any] = {}  # classes whose objects may be fields of a layer, by their names


def part(cls: Any) -> Any:
    """A class whose objects are described within the layers that have them."""
    PARTS[cls.__name__] = cls
    return cls


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
        """The rows that W is multiplied with, (N, *positions, fan_in); linear in a.

        Parameters
        ----------
        a : array
            Inputs, (N, *in_shape).

        Returns
        -------
        array
            The rows.
        """
        raise self._undefined("expand")

    def collapse(self, rows: Array) -> Array:
        """The adjoint of `expand`: <expand(a), rows> = <a, collapse(rows)>.

        Parameters
        ----------
        rows : array
            Shaped like what `expand` returns.

        Returns
        -------
        array
            Shaped like inputs, (N, *in_shape).
        """
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

    @property
    def is_single(self) -> bool:
        """Whether it has one input."""
        return True

    @property
    def has_bias(self) -> bool:
        """Whether b is added; else it stays at zero, and [W b] is W alone."""
        return True

    def mask(self, x: Array) -> Array | None:
        """Where outputs count for samples x, 1 or 0, (N, *positions, 1); None: everywhere.

        Elsewhere the layer's rows are zero, and so must f be at zero: z, a and r stay at zero.
        """
        return None

    # Sizes.

    @property
    def units(self) -> int:
        return self.out_shape[-1]

    @property
    def positions(self) -> int:
        """How many rows one sample has."""
        return prod(self.out_shape[:-1])

    @property
    def least_positions(self) -> int:
        """How many of them count, at least."""
        return self.positions

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
    def n_columns(self) -> int:
        """The columns of [W b]."""
        return self.fan_in + self.has_bias

    @property
    def n_parameters(self) -> int:
        """How many numbers of [W b] are learnt."""
        return self.units * self.n_columns

    @property
    def initial_scale(self) -> float:
        """The spread of random weights that keeps the size of a signal through a ReLU."""
        return (2 / self.fan_in) ** 0.5

    def initial_weights(self, normal: Callable[[Shape], Array], scales: Sequence[float]) -> Array:
        """Random weights, from a source of standard normal numbers; one scale for each input."""
        return normal(self.weight_shape) * (self.initial_scale * scales[0])

    def scaled_columns(self, W: Array, factors: Sequence[Any]) -> Array:
        """W with the columns of each input times a factor, a number or one for each column."""
        return W * factors[0]

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
        return self.change(W, a)

    def change(self, D: Array, a: Array) -> Array:
        """A(W + D, a) - A(W, a)."""
        return self._by_sample(lambda a: self.expand(a) @ D.T, a)

    def adjoint_a(self, W: Array, r: Array) -> Array:
        """The adjoint of a -> A(W, a) at r: the a-gradient of 1/2 |A(W, a)|^2 where r = A(W, a)."""
        return self._by_sample(lambda r: self.collapse(r @ W), r)

    def adjoint_W(self, r: Array, a: Array, weights: Array | None) -> Array:
        """The adjoint of W -> A(W, a) at r, with sample weights."""
        return self._summed(
            lambda r, a, weights: flat_rows(weighted(r, weights)).T @ flat_rows(self.expand(a)),
            *(r, a, weights),
        )

    # One input of several, by its places among them: a may arrive more than once.

    def image(self, W: Array, g: Array, places: Sequence[int] = (0,)) -> Array:
        """What a change g of these inputs changes in A(W, a)."""
        return self.apply(W, g)

    def pullback(self, W: Array, r: Array, places: Sequence[int] = (0,)) -> Array:
        """The adjoint of `image`."""
        return self.adjoint_a(W, r)

    # Rows are made of few samples at a time where they are larger than what they are made of.

    @property
    def samples_at_once(self) -> int | None:
        """None: of all that there are."""
        if self.positions == 1:
            return None
        return max(1, ROWS_AT_ONCE // (self.positions * max(1, self.fan_in)))

    def _by_sample(self, function: Callable[..., Any], *given: Any) -> Any:
        size = self.samples_at_once
        return function(*given) if size is None else in_parts(function, size, *given)

    def _summed(self, function: Callable[..., Any], *given: Any) -> Any:
        size = self.samples_at_once
        return function(*given) if size is None else in_parts(function, size, *given, add=True)

    # [W b] as one matrix: what steps in a matrix metric move.

    def to_matrix(self, W: Array, b: Array) -> Array:
        """[W b], one row for each unit."""
        return xp.concatenate([W, b[:, None]], axis=1) if self.has_bias else W

    def from_matrix(self, M: Array) -> tuple[Array, Array]:
        """(W, b) of M = [W b]."""
        return (M[:, :-1], M[:, -1]) if self.has_bias else (M, xp.zeros_like(M[:, 0]))

    def gradient_matrix(self, r: Array, a: Array, weights: Array | None) -> Array:
        """sum_i omega_i r_i [expand(a_i), 1]^T: the gradient in [W b] of what has slope r in p."""
        return self.to_matrix(self.adjoint_W(r, a, weights), self.unit_sum(r, weights))

    def squared_gradients(self, r: Array, a: Array, weights: Array | None) -> Array:
        """sum_i omega_i g_i^2, g_i the gradient in [W b] of sample i alone.

        A sample's gradient is a sum over its positions, which comes before the square.
        """
        if self.positions == 1:
            squares, rows = weighted(flat_rows(r) ** 2, weights), flat_rows(self.expand(a))
            return self.to_matrix(squares.T @ rows**2, xp.sum(squares, axis=0))

        def of_each(r: Array, a: Array, weights: Array | None) -> Array:
            one_axis = (r.shape[0], self.positions)
            r, rows = r.reshape(*one_axis, -1), self.expand(a).reshape(*one_axis, -1)
            W = xp.einsum("npu,npf->nuf", r, rows)
            square = lambda g: xp.sum(weighted(g**2, weights), axis=0)  # noqa: E731
            return self.to_matrix(square(W), square(xp.sum(r, axis=1)))

        return self._summed(of_each, r, a, weights)

    def gradient_gram(self, r: Array, a: Array) -> Array:
        """<g_i, g_j> for every two rows of r, g_i = r_i^T expand(a_i) the gradient in W of one.

        A sample may have several rows of r, one after the other, and one of a.
        """
        rows = self.expand(a)
        n, each = rows.shape[0], r.shape[0] // rows.shape[0]
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
        of_rows = lambda a, weights: row_gram(self.expand(a), weights)  # noqa: E731
        return self._summed(of_rows, a, weights)

    def gram_with_bias(self, a: Array, weights: Array | None) -> Array:
        """K with sum_i omega_i |A(D, a_i) + d|^2 = <[D d] K, [D d]>: the Gram matrix of [a, 1]."""
        if not self.has_bias:
            return self.gram(a, weights)
        return self._summed(self._gram_with_bias, a, weights)

    def _gram_with_bias(self, a: Array, weights: Array | None) -> Array:
        rows = self.expand(a)
        column = self.unit_sum(rows, weights)[:, None]
        ones = self.unit_count(mass(rows.shape[0], weights, rows.dtype)).reshape(1, 1)
        below = xp.concatenate([column.T, ones], axis=1)
        return xp.concatenate([xp.concatenate([row_gram(rows, weights), column], axis=1), below])

    def unit_gram(self, r: Array, weights: Array | None) -> Array:
        """sum_i omega_i r_i r_i^T, the second moments of what arrives at the units."""
        return row_gram(r, weights)

    def unit_gram_times(self, r: Array, U: Array, weights: Array | None) -> Array:
        """unit_gram(r) U, without the matrix where U has few columns."""
        if 2 * U.shape[1] > U.shape[0]:
            return self.unit_gram(r, weights) @ U
        return flat_rows(r).T @ flat_rows(weighted(r @ U, weights))

    def gram_with_bias_times(self, a: Array, U: Array, weights: Array | None) -> Array:
        """gram_with_bias(a) U, without the matrix where U has few columns."""
        if 2 * U.shape[1] > U.shape[0]:
            return self.gram_with_bias(a, weights) @ U

        def of_rows(a: Array, weights: Array | None) -> Array:
            rows = self.expand(a)
            if not self.has_bias:
                return self.unit_gram_times(rows, U, weights)
            image = weighted(rows @ U[:-1] + U[-1], weights)
            return xp.concatenate(
                [flat_rows(rows).T @ flat_rows(image), self.unit_sum(image, None)[None]]
            )

        return self._summed(of_rows, a, weights)

    def gram_trace(self, a: Array, weights: Array | None) -> Array:
        """The trace of gram_with_bias(a) but for the ones."""
        squares = lambda a, weights: total(self.expand(a) ** 2, weights)  # noqa: E731
        return self._summed(squares, a, weights)

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
        return weighted(r, weights).sum(axis=tuple(range(r.ndim - 1)))

    def unit_count(self, mass: Array) -> Array:
        """What turns `unit_sum` into a mean: how often the bias enters p, `mass` all weights."""
        return mass * self.positions if self.positions > 1 else mass


def _as_lists(value: Any) -> Any:
    """Tuples and layers as JSON knows them, at any depth."""
    if is_dataclass(value):
        described = {one.name: _as_lists(getattr(value, one.name)) for one in fields(value)}
        return {"kind": type(value).__name__, **described}
    return [_as_lists(one) for one in value] if isinstance(value, tuple) else value


def _as_tuples(value: Any) -> Any:
    if isinstance(value, dict):
        stored = {name: _as_tuples(one) for name, one in value.items() if name != "kind"}
        return PARTS[value["kind"]](**stored)
    return tuple(_as_tuples(one) for one in value) if isinstance(value, list) else value
