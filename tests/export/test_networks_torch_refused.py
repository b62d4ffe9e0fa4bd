"""PyTorch modules that cannot be trained are refused by their place and name, with the reason."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the torch extra is not installed")
from torch import nn  # noqa: E402

import dladmm.torch as ours  # noqa: E402

pytestmark = [pytest.mark.float32, pytest.mark.slow]

RNG = np.random.default_rng(3)
IMAGES = torch.tensor(RNG.normal(size=(12, 2, 7, 6)), dtype=torch.float32)
SERIES = torch.tensor(RNG.normal(size=(12, 2, 9)), dtype=torch.float32)
STEPS = SERIES.transpose(1, 2)  # (N, steps, channels), as an RNN has them
ROWS = IMAGES[:, :, 0, :2].flatten(1)
CODES = torch.tensor(RNG.integers(0, 3, 12))


class Turned(ours.Residual):
    """Another map than what it is a kind of."""

    def forward(self, x):
        return super().forward(-x)


CONV, LINEAR = nn.Conv2d(2, 3, 3), nn.Linear(4, 3)
RNN = {"batch_first": True}
REFUSED = [
    (IMAGES, [nn.Conv2d(2, 4, 3, padding=1, padding_mode="reflect")], "padding_mode='reflect'"),
    (IMAGES, [nn.Conv2d(2, 4, 3, bias=False)], "bias=False; expected bias=True"),
    (IMAGES, [nn.Conv2d(2, 4, 9), nn.Flatten(), LINEAR], r"0 \(Conv2d.*window of \(9, 9\)"),
    (IMAGES, [nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(80, 3)], "in_channels=3; expected 2"),
    (IMAGES, [CONV, nn.MaxPool2d(3, 2)], r"layer 1 \(MaxPool2d.*stride=2; expected the k"),
    (IMAGES, [CONV, nn.MaxPool2d(2, padding=1)], "padding=1; expected padding=0"),
    (IMAGES, [CONV, nn.AvgPool2d(2, ceil_mode=True)], "ceil_mode=True; expected ceil_mode=False"),
    (IMAGES, [CONV, nn.AdaptiveAvgPool2d(2)], "output_size=2; expected 1"),
    (IMAGES, [CONV, nn.ReLU(), LINEAR], r"layer 2 \(Linear.*expected a Flatten"),
    (IMAGES, [CONV, nn.Flatten(), LINEAR], r"layer 2 \(Linear.*in_features=4; expected 60"),
    (IMAGES, [CONV, nn.ReLU()], r"layer 1 \(ReLU.*follows the last layer with weights"),
    (IMAGES, [CONV], r"layer 0 \(Conv2d.*outputs for every position"),
    (IMAGES, [nn.MaxPool2d(2), CONV, nn.Flatten(), LINEAR], r"layer 0 \(MaxPool2d.*no activation"),
    (IMAGES, [CONV, nn.Flatten(2), LINEAR], "expected start_dim=1 and end_dim=-1"),
    (IMAGES, [nn.ZeroPad2d(1), nn.ReLU()], r"layer 0 \(ZeroPad2d.*right before a Conv1d"),
    (IMAGES, [nn.ZeroPad2d(1), nn.Conv2d(2, 3, 3, padding=1)], "padding=0 after a ZeroPad"),
    (IMAGES[0, 0, 0], [LINEAR], r"x has shape \(6,\); expected \(samples, features\)"),
    (ROWS, [Turned(nn.Sequential(nn.Linear(4, 4))), LINEAR], r"layer 0 \(Turned.*expected Linear"),
    (
        IMAGES,
        [CONV, nn.ReLU(), ours.Residual(nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(3, 3, 1)))],
        r"layer 2 \(Residual.*begins with a max pooling",
    ),
    (STEPS, [ours.LastState(), LINEAR], r"layer 0 \(LastState.*right after an RNN"),
    (IMAGES, [CONV, nn.BatchNorm2d(3)], r"layer 1 \(BatchNorm2d.*ties the samples of a batch"),
    (IMAGES, [CONV, nn.Dropout2d()], r"layer 1 \(Dropout2d.*draws another network.*leave it out"),
    (ROWS, [nn.LayerNorm(4), LINEAR], r"layer 0 \(LayerNorm.*divides by a norm"),
    (STEPS, [nn.LSTM(2, 3, **RNN)], r"layer 0 \(LSTM.*gates multiply"),
    (STEPS, [nn.GRU(2, 3, **RNN)], r"layer 0 \(GRU.*gates multiply"),
    (STEPS, [nn.MultiheadAttention(2, 1)], r"layer 0 \(MultiheadAttention.*multiplies its inputs"),
    (STEPS, [nn.RNN(2, 4, **RNN), LINEAR], r"layer 0 \(RNN.*a pair; expected dladmm\.torch"),
    (STEPS, [nn.RNN(2, 4), ours.LastState(), LINEAR], "expected batch_first=True"),
    (STEPS, [nn.RNN(2, 4, 2, **RNN), ours.LastState(), LINEAR], "num_layers=2"),
    (STEPS, [nn.RNN(2, 4, bidirectional=True, **RNN), ours.LastState(), LINEAR], "bidirectional"),
    (STEPS, [nn.RNN(3, 4, **RNN), ours.LastState(), LINEAR], "input_size=3; expected 2"),
    (
        SERIES,
        [nn.Conv1d(2, 3, 2), nn.RNN(8, 4, **RNN), ours.LastState(), LINEAR],
        r"layer 1 \(RNN.*expected ChannelsLast\(\) before it",
    ),
    (ROWS, [ours.Residual(nn.Sequential(nn.Linear(4, 3)))], r"0 \(Residual.*expected a shortcut"),
    (ROWS, [ours.Residual(nn.Sequential(nn.Linear(4, 4)), nn.Linear(4, 4))], "no shortcut"),
    (ROWS, [ours.Residual(nn.Sequential(nn.ReLU()))], r"layer 0\.body\.0 \(ReLU.*before the first"),
    (ROWS, [ours.Residual(nn.Sequential(LINEAR, nn.ReLU())), nn.Linear(3, 3)], "last layer has no"),
    (
        IMAGES,
        [ours.Residual(nn.Sequential(nn.Conv2d(2, 2, 1).requires_grad_(False))), LINEAR],
        r"layer 0\.body\.0 \(Conv2d.*frozen",
    ),
    (
        IMAGES,
        [ours.Residual(nn.Sequential(nn.Conv2d(2, 3, 3, 2, 1)), nn.Conv2d(2, 3, 3, 2, 1))],
        r"layer 0\.shortcut \(Conv2d.*padding=\(1, 1\); expected padding=0",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("x", "layers", "message"), REFUSED, ids=lambda value: None)
def test_what_does_not_fit_is_refused_by_its_name(x, layers, message):
    module = nn.Sequential(*layers)
    before = [parameter.clone() for parameter in module.parameters()]
    with pytest.raises(ValueError, match=message):
        ours.train(module, x, CODES)
    assert all(torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))
