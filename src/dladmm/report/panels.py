"""What a figure shows, however it is drawn: a picture has panels, a panel has lines."""

from collections.abc import Sequence
from dataclasses import dataclass

BLUE, ORANGE, GREY = "#2a6fbb", "#d9822b", "#8a8f98"
OTHERS = (
    ORANGE, "#a03b2a", "#6b8e23", "#7a5ba6", "#c2a12d", "#4f9a94", "#b56a8d", "#708090",
    "#22b2d6", "#8fce00",
)  # fmt: skip
COLOURS = (BLUE, *OTHERS)


@dataclass(frozen=True)
class Line:
    """A curve; `low` and `high` are its spread over seeds. One whose label begins with _ has no
    place in a legend."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    colour: str
    dashed: bool = False
    wide: bool = False
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


@dataclass(frozen=True)
class Panel:
    """Lines over one x axis; y begins at `bottom` if that is given."""

    title: str
    lines: Sequence[Line]
    x_title: str = "iteration"
    y_title: str = ""
    log: bool = False
    log_x: bool = False
    bottom: float | None = None


@dataclass(frozen=True)
class Picture:
    """Panels side by side, two in a row."""

    title: str
    panels: Sequence[Panel]
    name: str = ""  # of its file
