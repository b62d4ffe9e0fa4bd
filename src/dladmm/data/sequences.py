"""Sequences of unequal length as one array."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def padded(sequences: Sequence[Any], shape: tuple[int, ...]) -> np.ndarray:
    """(n, steps, channels): zeros in front of each, and a channel that says where a sequence is."""
    steps, channels = shape
    arrays = [np.asarray(sequence, np.float64) for sequence in sequences]
    longest = max(len(one) for one in arrays)
    widths = {one.shape[1] if one.ndim == 2 else 0 for one in arrays}
    if longest > steps or widths != {channels - 1}:
        raise ValueError(
            f"X has sequences of up to {longest} steps and {sorted(widths)} channels; expected at"
            f" most {steps} steps and {channels - 1} channels, for a network with"
            f" in_shape=({steps}, {channels}): one channel more says where a sequence is"
        )
    found = np.zeros((len(arrays), steps, channels))
    for row, one in zip(found, arrays, strict=True):
        row[steps - len(one) :, : channels - 1] = one
        row[steps - len(one) :, channels - 1] = 1
    return found
