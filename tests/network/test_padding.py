"""Zeros around the inputs of a convolution, by numbers: as if the inputs had them themselves."""

import numpy as np
import pytest

from dladmm import Network
from dladmm.network import Conv1D, Conv2D, Dense

IMAGE = np.random.default_rng(0).normal(size=(3, 5, 4, 2))


def node(item, shape):
    return Network(shape, [item, "relu", Dense(2)]).graph.layers[0]


@pytest.mark.parametrize(
    ("padding", "zeros"),
    [
        (0, ((0, 0), (0, 0))),
        (2, ((2, 2), (2, 2))),
        ((1, 0), ((1, 1), (0, 0))),
        ([[0, 1], [2, 0]], ((0, 1), (2, 0))),
    ],
)
def test_zeros_are_added_before_and_behind(padding, zeros):
    padded = np.pad(IMAGE, ((0, 0), *zeros, (0, 0)))
    item = Conv2D(3, (3, 2), strides=(2, 1), padding=padding)
    assert item.padding == zeros
    hash(item)
    layer = node(item, IMAGE.shape[1:])
    plain = node(Conv2D(3, (3, 2), strides=(2, 1)), padded.shape[1:])
    W = np.random.default_rng(1).normal(size=layer.weight_shape)
    np.testing.assert_array_equal(layer.apply(W, IMAGE), plain.apply(W, padded))


def test_the_side_of_the_zeros_matters():
    """Control: as many zeros on the other side give something else."""
    before, behind = (node(Conv1D(1, 2, padding=[one]), (4, 1)) for one in ((1, 0), (0, 1)))
    W, a = np.array([[1.0, 2.0]]), np.arange(4.0).reshape(1, 4, 1)
    assert before.out_shape == behind.out_shape
    assert not np.array_equal(before.apply(W, a), behind.apply(W, a))


@pytest.mark.parametrize(
    ("padding", "message"),
    [
        ("full", r"Conv2D\(padding='full'\) is unknown; expected one of valid, same, or numbers"),
        (-1, r"Conv2D\(padding=-1\) is not valid; expected an integer >= 0"),
        (1.5, r"Conv2D\(padding=1.5\) is not valid; expected an integer >= 0"),
        ((1, 2, 3), "is for 3 axes; expected one number, or 2"),
        (((1, 2, 3), 1), "has 3 numbers; expected one, or 2"),
    ],
)
def test_other_paddings_are_refused(padding, message):
    with pytest.raises(ValueError, match=message):
        Conv2D(3, 3, padding=padding)
