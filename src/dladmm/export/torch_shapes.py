"""PyTorch modules that a network of this library needs and PyTorch does not have."""

import torch
from torch import Tensor, nn


class ChannelsFirst(nn.Module):
    """Samples (N, *axes, channels), as this library has them, become (N, channels, *axes)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.movedim(-1, 1)


class ChannelsLast(nn.Module):
    """Samples (N, channels, *axes) become (N, *axes, channels): what `nn.RNN` reads."""

    def forward(self, x: Tensor) -> Tensor:
        return x.movedim(1, -1)


class AllStates(nn.Module):
    """The states of all steps, (N, steps, units), of what `nn.RNN(batch_first=True)` returns."""

    def forward(self, given: Tensor | tuple[Tensor, Tensor]) -> Tensor:
        return given[0] if isinstance(given, tuple) else given


class LastState(AllStates):
    """The state of the last step, (N, units), of what `nn.RNN(batch_first=True)` returns."""

    def forward(self, given: Tensor | tuple[Tensor, Tensor]) -> Tensor:
        return super().forward(given)[:, -1]


class Residual(nn.Module):
    """body(x) + shortcut(x), to be followed by an activation; without a shortcut, body(x) + x.

    The body ends with a layer with weights. Where its outputs have another shape than x, the
    shortcut is a Linear, or a Conv1d or Conv2d of size 1 with the strides of the whole body.

    Parameters
    ----------
    body : nn.Sequential
        What x goes through.
    shortcut : nn.Module or None
        What x goes through beside it; it is added as it is by default.
    """

    def __init__(self, body: nn.Sequential, shortcut: nn.Module | None = None):
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def forward(self, x: Tensor) -> Tensor:
        past: Tensor = x if self.shortcut is None else self.shortcut(x)
        return self.body(x) + past


class Recurrence(nn.Module):
    """a_t = f(input(x_t) + state(a_{t-1})) with any f, from (N, steps, channels) to all states."""

    def __init__(self, input: nn.Linear, state: nn.Linear, f: nn.Module):
        super().__init__()
        self.input, self.state, self.f = input, state, f

    def forward(self, x: Tensor) -> Tensor:
        given = self.input(x)
        a, states = torch.zeros_like(given[:, 0]), []
        for t in range(given.shape[1]):
            a = self.f(given[:, t] + self.state(a))
            states.append(a)
        return torch.stack(states, dim=1)
