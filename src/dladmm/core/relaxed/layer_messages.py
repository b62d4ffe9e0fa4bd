"""What two groups of layers tell each other of the boundary between them, in how many bits.

`exact` sends the array itself. The others send its change in fewer bits, and both sides take the
change as it was sent: the sender's own array is what the receiver has, never another one. That is
the error feedback: what a message leaves out is still to be gone, so the next one carries it.
Scales are powers of two, so that the sum is rounded alike on both sides, however it is compiled.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dladmm.engine.arrays import Array, load_jax, xp
from dladmm.engine.programs import compiled
from dladmm.engine.sums import for_each

Message = tuple[Array, ...]


@dataclass(frozen=True)
class Messages(ABC):
    """How the values at a boundary are sent. rounds: whether a message is a rounded change, which
    the sender must take for its own."""

    rounds: ClassVar[bool] = True

    @abstractmethod
    def encoded(self, change: Array) -> Message:
        """The message that stands for this change."""

    @abstractmethod
    def decoded(self, message: Message, dtype: Any) -> Array:
        """The change that a message stands for."""

    @abstractmethod
    def bytes_of(self, numbers: int, itemsize: int) -> int:
        """What a message of so many numbers for each sample takes, for each sample."""

    def shapes(self, like: Any) -> tuple[Any, ...]:
        """The arrays of a message about this one, one device's part of it."""
        return tuple(load_jax().eval_shape(self.encoded, like))

    def silent(self, message: Message, keep: Array) -> Message:
        """The message without the samples that are not to move."""
        change, *scale = message
        return (xp.where(for_each(keep, change), change, xp.zeros_like(change)), *scale)

    def taken(self, old: Array, message: Message) -> Array:
        """The array after this message, for whoever had the old one."""
        return old + self.decoded(message, old.dtype)


@dataclass(frozen=True)
class Exact(Messages):
    """The array in the precision of the run."""

    rounds: ClassVar[bool] = False

    def encoded(self, change: Array) -> Message:
        return (change,)

    def decoded(self, message: Message, dtype: Any) -> Array:
        return message[0]

    def bytes_of(self, numbers: int, itemsize: int) -> int:
        return numbers * itemsize

    def taken(self, old: Array, message: Message) -> Array:
        return message[0]


@dataclass(frozen=True)
class BFloat16(Messages):
    """The change in bfloat16: eight bits of it. As integers, since what a compiler does not compute
    with in sixteen bits it would send in thirty-two."""

    def encoded(self, change: Array) -> Message:
        jax = load_jax()
        return (jax.lax.bitcast_convert_type(change.astype(jax.numpy.bfloat16), np.uint16),)

    def decoded(self, message: Message, dtype: Any) -> Array:
        jax = load_jax()
        return jax.lax.bitcast_convert_type(message[0], jax.numpy.bfloat16).astype(dtype)

    def bytes_of(self, numbers: int, itemsize: int) -> int:
        return 2 * numbers


@dataclass(frozen=True)
class EightBits(Messages):
    """The change of each sample in steps of a power of two, whose exponent is another byte."""

    most: ClassVar[int] = 127
    least_exponent: ClassVar[int] = -120

    def encoded(self, change: Array) -> Message:
        size = xp.max(xp.abs(change), axis=tuple(range(1, change.ndim))).reshape(-1, 1)
        _, exponent = xp.frexp(size / self.most)  # size <= most 2^exponent
        exponent = xp.clip(exponent, self.least_exponent, self.most).astype(np.int8)
        steps = xp.round(change / self._scale(exponent, change))
        return xp.clip(steps, -self.most, self.most).astype(np.int8), exponent

    def decoded(self, message: Message, dtype: Any) -> Array:
        steps = message[0].astype(dtype)
        return steps * self._scale(message[1], steps)

    def _scale(self, exponent: Array, like: Array) -> Array:
        """2^exponent of each sample, to the last bit."""
        power = xp.ldexp(xp.ones(exponent.shape, like.dtype), exponent.astype(np.int32))
        return for_each(power, like)

    def bytes_of(self, numbers: int, itemsize: int) -> int:
        return numbers + 1


@compiled("messages")
def _taken(messages: Messages, old: Array, *message: Array) -> Array:
    return messages.taken(old, message)


def taken(messages: Messages, old: Array, *message: Array) -> Array:
    """The array after a message, for the one who received it."""
    return _taken(messages, old, *message) if messages.rounds else message[0]


MESSAGES: dict[str, Messages] = {
    "exact": Exact(),
    "bfloat16": BFloat16(),
    "8bit": EightBits(),
}
