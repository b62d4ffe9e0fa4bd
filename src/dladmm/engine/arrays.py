"""Arrays of either engine: NumPy's, computed at once, or JAX's, which are traced and compiled.

A formula is written once. `xp.exp(v)` is NumPy's for a NumPy array and JAX's for one of JAX: what
arrives decides, and nothing else has to be passed along. Constants are NumPy's in both, and no
array that arrives is ever changed in place.

JAX is loaded by `load_jax`, where its engine is chosen, and nowhere else: importing it takes longer
than most small fits.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dladmm.engine import trees
from dladmm.engine.process import keep_compiled_programs

Array = Any  # one of either engine

_NOT_JAX = (np.ndarray, np.generic, float, int, type(None), str, slice)


def load_jax() -> Any:
    """The package jax, which from now on knows our trees and keeps what it compiles."""
    import jax

    trees.tell_jax()
    keep_compiled_programs()
    return jax


def is_jax(value: Any) -> bool:
    """Whether this is an array of JAX, traced ones included."""
    if isinstance(value, _NOT_JAX):
        return False
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.Array)


def any_jax(tree: Any) -> bool:
    """Whether a tree has an array of JAX among its leaves."""
    return "jax" in sys.modules and any(map(is_jax, trees.leaves(tree)))


def namespace(*values: Any) -> Any:
    """The module of functions for these arrays, and for those in lists and tuples of them."""
    for value in values:
        if isinstance(value, _NOT_JAX):
            continue
        if isinstance(value, list | tuple):
            if namespace(*value) is not np:
                return sys.modules["jax"].numpy
        elif is_jax(value):
            return sys.modules["jax"].numpy
    return np


class _Namespace:
    """Functions by their name in NumPy, each from the namespace of its own arguments."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        of_numpy = getattr(np, name)

        def function(*args: Any, **kwargs: Any) -> Any:
            if "jax" not in sys.modules or (found := namespace(*args)) is np:
                return of_numpy(*args, **kwargs)
            return getattr(found, name)(*args, **kwargs)

        setattr(self, name, function)
        return function


xp: Any = _Namespace()


# Functions that neither namespace has.


def softmax(z: Array, axis: int) -> Array:
    """exp(z_j)/sum_k exp(z_k) along an axis."""
    e = xp.exp(z - xp.max(z, axis=axis, keepdims=True))
    return e / xp.sum(e, axis=axis, keepdims=True)


def sigmoid(z: Array) -> Array:
    """1/(1 + exp(-z)), without a number that overflows."""
    return xp.exp(xp.minimum(z, 0)) / (1 + xp.exp(-xp.abs(z)))


def softplus(z: Array) -> Array:
    """log(1 + exp(z))."""
    return xp.logaddexp(z, np.zeros((), z.dtype))


def turned(v: Array) -> Array:
    """v^T, stored row by row: a sum over few columns is several times faster along long rows."""
    return v.T if is_jax(v) else np.ascontiguousarray(v.T)


def vector(scalars: Sequence[Any], dtype: Any) -> Array:
    """Scalars of either engine as one vector."""
    if "jax" in sys.modules and any(map(is_jax, scalars)):
        return xp.stack([s.astype(dtype) for s in scalars])
    return np.array(scalars, dtype)


def bit_pattern(v: Array) -> Array:
    """The bits of these numbers as unsigned integers of four bytes; pairs of them for eight."""
    if is_jax(v):
        return load_jax().lax.bitcast_convert_type(v, np.uint32)
    pairs = (2,) if v.dtype.itemsize == 8 else ()
    bits: Any = np.ascontiguousarray(v).view(np.uint32).reshape(*v.shape, *pairs)
    return bits


def from_bit_pattern(bits: Array, like: Array) -> Array:
    """The numbers of these bits, in the dtype and for the engine of `like`."""
    if is_jax(like):
        return load_jax().lax.bitcast_convert_type(bits, like.dtype)
    numbers: Any = np.ascontiguousarray(bits).view(like.dtype).reshape(like.shape)
    return numbers
