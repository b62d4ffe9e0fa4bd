"""The optimisers of the race: what they learn, and which network is looked at."""

from itertools import islice

import jax
import numpy as np
import optax
import pytest
from optax import contrib
from test_baselines import course, mean_objective

from dladmm.core.data import padded_data
from dladmm.experiments.baselines import loss_and_gradient
from dladmm.experiments.rivals import RIVALS, rival

pytestmark = pytest.mark.float32


def trained(name, rate, epochs, count=40):
    problem, arrays, params = course(np.float32)
    settings = {"rate": rate, "epochs": epochs, "size": 16, "per_epoch": 1}
    trainer = rival(problem, arrays, params, 0, name=name, **settings)
    last = list(islice(trainer, count))[-1].params
    return mean_objective(problem, arrays, params), mean_objective(problem, arrays, last), last


@pytest.mark.slow
@pytest.mark.parametrize("one", RIVALS, ids=lambda one: one.name)
def test_every_rival_lowers_the_loss(one):
    epochs = one.epochs[0] and 40
    start, end, _ = trained(one.name, one.rates[0], epochs)
    assert end < start


def test_schedule_free_is_looked_at_at_its_average():
    problem, arrays, params = course(np.float32)
    settings = {"rate": 5e-3, "epochs": None, "size": len(arrays[0]), "per_epoch": 1}
    trainer = rival(problem, arrays, params, 0, name="schedule-free adamw", **settings)
    seen = list(islice(trainer, 3))[-1].params
    method, y = contrib.schedule_free_adamw(5e-3), params
    memory, data = method.init(params), padded_data(problem, arrays, with_gram=False)
    for _ in range(3):
        gradient = loss_and_gradient(problem, data, y)[1]
        update, memory = method.update(gradient, memory, y)
        y = optax.apply_updates(y, update)
    # It differentiates at y = (1 - b1) z + b1 x, steps from z, and is to be looked at at x.
    x = jax.tree.map(lambda y, z: (y - 0.1 * z) / 0.9, y, memory.z)
    apart = lambda one: max(  # noqa: E731
        float(np.abs(a - b).max())
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(seen), strict=True)
    )
    assert apart(x) < 1e-5
    assert apart(y) > 10 * apart(x)


def test_the_average_of_dog_is_that_of_its_authors():
    problem, arrays, params = course(np.float32)
    settings = {"rate": None, "epochs": None, "size": len(arrays[0]), "per_epoch": 1}
    plain = rival(problem, arrays, params, 0, name="dog", **settings)
    averaged = rival(problem, arrays, params, 0, name="averaged dog", **settings)
    # PolynomialDecayAverager of formll/dog: the k-th has a weight of (1 + gamma)/(k + gamma).
    Z = params
    for k, (one, two) in enumerate(zip(islice(plain, 12), averaged, strict=False), 1):
        c = 9 / (k + 8)
        Z = jax.tree.map(lambda Z, V, c=c: (1 - c) * Z + c * V, Z, one.params)
        for mine, theirs in zip(*map(jax.tree.leaves, (Z, two.params)), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-9)
    last = zip(*map(jax.tree.leaves, (one.params, two.params, params)), strict=True)
    assert any(np.abs(V - Z).max() > 0.1 * np.abs(V - start).max() for V, Z, start in last)


def test_a_schedule_of_a_rate_free_method_ends_with_its_epochs():
    problem, arrays, params = course(np.float32)

    def moved(name, epochs):
        """How far it goes in two epochs after the two of the schedule."""
        settings = {"rate": None, "epochs": epochs, "size": 16, "per_epoch": 1}
        trainer = rival(problem, arrays, params, 0, name=name, **settings)
        networks = [made.params.W[0] for made in islice(trainer, 4)]
        return float(np.linalg.norm(networks[3] - networks[1]))

    for name in ("prodigy", "d-adapt adamw", "mechanic adam"):
        scheduled = next(r.name for r in RIVALS if r.name.endswith(" " + name))
        assert moved(name, None) > 0
        # Their momenta and scales still move what has no rate left.
        assert moved(scheduled, 2) < 0.5 * moved(scheduled, 8), name
