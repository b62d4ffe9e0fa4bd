"""A fitted estimator as an exporter sees it: arrays, activations, and how outputs are read."""

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dladmm.core.problem import Problem
from dladmm.io.json_values import term_name
from dladmm.terms.activations import Activation
from dladmm.terms.layers import Dense, Layer
from dladmm.terms.losses import loss_of_labels


@dataclass(frozen=True)
class Network:
    """a_l = f_l(A_l(W_l, a_{l-1}) + b_l), and what turns the last z into what `predict` returns.

    `link` is "softmax", "one_vs_rest" (sigmoids divided by their sum), "sigmoid" (of each label),
    "exp" or "none".
    """

    blocks: list[tuple[Layer, np.ndarray, np.ndarray]]  # each layer with its W and b
    activations: tuple[Activation, ...]
    link: str
    classes: np.ndarray | None
    multilabel: bool
    is_vector: bool

    @property
    def n_features(self) -> int:
        return prod(self.blocks[0][0].in_shape)

    @property
    def n_outputs(self) -> int:
        return self.blocks[-1][0].units

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
    layers, weights = estimator.layers_, [W.T for W in estimator.coefs_]
    blocks = list(zip(layers, weights, estimator.intercepts_, strict=True))
    problem = Problem.of_layers(layers, estimator.activation, estimator.loss)
    multilabel = getattr(estimator, "multilabel_", False)
    loss = loss_of_labels(problem.loss) if multilabel else problem.loss
    link = _LINKS.get(term_name("loss", loss) or "")
    if link is None:
        raise ValueError(
            f"loss={estimator.loss!r} cannot be exported; expected one of {', '.join(_LINKS)}"
        )
    classes = getattr(estimator, "classes_", None)
    last, W, b = blocks[-1]
    if link == "one_vs_rest" and last.units == 1:
        both = Dense(last.in_shape, 2)
        blocks[-1] = both, np.vstack([np.zeros_like(W), W]), np.concatenate([np.zeros_like(b), b])
        link = "softmax"
    is_vector = classes is None and bool(estimator.y_is_vector_)
    return Network(blocks, problem.activations, link, classes, multilabel, is_vector)
