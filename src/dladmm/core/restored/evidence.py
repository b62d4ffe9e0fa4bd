"""The strength of l2 by the evidence: the marginal likelihood, in Laplace's approximation.

The curvature of the loss in the weights is Gauss and Newton's: one column j = J^T c for each sample
and each root c of the Hessian of R at the output (`Loss.curvature_roots`). With the prior
exp(-sum_l alpha_l/2 |W_l|^2 / sigma^2) the evidence of a common factor on all strengths is largest
where (MacKay 1992)

    sum_l alpha_l |W_l|^2 = gamma sigma^2,  gamma = tr(G (I + G)^-1),  G = sum_l J_l J_l^T/alpha_l:

gamma is the effective number of parameters, sigma^2 = 2 R/(N m - gamma - free) the noise of m
outputs, which is 1 for log-losses; free is the number of biases of the outputs, without a prior.

The evidence does not say how the sum is shared between layers: where W_l grows as W_{l+1} shrinks,
a network of ReLU units stays the same, and F is lowest where all alpha_l |W_l|^2 are equal.
Strengths of its own for each layer contradict that and drift apart without end. So

    alpha_l = gamma sigma^2 / (L |W_l|^2),

of which each update takes the geometric mean with the old one. Biases of hidden units are left out
of G. G has a row for every column j: of every k-th sample only, where those would be more than
COLUMNS. It is made in float64 whatever the run's precision: I + G may be ill-conditioned.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dladmm.core.data import DATA, Data
from dladmm.core.params import Params, forward_pass
from dladmm.core.problem import Problem
from dladmm.core.restored.point import backward_sweep
from dladmm.engine import trees
from dladmm.engine.arrays import Array, is_jax, namespace, xp
from dladmm.engine.devices import EVERYWHERE, Engine, spread
from dladmm.engine.linalg import inverse_trace, pseudo_inverse
from dladmm.engine.loops import either
from dladmm.engine.programs import compiled
from dladmm.engine.sums import added, squared_norm
from dladmm.engine.walks import probe
from dladmm.terms.regularizers import Evidence

# Columns of the curvature, at most: G is a matrix of so many rows. Where gamma comes near them it
# is too low; classes have several columns each, and bear fewer.
COLUMNS = {"classes": 450, "numbers": 1000}
LEAST_FREEDOM = 0.05  # the share of N m that is always left to estimate the noise from
# The first strengths, as if gamma were this share of N. A classifier is held and judged from the
# start: one that is sure of its labels has no curvature left to be judged by. A regression starts
# free, and is held back once it has found its form.
FIRST_SHARE = {"classes": 1e-2, "numbers": 1e-5}
FIRST_UPDATE = {"classes": 1, "numbers": 10}
STRENGTHS = (1e-30, 1e30)  # what float32 can hold


class Weighing(NamedTuple):
    """The strengths alpha_l, gamma and sigma^2 that a run has found so far, and the number of
    samples that a weight of 1 stands for."""

    strengths: Array
    gamma: Array
    noise: Array
    per_weight: Array


def in_records(weighing: Weighing | None, dtype: np.dtype) -> tuple[Array, Array, Array]:
    """(geometric mean of the strengths, gamma, sigma^2), NaN where nothing is found."""
    if weighing is None:
        nothing = np.full((), np.nan, dtype)
        return nothing, nothing, nothing
    strengths, gamma, noise, _ = weighing
    return xp.exp(xp.log(strengths).sum() / len(strengths)), gamma, noise


def applies(problem: Problem) -> bool:
    """Whether the evidence knows this problem: a loss that bends, activations whose slopes are
    taken."""
    return problem.curvature_columns > 0 and all(f.uses_slope for f in problem.activations)


def most_samples(problem: Problem) -> int:
    """How many samples the curvature is made of, at most."""
    return max(1, COLUMNS[kind(problem)] // problem.curvature_columns)


def is_asked(problem: Problem) -> bool:
    """Whether every layer's strength is to be found."""
    return all(isinstance(term, Evidence) for term in problem.regularizers)


def kind(problem: Problem) -> str:
    return "numbers" if problem.loss.has_noise_level else "classes"


