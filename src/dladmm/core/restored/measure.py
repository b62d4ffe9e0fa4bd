"""A network measured on all samples: its loss, and the sums over them that a restored sweep needs.

Nothing of the restored point is kept but these: the memory is that of one block of samples.
"""

from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from dladmm.core.data import Data
from dladmm.core.evaluate import hits
from dladmm.core.params import Params
from dladmm.core.problem import Problem
from dladmm.core.restored.evidence import is_asked, samples_per_weight
from dladmm.core.restored.point import restore
from dladmm.engine import trees
from dladmm.engine.arrays import Array, xp
from dladmm.engine.sums import mass, squared_norm, total
from dladmm.engine.walks import Folded, probe

SAMPLES_PER_UNIT = 8  # what the metric's second moments are estimated from
# Up to so many samples the squared gradients are those of all: a part may miss the few rows that
# have a rare input, and would take the gradient there for one without noise.
ALL_SQUARES = 32_768


class LayerSums(NamedTuple):
    """Sums over samples that a layer's step needs.

    gradient: r^T [a, 1], the gradient in [W b] of the loss. inputs, outputs: the second moments
    [a, 1]^T [a, 1] and r^T r. squares: the sum of every sample's squared gradient, where the noise
    of the gradient is asked for.
    """

    gradient: Array
    inputs: Any
    outputs: Array
    squares: Array | None


class Measured(NamedTuple):
    """The network on the data: loss sum, Omega, weight of the rightly classified, layer sums."""

    risk: Array
    penalty: Array
    hits: Array
    layers: tuple[LayerSums, ...]

    @property
    def objective(self) -> Array:
        """F, the sum over samples and the regularisers."""
        return self.risk + self.penalty


def measure(
    problem: Problem, data: Data, params: Params, first_inputs: Array | None = None
) -> Measured:
    """The restored point of every block of samples, and every sum over it that a step needs.

    `first_inputs` are the moments of x from an earlier measurement, since they never change.
    """
    samples = data.samples
    count = samples.count or data.x.shape[0]
    every = probe_every(problem, count)
    all_squares = count <= ALL_SQUARES
    asked = is_asked(problem)

    def body(weights: Array | None, _: Any, read: Any) -> tuple[Any, Folded]:
        x, y, places = read
        point = restore(problem, params, x, y)
        sums = []
        for l, (layer, a, r) in enumerate(
            zip(problem.layers, point.inputs, point.targets, strict=True)
        ):
            chosen, few = probe(places, weights, every[l], x.dtype)
            a_few, r_few = (a, r) if chosen is None else trees.map(itemgetter(chosen), (a, r))
            noisy = (r, a, weights) if all_squares else (r_few, a_few, few)
            known = l == 0 and first_inputs is not None
            own = LayerSums(
                layer.gradient_matrix(r, a, weights),
                None if known else layer.gram_with_bias(a_few, few),
                layer.unit_gram(r_few, few),
                None if asked else layer.squared_gradients(*noisy),
            )
            sums.append((own, None if chosen is None else mass(r_few.shape[0], few, x.dtype)))
        right = total(hits(problem, point.output, y), weights)
        risk = total(point.losses, weights)
        return (), Folded(sum=(risk, right, sums))

    read = (data.x, data.y, samples.places(data.x))
    risk, right, sums = samples.walk(body, (), read)[1].sum
    layers = []
    for own, probed in sums:
        if probed is not None:
            # Moments of a part of the samples stand for those of all.
            share = samples.mass(data.x) / xp.maximum(probed, 1e-30)
            own = _of_all(own, share, squares=not all_squares)
        layers.append(own if own.inputs is not None else own._replace(inputs=first_inputs))
    return Measured(risk, np.zeros((), risk.dtype), right, tuple(layers))


def _of_all(sums: LayerSums, share: Array, squares: bool) -> LayerSums:
    """Sums over all samples from those over a part of them. The gradient is of all already;
    squares: whether those are of the part too."""
    return LayerSums(
        sums.gradient,
        None if sums.inputs is None else share * sums.inputs,
        share * sums.outputs,
        share * sums.squares if squares and sums.squares is not None else sums.squares,
    )


def probe_every(problem: Problem, n_samples: int) -> list[int]:
    """Second moments of each layer are estimated from every k-th sample, this k: from all, unless
    N >> n. A sample counts as often as it has positions that count."""
    widest = max(max(layer.fan_in, layer.units) for layer in problem.layers)
    enough = SAMPLES_PER_UNIT * widest
    return [max(1, n_samples * layer.least_positions // enough) for layer in problem.layers]


def gradient_norm(problem: Problem, params: Params, measured: Measured) -> Array:
    """The norm of F's smallest subgradient in (W, b)."""
    square = np.zeros((), measured.risk.dtype)
    blocks = zip(problem.layers, problem.regularizers, params.W, measured.layers, strict=True)
    for layer, term, W, sums in blocks:
        G, g = layer.from_matrix(sums.gradient)
        square = square + squared_norm(term.subgradient(W, G)) + squared_norm(g)
    return xp.sqrt(square)


def signal_to_noise(measured: Measured, data: Data) -> Array:
    """The mean over all weights of g^2/(v/n): g the mean gradient, v its variance over n samples.

    About 1 where the gradient is what n random samples give by chance: the evidence-based criterion
    of Mahsereci et al. (2017), which needs no held-out data. n is the sum of the weights, so that a
    weight of 2 is a row given twice, but at least their effective number, so that a common factor
    below 1 is not taken for fewer samples.
    """
    count = data.samples.mass(data.x)
    n = count * samples_per_weight(data)
    ratio = known = np.zeros((), measured.risk.dtype)
    for sums in measured.layers:
        assert sums.squares is not None  # the evidence is not in its place
        g, square = sums.gradient / count, sums.squares / count
        varies = square > 0  # a weight that no sample touches says nothing
        variance = xp.maximum(square - g**2, np.finfo(g.dtype).eps * square)
        ratio = ratio + xp.sum(xp.where(varies, n * g**2 / xp.where(varies, variance, 1), 0))
        known = known + xp.sum(varies, dtype=g.dtype)
    return ratio / xp.maximum(known, 1)
