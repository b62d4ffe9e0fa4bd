"""Loops and branches: of a compiled program for arrays of JAX, of Python for those of NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dladmm.engine import trees
from dladmm.engine.arrays import Array, any_jax, is_jax, load_jax


def repeat(count: int, body: Callable[[Any], Any], start: Any) -> Any:
    """`body` applied `count` times to the carried values."""
    if any_jax(start):
        return load_jax().lax.fori_loop(0, count, lambda _, carry: body(carry), start)
    for _ in range(count):
        start = body(start)
    return start


def over(count: Any, step: Callable[[Any, Any], Any], start: Any, given: Any) -> Any:
    """step(state, given[k]) for the first `count` of what is given, one after the other."""
    at = lambda k: trees.map(lambda v: v[k], given)  # noqa: E731
    if any_jax((start, given)):
        advance = lambda k, state: step(state, at(k))  # noqa: E731
        return load_jax().lax.fori_loop(0, count, advance, start)
    for k in range(count):
        start = step(start, at(k))
    return start


def repeat_while(unfinished: Callable[[Any], Array], body: Callable[[Any], Any], start: Any) -> Any:
    """`body` applied while `unfinished` says so; every condition counts, so that it ends."""
    if any_jax(start):
        return load_jax().lax.while_loop(unfinished, body, start)
    while unfinished(start):
        start = body(start)
    return start


def branch(
    condition: Array, then: Callable[[Any], Any], otherwise: Callable[[Any], Any], given: Any
) -> Any:
    """then(given) or otherwise(given); only one of them is computed."""
    if any_jax((condition, given)):
        return load_jax().lax.cond(condition, then, otherwise, given)
    return then(given) if condition else otherwise(given)


def either(condition: Array, one: Any, other: Any) -> Any:
    """One of two trees, as a whole."""
    if not is_jax(condition):
        return one if condition else other
    choose = load_jax().numpy.where
    return trees.map(lambda v, w: choose(condition, v, w), one, other)


def through_time(step: Callable[[Any, Any], tuple[Any, Any]], start: Any, given: Any) -> Any:
    """step(state, what is given at t) -> (state, result) for every time t, the second axis of what
    is given and of the results, which are returned."""
    turned = lambda tree: trees.map(lambda v: v.swapaxes(0, 1), tree)  # noqa: E731
    if any_jax((start, given)):
        return turned(load_jax().lax.scan(step, start, turned(given))[1])
    results, by_time = [], turned(given)
    for t in range(len(next(trees.leaves(by_time)))):
        start, result = step(start, trees.map(lambda v: v[t], by_time))  # noqa: B023
        results.append(result)
    return trees.map(lambda *v: np.stack(v, axis=1), *results)
