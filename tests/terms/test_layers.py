"""The contract of layers: adjoints, Gram matrices and squared gradients of every registered one.

`jax.linear_transpose` and `jax.grad` are the oracles: neither is used by the implementation.
"""

import json
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from layer_examples import Selected, layers_under_test
from tolerances import EXACT_STEP, ROUNDING

from dladmm.core.problem import described_layers, layers_from
from dladmm.terms.layers import Dense, Layer, layers

N = 5
WEIGHTS = np.array([0.5, 1.0, 2.0, 0.0, 3.0])


@dataclass(frozen=True)
class TwoPositions(Layer):
    """Rows are the two halves of an input: one position after the other, as in a recurrence."""

    @property
    def in_shape(self):
        return (2, 3)

    @property
    def out_shape(self):
        return (2, 4)

    @property
    def fan_in(self):
        return 3

    def expand(self, a):
        return a

    def collapse(self, rows):
        return rows


@dataclass(frozen=True)
class WrongAdjoint(Dense):
    """A control: the adjoint of `expand` is off by a factor."""

    def collapse(self, rows):
        return 2 * super().collapse(rows)


@dataclass(frozen=True)
class WrongGram(Dense):
    """A control: sample weights enter twice."""

    def gram(self, a, weights):
        return super().gram(a, weights**2)


@dataclass(frozen=True)
class SquaredTooSoon(TwoPositions):
    """A control: positions are squared before they are added up."""

    def squared_gradients(self, r, a, weights):
        halves = [Dense((3,), 4).squared_gradients(r[:, k], a[:, k], weights) for k in range(2)]
        return halves[0] + halves[1]


@dataclass(frozen=True)
class GramTooSoon(TwoPositions):
    """A control: positions are multiplied before they are added up."""

    def gradient_gram(self, r, a):
        halves = [Dense((3,), 4).gradient_gram(r[:, k], a[:, k]) for k in range(2)]
        return halves[0] + halves[1]


@dataclass(frozen=True)
class BiasOfOnePosition(TwoPositions):
    """A control: the bias is added up at the first position alone, and counted at both."""

    def unit_sum(self, r, weights):
        return super().unit_sum(r.at[:, 1].set(0), weights)


@dataclass(frozen=True)
class BiasCountedOnce(TwoPositions):
    """A control: a bias that is there at both positions is counted as if at one."""

    def unit_count(self, mass):
        return super().unit_count(mass) / 2


@dataclass(frozen=True)
class BiasInFront(Dense):
    """A control: the column of the bias comes first on the way into the matrix, last out of it."""

    def to_matrix(self, W, b):
        return jnp.roll(super().to_matrix(W, b), 1, axis=1)


every_layer = pytest.mark.parametrize("layer", [*layers_under_test(), TwoPositions()], ids=str)


def drawn(layer, seed=0):
    """W, b, a and r of the layer's shapes; a is a tuple where it has several inputs."""
    rng = np.random.default_rng(seed)
    normal = lambda *shape: jnp.asarray(rng.normal(size=shape))  # noqa: E731
    drawn = normal(*layer.weight_shape), normal(*layer.bias_shape)
    W, b = layer.from_matrix(layer.to_matrix(*drawn))  # without what the layer does not have
    if layer.is_single:
        return W, b, normal(N, *layer.in_shape), normal(N, *layer.out_shape)
    a = tuple(normal(N, *shape) for shape in layer.in_shape)
    return W, b, a, normal(N, *layer.out_shape)


def taken(tree, which):
    """Some of the samples."""
    return jax.tree.map(lambda v: v[which], tree)


def transposed(function, like, cotangent):
    return jax.linear_transpose(function, like)(cotangent)[0]


def adjoint_errors(layer):
    """How far both adjoints are from those of `jax.linear_transpose`, relative to their size."""
    W, _, a, r = drawn(layer)
    weighted = r * WEIGHTS.reshape(-1, *(1,) * (r.ndim - 1))
    expected = transposed(lambda v: layer.apply(W, v), a, r)
    of_inputs = zip(*map(jax.tree.leaves, (layer.adjoint_a(W, r), expected)), strict=True)
    pairs = (
        *of_inputs,
        (layer.adjoint_W(r, a, None), transposed(lambda V: layer.change(V, a), W, r)),
        (layer.adjoint_W(r, a, WEIGHTS), transposed(lambda V: layer.change(V, a), W, weighted)),
    )
    return [float(jnp.abs(one - two).max() / jnp.abs(two).max()) for one, two in pairs]


def per_sample_squares(layer, a, b):
    """sum_i omega_i |A(D, a_i) + d|^2 by its definition."""

    def of(D, d=b):
        p = layer.change(D, a) + d
        return WEIGHTS @ jnp.sum(p.reshape(N, -1) ** 2, axis=1)

    return of