def is_due(first: int, k: int) -> bool:
    """Whether the strengths are found anew before iteration k: `first`, then ever more rarely."""
    update = first
    while update < k:
        update += max(1, update // 2)
    return update == k


def samples_per_weight(data: Data) -> Array:
    """N/(sum of weights): 1, since a weight of 2 is a row given twice; more where the weights add
    up to less than their effective number, as those that add up to 1 do."""
    mass = data.samples.mass(data.x)
    if data.weights is None:
        return xp.ones_like(mass)
    return xp.maximum(1, mass / data.samples.sum(xp.sum(data.weights**2)))


def first_weighing(problem: Problem, data: Data, params: Params, risk: Array) -> Weighing:
    """Weak for classes, next to nothing for numbers; in the units of x and y."""
    gamma = xp.zeros_like(risk)
    each = samples_per_weight(data)
    mass = data.samples.mass(data.x)
    noise = noise_level(problem, risk, mass, gamma, gamma)
    strengths = balanced(params, FIRST_SHARE[kind(problem)] * mass * noise)
    return Weighing(strengths, gamma, noise, each)


def noise_level(problem: Problem, risk: Array, count: Any, gamma: Array, free: Any) -> Array:
    """sigma^2 of `count` samples; 1 where the loss is a likelihood as it is."""
    if not problem.loss.has_noise_level:
        return xp.ones_like(risk)
    known = count * int(np.prod(problem.out_shape))
    return 2 * risk / xp.maximum(known - gamma - free, LEAST_FREEDOM * known)


def balanced(params: Params, total: Array) -> Array:
    """alpha_l with equal alpha_l |W_l|^2 that add up to `total`."""
    sizes = xp.stack([squared_norm(W) for W in params.W])
    return total / (len(params.W) * xp.maximum(sizes, np.finfo(sizes.dtype).tiny ** 0.5))


def curvature(
    problem: Problem, params: Params, x: Array, y: Array, weights: Array, strengths: Array
) -> tuple[Array, Array]:
    """G, and the columns of the output biases, both times the root of each sample's weight."""
    inputs, z = forward_pass(problem, params, x)
    roots = problem.loss.curvature_roots(z[-1], y)
    assert roots is not None  # `applies` has asked
    roots = roots * xp.sqrt(weights)[:, None, None]
    each = roots.shape[1]
    top = roots.reshape(-1, *problem.out_shape)
    masks = problem.masks(x)
    if each > 1:
        masks, z = trees.map(lambda v: xp.repeat(v, each, axis=0), (masks, z))
    targets = backward_sweep(problem, params, masks, z, top)
    blocks = zip(problem.layers, inputs, targets, xp.sqrt(strengths), strict=True)
    G = added(layer.gradient_gram(r / root, a) for layer, a, r, root in blocks)
    return G, xp.sum(targets[-1].reshape(len(top), -1, problem.layers[-1].units), axis=1)


def effective_parameters(G: Array, B: Array) -> tuple[Array, Array]:
    """(gamma, free): tr(G (I + G)^-1) beside the columns B, which have no prior, and their rank."""
    gram = B.T @ B
    inverse = pseudo_inverse(gram)
    GB = G @ B @ inverse
    C = GB - B @ (inverse @ (B.T @ GB)) / 2
    # P G P = G - C B^T - B C^T, with P the projection beside the columns of B.
    along = xp.concatenate([C, B], axis=1) @ xp.concatenate([B, C], axis=1).T
    return G.shape[0] - inverse_trace(G - along, plus=1), xp.trace(inverse @ gram)


def found(problem: Problem, data: Data, params: Params, risk: Array, before: Weighing) -> Weighing:
    """The next strengths, from the curvature of all samples or of some that stand for them."""
    rows, samples = data.x.shape[0], data.samples
    each = problem.curvature_columns
    every = max(1, -(-(samples.count or rows) * each // COLUMNS[kind(problem)]))
    chosen, few = probe(samples.places(data.x), data.weights, every, data.x.dtype)
    few = namespace(data.x).ones(rows, data.x.dtype) if few is None else few
    x, y = (data.x, data.y) if chosen is None else (data.x[chosen], data.y[chosen])
    x, y, few = (samples.gathered(v).astype(np.float64) for v in (x, y, few))
    params, before, risk = _as(np.float64, (params, before, risk))
    # F, its weights and its strengths as those of so many samples.
    each_weight = before.per_weight
    count = each_weight * samples.mass(data.x)
    weights = few * count / xp.maximum(xp.sum(few), 1e-30)
    old = each_weight * before.strengths
    gamma, free = effective_parameters(*curvature(problem, params, x, y, weights, old))
    gamma = xp.maximum(gamma, 1e-3)
    noise = noise_level(problem, each_weight * risk, count, gamma, free)
    strengths = xp.sqrt(old * balanced(params, gamma * noise)) / each_weight
    strengths = xp.clip(strengths, *STRENGTHS)
    usable = xp.isfinite(gamma) & xp.all(xp.isfinite(strengths)) & (xp.sum(few) > 0)
    new = Weighing(strengths, gamma, noise, each_weight)
    return either(usable, new, before)


def _as(dtype: Any, tree: Any) -> Any:
    return trees.map(lambda v: v.astype(dtype), tree)


@compiled("problem")
def _found(problem: Problem, data: Data, params: Params, risk: Array, before: Weighing) -> Weighing:
    own = partial(found, problem)
    into = (DATA, EVERYWHERE, EVERYWHERE, EVERYWHERE)
    new = spread(data.samples, own, into, EVERYWHERE)(data, params, risk, before)
    return _as(risk.dtype, new)


def last_layer_covariance(problem: Problem, K: Any, strength: Any) -> np.ndarray:
    """Of [W b] of the last layer, in units of the noise: (K + alpha I)^-1, K the Gram matrix of its
    rows [a, 1] and no alpha on the bias. Exact for a linear model; the layers below it are taken as
    certain, since the noise is estimated beside the parameters they spend."""
    layer = problem.layers[-1]
    ones: Any = np.ones((1, layer.fan_in))
    prior = np.asarray(layer.to_matrix(ones, np.zeros(1))[0])
    return np.linalg.pinv(
        np.asarray(K, np.float64) + np.diag(float(strength) * prior), hermitian=True
    )


def weigh(problem: Problem, data: Data, params: Params, risk: Array, before: Weighing) -> Weighing:
    """`found` as one program in float64, its result in the precision of the run."""
    with Engine(is_jax(data.x)).precision("float64"):
        return _found(problem, data, params, risk, before)
