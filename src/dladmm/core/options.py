"""How to solve, what a callback sees, and what a run leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from dladmm.core.certificate import Certificate
from dladmm.core.restored import Restored
from dladmm.core.schedules import Schedule
from dladmm.core.state import Params, State
from dladmm.core.step_rules import StepRule
from dladmm.core.stream import Stream


class Status(StrEnum):
    """Why a run ended."""

    CONVERGED = "converged"
    MAX_ITER = "max_iter"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"
    DIVERGED = "diverged"


@dataclass(frozen=True)
class Options:
    """How to solve. Penalties are per sample: they do not depend on the number of samples.

    init: where the weights start; "auto" is the method's own choice. dual_start: "gradient" for
    u = -grad R(z_L), which Lemma 2 needs; "zero" as in the authors' code; "auto" takes the gradient
    where rho > 2H. `tol` stops the run once the residual per output and the relative change of
    (W, b) stay below it for `patience` iterations; 0 never does. The real loss is recorded every
    `evaluate_every` iterations; running products are recomputed every `refresh_every`. After a
    non-finite value rho is raised tenfold, at most `max_recoveries` times. Restored sweeps use
    neither penalties nor the options of subproblems, and record the real loss every time; with a
    `batch_size` they work on mini-batches, an iteration is an epoch, the loss is its mean,
    and the step falls from epoch to epoch unless `batch_decay` is False. `devices` spreads the
    samples: a count, a list of JAX devices, or a mesh with the one axis "data".
    """

    method: str = "dladmm"
    rho: float = 2.0
    nu: float = 1.0
    rho_schedule: str | Schedule = "constant"
    nu_schedule: str | Schedule = "constant"
    step_rule: str | StepRule = "closed-form"
    zl_solver: str = "newton"
    init: str = "auto"
    dual_start: str = "auto"
    batch_size: int | None = None
    batch_decay: bool = True
    max_iter: int = 200
    tol: float = 1e-5
    patience: int = 3
    evaluate_every: int = 10
    refresh_every: int = 100
    max_recoveries: int = 4
    seed: int = 0
    dtype: str = "float32"
    devices: Any = None


@dataclass(frozen=True)
class Progress:
    """What a callback sees after an iteration: its records so far and its network.

    A callback that returns True ends the run with status `stopped`.
    """

    iteration: int
    max_iter: int
    row: Mapping[str, float]
    params: Params


Callback = Callable[[Progress], bool | None]


@runtime_checkable
class Remembering(Protocol):
    """A callback with a memory, which a checkpoint keeps: plain values, and perhaps a network."""

    def __call__(self, progress: Progress) -> bool | None: ...

    def remember(self) -> tuple[dict[str, Any], Params | None]: ...

    def recall(self, plain: Mapping[str, Any], params: Params | None) -> None: ...


@dataclass(frozen=True)
class Result:
    """What a run leaves: the network, why it ended, its records and its certificate.

    `params` is the last network, or the best one recorded if the run was interrupted or
    diverged. `history` maps names to one value per iteration; NaN where not sampled.
    `resumed_from` is how many of them another run had made.
    """

    params: Params
    best_params: Params
    status: Status
    message: str
    n_iter: int
    history: dict[str, list[float]]
    certificate: Certificate
    resumed_from: int
    state: State | Restored | Stream
