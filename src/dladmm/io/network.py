"""A fitted estimator as an exporter sees it: arrays, activations, and how outputs are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dladmm.core.problem import Problem
from dladmm.io.plain import term_name
from dladmm.terms.activations import Activation


@dataclass(frozen=True)
class Network:
    """a_l = f_l(a_{l-1} W_l + b_l), and what is done to the last z to get what `predict` returns.

    `link` is "softmax", "one_vs_rest" (sigmoids divided by their sum), "exp" or "none".
    """

    weights: list[np.ndarray]  # (n_in, n_out), as coefs_
    biases: list[np.ndarray]
    activations: tuple[Activation, ...]
    link: str
    classes: np.ndarray | None
    is_vector: bool

    @property
    def has_probabilities(self) -> bool:
        return self.link in ("softmax", "one_vs_rest")


_LINKS = {
    "log_loss": "softmax",
    "binary_log_loss": "one_vs_rest",
    "poisson": "exp",
    **dict.fromkeys(("hinge", "squared_error", "huber", "absolute_error", "quantile"), "none"),
}


def network_of(estimator: Any) -> Network:
    """The network of a fitted estimator; ValueError for a loss whose link is not known here.

    With one output for two classes, an output of zero is put before it: the softmax of (0, z) is
    (1 - sigmoid(z), sigmoid(z)), and its argmax is the class.
    """
    check_is_fitted(estimator, "coefs_")
    weights, biases = list(estimator.coefs_), list(estimator.intercepts_)
    sizes = (weights[0].shape[0], *(W.shape[1] for W in weights))
    problem = Problem.dense(sizes, estimator.activation, estimator.loss)
    link = _LINKS.get(term_name("loss", problem.loss) or "")
    if link is None:
        raise ValueError(
            f"loss={estimator.loss!r} cannot be exported; expected one of {', '.join(_LINKS)}"
        )
    classes = getattr(estimator, "classes_", None)
    if link == "one_vs_rest" and weights[-1].shape[1] == 1:
        weights[-1] = np.hstack([np.zeros_like(weights[-1]), weights[-1]])
        biases[-1] = np.concatenate([np.zeros_like(biases[-1]), biases[-1]])
        link = "softmax"
    is_vector = classes is None and bool(estimator.y_is_vector_)
    return Network(weights, biases, problem.activations, link, classes, is_vector)
