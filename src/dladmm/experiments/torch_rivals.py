"""PyTorch's Adam, SOAP and Shampoo on mini-batches of the same network.

SOAP and Shampoo are those of pytorch_optimizer, which is optional; who is not installed is left
out. SOAP is as its defaults are. Shampoo is the blockwise one of its authors, which needs two
settings here: the size of its steps is RMSProp's, as Adam's rates suit it then, and its roots are
renewed every 20 batches, since 1,000 as by default would be once in a race.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from dladmm.core.data import Arrays
from dladmm.core.params import Params
from dladmm.core.problem import Problem
from dladmm.experiments.baselines import Made, Trainer, is_due
from dladmm.experiments.rivals import ADAM, PRECONDITIONED
from dladmm.terms.losses import LogLoss, SquaredError

OPTIONAL = "pytorch_optimizer"
RMSPROP = 3  # its number among LayerWiseGrafting, which the package does not hand out


@dataclass(frozen=True)
class TorchRival:
    """An optimiser: `make(parameters, rate)`, its rates, the sizes of batches, its package."""

    name: str
    group: str
    make: Callable[[Any, float], Any]
    rates: tuple[float, ...] = (1e-3, 3e-3)
    sizes: tuple[int, ...] = (256, 512)
    package: str = "torch"

    @property
    def is_installed(self) -> bool:
        return find_spec("torch") is not None and find_spec(self.package) is not None


def _adam(parameters: Any, rate: float) -> Any:
    import torch

    return torch.optim.Adam(parameters, lr=rate)


def _soap(parameters: Any, rate: float) -> Any:
    import pytorch_optimizer

    return pytorch_optimizer.SOAP(parameters, lr=rate)


def _shampoo(parameters: Any, rate: float) -> Any:
    import pytorch_optimizer

    return pytorch_optimizer.ScalableShampoo(
        parameters,
        lr=rate,
        graft_type=RMSPROP,
        moving_average_for_momentum=True,
        preconditioning_compute_steps=20,
    )


TORCH_RIVALS = (
    TorchRival("torch adam", ADAM, _adam, sizes=(128, 512)),
    TorchRival("soap", PRECONDITIONED, _soap, package=OPTIONAL),
    TorchRival("shampoo", PRECONDITIONED, _shampoo, package=OPTIONAL),
)


def torch_rival(
    problem: Problem,
    arrays: Arrays,
    params: Params,
    seed: int,
    *,
    make: Callable[[Any, float], Any],
    rate: float,
    size: int,
    per_epoch: int,
) -> Trainer:
    """An optimiser of PyTorch; a network every 1/per_epoch of an epoch."""
    import torch

    from dladmm.export.torch_modules import modules_of_problem
    from dladmm.export.torch_reading import Reading

    network = torch.nn.Sequential(*modules_of_problem(problem, params))
    reading = Reading(network, arrays[0].shape)
    optimiser = make(network.parameters(), rate)
    x, targets, loss = torch.from_numpy(arrays[0]), *_loss(problem, arrays[1])
    random = torch.Generator().manual_seed(seed)
    count = -(-len(x) // size)
    while True:
        order = torch.randperm(len(x), generator=random)
        for k in range(1, count + 1):
            rows = order[(k - 1) * size : k * size]
            optimiser.zero_grad(set_to_none=True)
            loss(network(x[rows]), targets[rows]).backward()
            optimiser.step()
            if is_due(k, count, per_epoch):
                yield Made(reading.params())


def _loss(problem: Problem, y: Any) -> tuple[Any, Callable[[Any, Any], Any]]:
    """The targets as PyTorch's own loss takes them, and that loss."""
    import torch

    if isinstance(problem.loss, LogLoss):
        return torch.from_numpy(y.argmax(1)), torch.nn.CrossEntropyLoss()
    if isinstance(problem.loss, SquaredError):
        return torch.from_numpy(y), lambda z, y: ((z - y) ** 2).sum(1).mean() / 2
    raise ValueError(
        f"{type(problem.loss).__name__} is not trained in PyTorch here; expected log_loss or"
        " squared_error"
    )
