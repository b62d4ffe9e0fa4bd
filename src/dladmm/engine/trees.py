"""Trees of arrays: tuples, lists, dictionaries and registered dataclasses; None is an empty tree.

As JAX's own trees, but known without JAX. Fields marked STATIC are not data: a program is compiled
for them.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any, TypeVar

T = TypeVar("T")

STATIC = {"static": True}  # metadata of a field

_registered: list[type] = []
_known_to_jax: set[type] = set()


def register(cls: type[T]) -> type[T]:
    """A dataclass as a tree of its fields, here and for JAX."""
    _registered.append(cls)
    if "jax" in sys.modules:
        tell_jax()
    return cls


def tell_jax() -> None:
    """Register with JAX what is registered here."""
    import jax

    for cls in _registered:
        if cls not in _known_to_jax:
            jax.tree_util.register_dataclass(cls)
            _known_to_jax.add(cls)


def map(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """`function` of every leaf, and of those in the same places of other trees."""
    if tree is None:
        return None
    if isinstance(tree, tuple | list):
        built = [map(function, *parts) for parts in zip(tree, *others, strict=True)]
        return type(tree)(*built) if hasattr(tree, "_fields") else type(tree)(built)
    if isinstance(tree, dict):
        return {key: map(function, *(one[key] for one in (tree, *others))) for key in sorted(tree)}
    if type(tree) in _registered:
        names = _data_of(type(tree))
        pairs = {name: [getattr(one, name) for one in (tree, *others)] for name in names}
        return replace(tree, **{name: map(function, *pair) for name, pair in pairs.items()})
    return function(tree, *others)


def leaves(tree: Any) -> Iterator[Any]:
    """Every leaf, in order."""
    found: list[Any] = []
    _gather(tree, found)
    return iter(found)


def _gather(tree: Any, found: list[Any]) -> None:
    if tree is None:
        return
    if isinstance(tree, tuple | list):
        parts: Any = tree
    elif isinstance(tree, dict):
        parts = [tree[key] for key in sorted(tree)]  # as JAX does
    elif type(tree) in _registered:
        parts = [getattr(tree, name) for name in _data_of(type(tree))]
    else:
        found.append(tree)
        return
    for part in parts:
        _gather(part, found)


def _data_of(cls: Any) -> list[str]:
    return [field.name for field in fields(cls) if not field.metadata.get("static")]
