"""The loop: iterate, record, stop. Only `solve` records; nothing here prints."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dladmm.core.certificate import certify
from dladmm.core.initial import params_for_data
from dladmm.core.methods import Start, method_for, real_loss
from dladmm.core.options import Callback, Options, Progress, Remembering, Result, Status
from dladmm.core.problem import Problem
from dladmm.core.schedules import make_schedule
from dladmm.core.sharding import (
    make_mesh,
    over_processes,
    own_rows,
    refused_together,
    replicate,
)
from dladmm.core.snapshot import Snapshot, SnapshotStore, StoreSettings, identity
from dladmm.core.state import Params, State, kept, revived, state_of
from dladmm.core.step_rules import step_rule
from dladmm.core.stream import Batches, Stream
from dladmm.core.sweep import SweepOptions
from dladmm.core.validation import check_inputs, check_options, check_params


def solve(
    problem: Problem,
    x: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    options: Options | None = None,
    params: Params | None = None,
    stream: Stream | None = None,
    callback: Callback | None = None,
    checkpoints: StoreSettings | None = None,
) -> Result:
    """Minimise Problem 2 for this data, by `options.method`, from `params` or random weights.

    y has one column per network output (one-hot rows for log_loss). Ctrl-C ends the run with the
    best network recorded so far. `stream` is the state another run over mini-batches ended with:
    this one goes on from there, moments included. `checkpoints`, such as `dladmm.Checkpoints`,
    keeps the run as it goes, and lets another call go on with it to the same bits.
    """
    options = options or Options()
    check_options(problem, options)
    with refused_together():
        arrays = check_inputs(problem, x, y, sample_weight, options.dtype)
    if params is not None:
        check_params(problem, params)
    # A context, not a configuration: the caller's own JAX settings stay as they are.
    with jax.enable_x64(options.dtype == "float64"):
        return _Run(problem, options, arrays, params, stream, callback, checkpoints).run()


class _Run:
    """One call of `solve`: the state of the loop, which ends with it."""

    def __init__(
        self,
        problem: Problem,
        options: Options,
        arrays: tuple[np.ndarray, np.ndarray, np.ndarray | None],
        params: Params | None,
        stream: Stream | None,
        callback: Callback | None,
        checkpoints: StoreSettings | None,
    ):
        self.problem, self.options, self.callback = problem, options, callback
        self.method = method_for(options, stream)
        self.began = time.perf_counter()
        x, _, weights = arrays
        self.mesh = make_mesh(options.devices)
        self.n_samples = x.shape[0]
        own = float(x.shape[0] if weights is None else weights.sum())
        self.mass = float(over_processes(own).sum())
        self.dtype = jnp.dtype(x.dtype)
        self.data = self.method.prepare(problem, arrays, self.mesh)
        self.sweep = SweepOptions(step_rule(options.step_rule), options.zl_solver)
        self.schedules = {
            "rho": make_schedule("rho", options.rho_schedule, options.rho),
            "nu": make_schedule("nu", options.nu_schedule, options.nu),
        }
        self.penalty = {"rho": float(options.rho), "nu": float(options.nu)}
        self.on_device: tuple[Any, tuple[Array, Array]] = (None, (jnp.zeros(()), jnp.zeros(())))
        self.flags = {flag: replicate(np.asarray(flag), self.mesh) for flag in (False, True)}
        self.least_rho = 0.0
        self.recoveries = 0
        self.restarted = False
        network = params
        if stream is not None:
            params = stream.params
        if params is None:
            init = self.method.init if options.init == "auto" else options.init
            params = params_for_data(problem, init, options.seed, arrays)
        self.good = replicate(jax.tree.map(lambda v: np.asarray(v, self.dtype), params), self.mesh)
        self.best, self.best_loss = self.good, math.inf
        self.lemma2_at_start = self._dual_from_gradient()
        if stream is None:
            self.state = self._restore(authors_output=options.init == "paper")
        else:
            # A copy: iterations donate their state.
            self.state = replicate(jax.tree.map(np.array, stream), self.mesh)
        self.rows: list[dict[str, float]] = []
        self.seen_row: Mapping[str, float] = {}
        self.quiet = 0
        self.message = ""
        self.first, self.resumed_from = 0, 0
        self.start = math.nan
        self.store: SnapshotStore | None = None
        self.count: int | None = None
        if checkpoints is not None:
            given = stream if stream is not None else network
            self._open(checkpoints, identity(problem, options, arrays, given))

    def _dual_from_gradient(self) -> bool:
        if self.options.dual_start == "auto":
            return self.penalty["rho"] > 2 * self.problem.loss.lipschitz
        return self.options.dual_start == "gradient"

    def _restore(self, authors_output: bool = False) -> Any:
        """A feasible state from the last good network, by a forward pass."""
        self.state = None  # two states would not fit where one barely does
        # An iteration may take over the state's buffers, so the network kept aside is a copy.
        params = jax.tree.map(jnp.copy, self.good)
        start = Start(self._dual_from_gradient(), authors_output)
        return self.method.begin(self.problem, self.data, params, start)

    def run(self) -> Result:
        together = jax.process_count() == 1  # else whom to wait for may be gone
        try:
            if not self.resumed_from:
                where = (self.problem, self.data, self.state, self._penalties())
                self.start = float(self.method.objective(*where))
            status = self._loop()
            together = True
        except KeyboardInterrupt:
            if not together:
                raise
            status = Status.INTERRUPTED
        finally:
            if self.store is not None:
                self.store.close(wait=together)
        return self._finish(status)

    def _loop(self) -> Status:
        """Launch iteration k, then look at k - 1 while k runs: one small transfer, one behind.

        Where a checkpoint is due, k - 1 is looked at first: the launch takes over its buffers.
        """
        pending: _Launched | None = None
        for k in range(self.first, self.options.max_iter + 1):
            verdict = None
            due = pending is not None and self._is_due(k)
            if pending and (due or not self.method.overlaps):
                verdict, pending = self._absorb(pending), None
                if verdict is None and due:
                    self._keep(k)
                if verdict is not None and not self.method.overlaps:
                    return verdict
            launched = self._launch(k) if k < self.options.max_iter else None
            verdict = self._absorb(pending) if pending else verdict
            self.seen_row = self.rows[-1] if self.rows else {}
            if verdict == Status.DIVERGED:
                if launched is None or not self._recover():
                    return Status.DIVERGED
                pending = None  # what was launched meanwhile grew from the broken state
                continue
            if verdict is not None:
                # One more iteration is under way already: the run ends with that one.
                if launched and self._absorb(launched) == Status.DIVERGED:
                    self.state = self._restore()
                return verdict
            pending = launched
        return Status.MAX_ITER

    def _penalties(self) -> tuple[Array, Array]:
        key = (self.penalty["rho"], self.penalty["nu"])
        if key != self.on_device[0]:  # constant penalties cross to the device once
            rho, nu = (replicate(np.asarray(value, self.dtype), self.mesh) for value in key)
            self.on_device = (key, (rho, nu))
        return self.on_device[1]

    def _launch(self, k: int) -> _Launched:
        # Not the last row: one that was looked at early must not change the penalties.
        for name, schedule in self.schedules.items():
            self.penalty[name] = schedule(k, self.penalty[name], self.seen_row)
        self.penalty["rho"] = max(self.penalty["rho"], self.least_rho)
        if k and k % self.options.refresh_every == 0:
            self.state = self.method.refresh(self.problem, self.data, self.state)
        sampled = k % self.options.evaluate_every == 0 or k == self.options.max_iter - 1
        self.state, params, vector = self.method.advance(
            self.problem,
            self.sweep,
            self.data,
            self.state,
            self._penalties(),
            self.flags[sampled],
        )
        known = {"restarted": float(self.restarted)}
        if self.method.has_penalties:
            known |= self.penalty
        self.restarted = False
        return _Launched(params, vector, known)

    def _absorb(self, launched: _Launched) -> Status | None:
        """Record a finished iteration; the status it ends the run with, if it does."""
        values = np.asarray(launched.vector, dtype=np.float64).tolist()
        row = dict(zip(self.method.names(self.problem), values, strict=True)) | launched.known
        row.setdefault("residual", 0.0)  # a restored point is feasible
        if not all(math.isfinite(row[name]) for name in ("lagrangian", "residual", "change")):
            return Status.DIVERGED
        row["gap"] = row["train_loss"] - row["risk"] / self.mass
        if "moved" in row:
            row["c_k"] = min(row["moved"], self.rows[-1]["c_k"] if self.rows else math.inf)
            row["k_c_k"] = (len(self.rows) + 1) * row["c_k"]
        row["seconds"] = time.perf_counter() - self.began
        self.rows.append(row)
        self.good = launched.params
        if row["train_loss"] < self.best_loss:
            self.best, self.best_loss = launched.params, row["train_loss"]
        progress = Progress(len(self.rows), self.options.max_iter, row, launched.params)
        if self.callback is not None and self.callback(progress):
            self.callback = None  # it has spoken; the iteration under way is only recorded
            return Status.STOPPED
        return Status.CONVERGED if self._is_quiet(row) else None

    def _is_quiet(self, row: Mapping[str, float]) -> bool:
        """Whether residual and change have stayed below `tol` for `patience` iterations."""
        per_output = row["residual"] / math.sqrt(self.mass * self.problem.layers[-1].n_out)
        quiet = max(per_output, row["change"]) < self.options.tol
        self.quiet = self.quiet + 1 if quiet else 0
        return self.quiet >= self.options.patience

    def _recover(self) -> bool:
        """Back to the last good network with a larger rho; False when that is used up."""
        self.recoveries += 1
        if not self.method.has_penalties or self.recoveries > self.options.max_recoveries:
            return False
        self.least_rho = min(10 * self.penalty["rho"], MAX_RHO)
        self.penalty["rho"] = self.least_rho
        self.state, self.restarted = self._restore(), True
        return True

    def _is_due(self, k: int) -> bool:
        """Whether to keep the run before iteration k.

        Not at its very end if only the end made it measure the loss: a longer run would not have.
        """
        at_the_end = k == self.options.max_iter and (k - 1) % self.options.evaluate_every != 0
        if self.store is None or (at_the_end and self.method.has_penalties):
            return False
        return self.store.due(k)

    def _open(self, checkpoints: StoreSettings, identity: dict[str, Any]) -> None:
        """Checkpoints of this run, and the newest of them if it is to go on."""
        self.count = self._count()
        if self.count is None:
            identity["rows of each process"] = over_processes(self.n_samples).tolist()
        self.store = checkpoints.open(identity)
        by_sample, rest = kept(self.state)
        networks = (self.good, self.good, self.good)
        try:
            saved = self.store.newest(Snapshot(by_sample, (rest, *networks), {}, self.count))
        except BaseException:
            self.store.close(wait=False)
            raise
        if saved is None:
            return
        (rest, self.good, self.best, watched), plain = saved.rest, saved.plain
        self.state = revived(self.state, saved.by_sample, rest)
        if isinstance(self.data, Batches):
            self.data.seen = int(self.state.seen)
        self.rows = plain["rows"]
        self.seen_row = self.rows[-2] if len(self.rows) > 1 else {}
        self.first, self.resumed_from = plain["first"], len(self.rows)
        self.start, self.lemma2_at_start = plain["start"], plain["lemma2_at_start"]
        self.penalty, self.least_rho = plain["penalty"], plain["least_rho"]
        self.recoveries, self.restarted = plain["recoveries"], plain["restarted"]
        self.quiet, self.best_loss = plain["quiet"], plain["best_loss"]
        self.began -= self.rows[-1]["seconds"]
        if isinstance(self.callback, Remembering):
            self.callback.recall(plain["callback"], watched if plain["watched"] else None)

    def _keep(self, k: int) -> None:
        """This run before iteration k."""
        remembered: dict[str, Any] = {}
        watched: Params | None = None
        if isinstance(self.callback, Remembering):
            remembered, watched = self.callback.remember()
        plain = {
            "first": k,
            "rows": self.rows,
            "start": self.start,
            "lemma2_at_start": self.lemma2_at_start,
            "penalty": self.penalty,
            "least_rho": self.least_rho,
            "recoveries": self.recoveries,
            "restarted": self.restarted,
            "quiet": self.quiet,
            "best_loss": self.best_loss,
            "callback": remembered,
            "watched": watched is not None,
        }
        networks = (self.good, self.best, replicate(watched, self.mesh) if watched else self.good)
        # Copies: iteration k takes over the state's buffers while they are being written.
        by_sample, rest = jax.tree.map(jnp.copy, kept(self.state))
        assert self.store is not None
        self.store.keep(k, Snapshot(by_sample, (rest, *networks), plain, self.count))

    def _count(self) -> int | None:
        """The samples of all processes, None where padding stands between those of two."""
        count = int(over_processes(self.n_samples).sum())
        own = own_rows(count, self.mesh)
        regular = over_processes(self.n_samples == own.stop - own.start).all()
        return count if regular else None

    def _finish(self, status: Status) -> Result:
        self._explain(status)
        if status in (Status.INTERRUPTED, Status.DIVERGED):
            self.good = self.best if math.isfinite(self.best_loss) else self.good
            self.state = self._restore()
        elif self.rows and math.isnan(self.rows[-1]["train_loss"]):
            real = real_loss(self.problem, self.data, self.good)
            last = self.rows[-1]
            last["train_loss"], last["train_accuracy"] = float(real.loss), float(real.accuracy)
            last["gap"] = last["train_loss"] - last["risk"] / self.mass
        if self.rows and self.rows[-1]["train_loss"] < self.best_loss:
            self.best = self.good
        at_once = status is Status.INTERRUPTED
        where = (self.problem, self.data, self.state, self._penalties())
        norm = math.nan if at_once else float(self.method.stationarity(*where))
        rows = self.rows
        certificate = certify(
            self.problem,
            method=self.options.method,
            status=str(status),
            dtype=self.options.dtype,
            rows=rows,
            start=self.start,
            mass=self.mass,
            lemma2_at_start=self.lemma2_at_start,
            subgradient_norm=norm,
        )
        names = list(rows[0]) if rows else []
        return Result(
            params=jax.tree.map(np.asarray, self.good),
            best_params=jax.tree.map(np.asarray, self.best),
            status=status,
            message=self.message,
            n_iter=len(rows),
            history={name: [row[name] for row in rows] for name in names},
            certificate=certificate,
            resumed_from=self.resumed_from,
            state=self._without_padding(self.state),
        )

    def _without_padding(self, s: Any) -> Any:
        """The state of the caller's own rows; each padded array is freed once it is cut."""
        if not isinstance(s, State) or self.mesh is not None:
            return s  # it holds no rows, or they are spread over devices

        def cut(v: Array) -> Array:
            if v.shape[0] == self.n_samples:
                return v
            kept = v[: self.n_samples]
            kept.block_until_ready()
            v.delete()
            return kept

        return state_of(jax.tree.map(cut, s.rows), s.params)

    def _explain(self, status: Status) -> None:
        self.message = {
            Status.CONVERGED: f"residual and change stayed below tol={self.options.tol:g}",
            Status.MAX_ITER: f"max_iter={self.options.max_iter} iterations were made"
            + (f", {self.recoveries} of them dropped as non-finite" if self.recoveries else ""),
            Status.STOPPED: "the callback asked to stop",
            Status.INTERRUPTED: "interrupted; this is the best network recorded",
            Status.DIVERGED: (
                "the loss is not finite at the start; try standardised inputs, or float64"
                if not self.method.has_penalties
                else f"values became non-finite {self.recoveries} times, at last with"
                f" rho={self.penalty['rho']:g}, nu={self.penalty['nu']:g}; this is the best"
                " network recorded. Try standardised inputs, a larger rho, or float64"
            ),
        }[status]


MAX_RHO = 1e8


@dataclass(frozen=True)
class _Launched:
    """An iteration under way: its network, its records once they are there, its penalties."""

    params: Params
    vector: Array
    known: dict[str, float]
