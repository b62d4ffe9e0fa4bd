"""The losses by name."""

from __future__ import annotations

from dladmm.terms.log_loss import LogLoss
from dladmm.terms.loss import Loss
from dladmm.terms.registry import Registry
from dladmm.terms.separable import (
    AbsoluteError,
    BinaryLogLoss,
    Hinge,
    Huber,
    Poisson,
    Quantile,
    SquaredError,
)

losses: Registry[Loss] = Registry("loss", Loss)
losses.register("log_loss", LogLoss)
losses.register("squared_error", SquaredError)
losses.register("binary_log_loss", BinaryLogLoss)
losses.register("hinge", Hinge)
losses.register("huber", Huber)
losses.register("absolute_error", AbsoluteError)
losses.register("quantile", Quantile)
losses.register("poisson", Poisson)
