"""A fitted estimator as a PyTorch module."""

from typing import Any

try:
    import torch
    from torch import nn
except ImportError as error:  # the extra is optional
    raise ImportError("PyTorch is not installed; pip install 'dladmm[torch]'") from error

from dladmm.export.network import network_of
from dladmm.export.torch_activations import Exp, activation_module, activation_term
from dladmm.export.torch_network import modules_of_problem

__all__ = ["activation_module", "activation_term", "modules_of_problem", "to_torch"]


def to_torch(estimator: Any, dtype: torch.dtype | None = None) -> nn.Sequential:
    """A Sequential that returns what `predict_proba` (classes) or `predict` (values) returns.

    It takes samples as the estimator does: (rows, features), or a network's (rows, height, width,
    channels) and (rows, steps, channels). With the hinge loss, which has no probabilities, it
    returns the network's outputs. `dtype` is that of the parameters, by default torch's own,
    float32; values agree with `predict`, which computes in float64, to rounding, except where an
    activation jumps ("sign", "step", "quantized_relu") and a z lies within rounding of the jump.
    """
    network = network_of(estimator)
    modules = modules_of_problem(network.problem, network.params, dtype)
    if network.link == "one_vs_rest":
        modules.append(nn.LogSigmoid())  # sigmoid_j / sum sigmoid is the softmax of log sigmoid
    if network.link in ("softmax", "one_vs_rest"):
        modules.append(nn.Softmax(dim=-1))
    if network.link == "sigmoid":
        modules.append(nn.Sigmoid())
    if network.link == "exp":
        modules.append(Exp())
    if network.is_vector:
        modules.append(nn.Flatten(0))  # one value per row, as predict has it
    return nn.Sequential(*modules)
