"""Losses by name."""

from dladmm.terms.losses.base import Loss
from dladmm.terms.losses.log_loss import LogLoss
from dladmm.terms.losses.multilabel import MultilabelHinge, MultilabelLogLoss, loss_of_labels
from dladmm.terms.losses.separable import (
    AbsoluteError,
    BinaryLogLoss,
    Hinge,
    Huber,
    Poisson,
    Quantile,
    SquaredError,
)
from dladmm.terms.registry import Registry

__all__ = [
    "AbsoluteError",
    "BinaryLogLoss",
    "Hinge",
    "Huber",
    "LogLoss",
    "Loss",
    "MultilabelHinge",
    "MultilabelLogLoss",
    "Poisson",
    "Quantile",
    "SquaredError",
    "loss_of_labels",
    "losses",
]

losses: Registry[Loss] = Registry("loss", Loss)
losses.register("log_loss", LogLoss)
losses.register("squared_error", SquaredError)
losses.register("binary_log_loss", BinaryLogLoss)
losses.register("hinge", Hinge)
losses.register("multilabel_log_loss", MultilabelLogLoss)
losses.register("multilabel_hinge", MultilabelHinge)
losses.register("huber", Huber)
losses.register("absolute_error", AbsoluteError)
losses.register("quantile", Quantile)
losses.register("poisson", Poisson)
