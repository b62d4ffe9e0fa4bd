"""PyTorch's convolutions, recurrences and residual blocks: read, trained, written, or refused."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the torch extra is not installed")
from torch import nn  # noqa: E402

import dladmm.torch as ours  # noqa: E402
from dladmm import Network, Problem  # noqa: E402
from dladmm.core.params import Params, forward  # noqa: E402
from dladmm.export.torch_network import modules_of_problem  # noqa: E402
from dladmm.export.torch_reading import Reading  # noqa: E402
from dladmm.network import (  # noqa: E402
    AveragePool,
    Conv1D,
    Conv2D,
    Dense,
    GlobalAveragePool,
    Masking,
    MaxPool,
    Recurrent,
    Residual,
)
from dladmm.network.presets import PRESETS, preset  # noqa: E402

pytestmark = [
    pytest.mark.float32,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths:UserWarning"),
]

AGREEMENT = 1e-5
N = 12
RNG = np.random.default_rng(3)
IMAGES = torch.tensor(RNG.normal(size=(N, 2, 7, 6)), dtype=torch.float32)  # channels first
SERIES = torch.tensor(RNG.normal(size=(N, 2, 9)), dtype=torch.float32)
STEPS = SERIES.transpose(1, 2).contiguous()  # (N, steps, channels), as an RNN has them
ROWS = IMAGES[:, :, 0, :2].flatten(1)
CODES = torch.tensor(RNG.integers(0, 3, N))


def block(channels, out, stride=1):
    body = nn.Sequential(
        nn.Conv2d(channels, 3, 3, padding=1, stride=stride), nn.ReLU(), nn.Conv2d(3, out, 3, 1, 1)
    )
    same = stride == 1 and channels == out
    return ours.Residual(body, None if same else nn.Conv2d(channels, out, 1, stride))


MODULES = {
    "cnn": lambda: (
        nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(3, 4, (2, 3), padding="same"), nn.Tanh(), nn.Flatten(), nn.Linear(36, 3),
    ),
    "strides": lambda: (
        nn.Conv2d(2, 3, (3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 2)),
        nn.MaxPool2d((2, 1)), nn.LeakyReLU(0.2), nn.AvgPool2d((1, 2)), nn.Flatten(),
        nn.Linear(24, 4), nn.ReLU(), nn.Linear(4, 3),
    ),
    "groups": lambda: (
        nn.Conv2d(2, 6, 3, padding=1, groups=2), nn.ReLU(), nn.Conv2d(6, 3, (3, 2), groups=3),
        nn.Tanh(), nn.Flatten(), nn.Linear(75, 3),
    ),
    "averaged": lambda: (
        nn.Conv2d(2, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3),
    ),
    "residual": lambda: (
        nn.Conv2d(2, 3, 3), nn.ReLU(), block(3, 3), nn.ReLU(), block(3, 4, 2), nn.ReLU(),
        nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Linear(4, 3),
    ),
    "from the input": lambda: (block(2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(84, 3)),
    "flat": lambda: (nn.Flatten(), nn.Linear(84, 4), nn.ReLU(), nn.Linear(4, 3)),
}  # fmt: skip
MODULES_OF_SERIES = {
    "conv1d": lambda: (
        nn.Conv1d(2, 3, 3, padding=1), nn.ReLU(), nn.MaxPool1d(2), nn.Conv1d(3, 3, 2, dilation=2),
        nn.ReLU(), nn.AvgPool1d(2), nn.Flatten(), nn.Linear(3, 3),
    ),
    "conv1d, rnn": lambda: (
        nn.Conv1d(2, 3, 3), nn.ReLU(), ours.ChannelsLast(), nn.RNN(3, 4, batch_first=True),
        ours.LastState(), nn.Linear(4, 3),
    ),
}  # fmt: skip
MODULES_OF_STEPS = {
    "rnn": lambda: (nn.RNN(2, 4, batch_first=True), ours.LastState(), nn.Linear(4, 3)),
    "two rnns": lambda: (
        nn.RNN(2, 4, batch_first=True, nonlinearity="relu"), ours.AllStates(),
        nn.RNN(4, 3, batch_first=True), ours.AllStates(), nn.Flatten(), nn.Linear(27, 3),
    ),
    "each step": lambda: (
        nn.Linear(2, 3), nn.ReLU(), nn.RNN(3, 4, batch_first=True), ours.AllStates(),
        ours.ChannelsFirst(), nn.Conv1d(4, 2, 2), nn.Tanh(), nn.Flatten(), nn.Linear(16, 3),
    ),
}  # fmt: skip
MODULES_OF_ROWS = {
    "dense residual": lambda: (
        nn.Linear(4, 5), nn.ReLU(),
        ours.Residual(nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 5))), nn.ReLU(),
        ours.Residual(nn.Sequential(nn.Linear(5, 6)), nn.Linear(5, 6, bias=False)),
        nn.ReLU(), nn.Linear(6, 3),
    ),
}  # fmt: skip
CASES = [
    *((name, IMAGES, make) for name, make in MODULES.items()),
    *((name, SERIES, make) for name, make in MODULES_OF_SERIES.items()),
    *((name, STEPS, make) for name, make in MODULES_OF_STEPS.items()),
    *((name, ROWS, make) for name, make in MODULES_OF_ROWS.items()),
]
cases = pytest.mark.parametrize(("name", "x", "make"), CASES, ids=[name for name, *_ in CASES])


def made(make, dtype=torch.float32):
    torch.manual_seed(0)
    return nn.Sequential(*make()).to(dtype)


def outputs(module, x):
    with torch.no_grad():
        return module(x).numpy()


def outputs_of(reading, x, params=None):
    """By this library, in float64."""
    problem = Problem.of_network(reading.network)
    params = reading.params() if params is None else params
    wide = Params(*([np.asarray(v, np.float64) for v in part] for part in params))
    return forward(problem, wide, reading.samples(np.asarray(x, np.float64)))


@cases
def test_the_network_read_computes_what_the_module_computes(name, x, make):
    module = made(make)
    reading = Reading(module, x.shape)
    expected = outputs(module, x)
    assert np.abs(outputs_of(reading, x) - expected).max() < AGREEMENT
    # Control: with the rows of one matrix in another order it does not.
    params = reading.params()
    turned = params._replace(W=(params.W[0][:, ::-1], *params.W[1:]))
    assert np.abs(outputs_of(reading, x, turned) - expected).max() > 100 * AGREEMENT


@cases
def test_weights_in_and_out_are_unchanged(name, x, make):
    module = made(make)
    before = {key: value.clone() for key, value in module.state_dict().items()}
    expected = outputs(module, x)
    reading = Reading(module, x.shape)
    reading.put(reading.params())
    for key, value in module.state_dict().items():
        if "bias_hh" in key or "shortcut.bias" in key:
            assert not value.any()
        elif "bias" not in key:
            assert torch.equal(value, before[key])
    assert np.abs(outputs(module, x) - expected).max() < AGREEMENT


@cases
def test_the_trained_module_computes_what_was_trained(name, x, make):
    module = made(make)
    parameters = list(module.parameters())
    loss = lambda: nn.functional.cross_entropy(module(x), CODES).item()  # noqa: E731
    before = loss()
    result = ours.train(module, x, CODES, engine="numpy", method="restored", max_iter=3)
    assert loss() < before
    assert loss() == pytest.approx(result.history["train_loss"][-1], rel=1e-4)
    trained = outputs_of(Reading(module, x.shape), x, result.params)
    assert np.abs(outputs(module, x) - trained).max() < AGREEMENT
    assert all(a is b for a, b in zip(parameters, module.parameters(), strict=True))


def test_algorithm_1_trains_a_cnn_too():
    module = made(MODULES["cnn"], torch.float64)
    result = ours.train(module, IMAGES, CODES, method="dladmm", engine="numpy", max_iter=3)
    assert result.certificate.method == "dladmm"
    assert all(parameter.dtype == torch.float64 for parameter in module.parameters())
    wide = IMAGES.double()
    loss = nn.functional.cross_entropy(module(wide), CODES).item()
    assert loss == pytest.approx(result.history["train_loss"][-1], rel=1e-6)


# What comes out of a network of ours.

NETWORKS = {
    "cnn": Network((7, 6, 2), [
        Conv2D(3, (3, 2), padding="same"), "relu", MaxPool(2), Conv2D(4, 2, strides=2, padding=1),
        "tanh", Dense(3),
    ]),
    "groups": Network((7, 6, 4), [
        Conv2D(6, (3, 2), padding=1, groups=2), "relu", Conv2D(3, 2, groups=3), "tanh", Dense(3),
    ]),
    "residual": Network((7, 6, 2), [
        Residual([Conv2D(3, 3, padding="same"), "relu", Conv2D(2, 3, padding="same")]), "relu",
        Residual([
            Conv2D(4, 3, strides=2, padding="same"), "relu",
            Residual([Conv2D(4, 3, padding="same")]), "relu", Conv2D(5, 1),
        ]), "relu", GlobalAveragePool(), Dense(3),
    ]),
    "recurrent": Network((9, 2), [
        Conv1D(3, 2, dilation=2), "relu", AveragePool(2), Recurrent(4, "relu", "all"),
        Recurrent(5, "hard_tanh", "all"), Recurrent(4), Dense(6), "softplus", Dense(3),
    ]),
    "recurrent, residual": Network((9, 2), [
        Recurrent(3, states="all"), Residual([Conv1D(3, 3, padding="same")]), "relu",
        Recurrent(3, "sigmoid", "all"), Dense(3),
    ]),
}  # fmt: skip


def params_of(network, seed=0):
    random = np.random.default_rng(seed)
    layers = network.graph.layers
    drawn = [random.normal(size=(layer.units, layer.n_columns)) / 2 for layer in layers]
    pairs = [layer.from_matrix(M) for layer, M in zip(layers, drawn, strict=True)]
    return Params(*map(tuple, zip(*pairs, strict=True)))


def test_one_masked_recurrence_goes_to_torch_and_two_are_refused():
    layers = [Masking(), Recurrent(4), Dense(3)]
    problem = Problem.of_network(Network((9, 3), layers))
    params, x = params_of(Network((9, 3), layers)), RNG.normal(size=(5, 9, 3))
    x[:, :4] = 0  # before the sequences
    module = nn.Sequential(*modules_of_problem(problem, params, torch.float64))
    found = module(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(found, forward(problem, params, x), atol=1e-10)
    two = Network((9, 3), [Masking(), Recurrent(4, states="all"), Recurrent(4), Dense(3)])
    with pytest.raises(ValueError, match="both masked, has no PyTorch module; expected one"):
        modules_of_problem(Problem.of_network(two), params_of(two))


@pytest.mark.parametrize("name", NETWORKS)
def test_modules_of_a_network_compute_what_it_computes(name):
    network = NETWORKS[name]
    problem, params = Problem.of_network(network), params_of(network)
    x = RNG.normal(size=(5, *network.in_shape))
    module = nn.Sequential(*modules_of_problem(problem, params, torch.float64))
    expected = forward(problem, params, x)
    assert np.abs(outputs(module, torch.tensor(x)) - expected).max() < 1e-12
    # Control: other weights, other outputs.
    other = nn.Sequential(*modules_of_problem(problem, params_of(network, 1), torch.float64))
    assert np.abs(outputs(other, torch.tensor(x)) - expected).max() > 100 * AGREEMENT


@pytest.mark.parametrize("name", ["cnn", "residual"])
def test_modules_of_a_network_are_read_back(name):
    network = NETWORKS[name]
    problem, params = Problem.of_network(network), params_of(network)
    module = nn.Sequential(*modules_of_problem(problem, params, torch.float64))
    reading = Reading(module, (5, *network.in_shape))
    assert reading.network.graph == network.graph
    found = reading.params()
    for given, back in zip((*params.W, *params.b), (*found.W, *found.b), strict=True):
        np.testing.assert_array_equal(back, given)


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("shape", [(12, 12, 1), (13, 2)])
def test_presets_go_to_torch_and_back(name, shape):
    network = preset(name, shape, 3)
    problem, params = Problem.of_network(network), params_of(network)
    module = nn.Sequential(*modules_of_problem(problem, params, torch.float64))
    x = RNG.normal(size=(2, *network.in_shape))
    expected = forward(problem, params, x)
    np.testing.assert_allclose(outputs(module, torch.tensor(x)), expected, rtol=1e-9)
    assert Reading(module, x.shape).network.graph == network.graph
