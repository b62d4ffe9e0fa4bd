"""A run in checkpoints: its `LoopState` written down whole, and read again.

Whatever the dataclass has is kept: networks and the method's state as arrays, all else as plain
JSON values. A new field cannot be forgotten.
"""

from dataclasses import fields, replace
from typing import Any

from dladmm.core.data import Arrays
from dladmm.core.loop import LoopState, Run
from dladmm.core.method import Method
from dladmm.core.params import Params
from dladmm.core.snapshot import Snapshot, SnapshotStore, StoreSettings, identity
from dladmm.engine import trees
from dladmm.engine.arrays import xp
from dladmm.engine.devices import own_rows
from dladmm.engine.processes import over_processes


def to_snapshot(method: Method, data: Any, at: LoopState, count: int | None) -> Snapshot:
    """The state of a loop, its arrays as they are."""
    by_sample, rest = method.split(at.state)
    values = {f.name: getattr(at, f.name) for f in fields(at) if f.name != "state"}
    found = {name: v for name, v in values.items() if isinstance(v, Params)}
    networks = {name: method.whole(data, v) for name, v in found.items()}
    plain = {name: v for name, v in values.items() if name not in networks}
    return Snapshot(by_sample, (rest, networks), plain, count)


def from_snapshot(method: Method, snapshot: Snapshot) -> LoopState:
    """The inverse of `to_snapshot`."""
    rest, networks = snapshot.rest
    state = method.join(snapshot.by_sample, rest)
    return LoopState(state=state, **networks, **snapshot.plain)


class Keeper:
    """The checkpoints of one run; `found` is the newest, if the run is to go on from one."""

    def __init__(
        self, settings: StoreSettings, run: Run, at: LoopState, arrays: Arrays, given: Any
    ):
        self.run = run
        n_own = arrays[0].shape[0]
        self.count = _count(n_own, run)
        rows = run.judge
        held_out = None if rows is None else (rows.x, rows.y, rows.samples.weights)
        known = identity(run.method.problem, run.options, arrays, held_out, given)
        if self.count is None:
            known["rows of each process"] = over_processes(n_own).tolist()
        self.store: SnapshotStore = settings.open(known)
        try:
            saved = self.store.newest(to_snapshot(run.method, run.data, at, self.count))
        except BaseException:
            self.store.close(wait=False)
            raise
        self.found: LoopState | None = None
        if saved is not None:
            self.found = from_snapshot(run.method, saved)
            run.method.resumed(run.data, self.found.state)

    def due(self, k: int) -> bool:
        """Whether to keep the run before iteration k.

        Not at its very end if only the end made it measure the loss: a longer run would not have.
        """
        options = self.run.options
        at_the_end = k == options.max_iter and (k - 1) % options.evaluate_every != 0
        if at_the_end and self.run.method.has_penalties:
            return False
        return self.store.due(k)

    def keep(self, at: LoopState) -> None:
        # Copies: the next iteration takes over the state's buffers while they are being written.
        still = replace(at, state=trees.map(xp.copy, at.state))
        snapshot = to_snapshot(self.run.method, self.run.data, still, self.count)
        self.store.keep(at.iteration, snapshot)


def _count(n_own: int, run: Run) -> int | None:
    """The samples of all processes, None where padding stands between those of two."""
    count = int(over_processes(n_own).sum())
    own = own_rows(count, run.engine.mesh)
    regular = over_processes(n_own == own.stop - own.start).all()
    return count if regular else None
