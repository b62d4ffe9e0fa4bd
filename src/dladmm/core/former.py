"""Checkpoints of format 1, as version 0.1 wrote them, read as those of today."""

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dladmm.core.methods import METHODS
from dladmm.core.problem import chain, described_layers
from dladmm.core.snapshot import FORMAT, Snapshot


def is_former(identity: Mapping[str, Any]) -> bool:
    return identity["format"] == 1


def upgraded_identity(identity: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Format 1 named a network by its sizes, as in 6-8-3, since all layers were dense, and did not
    say which rows were held out: they are taken as those of the run of `now`, and so is the step
    rule, whose default changed since, of methods that have none. Whether the step over mini-batches
    falls was an option."""
    identity = {"layer_messages": "exact"} | dict(identity)  # the only ones there were
    if not is_former(identity):
        return identity
    same = {
        name: value for name, value in identity.items() if name not in ("network", "batch_decay")
    }
    first, *units = (int(size) for size in identity["network"].split("-"))
    described = described_layers(chain((first,), units))
    layers = {f"layer {l}": layer for l, layer in enumerate(described, 1)}
    # Smooth activations were JAX's own functions, where they are ours now.
    named = identity.get("activations", [])
    ours = [re.sub(r"<PjitFunction of (<.*?>)>", r"\1", f) for f in named]
    kind = METHODS.get(same.get("method", ""))
    has_rule = kind is not None and "step_rule" in kind.own_options
    unused = {} if has_rule else {"step_rule": now.get("step_rule")}
    return (
        same
        | unused
        | layers
        | {
            "format": FORMAT,
            "activations": ours,
            "held-out rows": now.get("held-out rows"),
            "kind of targets": "first-order",
        }
    )


def former_shape(like: Snapshot) -> Snapshot:
    """What format 1 held in the place of `like`: last and best network, and the callback's."""
    rest, networks = like.rest
    last, best = networks["network"], networks["best"]
    return replace(like, rest=(rest, last, best, best))


def upgraded(snapshot: Snapshot) -> Snapshot:
    """A snapshot of format 1 as one of today; one of today as it is."""
    if "first" not in snapshot.plain:
        return snapshot
    (rest, last, best, callback_best), plain = snapshot.rest, snapshot.plain
    memory = plain["callback"]
    scores = memory.get("scores") or []
    rows = [
        row | ({"validation_score": score} if scores else {})
        for row, score in zip(plain["rows"], scores or plain["rows"], strict=True)
    ]
    same = ("start", "lemma2_at_start", "penalty", "least_rho", "recoveries", "restarted", "quiet")
    now = {name: plain[name] for name in same} | {
        "iteration": plain["first"],
        "rows": rows,
        "best_score": memory["best_score"] if scores else -plain["best_loss"],
        "gained": memory.get("best", -math.inf),
        "gained_at": memory.get("best_at", 0),
    }
    best = callback_best if plain["watched"] else best
    return replace(snapshot, rest=(rest, {"network": last, "best": best}), plain=now)
