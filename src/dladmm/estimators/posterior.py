"""What error bars are made of: the covariance of a network's last layer, and the noise."""

from typing import Any

import numpy as np

from dladmm.core.problem import Problem
from dladmm.core.restored.evidence import last_layer_covariance, noise_level
from dladmm.core.results import BROKEN_OFF, Result
from dladmm.estimators.units import Units


def posterior(
    problem: Problem, result: Result, units: Units, mass: float
) -> tuple[np.ndarray, np.ndarray] | None:
    """Of [W b] of the last layer and of each output, in the user's units; None where the run has
    not found the noise of the network it ended with. mass: the sum of all weights."""
    weighing: Any = getattr(result.state, "weighing", None)
    measured: Any = getattr(result.state, "measured", None)  # sums over all samples
    found = weighing is not None and measured is not None and float(weighing.gamma) > 0
    if not found or result.status in BROKEN_OFF or not problem.loss.has_noise_level:
        return None
    each = float(weighing.per_weight)
    C = last_layer_covariance(problem, measured.layers[-1].inputs, weighing.strengths[-1])
    if problem.n_layers == 1:
        C = units.covariance_of_user(C)
    # Of the network as it ended: its loss has changed since the strengths were found.
    risk, gamma, free = each * float(measured.risk), float(weighing.gamma), problem.layers[-1].units
    noise = noise_level(problem, np.float64(risk), each * mass, np.float64(gamma), free)
    in_y = np.broadcast_to(np.square(units.y_scale), problem.out_shape)
    return C / each, float(noise) * in_y
