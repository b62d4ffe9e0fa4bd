"""Units: what a network is trained on does not depend on the unit of any column.

Inputs. Columns that share a unit, such as pixels, counts of one kind or indicators, are divided by
one number, the root mean square of all of them: standardising each pixel would blow up those that
are almost always black. Columns that do not share one are centred and divided by their own standard
deviation, but for those of nothing but 0 and 1, such as one-hot codes. Columns do not share a unit
where the widest has more than WIDE times the median range of all, or the narrowest less than a
NARROW-th of it; constant columns and those of two values are not asked. Of columns that share one,
those whose mean is more than FAR standard deviations of a typical column away from 0, such as
temperatures in kelvin, are centred; columns of two values whose range would not fit in are treated
as those that share none; a constant as far away as that becomes 1.

Sequences that are marked by their last channel are divided by the root mean square of their own
steps, without the padding; the marks are left as they are.

Targets of a loss that has a unit are centred and divided by their spread, each output by its own.

The network is kept in the user's own units: the first and the last layer take the factors over.
They are positive, so zeros and signs of weights stay exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dladmm.core.data import targets_of_all
from dladmm.core.params import Params
from dladmm.core.problem import Problem
from dladmm.engine.processes import over_processes
from dladmm.network.graph import INPUT
from dladmm.terms.losses import Loss

WIDE, NARROW = 10.0, 1000.0
FAR = 3.0
LARGE = 1e30
LEAST = 1e-150  # of a scale: nothing can be divided by less


@dataclass(frozen=True)
class Units:
    """x is trained on as (x - x_centre)/x_scale, y as (y - y_centre)/y_scale, with `loss`."""

    x_centre: Any
    x_scale: Any
    y_centre: Any
    y_scale: Any
    loss: Loss

    def inputs(self, x: np.ndarray, dtype: str) -> np.ndarray:
        """In one pass by blocks of rows, in float64 before it is rounded to `dtype`."""
        if np.all(self.x_centre == 0) and np.all(self.x_scale == 1):
            return x
        scaled = np.empty(x.shape, dtype)
        scale = self.x_scale
        if np.ndim(scale):  # for each column, or for each channel of a step
            scale = np.resize(scale, x.shape[1])
        for rows in _blocks(x):
            scaled[rows] = (x[rows] - np.asarray(self.x_centre, np.float64)) / scale
        return scaled

    def targets(self, y: np.ndarray) -> np.ndarray:
        return (y - self.y_centre) / self.y_scale

    def network_of_user(self, problem: Problem, params: Params) -> Params:
        """The same function of x and y themselves, in float64 where rounding would show."""
        dtype = np.asarray(params.b[0]).dtype
        W, b = ([np.asarray(v, np.float64) for v in part] for part in (params.W, params.b))
        W = _scaled(problem, W, 1 / np.asarray(self.x_scale))
        b[0] = b[0] - W[0] @ np.broadcast_to(self.x_centre, W[0].shape[1])
        W[-1] = W[-1] * np.reshape(self.y_scale, (-1, 1))
        b[-1] = b[-1] * self.y_scale + self.y_centre
        extreme = any(map(_is_extreme, (self.x_scale, self.y_scale, self.y_centre)))
        kept = np.float64 if np.ndim(self.x_centre) or extreme else dtype
        return Params(tuple(v.astype(kept) for v in W), tuple(v.astype(kept) for v in b))

    def covariance_of_user(self, C: np.ndarray) -> np.ndarray:
        """Of [W b] of a first layer that is the last too, for rows [x, 1] as they are given."""
        n = len(C) - 1
        to_trained = np.diag([*np.broadcast_to(1 / np.asarray(self.x_scale), n), 1.0])
        to_trained[:n, n] = -np.broadcast_to(np.asarray(self.x_centre) / self.x_scale, n)
        return to_trained.T @ C @ to_trained

    def network_to_train(self, problem: Problem, params: Params) -> Params:
        """The inverse of `network_of_user`."""
        W, b = ([np.asarray(v, np.float64) for v in part] for part in (params.W, params.b))
        W[-1] = W[-1] / np.reshape(self.y_scale, (-1, 1))
        b[-1] = (b[-1] - self.y_centre) / self.y_scale
        b[0] = b[0] + W[0] @ np.broadcast_to(self.x_centre, W[0].shape[1])
        return Params(tuple(_scaled(problem, W, self.x_scale)), tuple(b))


def _scaled(problem: Problem, W: Sequence[np.ndarray], factor: Any) -> list[np.ndarray]:
    """W with every column that is multiplied with x times a factor."""
    blocks = zip(problem.layers, W, problem.sources, strict=True)
    return [
        layer.scaled_columns(V, [factor if k == INPUT else 1.0 for k in sources])
        if INPUT in sources
        else V
        for layer, V, sources in blocks
    ]


def _is_extreme(scale: Any) -> bool:
    """Whether numbers of this size may leave float32's range."""
    size = np.abs(scale)
    return bool(((size > LARGE) | ((size > 0) & (size < 1 / LARGE))).any())


def as_they_are(loss: Loss) -> Units:
    return Units(0.0, 1.0, 0.0, 1.0, loss)


