"""Bounded loops of the engine: compiled by JAX as loops, not unrolled."""

from collections.abc import Callable
from typing import Any

import jax
from jax import Array


def repeat(count: int, body: Callable[[Any], Any], start: Any) -> Any:
    """`body` applied `count` times to the carried values."""
    return jax.lax.fori_loop(0, count, lambda _, carry: body(carry), start)


def repeat_while(unfinished: Callable[[Any], Array], body: Callable[[Any], Any], start: Any) -> Any:
    """`body` applied while `unfinished` says so; every condition counts, so that it ends."""
    return jax.lax.while_loop(unfinished, body, start)
