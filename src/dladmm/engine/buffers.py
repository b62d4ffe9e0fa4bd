"""Compiler tricks that spare copies of large arrays, each behind a name that says what it does.

NumPy's arrays need none of them: there the plain value is returned.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from dladmm.engine.arrays import Array, is_jax, load_jax, xp

ALIGNMENT = 64  # bytes; from other places JAX copies what it is handed


def lendable(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array of NumPy's that programs on a CPU can read where it lies."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


def in_memory_of(old: Array, new: Array, number: Array) -> Array:
    """`new`, written to where `old` lies; `number` is any value that broadcasts and is finite.

    It is always `new`; but a kernel that might read `old` is given its memory to write to.
    """
    return xp.where(xp.isnan(number), old, new) if is_jax(new) else new


def stored_after(new: Array, number: Array) -> Array:
    """`new`, stored once `number` is known, which is finite and computed from the old array.

    Else the old block would be copied first, to be still there when the number is computed.
    """
    return new + 0 * number if is_jax(new) else new


def positive_part(z: Array) -> Array:
    """max(z, 0), with a zero of its own: one that several sums share would be stored as an array of
    zeros."""
    return _positive_part()(z) if is_jax(z) else xp.maximum(z, 0)


@lru_cache
def _positive_part() -> Any:
    jax = load_jax()
    jnp = jax.numpy

    @jax.custom_jvp
    def function(z: Array) -> Array:
        z, zero = jax.lax.optimization_barrier((z, jnp.zeros((), z.dtype)))
        return jnp.maximum(z, zero)

    @function.defjvp
    def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
        (z,), (dz,) = primals, tangents
        return function(z), jnp.where(z > 0, dz, 0)

    return function
