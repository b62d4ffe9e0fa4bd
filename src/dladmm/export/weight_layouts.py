"""The two layouts of a matrix of weights.

Here the columns of W go place after place over a window, the channels of a place side by side.
PyTorch and ONNX have the channels first: (units, channels, *window). A dense layer that reads a
flattened sample is one window that is the whole sample.
"""

import numpy as np

Shape = tuple[int, ...]


def channels_first(W: np.ndarray, window: Shape) -> np.ndarray:
    """(units, channels, *window) of our W."""
    return np.moveaxis(np.reshape(W, (len(W), *window, -1)), -1, 1)


def channels_last(weight: np.ndarray, window: Shape) -> np.ndarray:
    """Our W of (units, channels, *window), flattened or not: the inverse of `channels_first`."""
    split = np.reshape(weight, (len(weight), -1, *window))
    return np.moveaxis(split, 1, -1).reshape(len(weight), -1)


def in_groups(weight: np.ndarray, groups: int) -> np.ndarray:
    """(units, channels of a group, *window) of (units, channels, *window): what PyTorch and ONNX
    have of a convolution in groups."""
    parts = np.split(weight, groups)
    return np.concatenate([np.split(one, groups, axis=1)[k] for k, one in enumerate(parts)])


def out_of_groups(weight: np.ndarray, groups: int) -> np.ndarray:
    """The inverse of `in_groups`, with zeros where a unit does not look."""
    units, channels = weight.shape[:2]
    found = np.zeros((units, channels * groups, *weight.shape[2:]), weight.dtype)
    for k in range(groups):
        rows = slice(k * units // groups, (k + 1) * units // groups)
        found[rows, k * channels : (k + 1) * channels] = weight[rows]
    return found
