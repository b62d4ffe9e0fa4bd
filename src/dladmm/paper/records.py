"""Records of the paper's evaluation on disk: a file per piece, which holds its runs by name."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from dladmm.core.results import Result
from dladmm.experiments.machine import describe_machine
from dladmm.io.files import write_file
from dladmm.paper.settings import Scale

SIGNIFICANT = 6  # digits of a recorded number
ALL_DIGITS = 9  # that float32 has, where steps from one value to the next are judged
RECORDED = ("status", "certificate", "history")  # of a run of the library

Record = dict[str, Any]
Show = Callable[[str, float], None]  # what runs, and how much of it is done


@dataclass(frozen=True)
class Unit:
    """One run of a piece: its name, roughly its floating-point operations, and how to make it.

    `setting` is what its record must say to be a record of this run. `twin` is the piece and the
    name of another run with the same setting, whose series will do.
    """

    name: str
    work: float
    run: Callable[[Record, Show], Any]
    twin: tuple[str, str] | None = None
    setting: Mapping[str, Any] = field(default_factory=dict)

    def is_kept(self, run: Record | None) -> bool:
        """Whether this is a record of this run, not of one with another setting."""
        return run is not None and all(_filled(run.get(k), v) == v for k, v in self.setting.items())


# What records were made with that do not say so: the defaults of their time.
FORMER_DEFAULTS = {"step_rule": "closed-form"}


def _filled(kept: Any, wanted: Any) -> Any:
    """A setting of a record, with the former defaults of what is wanted now and it does not say."""
    if not (isinstance(kept, Mapping) and isinstance(wanted, Mapping)):
        return kept
    return {name: value for name, value in FORMER_DEFAULTS.items() if name in wanted} | dict(kept)


def make(folder: Path, piece: str, scale: Scale, unit: Unit, show: Show) -> None:
    """Make one run of a piece, or take it over from its twin, and put it on disk."""
    record = load_record(folder, piece, scale)
    began = time.perf_counter()
    run = _from_twin(folder, scale, unit) or unit.run(record, show)
    about = {
        "machine": describe_machine() | {"optax": version("optax")},
        "wall_seconds": round(time.perf_counter() - began, 3),
    }
    record = load_record(folder, piece, scale)  # again: another process may have added to it
    record["runs"][unit.name] = about | run
    write_file(folder / f"{piece}.json", json.dumps(record, allow_nan=False))


def _from_twin(folder: Path, scale: Scale, unit: Unit) -> Record | None:
    """The unit as its twin has it, of several seeds 0; None if that one is not on disk."""
    if unit.twin is None:
        return None
    piece, name = unit.twin
    run = load_record(folder, piece, scale)["runs"].get(name)
    if not unit.is_kept(run):
        return None
    if "curves" not in run:
        return dict(run)
    about = {key: run[key] for key in ("machine", "wall_seconds", "options")}
    return about | {key: run["curves"][0][key] for key in RECORDED}


def load_record(folder: Path, piece: str, scale: Scale) -> Record:
    """The record of a piece, empty if there is none; one of another setting is refused."""
    fresh = {"piece": piece, "scale": json.loads(json.dumps(asdict(scale))), "runs": {}}
    record = read_record(folder, piece)
    if record is None:
        return fresh
    if record["scale"] != fresh["scale"]:
        raise ValueError(
            f"{folder / piece}.json was made with another setting ({record['scale']['name']});"
            f" expected a folder of its own for the {scale.name} one"
        )
    return record


def read_record(folder: Path, piece: str) -> Record | None:
    """What is on disk of a piece."""
    file = folder / f"{piece}.json"
    if not file.exists():
        return None
    try:
        record: Record = json.loads(file.read_text())
        if not {"piece", "scale", "runs"} <= record.keys():
            raise ValueError
    except ValueError:
        raise ValueError(f"{file} is not a record of this program; expected one, or none") from None
    return record


def recorded(result: Result) -> Record:
    """What a run of the library tells of itself: how it ended, and every series it recorded."""
    series = {name: short(values, ALL_DIGITS) for name, values in result.history.items()}
    known = {name: values for name, values in series.items() if set(values) != {None}}
    return {
        "status": str(result.status),
        "certificate": result.certificate.to_dict(),
        "history": known,
    }


def short(values: Any, digits: int = SIGNIFICANT) -> list[float | None]:
    """A series as it is recorded; None, which JSON knows, for what is not finite."""
    return [float(f"{v:.{digits}g}") if np.isfinite(v) else None for v in map(float, values)]
