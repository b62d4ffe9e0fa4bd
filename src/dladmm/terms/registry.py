"""Names for the things a user plugs in."""

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Registry(Generic[T]):
    """Maps a name to the class of a term; `get` accepts a name or an instance.

    Every registered class has defaults for all its fields, so that a name alone is enough and
    the shared tests can build one of each.
    """

    def __init__(self, kind: str, base: type[T], from_callable: Callable[[Any], T] | None = None):
        self.kind = kind
        self._base = base
        self._from_callable = from_callable
        self._classes: dict[str, Callable[[], T]] = {}

    def register(self, name: str, build: Callable[[], T]) -> None:
        self._classes[name] = build

    def build(self, name: str) -> T:
        return self._classes[name]()

    def get(self, spec: str | T | Callable[..., Any]) -> T:
        """The term named or given by `spec`; ValueError names what was expected."""
        if isinstance(spec, self._base):
            return spec
        if isinstance(spec, str) and spec in self._classes:
            return self.build(spec)
        if self._from_callable is not None and callable(spec) and not isinstance(spec, type):
            return self._from_callable(spec)
        raise ValueError(
            f"{self.kind}={spec!r} is unknown; expected one of {', '.join(sorted(self))}"
            f" or an instance of {self._base.__name__}"
        )

    def name_of(self, term: Any) -> str | None:
        """The name the class of `term` is registered under; of a smooth function, its own."""
        return next((name for name in self if _kind(self.build(name)) == _kind(term)), None)

    def __contains__(self, name: object) -> bool:
        return name in self._classes

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)


def _kind(term: Any) -> tuple[type, Any]:
    """What makes two terms the same but for their settings; a smooth activation is its function."""
    return type(term), getattr(term, "function", None)


def needs_jax(term: Any) -> bool:
    """Whether a term computes with arrays of JAX alone.

    Terms of this package take NumPy's too, but for functions whose derivatives JAX must find. A
    term from elsewhere is thought to call JAX unless its own class says `any_arrays = True`.
    """
    own = type(term)
    ours = own.__module__.startswith("dladmm.terms.")
    return getattr(term, "needs_jax", False) or not (ours or vars(own).get("any_arrays", False))
