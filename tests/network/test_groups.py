"""Convolutions in groups: against `jax.lax`, and zeros between groups that no method fills."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_networks import GROUPED, samples_of
from tolerances import EXACT_STEP

from dladmm import Options, Problem, solve
from dladmm.core.initial import initial_params
from dladmm.export.weight_layouts import channels_first, in_groups, out_of_groups
from dladmm.network import Conv1D, Conv2D, Dense, Network

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(3, 6, 5, 4))


def layer_and_weights(groups, filters=8):
    item = Conv2D(filters, (3, 2), strides=(2, 1), dilation=(1, 2), padding=1, groups=groups)
    layer = Network(IMAGES.shape[1:], [item, "relu", Dense(2)]).graph.layers[0]
    drawn = RNG.normal(size=layer.weight_shape), np.zeros(layer.units)
    return layer, layer.from_matrix(layer.to_matrix(*drawn))[0]


def by_lax(layer, W, groups):
    """The same by XLA's own convolution, whose groups are contiguous too."""
    kernel = in_groups(channels_first(W, layer.window), groups)
    return jax.lax.conv_general_dilated(
        jnp.asarray(IMAGES),
        jnp.asarray(kernel),
        layer.strides,
        layer.padding,
        rhs_dilation=layer.dilation,
        dimension_numbers=("NHWC", "OIHW", "NHWC"),
        feature_group_count=groups,
    )


@pytest.mark.parametrize("groups", [2, 4])
def test_groups_are_those_of_xla(groups):
    layer, W = layer_and_weights(groups)
    found, expected = layer.apply(W, IMAGES), by_lax(layer, W, groups)
    np.testing.assert_allclose(found, expected, rtol=EXACT_STEP, atol=EXACT_STEP)
    mixed = np.roll(IMAGES, 1, axis=-1)  # a control: another order of channels
    assert np.abs(layer.apply(W, mixed) - expected).max() > 0.1


def test_weights_without_groups_and_back():
    layer, W = layer_and_weights(4)
    full = channels_first(W, layer.window)
    compact = in_groups(full, 4)
    assert compact.shape == (8, 1, 3, 2)
    np.testing.assert_array_equal(out_of_groups(compact, 4), full)
    assert (W != 0).sum() == layer.n_parameters - layer.units == 8 * 6


def test_a_step_in_the_metric_of_groups_is_that_of_each_group_alone():
    """S~^-1 G K~^-1 of moments with zeros between groups: two small problems side by side."""
    layer, _ = layer_and_weights(2)
    r = RNG.normal(size=(3, *layer.out_shape))
    G, K = layer.gradient_matrix(r, IMAGES, None), layer.gram_with_bias(IMAGES, None)
    step = np.linalg.solve(layer.unit_gram(r, None), G) @ np.linalg.inv(K + np.eye(len(K)))
    kept = layer.to_matrix(*layer.from_matrix(step))
    np.testing.assert_allclose(step, kept, atol=EXACT_STEP * np.abs(step).max())
    for k in range(2):
        half = Network((6, 5, 2), [Conv2D(4, (3, 2), (2, 1), 1, (1, 2)), Dense(2)]).graph.layers[0]
        own, a = r[..., 4 * k : 4 * k + 4], IMAGES[..., 2 * k : 2 * k + 2]
        K_own = half.gram_with_bias(a, None)
        alone = np.linalg.solve(half.unit_gram(own, None), half.gradient_matrix(own, a, None))
        alone = alone @ np.linalg.inv(K_own + np.eye(len(K_own)))
        V, b = layer.from_matrix(step)
        V = V.reshape(8, 6, 4)[4 * k : 4 * k + 4, :, 2 * k : 2 * k + 2].reshape(4, -1)
        np.testing.assert_allclose(V, alone[:, :-1], rtol=1e-8)
        np.testing.assert_allclose(b[4 * k : 4 * k + 4], alone[:, -1], rtol=1e-8)


RUNS = [
    {},
    {"batch_size": 8},
    {"method": "dladmm"},
    {"method": "dladmm", "step_rule": "closed-form"},
]


@pytest.mark.parametrize("regularizer", ["l2", "l1"])
@pytest.mark.parametrize("how", RUNS, ids=str)
def test_no_method_fills_the_zeros_between_groups(how, regularizer):
    problem = Problem.of_network(GROUPED, regularizer=regularizer)
    x, y = samples_of(GROUPED, RNG, 20), np.eye(3)[RNG.integers(0, 3, 20)]
    options = Options(rho=1.5, dtype="float64", engine="numpy", max_iter=5, init="paper", **how)
    start = initial_params(problem, "paper", 0, np.dtype(np.float64))
    for params in (start, solve(problem, x, y, options=options).params):
        for layer, W in zip(problem.layers[:2], params.W, strict=False):
            assert not W[layer.pattern == 0].any()
            assert regularizer == "l1" or W[layer.pattern == 1].all()


def test_the_summary_counts_what_is_learnt():
    network = Network((6, 4), [Conv1D(8, 3, groups=4), "relu", Dense(2)])
    assert network.n_weights == 8 * (3 + 1) + 2 * (8 * 4 + 1)
    assert "convolution 3, 4 groups" in network.summary()


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (lambda: Conv2D(6, 3, groups=3), "groups=3 does not divide 4 channels and 6 filters"),
        (lambda: Conv2D(6, 3, groups=4), "groups=4 does not divide 4 channels and 6 filters"),
        (lambda: Conv2D(6, 3, groups=0), r"Conv2D\(groups=0\) is not valid; expected an integer"),
    ],
)
def test_groups_that_do_not_fit_are_refused(item, message):
    with pytest.raises(ValueError, match=message):
        Network((6, 5, 4), [item(), "relu", Dense(2)])
