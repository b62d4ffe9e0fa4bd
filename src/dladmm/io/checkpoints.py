"""Checkpoints of a run through orbax: written in the background, whole or not at all.

A folder holds the last few, each in a folder named after its iteration: the arrays, spread over
processes as the run has them, and a text of everything else with its own checksum.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import shutil
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from dladmm._version import __version__
from dladmm.core import former
from dladmm.core.snapshot import Snapshot, differences
from dladmm.core.validation import check_integer, check_not_negative
from dladmm.engine.processes import (
    over_processes,
    process_count,
    process_index,
    refused_together,
    texts_of_processes,
)
from dladmm.io.checkpoint_contents import check_plain, flat, shapes, unflat
from dladmm.io.files import lock_file

DEFAULT_MINUTES = 10.0
# How long a process waits for the others to have written their parts.
WRITE_TIMEOUT_SECONDS = 300
# Numbers for what processes wait at, each once in their life; the same in all of them.
WRITERS = itertools.count(1)
# Several processes ask each other whether a checkpoint is due, which takes a moment.
ASK_EVERY = 10


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=3)


@dataclass(frozen=True)
class Checkpoints:
    """Keep a run in `folder`: every so many iterations, every so many minutes, or both.

    Without either it is every ten minutes. Several processes need a folder that all of them see.
    Needs the extra `checkpoint`.

    Parameters
    ----------
    folder : str or path
        Where they are kept, each in a folder named after its iteration.
    every : int or None
        How many iterations lie between two of them.
    minutes : float or None
        How many minutes lie between two of them.
    keep : int
        How many are kept, the last ones.
    resume : bool
        Whether to go on from the newest whole one, if there is any; without, a folder that has
        some is refused.
    warn : callable
        Called with what goes wrong, in a sentence; by default it is a Python warning.
    """

    folder: str | PathLike[str]
    every: int | None = None
    minutes: float | None = None
    keep: int = 3
    resume: bool = False
    warn: Callable[[str], None] = _warn

    def __post_init__(self) -> None:
        check_integer("keep", self.keep, 1)
        if self.every is not None:
            check_integer("every", self.every, 1)
        if self.minutes is not None:
            check_not_negative("minutes", self.minutes)

    def open(self, identity: Mapping[str, Any]) -> CheckpointFolder:
        """The folder, for a run of this identity.

        Parameters
        ----------
        identity : mapping
            What a checkpoint must share with the run that goes on with it.

        Returns
        -------
        CheckpointFolder
            What keeps and finds checkpoints.
        """
        return CheckpointFolder(self, dict(identity))


def kept_in(folder: Path) -> list[int]:
    """Iterations with a finished checkpoint, ascending."""
    if not folder.is_dir():
        return []
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())


class CheckpointFolder:
    """The checkpoints of one run, a `SnapshotStore`."""

    def __init__(self, settings: Checkpoints, identity: dict[str, Any]):
        self.settings, self.identity = settings, identity
        self.folder = Path(settings.folder).absolute()
        self.ocp = _orbax()
        self.kept_at = time.monotonic()
        with refused_together():
            self.found = self._steps()
            if self.found and not settings.resume:
                raise ValueError(
                    f"{settings.folder} holds the checkpoint of iteration {self.found[-1]};"
                    " expected an empty folder, or to resume"
                )
            self.lock = self._locked() if process_index() == 0 else None
        if len(set(texts_of_processes(str(self.found)))) > 1:
            raise ValueError(
                f"the processes find different checkpoints in {settings.folder}; expected a folder"
                " that all of them see"
            )
        # What matters of orbax's log is raised, and reported once, in one sentence.
        self.log = logging.getLogger("absl")
        self.log_level = self.log.level
        self.log.setLevel(logging.CRITICAL)
        self.manager: Any = None  # opened by the first checkpoint, and again after one was lost

    def _locked(self) -> Any:
        """A file only one run can hold, which the system lets go when its process ends."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            return lock_file(self.folder / ".lock")
        except BlockingIOError:
            raise ValueError(
                f"{self.settings.folder} is in use by another run; expected a folder of its own"
            ) from None

    def _steps(self) -> list[int]:
        return kept_in(self.folder)

    def due(self, iteration: int) -> bool:
        every, minutes = self.settings.every, self.settings.minutes
        if every is not None and iteration % every == 0:
            return True
        if minutes is None and every is not None:
            return False
        if process_count() > 1 and iteration % ASK_EVERY:
            return False
        limit = 60 * (DEFAULT_MINUTES if minutes is None else minutes)
        late = time.monotonic() - self.kept_at >= limit
        return bool(over_processes(late)[0])  # the first process's clock is everyone's

    def keep(self, iteration: int, snapshot: Snapshot) -> None:
        self.kept_at = time.monotonic()
        digest = snapshot.digest()
        self._finish_last()
        self._together(lambda: self._save(iteration, snapshot, digest))

    def _save(self, iteration: int, snapshot: Snapshot, digest: int) -> None:
        if self.manager is None:
            self.manager = self.ocp.CheckpointManager(self.folder, options=self._writing())
        kept = {"identity": self.identity, "digest": digest, "plain": snapshot.plain}
        text = json.dumps(kept)
        record = {"text": text, "sha256": hashlib.sha256(text.encode()).hexdigest()}
        args = self.ocp.args
        arrays, run = args.PyTreeSave(flat(snapshot)), args.JsonSave(record)
        if not self.manager.save(iteration, args=args.Composite(arrays=arrays, run=run)):
            raise ValueError("orbax did not take it")

    def _writing(self) -> Any:
        """Orbax's options; processes wait for each other by name and not for ever, since one may
        have failed where the others have not."""
        several: dict[str, Any] = {}
        if process_count() > 1:
            several["create"] = False  # the first process has made the folder
            several["multiprocessing_options"] = self.ocp.options.MultiprocessingOptions(
                primary_host=0,
                active_processes=set(range(process_count())),
                barrier_sync_key_prefix=f"writer-{next(WRITERS)}",
            )
        return self.ocp.CheckpointManagerOptions(
            max_to_keep=self.settings.keep,
            cleanup_tmp_directories=True,
            async_options=self.ocp.options.AsyncOptions(timeout_secs=WRITE_TIMEOUT_SECONDS),
            **several,
        )

    def _finish_last(self) -> None:
        """Wait for the checkpoint before; a run is not ended by what went wrong with it."""
        if self.manager is not None:
            self._together(self.manager.wait_until_finished)

    def _together(self, act: Callable[[], None]) -> None:
        """A part of writing a checkpoint: what fails in one process costs all of them that one."""
        problem = ""
        try:
            act()
        except Exception as error:  # of orbax, tensorstore or the system
            problem = _first_line(error)
        causes = [text for text in texts_of_processes(problem) if text]
        if causes:
            # Who waited knows less.
            cause = min(causes, key=lambda text: "Barrier timed out" in text)
            self.settings.warn(
                f"a checkpoint could not be written to {self.settings.folder}, and the run goes"
                f" on: {cause}"
            )
            self.manager = None  # a failed manager keeps raising; open a new one

    def newest(self, like: Snapshot) -> Snapshot | None:
        damaged: dict[int, str] = {}
        for step in reversed(self.found):
            found, problem = self._read_if_whole(step, like)
            if found is not None:
                self._set_aside(damaged)
                return found
            damaged[step] = problem
        if self.found:
            raise ValueError(
                f"{self.settings.folder} has no checkpoint that can be read; expected one, or an"
                f" empty folder to begin anew (iteration {self.found[-1]}:"
                f" {damaged[self.found[-1]]})"
            )
        return None

    def _read_if_whole(self, step: int, like: Snapshot) -> tuple[Snapshot | None, str]:
        """A checkpoint that all processes can read and whose digest is right, or what is wrong."""
        problem = ""
        with refused_together():
            try:
                found, digest = self._read(step, like)
            except (_OtherRunError, PermissionError):
                raise
            except MemoryError as error:
                raise ValueError(
                    f"the checkpoint of iteration {step} in {self.settings.folder} does not fit"
                    f" into memory: {_first_line(error)}"
                ) from None
            except Exception as error:
                problem = _first_line(error)
        if not over_processes(not problem).all():  # else all compute the digest together
            return None, problem or "another process cannot read it"
        if found.digest() != digest:
            return None, "its arrays do not match their checksum"
        return former.upgraded(found), ""

    def _read(self, step: int, like: Snapshot) -> tuple[Snapshot, int]:
        """A checkpoint, and what its digest should be; nothing waits for other processes."""
        me = process_index()
        alone = self.ocp.options.MultiprocessingOptions(
            primary_host=me, active_processes={me}, barrier_sync_key_prefix=f"reader-{me}"
        )
        options = self.ocp.CheckpointManagerOptions(
            read_only=True, enable_async_checkpointing=False, multiprocessing_options=alone
        )
        args = self.ocp.args
        with self.ocp.CheckpointManager(self.folder, options=options) as reader:
            record = reader.restore(step, args=args.Composite(run=args.JsonRestore()))["run"]
            if hashlib.sha256(record["text"].encode()).hexdigest() != record["sha256"]:
                raise ValueError("its records do not match their checksum")
            kept = json.loads(record["text"])
            if (written := kept["identity"]["format"]) > self.identity["format"]:
                raise _OtherRunError(
                    f"the checkpoint of iteration {step} in {self.settings.folder} is newer: it has"
                    f" format {written}, and this is dladmm {__version__}, which reads up to"
                    f" {self.identity['format']}; upgrade dladmm"
                )
            identity = former.upgraded_identity(kept["identity"], self.identity)
            if other := differences(identity, self.identity):
                raise _OtherRunError(
                    f"the checkpoint of iteration {step} in {self.settings.folder} is of another"
                    f" run: it has {other}"
                )
            if former.is_former(kept["identity"]):
                like = former.former_shape(like)
            else:
                check_plain(kept["plain"], like.plain, step)
            wanted = shapes(like)
            # Not strict: another number of devices has another padding, of zeros at the end.
            placed = partial(self.ocp.ArrayRestoreArgs, strict=False)
            how = {
                name: placed(sharding=v.sharding, global_shape=v.shape, dtype=v.dtype)
                for name, v in wanted.items()
            }
            restore = args.PyTreeRestore(item=wanted, restore_args=how)
            arrays = reader.restore(step, args=args.Composite(arrays=restore))["arrays"]
        return unflat(arrays, like, kept["plain"]), kept["digest"]

    def _set_aside(self, damaged: Mapping[int, str]) -> None:
        """Out of the way of the run, which will write these iterations again."""
        for step, problem in damaged.items():
            self.settings.warn(
                f"the checkpoint of iteration {step} in {self.settings.folder} is damaged and was"
                f" skipped: {problem}"
            )
        with refused_together():
            for step in damaged if process_index() == 0 else ():
                aside = self.folder / f"damaged-{step}"
                shutil.rmtree(aside, ignore_errors=True)
                (self.folder / str(step)).rename(aside)

    def close(self, wait: bool) -> None:
        try:
            if wait:
                self._finish_last()
            if wait and self.manager is not None:
                self._together(self.manager.close)
        finally:
            self.log.setLevel(self.log_level)
            if self.lock is not None:
                self.lock.close()


class _OtherRunError(ValueError):
    """A whole checkpoint, but of another run: not to be skipped, but reported."""


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "")[:300] or type(error).__name__


def _orbax() -> Any:
    try:
        import orbax.checkpoint as ocp
    except ImportError:
        raise ImportError(
            "checkpoints need orbax-checkpoint, which is not installed; install it by:"
            " pip install 'dladmm[checkpoint]'"
        ) from None
    return ocp
