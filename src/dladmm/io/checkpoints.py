"""Checkpoints of a run through orbax: written in the background, whole or not at all.

A folder holds the last few, each in a folder named after its iteration: the arrays, spread over
processes as the run has them, and a text of everything else with its own checksum.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.experimental import multihost_utils

from dladmm.core.sharding import over_processes
from dladmm.core.snapshot import Snapshot, differences

DEFAULT_MINUTES = 10.0
# How long a process waits for the others to have written their parts.
WRITE_TIMEOUT_SECONDS = 300


@dataclass(frozen=True)
class Checkpoints:
    """Keep a run in `folder`: every so many iterations, every so many minutes, or both.

    Without either it is every ten minutes. The last `keep` are kept. With `resume` the run goes on
    from the newest whole one, if there is any; without, a folder that has some is refused.
    """

    folder: str | PathLike[str]
    every: int | None = None
    minutes: float | None = None
    keep: int = 3
    resume: bool = False

    def __post_init__(self) -> None:
        for name, value in (("every", self.every), ("keep", self.keep)):
            if value is None and name == "every":
                continue
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(f"{name}={value!r} is not valid; expected an integer >= 1")
        minutes = self.minutes
        if minutes is not None and not (isinstance(minutes, Real) and 0 <= minutes < float("inf")):
            raise ValueError(f"minutes={minutes!r} is not valid; expected a number >= 0")

    def open(self, identity: Mapping[str, Any]) -> CheckpointFolder:
        return CheckpointFolder(self, dict(identity))


class CheckpointFolder:
    """The checkpoints of one run."""

    def __init__(self, settings: Checkpoints, identity: dict[str, Any]):
        self.settings, self.identity = settings, identity
        self.folder = Path(settings.folder).absolute()
        self.folder.mkdir(parents=True, exist_ok=True)
        # What matters of orbax's log is raised, and told once, in one sentence.
        self.log = logging.getLogger("absl")
        self.log_level = self.log.level
        self.log.setLevel(logging.CRITICAL)
        self.manager = self._manager()
        steps = self.manager.all_steps()
        if steps and not settings.resume:
            raise ValueError(
                f"{settings.folder} holds the checkpoint of iteration {max(steps)}; expected an"
                " empty folder, or to resume"
            )
        self.kept_at = time.monotonic()

    def _manager(self) -> Any:
        ocp = _orbax()
        options = ocp.CheckpointManagerOptions(
            max_to_keep=self.settings.keep,
            cleanup_tmp_directories=True,
            async_options=ocp.options.AsyncOptions(timeout_secs=WRITE_TIMEOUT_SECONDS),
        )
        return ocp.CheckpointManager(self.folder, options=options)

    def due(self, iteration: int) -> bool:
        every, minutes = self.settings.every, self.settings.minutes
        if every is not None and iteration % every == 0:
            return True
        if minutes is None and every is not None:
            return False
        limit = 60 * (DEFAULT_MINUTES if minutes is None else minutes)
        late = time.monotonic() - self.kept_at >= limit
        return bool(over_processes(late)[0])  # the first process's clock is everyone's

    def keep(self, iteration: int, snapshot: Snapshot) -> None:
        ocp = _orbax()
        self.kept_at = time.monotonic()
        text = json.dumps(
            {"identity": self.identity, "digest": snapshot.digest(), "plain": snapshot.plain}
        )
        record = {"text": text, "sha256": hashlib.sha256(text.encode()).hexdigest()}
        arrays = ocp.args.PyTreeSave(flat(snapshot))
        args = ocp.args.Composite(arrays=arrays, run=ocp.args.JsonSave(record))
        self._finish_last()
        try:
            self.manager.save(iteration, args=args)
        except Exception as error:  # of orbax, tensorstore or the system: it costs a checkpoint
            self._lost(error)

    def _finish_last(self) -> None:
        """Wait for the checkpoint before; a run is not ended by what went wrong with it."""
        try:
            self.manager.wait_until_finished()
        except Exception as error:
            self._lost(error)

    def _lost(self, error: Exception) -> None:
        first_line = next(iter(str(error).splitlines()), type(error).__name__)
        warnings.warn(
            f"a checkpoint could not be written to {self.settings.folder}, and the run went on:"
            f" {first_line[:300]}",
            stacklevel=2,
        )
        self.manager = self._manager()  # one that has failed says so forever

    def newest(self, like: Snapshot) -> Snapshot | None:
        for step in sorted(self.manager.all_steps(), reverse=True):
            try:
                found = self._read(step, like)
                problem = None
            except _OtherRunError as error:
                raise ValueError(str(error)) from None
            except Exception as error:
                problem = next(iter(str(error).splitlines()), type(error).__name__)[:300]
            if over_processes(problem is None).all():
                return found
            warnings.warn(
                f"the checkpoint of iteration {step} in {self.settings.folder} is damaged and was"
                f" skipped: {problem or 'another process cannot read it'}",
                stacklevel=2,
            )
            self._set_aside(step)
        return None

    def _read(self, step: int, like: Snapshot) -> Snapshot:
        ocp = _orbax()
        args = ocp.args.Composite(run=ocp.args.JsonRestore())
        record = self.manager.restore(step, args=args)["run"]
        if hashlib.sha256(record["text"].encode()).hexdigest() != record["sha256"]:
            raise ValueError("its records do not match their checksum")
        kept = json.loads(record["text"])
        other = differences(kept["identity"], self.identity)
        if other:
            raise _OtherRunError(
                f"the checkpoint of iteration {step} in {self.settings.folder} is of another run:"
                f" it has {other}"
            )
        wanted = flat(like)
        how = {name: _restore_args(ocp, v) for name, v in wanted.items()}
        args = ocp.args.Composite(arrays=ocp.args.PyTreeRestore(item=wanted, restore_args=how))
        arrays = self.manager.restore(step, args=args)["arrays"]
        snapshot = unflat(arrays, like, kept["plain"])
        if snapshot.digest() != kept["digest"]:
            raise ValueError("its arrays do not match their checksum")
        return snapshot

    def _set_aside(self, step: int) -> None:
        """Out of the way of the run, which will write this iteration again."""
        if jax.process_index() == 0:
            aside = self.folder / f"damaged-{step}"
            shutil.rmtree(aside, ignore_errors=True)
            (self.folder / str(step)).rename(aside)
        if jax.process_count() > 1:
            multihost_utils.sync_global_devices(f"set aside {step}")
        self.manager.reload()

    def close(self) -> None:
        self._finish_last()
        self.manager.close()
        self.log.setLevel(self.log_level)


class _OtherRunError(ValueError):
    """A whole checkpoint, but of another run: not to be skipped, but said."""


def flat(snapshot: Snapshot) -> dict[str, Array]:
    """Every array under a name of its own. Eight-byte numbers go as pairs of four bytes: the
    threads orbax restores in would cut them to four where JAX is not told otherwise."""
    leaves = {"by_sample": snapshot.by_sample, "rest": snapshot.rest}
    return {
        f"{part}_{k:03d}": jax.lax.bitcast_convert_type(v, jnp.uint32) if _is_wide(v) else v
        for part, tree in leaves.items()
        for k, v in enumerate(jax.tree.leaves(tree))
    }


def unflat(arrays: Mapping[str, Array], like: Snapshot, plain: dict[str, Any]) -> Snapshot:
    """The inverse of `flat`, in the shapes of `like`."""

    def part(name: str, tree: Any) -> Any:
        leaves, structure = jax.tree.flatten(tree)
        found = [arrays[f"{name}_{k:03d}"] for k in range(len(leaves))]
        revived = [
            jax.lax.bitcast_convert_type(v, old.dtype) if _is_wide(old) else v
            for v, old in zip(found, leaves, strict=True)
        ]
        return jax.tree.unflatten(structure, revived)

    by_sample, rest = part("by_sample", like.by_sample), part("rest", like.rest)
    return Snapshot(by_sample, rest, plain, like.count)


def _is_wide(v: Array) -> bool:
    return v.dtype.itemsize == 8


def _restore_args(ocp: Any, v: Array) -> Any:
    # Not strict: another number of devices has another padding, of zeros at the end.
    return ocp.ArrayRestoreArgs(
        sharding=v.sharding, global_shape=v.shape, dtype=v.dtype, strict=False
    )


def _orbax() -> Any:
    try:
        import orbax.checkpoint as ocp
    except ImportError:
        raise ImportError(
            "checkpoints need orbax-checkpoint, which is not installed; install it by:"
            " pip install 'dladmm[checkpoint]'"
        ) from None
    return ocp
