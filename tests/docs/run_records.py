"""The records under docs/results, and where a run of them first was somewhere."""

import json
import math
import statistics
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
NEVER = {"iteration": math.inf, "seconds": math.inf, "test_accuracy": math.nan}


@cache
def read(name):
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


class Records:
    """The records by name; `change` alters each number on its way, for a control."""

    def __init__(self, change=lambda number: number):
        self.change = change

    def __call__(self, name):
        return self._changed(read(name))

    def _changed(self, value):
        if isinstance(value, dict):
            return {key: self._changed(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._changed(each) for each in value]
        return self.change(value) if isinstance(value, float) else value


def reached(curve, key, target):
    """The first point of a curve that has reached the target."""
    ahead = (lambda v: v >= target) if key == "test_accuracy" else (lambda v: v <= target)
    return next((point for point in curve if ahead(point[key])), NEVER)


def medians(points):
    """Of each figure; infinite where most never arrived."""
    return {key: statistics.median(point[key] for point in points) for key in NEVER}