def gram_errors(layer):
    D, d, a, r = drawn(layer, seed=1)
    zero = jnp.zeros_like(d)
    squares = per_sample_squares(layer, a, zero)
    M = layer.to_matrix(D, d)
    flat = r.reshape(-1, layer.units)
    omega = jnp.repeat(WEIGHTS, layer.positions)[:, None]
    found = {
        "gram": jnp.sum(layer.times_gram(D, layer.gram(a, WEIGHTS)) * D) / squares(D),
        "with bias": jnp.sum(M @ layer.gram_with_bias(a, WEIGHTS) * M) / squares(D, d),
        "units": jnp.sum(layer.unit_gram(r, WEIGHTS) @ D * D) / jnp.sum(omega * (flat @ D) ** 2),
        "unit squares": jnp.sum(layer.unit_squares(layer.change(D, a), WEIGHTS)) / squares(D),
        "trace": layer.gram_trace(a, WEIGHTS) / jnp.trace(layer.gram(a, WEIGHTS)),
    }
    if layer.is_single:
        image, row = layer.apply(D, a[:1]).ravel(), a[0].ravel()
        found["inputs"] = row @ layer.input_gram(D) @ row / (image @ image)
    return {name: abs(float(ratio) - 1) for name, ratio in found.items()}


def squared_gradient_error(layer):
    """Against the squares of `jax.grad` for each sample alone."""
    W, b, a, r = drawn(layer, seed=2)

    def value(W, b, a_i, r_i):
        return jnp.sum(r_i * (layer.change(W, taken(a_i, None))[0] + b))

    G, g = jax.vmap(jax.grad(value, argnums=(0, 1)), (None, None, 0, 0))(W, b, a, r)
    square = lambda v: jnp.tensordot(WEIGHTS, v**2, 1)  # noqa: E731
    expected = layer.to_matrix(square(G), square(g))
    found = layer.squared_gradients(r, a, WEIGHTS)
    return float(jnp.abs(found - expected).max() / expected.max())


def gradient_gram_error(layer, each=1):
    """Against inner products of `jax.grad` for each row of r alone; a sample has `each` rows."""
    W, _, a, r = drawn(layer, seed=3)
    n = N // each
    a, r = taken(a, slice(0, n)), r[: n * each]
    value = lambda W, a_i, r_i: jnp.sum(r_i * layer.change(W, taken(a_i, None))[0])  # noqa: E731
    repeated = jax.tree.map(lambda v: jnp.repeat(v, each, axis=0), a)
    g = jax.vmap(jax.grad(value), (None, 0, 0))(W, repeated, r)
    g = g.reshape(n * each, -1)
    expected = g @ g.T
    return float(jnp.abs(layer.gradient_gram(r, a) - expected).max() / expected.max())


@every_layer
def test_adjoints_are_those_of_the_map(layer):
    assert max(adjoint_errors(layer)) <= ROUNDING


@every_layer
def test_gram_matrices_give_the_squares_of_images(layer):
    errors = gram_errors(layer)
    assert max(errors.values()) <= EXACT_STEP, errors


@every_layer
def test_squared_gradients_are_those_of_each_sample(layer):
    assert squared_gradient_error(layer) <= EXACT_STEP


@every_layer
@pytest.mark.parametrize("each", [1, 2])
def test_gradient_grams_are_inner_products_of_each_samples_gradient(layer, each):
    assert gradient_gram_error(layer, each) <= EXACT_STEP


def test_the_checks_can_fail():
    assert gradient_gram_error(GramTooSoon()) > 0.1
    assert max(adjoint_errors(WrongAdjoint((3,), 2))) > 0.1
    assert gram_errors(WrongGram((3,), 2))["gram"] > 0.1
    assert squared_gradient_error(SquaredTooSoon()) > 0.1
    assert bias_errors(BiasOfOnePosition())[0] > 0.1
    assert bias_errors(BiasCountedOnce())[1] > 0.1
    assert matrix_errors(BiasInFront((3,), 2))[0] > 0.1
    assert matrix_errors(BiasOfOnePosition())[1] > 0.1


@every_layer
def test_rows_made_a_few_samples_at_a_time_give_the_same(layer, monkeypatch):
    """One sample at a time against all at once; five is divided by nothing but one and itself."""
    W, b, a, r = drawn(layer)
    M = layer.to_matrix(W, b)

    def all_of_it():
        return [
            layer.apply(W, a),
            layer.adjoint_a(W, r),
            layer.adjoint_W(r, a, WEIGHTS),
            layer.gram(a, WEIGHTS),
            layer.gram_with_bias(a, WEIGHTS),
            layer.gram_with_bias_times(a, M.T[:, :1], WEIGHTS),
            layer.squared_gradients(r, a, WEIGHTS),
        ]

    whole = jax.tree.leaves(all_of_it())
    for size in (1, 2):
        monkeypatch.setattr(type(layer), "samples_at_once", size)
        for one, two in zip(whole, jax.tree.leaves(all_of_it()), strict=True):
            np.testing.assert_allclose(two, one, rtol=EXACT_STEP, atol=EXACT_STEP)


