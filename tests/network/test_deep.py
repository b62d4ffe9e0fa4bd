"""Deep networks without skips: every layer's step is right by itself, and all together too long."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from dladmm import Options, Problem, solve
from dladmm.core.restored import mini_batch
from dladmm.network import Conv2D, Dense, GlobalAveragePool, Network

IMAGES, DIGITS = load_digits().images[:600, ..., None] / 16, np.eye(10)[load_digits().target[:600]]


def losses(seed):
    strides = (1, 1, 1, 2, 1, 1, 1)
    layers = [v for k in strides for v in (Conv2D(8, 3, strides=k, padding="same"), "relu")]
    network = Network((8, 8, 1), [*layers, GlobalAveragePool(), Dense(10)])
    options = Options(
        batch_size=50, max_iter=6, seed=seed, dtype="float32", engine="numpy", tol=None
    )
    result = solve(Problem.of_network(network), IMAGES, DIGITS, options=options)
    return result.history["train_loss"]


def learned(found):
    """Whether the losses fell well below those of a constant, log 10, and were never far above."""
    return max(found) < 3.0 and found[-1] < 0.8 * found[0]


@pytest.mark.parametrize("seed", [0, 1])
def test_seven_convolutions_learn(seed):
    assert learned(losses(seed))


@pytest.mark.parametrize("seed", [0, 1])
def test_without_a_bound_on_all_changes_together_they_do_not(seed, monkeypatch):
    monkeypatch.setattr(mini_batch, "MOST_CHANGE", np.inf)
    assert not learned(losses(seed))
