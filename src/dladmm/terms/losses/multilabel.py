"""Losses of several labels at once: each output is a label of its own, on or off in every row."""

from dataclasses import dataclass
from typing import ClassVar

from dladmm.terms.losses.base import Loss
from dladmm.terms.losses.log_loss import LogLoss
from dladmm.terms.losses.separable import BinaryLogLoss, Hinge


@dataclass(frozen=True)
class MultilabelLogLoss(BinaryLogLoss):
    """R(z; y) = sum_j log(1 + exp(z_j)) - y_j z_j: a binary log-loss for each label, H = 1/4."""

    name: ClassVar[str] = "multilabel_log_loss"
    multilabel: ClassVar[bool] = True


@dataclass(frozen=True)
class MultilabelHinge(Hinge):
    """R(z; y) = sum_j max(0, 1 - (2 y_j - 1) z_j): a hinge for each label; no finite H."""

    name: ClassVar[str] = "multilabel_hinge"
    multilabel: ClassVar[bool] = True


# By the exact class: a subclass may be another loss.
_OF_LABELS: dict[type[Loss], type[Loss]] = {
    LogLoss: MultilabelLogLoss,
    BinaryLogLoss: MultilabelLogLoss,
    Hinge: MultilabelHinge,
}


def loss_of_labels(loss: Loss) -> Loss:
    """What `loss` means for rows of several labels; ValueError, by its name, if nothing."""
    if loss.multilabel:
        return loss
    if type(loss) not in _OF_LABELS:
        raise ValueError(
            f"loss={loss!r} is not for rows of several labels; expected 'log_loss',"
            " 'binary_log_loss', 'hinge' or a Loss whose `multilabel` is true"
        )
    return _OF_LABELS[type(loss)]()
