"""What a callback sees, how a run ends, and what it leaves."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dladmm.core.certificate import Certificate
from dladmm.core.params import Params


class Status(StrEnum):
    """Why a run ended."""

    TOL = "tol"
    NOISE = "noise"
    MAX_ITER = "max_iter"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"
    DIVERGED = "diverged"
    MEMORY = "memory"


# Endings in the middle of something: what is left is the best network recorded, not the last state.
BROKEN_OFF = (Status.INTERRUPTED, Status.DIVERGED, Status.MEMORY)


@dataclass(frozen=True)
class Progress:
    """What a callback sees after an iteration: its record and its network.

    A callback that returns True ends the run with status `stopped`.
    """

    iteration: int
    max_iter: int
    row: Mapping[str, float]
    params: Params


Callback = Callable[[Progress], bool | None]


@dataclass(frozen=True)
class Result:
    """What a run leaves: the network, why it ended, its records and its certificate.

    `params` is the last network, or the best one recorded if the run was interrupted, diverged or
    ran out of memory.
    `best_params` has the best held-out score, or the lowest training loss if there is none.
    `history` maps names to one value per iteration; NaN where not sampled. `resumed_from` is how
    many of them another run had made. `state` is the method's own, all variables included; None
    where there was no memory for it.
    """

    params: Params
    best_params: Params
    status: Status
    message: str
    n_iter: int
    history: dict[str, list[float]]
    certificate: Certificate
    resumed_from: int
    state: Any
