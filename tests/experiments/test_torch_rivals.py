"""PyTorch's optimisers train the network that JAX's train, on the same loss."""

from itertools import islice

import jax
import numpy as np
import pytest
from test_baselines import N, course, mean_objective, numbers
from tolerances import FLOAT32_STEP

from dladmm.experiments import baselines
from dladmm.experiments.torch_rivals import TORCH_RIVALS, TorchRival, torch_rival

pytestmark = pytest.mark.float32

WHOLE = {"rate": 0.01, "size": N, "per_epoch": 1}


@pytest.mark.parametrize("work", [lambda: course(np.float32), numbers])
def test_torch_and_optax_take_the_same_first_step(work):
    problem, arrays, params = work()
    adam = TORCH_RIVALS[0]
    one = next(baselines.mini_batch(problem, arrays, params, 0, name="adam", **WHOLE)).params
    two = next(torch_rival(problem, arrays, params, 0, make=adam.make, **WHOLE)).params
    for a, b, start in zip(*map(jax.tree.leaves, (one, two, params)), strict=True):
        np.testing.assert_allclose(a, b, rtol=FLOAT32_STEP, atol=1e-6)
        assert np.abs(np.asarray(a) - start).max() > 0.005


@pytest.mark.parametrize("one", TORCH_RIVALS, ids=lambda one: one.name)
def test_every_one_that_is_installed_lowers_the_loss(one):
    if not one.is_installed:
        pytest.skip(f"{one.package} is not installed")
    problem, arrays, params = course(np.float32)
    grid = {"rate": one.rates[-1], "size": 16, "per_epoch": 1}
    trainer = torch_rival(problem, arrays, params, 0, make=one.make, **grid)
    last = list(islice(trainer, 40))[-1].params
    assert mean_objective(problem, arrays, last) < mean_objective(problem, arrays, params)


def test_a_package_that_is_not_there_is_left_out():
    assert TORCH_RIVALS[0].is_installed
    assert not TorchRival("x", "y", lambda p, r: None, package="no_such_package").is_installed
