"""Numbers written as text: with a unit of money or percent, with either decimal mark, and with
marks such as '?' where there is no number.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

# Cells without a letter or a digit mean nothing beside numbers, and neither do these words.
_NOTHING = {"n/a", "na", "n.a.", "nan", "none", "null", "nil", "missing", "unknown", "k.a."}
_MONEY = re.compile(
    "AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HUF|INR|JPY|NOK|PLN|RUB|SEK|TRY|USD|ZAR|KR|FR|KČ|ZŁ|RS",
    re.IGNORECASE,
)
# Other text beside numbers means nothing either, if this few cells have it; more is a category.
STRAY_PART, LEAST_NUMBERS = 0.05, 20
FEW = 1000  # cells that show what a column is not

_UNIT = r"([^\d\s.,'’()+\-−]{1,4}\.?)?"
_CELL = re.compile(
    rf"(\()?([+\-−]?)\s*{_UNIT}\s*([+\-−]?)((?:\d|[.,]\d).*?)\s*{_UNIT}(\))?", re.DOTALL
)
_GROUPED = r"\d{{1,3}}(?:[{0}'’\s]\d{{2,3}})*[{0}'’\s]\d{{3}}"
_BODY = {
    mark: re.compile(
        rf"(?:{_GROUPED.format(other)}|\d+)?(?:{re.escape(mark)}\d*)?(?:[eE][+\-]?\d+)?"
    )
    for mark, other in ((".", ","), (",", "."))
}


@dataclass(frozen=True)
class NumberText:
    """How the numbers of a column are written.

    `decimal` None is the decimal mark of the file they stand in. `marks` are cells that were
    taken as missing besides those that always are (see `is_mark`).
    """

    unit: str = ""
    decimal: str | None = None
    marks: tuple[str, ...] = ()

    def __str__(self) -> str:
        """What is not usual about it, in words."""
        unit = f"the unit {self.unit!r}" if self.unit else ""
        mark = f"{self.decimal!r} as the decimal mark" if self.decimal else ""
        return " and ".join(filter(None, (unit, mark)))

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any] | None) -> NumberText | None:
        return None if plain is None else cls(**{**plain, "marks": tuple(plain["marks"])})

    def read(self, cells: Iterable[str | None], decimal: str) -> tuple[np.ndarray, Counter[str]]:
        """(numbers, marks): NaN where a cell is missing or a mark, which are counted.

        ValueError for a cell that is neither.
        """
        known: dict[str | None, float] = {None: math.nan}
        marks: Counter[str] = Counter()
        values = np.empty(len(cells := list(cells)))
        for row, cell in enumerate(cells):
            if cell not in known:
                found = value_and_unit(cell or "", self.decimal or decimal)
                if found is None and not (is_mark(cell or "") or cell in self.marks):
                    raise ValueError(f"the text {cell!r} in row {row + 1}")
                if found is not None and found[1] not in ("", self.unit):
                    raise ValueError(f"the unit {found[1]!r} in row {row + 1}")
                known[cell] = math.nan if found is None else found[0]
            values[row] = known[cell]
            if cell is not None and values[row] != values[row]:
                marks[cell] += 1
        return values, marks


def is_mark(cell: str) -> bool:
    """Whether a cell says that there is nothing, where others have numbers or dates."""
    cell = cell.strip().lower()
    return cell in _NOTHING or not any(character.isalnum() for character in cell)


def value_and_unit(cell: str, decimal: str) -> tuple[float, str] | None:
    """The number a cell says with this decimal mark, and its unit; None if it says none."""
    found = _CELL.fullmatch(cell.strip())
    if found is None:
        return None
    bracket, sign, before, inner, body, after, closing = found.groups()
    unit = before or after or ""
    if (
        not _BODY[decimal].fullmatch(body)
        or (before and after)
        or (sign and inner)
        or (unit and not is_unit(unit))
        or bool(bracket) != bool(closing)
    ):
        return None
    thousands = "," if decimal == "." else "."
    digits = re.sub(rf"[{thousands}'’\s]", "", body).replace(decimal, ".")
    negative = bracket or (sign or inner) in ("-", "−")
    return (-1 if negative else 1) * float(digits), unit


def is_unit(text: str) -> bool:
    """Whether this is a unit of money or percent."""
    if text in ("%", "‰") or _MONEY.fullmatch(text.rstrip(".")):
        return True
    return any(unicodedata.category(c) == "Sc" for c in text) and len(text) <= 3


def number_text(
    counts: Counter[str], decimal: str, stray_part: float = STRAY_PART
) -> NumberText | None:
    """How to read these cells as numbers, in a file with this decimal mark; None if they are not.

    Cells with leading zeros, such as 007, are names. Up to `stray_part` of the cells may be other
    text, which is taken as missing.
    """
    cells = [cell for cell in counts if not is_mark(cell)]
    if not looks_like_numbers(cells):
        return None
    readings = {d: {c: value_and_unit(c, d) for c in cells} for d in (decimal, _other(decimal))}
    read = {d: {c: v for c, v in found.items() if v is not None} for d, found in readings.items()}
    best = max(read, key=lambda d: len(read[d]))  # the first of equals: the file's own
    numbers = read[best]
    if not numbers or any(map(is_padded, numbers)):
        return None
    units = {unit for _, unit in numbers.values() if unit}
    if len(units) > 1:
        return None
    unit = units.pop() if units else ""
    if unit not in ("", "%", "‰") and len(read[_other(best)]) == len(numbers):
        # Money as 1.234 or 1,234 has no tenths of a cent: the mark stands between thousands.
        best = max(read, key=lambda d: sum(abs(value) for value, _ in read[d].values()))
    stray = tuple(cell for cell in cells if cell not in numbers)
    few = sum(counts[cell] for cell in stray) <= stray_part * sum(counts.values())
    if stray and not (few and len(numbers) > LEAST_NUMBERS):
        return None
    return NumberText(unit, None if best == decimal else best, stray)


def is_padded(cell: str) -> bool:
    """Whether a number begins with a zero that it does not need."""
    return bool(re.match(r"0\d", cell.strip()))


def looks_like_numbers(cells: Iterable[str]) -> bool:
    """Whether at least half of these cells are numbers, in whatever way; the first of many."""
    cells = list(islice(cells, FEW))
    found = sum(any(value_and_unit(cell, d) for d in ".,") for cell in cells)
    return 0 < len(cells) <= 2 * found


def _other(decimal: str) -> str:
    return "," if decimal == "." else "."
