"""Dates written as text: which format reads a column, and what number each date is."""

import re
from collections.abc import Iterable
from datetime import datetime

from dladmm.data.columns import days_since_1970

ISO = "ISO 8601"
# In the order they are tried; a column has one format, the first that reads all its cells.
_DAYS = (
    *("%Y/%m/%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%m-%d-%Y", "%d-%m-%Y"),
    *("%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%b %d, %Y", "%B %d, %Y", "%d. %B %Y"),
)
FORMATS = (ISO, *(day + time for time in ("", " %H:%M", " %H:%M:%S") for day in _DAYS))
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]|$)")


def date_formats(cells: Iterable[str]) -> list[str]:
    """The formats that read every one of these cells; more than one where they are ambiguous."""
    cells = list(cells)
    found = [f for f in FORMATS if cells and all(to_days(cell, f) is not None for cell in cells)]
    # May is both a short and a full name of a month: the two formats say the same.
    return [f for f in found if "%B" not in f or f.replace("%B", "%b") not in found]


def to_days(cell: str, date_format: str) -> float | None:
    """Days since 1970-01-01 for a date in this format; None if it is not one."""
    cell = cell.strip()
    if date_format == ISO and not _ISO_DATE.match(cell):
        return None
    try:
        if date_format == ISO:
            return days_since_1970(datetime.fromisoformat(cell))
        return days_since_1970(datetime.strptime(cell, date_format))
    except ValueError:
        return None
