"""The network itself on some data: its loss, its accuracy, and how far it has moved."""

from typing import Any, NamedTuple

import numpy as np

from dladmm.core.data import DATA, Data
from dladmm.core.params import Params, forward
from dladmm.core.problem import Problem
from dladmm.engine.arrays import Array, xp
from dladmm.engine.devices import EVERYWHERE, spread
from dladmm.engine.programs import compiled
from dladmm.engine.sums import squared_norm, total
from dladmm.engine.walks import Folded, Samples

ALL = Samples(None)  # every sample counts once, in one block


class Evaluation(NamedTuple):
    """Mean loss per sample and, for classes, accuracy."""

    loss: Array
    accuracy: Array


@compiled("problem")
def evaluate(
    problem: Problem, params: Params, x: Array, y: Array, samples: Samples = ALL
) -> Evaluation:
    """One forward pass. Means are weighted; accuracy is NaN where the loss does not classify."""

    def body(weights: Array | None, _: Any, read: Any) -> tuple[Any, Folded]:
        x, y = read
        z = forward(problem, params, x)
        loss = total(problem.loss.value(z, y), weights)
        return (), Folded(sum=(loss, total(hits(problem, z, y), weights)))

    loss, right = samples.walk(body, (), (x, y))[1].sum
    count = samples.mass(x)
    return Evaluation(loss / count, right / count)


@compiled("problem")
def evaluate_run(problem: Problem, data: Data, params: Params) -> Evaluation:
    """The network on the data of a run, on all its devices."""
    own = lambda data, params: evaluate(problem, params, data.x, data.y, data.samples)  # noqa: E731
    return spread(data.samples, own, (DATA, EVERYWHERE), EVERYWHERE)(data, params)


def hits(problem: Problem, z: Array, y: Array) -> Array:
    """1 for each sample whose class, or all of whose labels, z names, else 0; NaN if the loss does
    not classify."""
    if not problem.loss.classifies:
        return np.full(z.shape[:1], np.nan, z.dtype)
    if problem.loss.multilabel:
        return xp.all((z > 0) == (y > 0), axis=-1).astype(z.dtype)
    return (predicted_class(z) == predicted_class(y)).astype(z.dtype)


def predicted_class(z: Array) -> Array:
    """The index of the largest output; for a single output, whether it is positive."""
    if z.shape[-1] > 2:
        return xp.argmax(z, -1)
    # Of two outputs a comparison says it in a tenth of the time.
    return (z[..., -1] > (z[..., 0] if z.shape[-1] == 2 else 0)).astype(np.int32)


def regularization(problem: Problem, W: tuple[Array, ...]) -> Array:
    """sum_l Omega_l(W_l), over the layers that are here."""
    terms = [(term, V) for term, V in zip(problem.regularizers, W, strict=True) if V is not None]
    return sum((term.value(V) for term, V in terms), np.zeros((), terms[0][1].dtype))


def relative_change(new: Any, old: Any) -> Array:
    """|(W, b)+ - (W, b)| / |(W, b)+|, over all layers of two networks or states."""
    return relative(*squared_change(new, old))


def squared_change(new: Any, old: Any) -> tuple[Array, Array]:
    """|(W, b)+ - (W, b)|^2 and |(W, b)+|^2, over the layers that are here."""
    pairs = [*zip(new.W, old.W, strict=True), *zip(new.b, old.b, strict=True)]
    here = [(one, two) for one, two in pairs if one is not None]
    return sum(squared_norm(one - two) for one, two in here), sum(
        squared_norm(one) for one, _ in here
    )


def relative(change: Array, size: Array) -> Array:
    """The norm of a change relative to the size, from the squares of both."""
    return xp.sqrt(change / xp.maximum(size, np.finfo(size.dtype).tiny))
