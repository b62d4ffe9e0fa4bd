"""Where the weights start: random, on the scale of the data."""

from functools import partial
from typing import Any

import numpy as np

from dladmm.core.data import Arrays
from dladmm.core.params import Params
from dladmm.core.problem import Problem
from dladmm.engine.processes import over_processes, process_count
from dladmm.network.graph import INPUT

INITIALIZERS = ("scaled", "he", "paper")

# A first layer that starts small has more to learn, and generalises better: docs/restored.md.
FIRST_LAYER = 0.4


def params_for_data(problem: Problem, init: str, seed: int, arrays: Arrays) -> Params:
    """Random weights on the scale of x, y and sample weights, those of all processes together."""
    x, y, weights = arrays
    scale, output = root_mean_square(x, weights), pooled_scale(problem, y, weights)
    mask = problem.layers[0].mask(x)
    if mask is not None:  # padding is zero, and does not count
        scale = scale / root_mean_square(mask, weights)
    return initial_params(problem, init, seed, np.dtype(x.dtype), scale, output)


def initial_params(
    problem: Problem,
    init: str,
    seed: int,
    dtype: np.dtype,
    input_scale: float = 1.0,
    output: tuple[Any, Any] = (0.0, 1.0),
) -> Params:
    """Random weights on the regularisers' constraints.

    `he`: W ~ N(0, 2/fan_in), b = 0, and W_1 divided by `input_scale`, the root mean square of the
    inputs: the outputs at the start do not depend on the inputs' unit. `scaled`: as `he`, with a
    smaller W_1, and outputs that start at the targets' centre and spread, `output` (one each or one
    per output). `paper`: the authors' W and b ~ 0.1 N(0, 1).
    """
    if init not in INITIALIZERS:
        raise ValueError(f"init={init!r} is unknown; expected one of {', '.join(INITIALIZERS)}")
    W, b = [], []
    centre, unit = (np.asarray(v, dtype) for v in (output if init == "scaled" else (0.0, 1.0)))
    for l, (layer, regularizer) in enumerate(
        zip(problem.layers, problem.regularizers, strict=True)
    ):
        # A generator for each layer: its weights do not depend on how large the others are.
        normal: Any = partial(np.random.default_rng([seed, l]).standard_normal, dtype=dtype)
        bias = np.zeros(layer.bias_shape, dtype)
        if init == "paper":
            drawn, bias = 0.1 * normal(layer.weight_shape), 0.1 * normal(layer.bias_shape)
            drawn, bias = layer.from_matrix(layer.to_matrix(drawn, bias))
        else:
            of_x = (FIRST_LAYER if init == "scaled" and l == 0 else 1) / input_scale
            scales = [of_x if k == INPUT else 1.0 for k in problem.sources[l]]
            drawn = layer.initial_weights(normal, scales).astype(dtype)
        if l == problem.n_layers - 1:
            drawn, bias = drawn * unit.reshape(-1, 1), bias + centre
        W.append(regularizer.prox(drawn, 0.0))
        b.append(bias)
    return Params(tuple(W), tuple(b))


def root_mean_square(x: np.ndarray, weights: np.ndarray | None) -> float:
    """The weighted root mean square of the entries of x; 1 where all are zero."""
    rows = x.reshape(len(x), -1)
    squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64) / rows.shape[1]
    omega = np.ones(len(squares)) if weights is None else weights
    total, count = over_processes([float(squares @ omega), float(omega.sum())]).sum(0)
    return float(np.sqrt(total / count)) or 1.0


def pooled_scale(problem: Problem, y: np.ndarray, weights: np.ndarray | None) -> Any:
    """The loss's own centre and spread of the targets of all processes; 1 where all are alike."""
    centre, spread = problem.loss.target_scale(y, weights)
    if process_count() > 1:
        mass = float(len(y) if weights is None else weights.sum())
        centres, spreads = over_processes(centre), over_processes(spread)
        share = over_processes(mass).reshape(-1, *(1,) * (centres.ndim - 1))
        share = share / share.sum()
        centre = (share * centres).sum(0)
        spread = np.sqrt((share * (spreads**2 + (centres - centre) ** 2)).sum(0))
    return centre, np.where(spread > 0, spread, 1.0)
