"""Messages in fewer bits: what they lose, that both sides agree, and that L_rho still falls."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from layer_sweeps import Sweeps
from problems import small, start
from test_layer_groups import SIZES, THREE, rises, values
from tolerances import ROUNDING

from dladmm.core.relaxed.layer_messages import MESSAGES, EightBits, taken

ROUNDED = ("bfloat16", "8bit")


@dataclass(frozen=True)
class TwoBits(EightBits):
    """Whether a number goes up, down or stays, as far as the furthest goes or three times that."""

    most: ClassVar[int] = 1
    stretch: float = 1.0

    def encoded(self, change):
        return super().encoded(self.stretch * change)


@pytest.mark.parametrize("name", ROUNDED)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_message_is_as_close_as_its_bits_allow(rng, name, dtype):
    change = jnp.asarray(rng.normal(size=(50, 40)) * np.logspace(-6, 6, 50)[:, None], dtype)
    messages = MESSAGES[name]
    message = messages.encoded(change)
    error = np.abs(messages.decoded(message, change.dtype) - change)
    largest = np.abs(change).max(1, keepdims=True)
    # A step is below 2/127 of the largest change of a sample; bfloat16 keeps eight bits of each.
    bound = largest / 127 if name == "8bit" else np.abs(change) / 256
    assert (error <= bound * (1 + ROUNDING)).all()
    assert (error > bound / 8).any()  # a control: it is not exact
    sent = sum(v.nbytes for v in message)
    assert sent == 50 * messages.bytes_of(40, change.dtype.itemsize)


def test_eight_bits_of_nothing_are_nothing():
    messages = MESSAGES["8bit"]
    change = jnp.zeros((3, 4)).at[1, 2].set(1e-30)
    decoded = messages.decoded(messages.encoded(change), change.dtype)
    assert (decoded[0] == 0).all()
    assert decoded[1, 2] == pytest.approx(1e-30, rel=1 / 127)


@pytest.mark.parametrize("name", ROUNDED)
def test_both_sides_have_the_same_bits_however_they_are_compiled(rng, name):
    messages = MESSAGES[name]
    old, new = (jnp.asarray(rng.normal(size=(200, 30)), "float32") for _ in range(2))

    @jax.jit
    def sender(old, new):
        message = messages.encoded(new - old)
        own = messages.taken(old, message)
        return own, jnp.sin(own) * old, message  # whatever else the compiler may fuse it with

    own, _, message = sender(old, new)
    np.testing.assert_array_equal(own, taken(messages, old, *message))
    np.testing.assert_array_equal(own, np.asarray(messages.taken(old, message)))


@pytest.mark.parametrize(
    "messages", [*(MESSAGES[name] for name in ROUNDED), TwoBits(), TwoBits(3.0)], ids=repr
)
def test_rounded_messages_never_raise_the_lagrangian(messages):
    problem, x, y = small(n=60, sizes=SIZES)
    data, state = start(problem, x, y)
    found, rows = values(Sweeps(problem, THREE, data, messages=messages), state, 60)
    assert rises(found) == 0
    assert min(row["tau"] for row in rows) == 0.5  # nu/2, which C_2 takes into account
    exact = values(Sweeps(problem, THREE, data), state, 60)[0]
    assert found[-1] < (found[0] + exact[-1]) / 2  # they are no standstill either


def test_without_its_check_a_coarse_message_does(monkeypatch):
    problem, x, y = small(n=60, sizes=SIZES)
    data, state = start(problem, x, y)
    monkeypatch.setattr(TwoBits, "silent", lambda self, message, keep: message)
    jax.clear_caches()
    assert rises(values(Sweeps(problem, THREE, data, messages=TwoBits(3.0)), state, 60)[0]) > 0