@every_layer
def test_the_parts_of_a_change_add_up(layer):
    """A change of all inputs is that of each of them, and so is what is pulled back."""
    W, _, a, r = drawn(layer)
    inputs = (a,) if layer.is_single else a
    images = [layer.image(W, v, (k,)) for k, v in enumerate(inputs)]
    np.testing.assert_allclose(sum(images), layer.apply(W, a), rtol=EXACT_STEP, atol=EXACT_STEP)
    for k, v in enumerate(inputs):
        one, two = jnp.vdot(images[k], r), jnp.vdot(v, layer.pullback(W, r, (k,)))
        np.testing.assert_allclose(one, two, rtol=EXACT_STEP)


def entry_error(found, expected):
    """The largest error of an entry, relative to itself."""
    size = jnp.maximum(jnp.abs(expected), jnp.finfo(expected.dtype).tiny)
    return float(jnp.max(jnp.abs(found - expected) / size))


def bias_errors(layer):
    """How far the sums over a bias's images are from `jax.linear_transpose`, and from its count."""
    _, b, _, r = drawn(layer)
    shift = lambda d: jnp.zeros_like(r) + d  # noqa: E731
    expected = transposed(shift, b, r)
    ones = layer.unit_sum(jnp.ones_like(r), WEIGHTS)
    count = layer.unit_count(WEIGHTS.sum()) * jnp.ones_like(b)
    pairs = (layer.unit_sum(r, None), expected), (count, ones)
    return [entry_error(one, two) for one, two in pairs]


@every_layer
def test_the_bias_enters_as_often_as_it_is_counted(layer):
    assert max(bias_errors(layer)) <= ROUNDING


def matrix_errors(layer):
    """Whether [W b] gives back what it was made of, and how far its gradient is from `jax.grad`."""
    W, b, a, r = drawn(layer)
    returned = zip(layer.from_matrix(layer.to_matrix(W, b)), (W, b), strict=True)
    lost = max(float(jnp.abs(one - two).max()) for one, two in returned)

    def value(M):
        V, d = layer.from_matrix(M)
        return jnp.sum(r * (layer.change(V, a) + d))

    expected = jax.grad(value)(layer.to_matrix(W, b))
    return lost, entry_error(layer.gradient_matrix(r, a, None), expected)


@every_layer
def test_a_matrix_holds_weights_and_bias(layer):
    lost, error = matrix_errors(layer)
    assert lost == 0
    assert error <= EXACT_STEP


@every_layer
def test_scaling_units_scales_their_products(layer):
    W, b, a, _ = drawn(layer)
    step = b[:, None]
    scaled = layer.scale_units(layer.change(W, a), step)
    np.testing.assert_allclose(scaled, layer.change(step * W, a), rtol=EXACT_STEP, atol=EXACT_STEP)


@pytest.mark.parametrize("name", list(layers))
def test_a_described_layer_comes_back(name):
    layer = layers.get(name)
    (described,) = described_layers([layer])
    assert described["layer"] == name
    assert layers_from([described]) == (layer,)


def test_nested_fields_come_back_as_they_were():
    """JSON has lists only; a layer must stay hashable."""

    @dataclass(frozen=True)
    class Windows(Layer):
        corners: tuple[tuple[int, int], ...]

    layer = Windows(((0, 1), (2, 3)))
    stored = json.loads(json.dumps(layer.describe()))
    assert Windows.from_description(stored) == layer
    assert hash(Windows.from_description(stored)) == hash(layer)


def test_a_layer_that_is_not_registered_or_has_other_fields_is_refused():
    with pytest.raises(ValueError, match="the layer 'conv9d' is not registered here"):
        layers_from([{"layer": "conv9d"}])
    with pytest.raises(ValueError, match="the layer 'dense' has other fields here"):
        layers_from([{"layer": "dense", "kernel": 3}])


def test_an_unfinished_layer_says_what_it_lacks():
    with pytest.raises(TypeError, match="Layer does not define expand"):
        Layer().expand(jnp.ones(3))
    with pytest.raises(TypeError, match="TwoPositions does not define example"):
        TwoPositions.example()


def test_the_toy_layer_is_registered_like_any_other():
    assert "selected" in layers
    assert isinstance(layers.get("selected"), Selected)
