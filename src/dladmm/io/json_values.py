"""Parameters and fitted attributes as plain JSON, and back: no code is ever stored.

JSON's own values stand for themselves; what it lacks is an object with one key that starts with $:

    {"$tuple": [...]}    {"$float": "inf"}    {"$items": [[key, value], ...]}
    {"$array": [...], "dtype": "<U3"}         {"$term": "activation", "name": ..., "fields": {...}}
"""

import dataclasses
import math
from typing import Any

import numpy as np

from dladmm.core.relaxed.schedules import BalanceResiduals, CloseGap, Constant, Multiply
from dladmm.core.relaxed.step_rules import Backtracking, ClosedForm, Matrix
from dladmm.network import Dense, Network
from dladmm.network.items import items
from dladmm.terms.activations import Activation, Smooth, activations
from dladmm.terms.layers import layers
from dladmm.terms.losses import losses
from dladmm.terms.registry import Registry
from dladmm.terms.regularizers import regularizers

_schedules: Registry[Any] = Registry("schedule", object)
_schedules.register("constant", lambda: Constant(1.0))
_schedules.register("multiply", lambda: Multiply(1.0))
_schedules.register("balance_residuals", lambda: BalanceResiduals(1.0))
_schedules.register("close_gap", lambda: CloseGap(1.0))
_step_rules: Registry[Any] = Registry("step_rule", object)
_step_rules.register("closed-form", ClosedForm)
_step_rules.register("backtracking", Backtracking)
_step_rules.register("matrix", Matrix)
_networks: Registry[Any] = Registry("network", Network)
_networks.register("network", lambda: Network((1,), (Dense(1),)))
_KNOWN = (activations, layers, losses, regularizers, _schedules, _step_rules, items, _networks)
_REGISTRIES: dict[str, Registry[Any]] = {registry.kind: registry for registry in _KNOWN}


def term_name(kind: str, term: Any) -> str | None:
    """The name under which the class of `term` is registered; of a smooth function, its own."""
    is_function = kind == "activation" and callable(term) and not isinstance(term, Activation)
    return _REGISTRIES[kind].name_of(Smooth(term) if is_function else term)


def encode(what: str, value: Any) -> Any:
    """`value` as plain JSON; ValueError names `what` where it is code or of an unknown class."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, list):
        return [encode(what, one) for one in value]
    if isinstance(value, tuple):
        return {"$tuple": [encode(what, one) for one in value]}
    if isinstance(value, np.ndarray):
        return _encode_array(what, value)
    if isinstance(value, dict):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: encode(what, one) for key, one in value.items()}
        return {"$items": [[encode(what, k), encode(what, v)] for k, v in value.items()]}
    return _encode_term(what, value)


def _encode_array(what: str, array: np.ndarray) -> dict[str, Any]:
    """A one-dimensional array of numbers, booleans or strings, with its dtype."""
    if array.ndim != 1 or array.dtype.kind not in "biufUO":
        raise ValueError(
            f"{what} has shape {array.shape} and dtype {array.dtype}, which a model file cannot"
            " hold; expected a vector of numbers, booleans or strings"
        )
    values = [v.item() if isinstance(v, np.generic) else v for v in array.tolist()]
    for value in values:
        if not isinstance(value, bool | int | float | str):
            raise ValueError(
                f"{what} has the entry {value!r}, which a model file cannot hold;"
                " expected numbers, booleans or strings"
            )
    return {"$array": [encode(what, value) for value in values], "dtype": array.dtype.str}


def _encode_term(what: str, term: Any) -> dict[str, Any]:
    for kind in _REGISTRIES:
        name = term_name(kind, term)
        if name is None:
            continue
        # A smooth activation's fields are code; its registered name says it all.
        is_code = isinstance(term, Smooth) or not dataclasses.is_dataclass(term)
        fields = {
            field.name: encode(f"{what}.{field.name}", getattr(term, field.name))
            for field in (() if is_code else dataclasses.fields(term))
        }
        return {"$term": kind, "name": name, "fields": fields}
    if (callable(term) and not dataclasses.is_dataclass(term)) or isinstance(term, Smooth):
        raise ValueError(
            f"{what}={term!r} is a Python function, which a model file cannot hold;"
            f" expected a registered name such as {', '.join(sorted(activations))}"
        )
    raise ValueError(
        f"{what}={term!r} is a {type(term).__name__}, which a model file cannot hold;"
        " expected plain values or terms of registered classes"
    )


def decode(value: Any) -> Any:
    """The inverse of `encode`; ValueError where a term is not known here."""
    if isinstance(value, list):
        return [decode(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "$float" in value:
        return float(value["$float"])
    if "$tuple" in value:
        return tuple(decode(value["$tuple"]))
    if "$array" in value:
        return np.array(decode(value["$array"]), dtype=value["dtype"])
    if "$items" in value:
        return {decode(key): decode(one) for key, one in value["$items"]}
    if "$term" in value:
        return _decode_term(value["$term"], value["name"], decode(value["fields"]))
    return {key: decode(one) for key, one in value.items()}


def _decode_term(kind: str, name: str, fields: dict[str, Any]) -> Any:
    if kind not in _REGISTRIES or name not in _REGISTRIES[kind]:
        raise ValueError(f"the {kind} {name!r} is not registered here")
    try:
        return dataclasses.replace(_REGISTRIES[kind].build(name), **fields)
    except TypeError as error:
        raise ValueError(f"the {kind} {name!r} has other fields here ({error})") from None
