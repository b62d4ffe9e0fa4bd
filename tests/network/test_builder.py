"""Networks as people write them down: the graph they give, their shapes, and what is refused."""

import json
from dataclasses import replace

import numpy as np
import pytest
from small_networks import NETWORKS, RECURRENT, RESIDUAL

from dladmm import Network, Problem
from dladmm.io.json_values import decode, encode
from dladmm.network import (
    AveragePool,
    Conv1D,
    Conv2D,
    Dense,
    Flatten,
    GlobalAveragePool,
    MaxPool,
    Recurrent,
    Residual,
)
from dladmm.network.graph import INPUT
from dladmm.terms.activations import Identity, MaxPooled, ReLU
from dladmm.terms.layers import After, Convolution, Joined, Skip

LENET = [
    *(Conv2D(16, 5), ReLU(), MaxPool(2), Conv2D(32, 5), ReLU(), MaxPool(2)),
    *(Dense(128), ReLU(), Dense(10)),
]


def test_a_convolutional_network_is_a_chain_with_pooling_in_its_activations():
    graph = Network((28, 28, 1), LENET).graph
    assert [layer.out_shape for layer in graph.layers] == [(24, 24, 16), (8, 8, 32), (128,), (10,)]
    assert graph.activations == (MaxPooled(ReLU(), (2, 2)), MaxPooled(ReLU(), (2, 2)), ReLU())
    assert graph.sources == ((INPUT,), (0,), (1,), (2,))
    assert [layer.weight_shape for layer in graph.layers] == [
        *((16, 25), (32, 400)),
        *((128, 4 * 4 * 32), (10, 128)),
    ]


def test_what_has_no_weights_belongs_to_the_layer_that_follows():
    graph = Network((8, 8, 2), [Conv2D(3, 3), AveragePool(2), Flatten(), Dense(4)]).graph
    assert graph.activations == (Identity(),)
    assert isinstance(graph.layers[1], After)
    assert graph.layers[1].in_shape == (6, 6, 3)
    assert graph.layers[1].fan_in == 27


def test_a_residual_block_adds_its_input_before_the_activation():
    graph = RESIDUAL.graph
    assert graph.sources == ((INPUT,), (0,), (1, 0), (2, 2), (3,))
    assert isinstance(graph.layers[2].parts[1], Skip)
    projection = graph.layers[3].parts[1]
    assert isinstance(projection, Convolution)
    assert (projection.window, projection.strides, projection.outputs) == ((1, 1), (2, 2), 5)


def test_a_recurrence_reads_itself_and_passes_its_last_state_on():
    graph = RECURRENT.graph
    assert graph.sources == ((INPUT, 0), (0,))
    assert isinstance(graph.layers[0], Joined)
    assert graph.layers[0].own == 1
    assert graph.layers[1].in_shape == (5, 4)
    assert graph.layers[1].fan_in == 4
    all_states = Network((5, 2), [Recurrent(4, states="all"), Dense(3)]).graph
    assert all_states.layers[1].fan_in == 20


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_hashable_and_comes_back_from_json(name):
    network = NETWORKS[name]
    assert hash(network) == hash(Network(network.in_shape, list(network.layers)))
    stored = json.loads(json.dumps(encode("network", network)))
    assert decode(stored) == network


def test_the_summary_counts_weights_and_bytes():
    network = Network((28, 28, 1), LENET)
    text = network.summary()
    weights = 16 * 26 + 32 * 401 + 128 * 513 + 10 * 129
    assert network.n_weights == weights
    assert f"{weights:,}" in text
    assert f"{4 * weights:,}" in text
    assert "convolution 5x5 + ReLU + max pool 2x2" in text
    assert "12x12x16 = 2304" in text


@pytest.mark.parametrize(
    ("in_shape", "items", "sentence"),
    [
        ((8, 8, 1), ["lstm", Dense(2)], "lstm does not fit: its gates"),
        ((8, 8, 1), ["BatchNormalization", Dense(2)], "does not fit: it ties the samples"),
        ((8, 8, 1), ["MultiHeadAttention", Dense(2)], "does not fit: it multiplies its inputs"),
        ((8, 8, 1), [7, Dense(2)], "7 is no layer of a network; expected Dense, Conv1D"),
        ((8,), [Conv2D(3, 3), Dense(2)], r"expected \(height, width, channels\) for Conv2D"),
        ((8, 8, 1), [Recurrent(3), Dense(2)], r"expected \(steps, channels\) for Recurrent"),
        ((8, 8, 1), [Flatten(), Conv1D(3, 3)], r"its inputs have shape \(64,\)"),
        ((8, 8, 1), ["relu", Dense(2)], "follows no layer with weights"),
        ((8, 8, 1), [MaxPool(2), Dense(2)], "follows no activation"),
        ((4, 4, 1), [Conv2D(3, 5), Dense(2)], "does not fit into inputs of shape"),
        ((4, 4, 1), [Conv2D(3, 3), "relu", MaxPool(3), Dense(2)], "window is larger"),
        ((8, 8, 1), [Conv2D(3, 3), "relu", GlobalAveragePool()], "ends with an activation or a"),
        ((8, 8, 1), [Dense(2), "relu"], "ends with an activation or a pooling"),
        ((8, 8, 1), [Flatten()], "no layer with weights"),
        ((8, 8, 1), [Residual([Conv2D(3, 3), "relu"]), Dense(2)], "last layer has no weights"),
        ((9, 9, 1), [Residual([Conv2D(1, 4)]), Dense(2)], "has no map"),
        ((0, 8, 1), [Dense(2)], r"in_shape=\(0, 8, 1\) is not valid"),
        ("image", [Dense(2)], "in_shape='image' is not valid"),
    ],
)
def test_what_does_not_fit_together_is_refused_in_a_sentence(in_shape, items, sentence):
    with pytest.raises(ValueError, match=sentence):
        Network(in_shape, items)


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: Dense(0), r"Dense\(units=0\) is not valid; expected an integer >= 1"),
        (lambda: Conv2D(3, (3, 3, 3)), r"has 3 numbers; expected one, or 2"),
        (lambda: Conv2D(3, 3, padding="full"), r"padding='full'\) is unknown"),
        (lambda: Recurrent(3, states="both"), r"states='both'\) is unknown"),
        (lambda: Recurrent(3, "tan"), "activation='tan' is unknown"),
    ],
)
def test_a_wrong_field_is_refused_by_its_name(build, sentence):
    with pytest.raises(ValueError, match=sentence):
        build()


def test_a_problem_checks_the_shapes_of_what_its_layers_read():
    problem = Problem.of_network(RESIDUAL)
    assert problem.in_shape == (6, 6, 2)
    assert problem.out_shape == (3,)
    assert problem.readers[0] == ((1, (0,)), (2, (1,)))
    assert problem.readers[2] == ((3, (0, 1)),)
    with pytest.raises(ValueError, match="layers do not form a chain: layer 2 has outputs of"):
        replace(problem, sources=())


def test_two_poolings_in_a_row_are_one():
    one = Network((16, 16, 1), [Conv2D(2, 1), "relu", MaxPool(2), MaxPool((2, 4)), Dense(2)])
    assert one.graph.activations == (MaxPooled(ReLU(), (4, 8)),)
    z = np.random.default_rng(0).normal(size=(2, 16, 16, 2))
    inner, outer = MaxPooled(ReLU(), (2, 2)), MaxPooled(Identity(), (2, 4))
    np.testing.assert_array_equal(one.graph.activations[0](z), outer(inner(z)))
