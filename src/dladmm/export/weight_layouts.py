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
