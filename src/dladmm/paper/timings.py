"""What the records say to the claims of Tables 2 and 3: seconds per iteration, and their spread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from dladmm.paper import settings as paper
from dladmm.paper.verdicts import NoRecord, Records, Verdict, run_of

CLOCK = 1.01  # two readings of one time differ by a factor of at least this, up and down


@dataclass(frozen=True)
class Times:
    """What a table of seconds says: a method per claim."""

    records: Records
    piece: str
    data: str

    def grow(self, by_rho: bool) -> Verdict:
        longer, _, total = self._steps(by_rho)
        why = "Most steps are within the clock's spread."
        if by_rho:
            newton = [np.mean(row) for row in self._cells("zl_iterations")]
            why = (
                "Our steps on W, b, z and a need no trials, whatever rho; of z_L's Newton steps"
                f" there are {min(newton):.3g} to {max(newton):.3g} on average."
            )
        return Verdict(f"{longer} of {total} steps longer", longer > total / 2, why)

    def have_exceptions(self) -> Verdict:
        """Steps that are shorter, in a direction in which more of them are longer."""
        ways = [self._steps(by_rho) for by_rho in (False, True)]
        shorter, total = (sum(way[k] for way in ways) for k in (1, 2))
        text = f"{shorter} of {total} steps shorter"
        if not shorter:
            return Verdict(text, False, "There are none here.")
        holds = any(0 < shorter < longer for longer, shorter, _ in ways)
        return Verdict(text, holds, "That way nothing grows that they could be exceptions to.")

    def example(self) -> Verdict:
        """The one exception that the paper names: the fewest neurons, rho from 1e-5 to 1e-4."""
        before, after = (row[0] for row in self._cells("seconds")[1:3])
        column = [row[:1] for row in self._ranges()[1:3]]
        text, shorter = f"{before:.4g} to {after:.4g} s", step_counts(column, by_rho=True)[1]
        return Verdict(text, shorter == 1, "The clock's readings overlap.")

    def _steps(self, by_rho: bool) -> tuple[int, int, int]:
        return step_counts(self._ranges(), by_rho)

    def _ranges(self) -> list[list[Range]]:
        return [[clock_range(times) for times in row] for row in self._cells("times")]

    def _cells(self, key: str) -> list[list[Any]]:
        return table_cells(self.records.get(self.piece), self.data, key)


def table_cells(record: Mapping[str, Any] | None, data: str, key: str) -> list[list[Any]]:
    """This entry of every cell as the paper prints tables: a row per rho, a column per size.

    NoRecord where a cell is missing: half a table says nothing of how the time grows.
    """
    if record is None:
        raise NoRecord(data)
    scale = record["scale"]
    sizes = scale["neurons"] if record["piece"] == "table2" else scale["sizes"][data]
    runs = [run_of(record, f"{data} {size}") for size in sizes]
    return [[run["rows"][k][key] for run in runs] for k in range(len(paper.RHOS))]


Range = tuple[float, float]


def clock_range(times: Sequence[float]) -> Range:
    """Between what a time is read: the quartiles, and at least the clock's own doubt."""
    low, high = np.quantile(times, (0.25, 0.75))
    return float(low / CLOCK), float(high * CLOCK)


def exactly(table: Sequence[Sequence[float]]) -> list[list[Range]]:
    """Printed times as ranges."""
    return [[(value, value) for value in row] for row in table]


def step_counts(table: Sequence[Sequence[Range]], by_rho: bool) -> tuple[int, int, int]:
    """Steps along rows (or from row to row) that take longer, that take less long, and all.

    Only times whose ranges do not touch are longer or shorter.
    """
    lines = list(zip(*table, strict=True)) if by_rho else table
    steps = [(before, after) for line in lines for before, after in pairwise(line)]
    longer = sum(after[0] > before[1] for before, after in steps)
    shorter = sum(after[1] < before[0] for before, after in steps)
    return longer, shorter, len(steps)
