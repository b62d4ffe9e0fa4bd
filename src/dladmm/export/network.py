"""A fitted estimator as an exporter sees it: arrays, activations, and how outputs are read."""

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dladmm.core.params import Params
from dladmm.core.problem import Problem
from dladmm.io.json_values import term_name
from dladmm.terms.layers import After, Joined, Layer
from dladmm.terms.losses import loss_of_labels


@dataclass(frozen=True)
class Network:
    """The network with its weights, and what turns the last z into what `predict` returns.

    `link` is "softmax", "one_vs_rest" (sigmoids divided by their sum), "sigmoid" (of each label),
    "exp" or "none".
    """

    problem: Problem
    params: Params
    link: str
    classes: np.ndarray | None
    multilabel: bool
    is_vector: bool

    @property
    def n_features(self) -> int:
        return prod(self.problem.in_shape)

    @property
    def n_outputs(self) -> int:
        return self.problem.layers[-1].units

    @property
    def has_probabilities(self) -> bool:
        return self.link in ("softmax", "one_vs_rest", "sigmoid")


_LINKS = {
    "log_loss": "softmax",
    "binary_log_loss": "one_vs_rest",
    "multilabel_log_loss": "sigmoid",
    "poisson": "exp",
    **dict.fromkeys(("hinge", "multilabel_hinge"), "none"),
    **dict.fromkeys(("squared_error", "huber", "absolute_error", "quantile"), "none"),
}


def network_of(estimator: Any) -> Network:
    """The network of a fitted estimator; ValueError for a loss whose link is not known here.

    With one output for two classes, an output of zero is put before it: the softmax of (0, z) is
    (1 - sigmoid(z), sigmoid(z)), and its argmax is the class.
    """
    check_is_fitted(estimator, "coefs_")
    problem = _problem_of(estimator)
    params = Params(tuple(W.T for W in estimator.coefs_), tuple(estimator.intercepts_))
    multilabel = getattr(estimator, "multilabel_", False)
    loss = loss_of_labels(problem.loss) if multilabel else problem.loss
    link = _LINKS.get(term_name("loss", loss) or "")
    if link is None:
        raise ValueError(
            f"loss={estimator.loss!r} cannot be exported; expected one of {', '.join(_LINKS)}"
        )
    classes = getattr(estimator, "classes_", None)
    if link == "one_vs_rest" and problem.layers[-1].units == 1:
        problem, params, link = *_with_zero_first(problem, params), "softmax"
    is_vector = classes is None and bool(estimator.y_is_vector_)
    return Network(problem, params, link, classes, multilabel, is_vector)


def _problem_of(estimator: Any) -> Problem:
    """What it has trained, but for regularisers."""
    network = getattr(estimator, "network", None)
    if network is not None:
        return Problem.of_network(network, estimator.loss)
    return Problem.of_layers(estimator.layers_, estimator.activation, estimator.loss)


def _with_zero_first(problem: Problem, params: Params) -> tuple[Problem, Params]:
    """The network of one output with a second one before it, which is zero."""
    *before, last = problem.layers
    W, b = (np.concatenate([np.zeros_like(v), v]) for v in (params.W[-1], params.b[-1]))
    return (
        replace(problem, layers=(*before, _doubled(last))),
        Params((*params.W[:-1], W), (*params.b[:-1], b)),
    )


def _doubled(layer: Layer) -> Layer:
    """The same map to twice as many units; ValueError where there is none."""
    match layer:
        case After():
            return replace(layer, then=_doubled(layer.then))
        case Joined():
            return replace(layer, parts=tuple(map(_doubled, layer.parts)))
        case _ if hasattr(layer, "outputs"):
            return replace(layer, outputs=2 * layer.units)  # type: ignore[call-arg]
    raise ValueError(
        f"{type(layer).__name__} of one output cannot be exported; expected a layer with weights"
    )
