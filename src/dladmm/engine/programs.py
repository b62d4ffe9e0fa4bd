"""Compiled programs: a function as one program for arrays of JAX, as it is for those of NumPy."""

from collections.abc import Callable
from functools import cached_property, update_wrapper
from typing import Any

from dladmm.engine.arrays import any_jax, load_jax


class Compiled:
    """A function that JAX compiles at its first call with arrays of its own, once per shape."""

    def __init__(self, function: Callable[..., Any], settings: dict[str, Any]):
        update_wrapper(self, function)
        self.function, self.settings = function, settings

    @cached_property
    def program(self) -> Any:
        return load_jax().jit(self.function, **self.settings)

    @property
    def lower(self) -> Any:
        """JAX's own: the program for these arguments, before it is compiled."""
        return self.program.lower

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        computes = self.program if any_jax((args, kwargs)) else self.function
        return computes(*args, **kwargs)


def compiled(
    *static: str, donate: str | tuple[str, ...] = (), keep_unused: bool = False
) -> Callable[[Callable[..., Any]], Compiled]:
    """Decorates a function. static: arguments a program is made for; donate: those whose memory it
    may take over; keep_unused: takes it over even from those that the function does not read."""
    settings = {
        "static_argnames": static,
        "donate_argnames": donate,
        "keep_unused": keep_unused,
    }
    return lambda function: Compiled(function, settings)