def learned(
    x: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray | None,
    loss: Loss,
    by_column: bool,
    scalable: bool = True,
) -> Units:
    """The units of these rows, those of all processes together; scalable: whether x may have a unit
    of its own, which it may not where it is added to something as it is."""
    # A file on disk may be larger than memory: it is not copied.
    literal = is_on_disk(x) or not scalable
    centre, scale = (0.0, 1.0) if literal else input_units(x, weights, by_column)
    with np.errstate(over="ignore", invalid="ignore"):
        y_centre, y_scale, of_units = loss.standardised(*targets_of_all(y, weights))
    if not (np.isfinite(y_centre).all() and np.isfinite(y_scale).all()):
        raise _without_squares("y", np.abs(y).max())
    return Units(centre, scale, y_centre, y_scale, of_units)


def _without_squares(name: str, size: float) -> ValueError:
    return ValueError(
        f"{name} has values up to {size:.3g}, whose squares cannot be added; expected it in a"
        " larger unit"
    )


def of_marked_steps(x: np.ndarray, weights: np.ndarray | None, shape: tuple[int, ...]) -> Any:
    """The scale of each channel of samples of this shape, the last of which marks the sequence."""
    steps = np.reshape(x, (len(x), *shape))
    inside = steps[..., -1] != 0
    omega = None if weights is None else np.repeat(weights, shape[0])[inside.ravel()]
    _, scale = input_units(steps[..., :-1][inside], omega, by_column=False)
    return np.array([scale] * (shape[1] - 1) + [1.0])


def is_on_disk(x: Any) -> bool:
    """Whether this array is a view of a memory-mapped one."""
    while x is not None and not isinstance(x, np.memmap):
        x = getattr(x, "base", None)
    return x is not None


@dataclass(frozen=True)
class _Columns:
    """What the rule about units asks of each column."""

    low: np.ndarray
    high: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray
    two_values: np.ndarray  # or one

    @property
    def ranges(self) -> np.ndarray:
        return self.high - self.low

    @property
    def size(self) -> np.ndarray:
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @property
    def varies(self) -> np.ndarray:
        return self.ranges > 0

    @property
    def asked(self) -> np.ndarray:
        """Whether it has a say in which unit columns share."""
        return self.varies & ~self.two_values

    @property
    def codes(self) -> np.ndarray:
        return self.two_values & (self.low == 0) & (self.high == 1)


def _columns(x: np.ndarray, weights: np.ndarray | None) -> _Columns:
    low = over_processes(x.min(axis=0).astype(np.float64)).min(0)
    high = over_processes(x.max(axis=0).astype(np.float64)).max(0)
    inside = np.zeros(x.shape[1], bool)
    for rows in _blocks(x):
        inside |= np.any((x[rows] != low) & (x[rows] != high), axis=0)
    two_values = ~over_processes(inside).any(0)
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = moments(x, weights)
    columns = _Columns(low, high, mean, deviation, np.asarray(two_values))
    if not (np.isfinite(columns.mean).all() and np.isfinite(columns.deviation).all()):
        raise _without_squares("X", columns.size.max())
    return columns


def input_units(
    x: np.ndarray, weights: np.ndarray | None, by_column: bool = True
) -> tuple[Any, Any]:
    """(centre, scale) of the inputs: one number each, or one for each column where allowed."""
    of = _columns(x, weights)
    shared = far = np.zeros(x.shape[1], bool)
    one, spread = 1.0, 0.0
    if not by_column or share_a_unit(of.ranges[of.asked]):
        like = of.asked if of.asked.any() else of.varies
        spread = _rms(of.deviation[like])
        shared = ~of.varies | (_fits(of.ranges, of.ranges[like]) if like.any() else of.varies)
        far = of.varies & shared & (np.abs(of.mean) > FAR * spread) & by_column
        about = np.hypot(np.where(far, 0, of.mean), of.deviation)
        one = _rms((about if of.asked.any() else of.ranges)[like]) or 1.0
    if not by_column:
        return 0.0, max(one, of.size.max() / LARGE)
    own = of.varies & ~shared & (of.deviation > LEAST) & ~of.codes
    constant = ~of.varies & (of.size > max(FAR * spread, LEAST))
    if shared.all() and not (far | constant).any():
        return 0.0, one
    scales = (of.size, of.deviation, one)
    scale = np.select([constant, own, shared], scales, 1.0)  # the first that applies
    return np.where(far | own, of.mean, 0.0), scale


def _rms(v: np.ndarray) -> float:
    return float(np.sqrt(np.mean(v**2))) if v.size else 0.0


def _fits(ranges: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which of these ranges may have the unit of columns whose ranges are `others`."""
    median = np.quantile(others, 0.5, method="lower")  # of two columns the narrower
    return (ranges <= WIDE * median) & (ranges * NARROW >= median)


def share_a_unit(ranges: np.ndarray) -> bool:
    """Whether columns of these ranges may have one unit; see the module."""
    return len(ranges) < 2 or bool(_fits(ranges, ranges).all())


def moments(x: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each column, in two passes by blocks of rows."""
    omega = np.ones(len(x)) if weights is None else np.asarray(weights, np.float64)
    mass = over_processes(float(omega.sum())).sum()
    zero = np.zeros(x.shape[1])
    total = sum((omega[rows] @ np.asarray(x[rows], np.float64) for rows in _blocks(x)), zero)
    mean = over_processes(total).sum(0) / mass
    squares = sum((omega[rows] @ (x[rows] - mean) ** 2 for rows in _blocks(x)), zero)
    return mean, np.sqrt(over_processes(squares).sum(0) / mass)


def _blocks(x: np.ndarray) -> list[slice]:
    """Rows a few thousand at a time: no temporary is as large as x."""
    return [slice(start, start + 4096) for start in range(0, len(x), 4096)]
