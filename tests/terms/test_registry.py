"""Names, instances and callables are turned into terms; everything else is refused in words."""

import jax.numpy as jnp
import numpy as np
import pytest

from dladmm.terms.activations import Activation, LeakyReLU, ReLU, activations
from dladmm.terms.losses import LogLoss, Loss, losses
from dladmm.terms.regularizers import L2, Regularizer, regularizers

REGISTRIES = {
    "activation": (activations, Activation, LeakyReLU(0.3), "relu"),
    "loss": (losses, Loss, LogLoss(max_iter=7), "log_loss"),
    "regularizer": (regularizers, Regularizer, L2(0.5), "elastic_net"),
}
each_kind = pytest.mark.parametrize("kind", list(REGISTRIES))


@each_kind
@pytest.mark.parametrize("spec", ["no_such_term", 3, None, ["relu"]])
def test_an_unknown_spec_is_refused_with_kind_value_and_expectation(kind, spec):
    registry, base, _, known = REGISTRIES[kind]
    with pytest.raises(ValueError, match="expected") as error:
        registry.get(spec)
    message = str(error.value)
    assert f"{kind}={spec!r}" in message
    assert all(name in message for name in registry)
    assert known in message
    assert base.__name__ in message


@each_kind
def test_every_name_gives_an_instance_of_the_base(kind):
    registry, base, _, _ = REGISTRIES[kind]
    assert all(isinstance(registry.get(name), base) for name in registry)


@each_kind
def test_equal_names_give_equal_hashable_terms(kind):
    registry = REGISTRIES[kind][0]
    assert all(registry.get(name) == registry.get(name) for name in registry)
    assert len({registry.get(name) for name in registry}) == len(list(registry))


@each_kind
def test_an_instance_passes_through(kind):
    registry, _, instance, _ = REGISTRIES[kind]
    assert registry.get(instance) is instance


def test_a_callable_becomes_an_activation():
    z = jnp.linspace(-2, 2, 9)
    activation = activations.get(jnp.sin)
    assert isinstance(activation, Activation)
    np.testing.assert_array_equal(activation(z), jnp.sin(z))


@pytest.mark.parametrize("registry", [losses, regularizers])
def test_a_callable_is_no_loss_and_no_regularizer(registry):
    with pytest.raises(ValueError, match="expected"):
        registry.get(jnp.sin)


def test_a_class_is_refused_because_it_is_not_an_instance():
    with pytest.raises(ValueError, match="instance of Activation"):
        activations.get(ReLU)
