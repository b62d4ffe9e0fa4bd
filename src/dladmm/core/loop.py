"""The loop: iterate, record, stop. It neither keeps checkpoints nor words messages.

`LoopState` is where a run stands between two iterations: all that another process needs to go on,
so it is what a checkpoint holds. `Run` is what does not change while it goes.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dladmm.core.held_out import HeldOut
from dladmm.core.method import Method, Penalties, Start
from dladmm.core.options import Options
from dladmm.core.params import Params
from dladmm.core.relaxed.schedules import make_schedule
from dladmm.core.results import Callback, Progress, Status
from dladmm.engine import trees
from dladmm.engine.arrays import Array, xp
from dladmm.engine.devices import Engine
from dladmm.engine.signals import Iterating

MAX_RHO = 1e8
# Below this signal the gradient is half of what chance alone would give: nothing is left to learn.
NOISE = 0.5


@dataclass(frozen=True)
class Run:
    """What a run works on and how.

    data: as the method reads it. mass: the sum of weights. loss_unit: what `tol` is a share of, the
    mean loss of the best constant where the loss has a unit; 1 for scores, which have none.
    """

    options: Options
    method: Method
    data: Any
    engine: Engine
    mass: float
    loss_unit: float
    dtype: np.dtype
    held_out: HeldOut | None
    began: float  # by the clock of `time.perf_counter`

    @property
    def judge(self) -> HeldOut | None:
        """The rows whose score decides; None where the training loss does."""
        return self.held_out if self.held_out is not None and self.held_out.decides else None

    def start(self, rho: float, authors_output: bool = False) -> Start:
        """How z_L and u begin at this rho."""
        asked = self.options.dual_start
        above = rho > 2 * self.method.problem.loss.lipschitz
        return Start(above if asked == "auto" else asked == "gradient", authors_output)

    def begin(self, network: Params, start: Start) -> Any:
        """A feasible state of this network, by a forward pass."""
        # An iteration may take over the state's buffers, so the network kept aside is a copy.
        whole = self.method.whole(self.data, network)
        return self.method.begin(self.data, trees.map(xp.copy, whole), start)

    def on_devices(self, rho: float, nu: float) -> Penalties:
        return self.engine.replicate(tuple(np.asarray(v, self.dtype) for v in (rho, nu)))


@dataclass
class LoopState:
    """Where a run stands before iteration `iteration`.

    state: the method's own. network: the last good one; best: the one of `best_score`, which is the
    held-out score, or minus the training loss. start: the objective before the first iteration.
    gained, gained_at: the last score that was better by `tol`, and its iteration. quiet: for how
    many iterations residual and change have stayed below `residual_tol`. least_rho: what recoveries
    have raised rho to; restarted: whether the next iteration follows one. rows: the records.
    """

    state: Any
    network: Params
    best: Params
    penalty: dict[str, float]
    lemma2_at_start: bool
    iteration: int = 0
    start: float = math.nan
    best_score: float = -math.inf
    gained: float = -math.inf
    gained_at: int = 0
    quiet: int = 0
    least_rho: float = 0.0
    recoveries: int = 0
    restarted: bool = False
    rows: list[dict[str, float]] = field(default_factory=list)

    @property
    def last_seconds(self) -> float:
        return self.rows[-1]["seconds"] if self.rows else 0.0


@dataclass(frozen=True)
class _Launched:
    """An iteration under way: its network, its records once they are there, its penalties."""

    params: Params
    vector: Array
    known: dict[str, float]


class Loop:
    """Iterates a run from where it stands, until it ends.

    `pauses(k)` asks whether to stand still before iteration k, with nothing under way, and call
    `paused`: the moment at which the state can be written down.
    """

    def __init__(
        self,
        run: Run,
        at: LoopState,
        callback: Callback | None = None,
        pauses: Callable[[int], bool] = lambda k: False,
        paused: Callable[[LoopState], None] = lambda at: None,
    ):
        self.run, self.at, self.callback = run, at, callback
        self.pauses, self.paused = pauses, paused
        self.began = run.began - at.last_seconds
        self.ended = False  # the iteration still under way is recorded, and nothing else
        options = run.options
        assert options.rho is not None  # `solve` has decided
        self.schedules = {
            "rho": make_schedule("rho", options.rho_schedule, options.rho),
            "nu": make_schedule("nu", options.nu_schedule, options.nu),
        }
        self.flags = {flag: run.engine.replicate(np.asarray(flag)) for flag in (False, True)}
        self.on_device: tuple[Any, Any] = (None, None)

    def iterate(self) -> Status:
        """Iterate until the run ends by itself, or a signal asks for it."""
        with Iterating() as iterating:
            return self._iterate(iterating.ends)

    def _iterate(self, asked_to_end: Callable[[int], bool]) -> Status:
        """Launch iteration k, then look at k - 1 while k runs: one small transfer, one behind.

        Where the loop pauses, k - 1 is looked at first: the launch takes over its buffers.
        """
        at, method, max_iter = self.at, self.run.method, self.run.options.max_iter
        pending: _Launched | None = None
        # Schedules see the record before the last: one looked at early must not change penalties.
        seen: Mapping[str, float] = at.rows[-2] if len(at.rows) > 1 else {}
        for k in range(at.iteration, max_iter + 1):
            at.iteration, verdict = k, None
            ends = k < max_iter and asked_to_end(k)
            pauses = pending is not None and (self.pauses(k) or ends)
            if pending and (pauses or not method.overlaps):
                verdict, pending = self._absorb(pending), None
                if verdict is None and pauses:
                    self.paused(at)
                if verdict is not None and not method.overlaps:
                    if verdict != Status.DIVERGED or k == max_iter or not self._recover():
                        return verdict
                    verdict = None  # nothing has grown from the broken state
            if ends and verdict is None:
                return Status.INTERRUPTED
            launched = self._launch(k, seen) if k < max_iter else None
            verdict = self._absorb(pending) if pending else verdict
            seen = at.rows[-1] if at.rows else {}
            if verdict == Status.DIVERGED:
                if launched is None or not self._recover():
                    return Status.DIVERGED
                pending = None  # what was launched meanwhile grew from the broken state
                continue
            if verdict is not None:
                # One more iteration is under way already: the run ends with that one.
                self.ended = True
                if launched and self._absorb(launched) == Status.DIVERGED:
                    self.restore()
                return verdict
            pending = launched
        return Status.MAX_ITER

    def penalties(self) -> Penalties:
        key = (self.at.penalty["rho"], self.at.penalty["nu"])
        if key != self.on_device[0]:  # constant penalties cross to the device once
            self.on_device = (key, self.run.on_devices(*key))
        return self.on_device[1]

    def restore(self) -> None:
        """A feasible state from the last good network."""
        at = self.at
        at.state = None  # two states would not fit where one barely does
        at.state = self.run.begin(at.network, self.run.start(at.penalty["rho"]))

    def _launch(self, k: int, seen: Mapping[str, float]) -> _Launched:
        at, run, options = self.at, self.run, self.run.options
        if run.method.has_penalties:
            for name, schedule in self.schedules.items():
                at.penalty[name] = schedule(k, at.penalty[name], seen)
            at.penalty["rho"] = max(at.penalty["rho"], at.least_rho)
        if k and k % options.refresh_every == 0:
            at.state = run.method.refresh(run.data, at.state)
        at.state = run.method.before(k, run.data, at.state)
        sampled = k % options.evaluate_every == 0 or k == options.max_iter - 1
        at.state, params, vector = run.method.advance(
            run.data, at.state, self.penalties(), self.flags[sampled]
        )
        known = {"restarted": float(at.restarted)}
        if run.method.has_penalties:
            known |= at.penalty
        at.restarted = False
        return _Launched(params, vector, known)

    def _absorb(self, launched: _Launched) -> Status | None:
        """Record a finished iteration; the status it ends the run with, if it does."""
        at, run = self.at, self.run
        values = np.asarray(launched.vector, dtype=np.float64).tolist()
        row = dict(zip(run.method.names(), values, strict=True)) | launched.known
        row.setdefault("residual", 0.0)  # a restored point is feasible
        if not all(math.isfinite(row[name]) for name in ("lagrangian", "residual", "change")):
            return Status.DIVERGED
        row["gap"] = row["train_loss"] - row["risk"] / run.mass
        if "moved" in row:
            row["c_k"] = min(row["moved"], at.rows[-1]["c_k"] if at.rows else math.inf)
            row["k_c_k"] = (len(at.rows) + 1) * row["c_k"]
        row["seconds"] = time.perf_counter() - self.began
        score = -row["train_loss"]
        if run.held_out is not None:
            sampled = math.isfinite(score) and not self.ended
            found = self._held_out_score(launched.params) if sampled else math.nan
            row["validation_score"] = found
            score = found if run.judge is not None else score
        at.rows.append(row)
        at.network = launched.params
        # Where the run finds its regularisers, the lowest loss is that of the weakest ones.
        last_is_best = run.method.reweighs and run.judge is None
        if score > at.best_score or last_is_best:
            at.best, at.best_score = launched.params, score
        progress = Progress(len(at.rows), run.options.max_iter, row, launched.params)
        stopped = self.callback is not None and bool(self.callback(progress))
        if stopped:
            self.callback = None  # the iteration under way is not its business any more
        if self.ended:
            return None
        return Status.STOPPED if stopped else self._verdict(row, score)

    def _held_out_score(self, network: Params) -> float:
        run, rows = self.run, self.run.held_out
        assert rows is not None
        return rows.score(run.method.problem, run.method.whole(run.data, network))

    def _verdict(self, row: Mapping[str, float], score: float) -> Status | None:
        """Whether nothing is left to gain, by the rules of `Options`."""
        at, run, options = self.at, self.run, self.run.options
        n_outputs = math.prod(run.method.problem.out_shape)
        per_output = row["residual"] / math.sqrt(run.mass * n_outputs)
        at.quiet = at.quiet + 1 if max(per_output, row["change"]) < options.residual_tol else 0
        if at.quiet >= options.patience:
            return Status.TOL
        if options.tol is None or not math.isfinite(score):
            return None
        gain = score - at.gained
        if run.method.reweighs and run.judge is None:
            gain = abs(gain)  # a stronger regulariser may raise the loss: that is no standstill
        if gain > options.tol * run.loss_unit:
            at.gained, at.gained_at = score, len(at.rows)
        if options.stop_at_noise and row.get("signal", math.inf) < NOISE:
            return Status.NOISE
        return Status.TOL if len(at.rows) - at.gained_at >= options.patience else None

    def _recover(self) -> bool:
        """Back to the last good network with a larger rho; False when that is used up."""
        at, options = self.at, self.run.options
        at.recoveries += 1
        if not self.run.method.has_penalties or at.recoveries > options.max_recoveries:
            return False
        at.least_rho = min(10 * at.penalty["rho"], MAX_RHO)
        at.penalty["rho"] = at.least_rho
        self.restore()
        at.restarted = True
        return True
