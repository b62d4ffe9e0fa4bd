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

    Parameters
    ----------
    iteration, max_iter : int
        Which iteration it was, of how many at most.
    row : mapping
        Its record: `train_loss`, `seconds` and whatever else the method records.
    params : Params
        The network after it; with `layer_devices` in several processes None for layers of others.
    """

    iteration: int
    max_iter: int
    row: Mapping[str, float]
    params: Params


Callback = Callable[[Progress], bool | None]


@dataclass(frozen=True)
class Result:
    """What a run leaves: the network, why it ended, its records and its certificate.

    Parameters
    ----------
    params : Params
        The last network, or the best one recorded if the run was interrupted, diverged or ran out
        of memory.
    best_params : Params
        The one with the best held-out score, or the lowest training loss if there is none.
    status : Status
        Why the run ended.
    message : str
        The same in a sentence.
    n_iter : int
        How many iterations there were.
    history : dict of list
        One value per iteration under each name; NaN where not sampled.
    certificate : Certificate
        What the run proves about itself.
    resumed_from : int
        How many of the iterations another run had made.
    state : object
        The method's own, all variables included; None where there was no memory for it.
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
