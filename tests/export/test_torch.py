"""A user's own nn.Sequential is trained in place, or refused by naming the layer."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the torch extra is not installed")
from torch import nn  # noqa: E402

import dladmm.torch as ours  # noqa: E402
from dladmm.export import torch_modules  # noqa: E402
from dladmm.terms.activations import activations  # noqa: E402

pytestmark = [pytest.mark.float32, pytest.mark.slow]

RNG = np.random.default_rng(8)
X = torch.tensor(RNG.normal(size=(80, 3)), dtype=torch.float32)
CODES = (X[:, 0] * X[:, 1] > 0).long()
VALUES = X[:, :2] + 1


def network(*between, outputs=2, dtype=torch.float32):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), *between, nn.Linear(8, outputs)).to(dtype)


def weights(module):
    return [parameter.detach().clone() for parameter in module.parameters()]


def test_classes_are_learned_in_place():
    module = network(nn.ReLU())
    parameters = list(module.parameters())
    loss = lambda: nn.functional.cross_entropy(module(X), CODES).item()  # noqa: E731
    before = loss()
    result = ours.train(module, X, CODES, max_iter=30, rho=1.5)
    assert loss() < before - 0.1
    assert loss() == pytest.approx(result.history["train_loss"][-1], rel=1e-4)
    assert all(a is b for a, b in zip(parameters, module.parameters(), strict=True))
    assert all(parameter.requires_grad for parameter in module.parameters())


@pytest.mark.parametrize(("method", "rho"), [("dladmm", 3.0), ("admm", 0.1)])
def test_values_are_learned_by_any_method(method, rho):
    module = network(nn.Tanh())
    before = nn.functional.mse_loss(module(X), VALUES).item()
    result = ours.train(module, X, VALUES, method=method, rho=rho, max_iter=20)
    assert result.certificate.method == method
    assert nn.functional.mse_loss(module(X), VALUES).item() < before / 2


def test_training_starts_from_the_modules_own_weights():
    module, other = network(nn.ReLU()), network(nn.ReLU())
    ours.train(module, X, CODES, max_iter=20, rho=1.5)
    first = ours.train(other, X, CODES, max_iter=1, rho=1.5).history["train_loss"][0]
    again = ours.train(module, X, CODES, max_iter=1, rho=1.5).history["train_loss"][0]
    assert again < first


MODULES = {
    "identity": nn.Identity(),
    "relu": nn.ReLU(inplace=True),
    "leaky_relu": nn.LeakyReLU(0.2),
    "hard_tanh": nn.Hardtanh(),
    "hard_sigmoid": nn.Hardsigmoid(),
    "relu6": nn.ReLU6(),
    "sigmoid": nn.Sigmoid(),
    "tanh": nn.Tanh(),
    "softplus": nn.Softplus(),
    "elu": nn.ELU(),
    "sign": ours.Sign(),
    "step": ours.Step(),
    "quantized_relu": ours.QuantizedReLU(0.25, 7),
}


def test_every_registered_activation_has_a_module():
    assert set(MODULES) == set(activations)


@pytest.mark.parametrize("name", MODULES)
def test_the_term_computes_what_the_module_computes(name):
    """Over a grid that holds the jumps and kinks, and there and back again."""
    z = np.linspace(-8, 8, 257).astype(np.float32)
    term = torch_modules.activation_term(MODULES[name])
    expected = MODULES[name](torch.tensor(z)).numpy()
    np.testing.assert_allclose(np.asarray(term(z)), expected, atol=2e-6)
    back = torch_modules.activation_module(term)(torch.tensor(z)).numpy()
    np.testing.assert_allclose(back, expected, atol=2e-6)


@pytest.mark.parametrize("name", MODULES)
def test_a_network_of_every_activation_is_trained(name):
    module = network(MODULES[name])
    before = weights(module)
    result = ours.train(module, X, VALUES, max_iter=2, rho=3.0)
    assert any(not torch.equal(a, b) for a, b in zip(before, weights(module), strict=True))
    output = module(X).detach().numpy()
    mean_loss = np.mean(np.sum((output - VALUES.numpy()) ** 2 / 2, axis=1))
    assert mean_loss == pytest.approx(result.history["train_loss"][-1], rel=1e-3)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_dtype_stays(dtype):
    module = network(nn.ReLU(), dtype=dtype)
    result = ours.train(module, X, CODES, max_iter=2)
    assert all(parameter.dtype == dtype for parameter in module.parameters())
    wide = dtype == torch.float64
    assert result.params.W[0].dtype == (np.float64 if wide else np.float32)


def test_nested_and_shared_parts():
    """A nested Sequential, one ReLU in two places, and Linears with nothing between them."""
    torch.manual_seed(0)
    relu = nn.ReLU()
    module = nn.Sequential(
        nn.Sequential(nn.Linear(3, 6), relu),
        nn.Linear(6, 5),
        relu,
        nn.Linear(5, 4),
        nn.Linear(4, 2),
    )
    result = ours.train(module, X, CODES, max_iter=3, rho=1.5)
    assert len(result.params.W) == 4
    loss = nn.functional.cross_entropy(module(X), CODES).item()
    assert loss == pytest.approx(result.history["train_loss"][-1], rel=1e-4)


def test_other_losses_arrays_and_weights():
    module = network(nn.ReLU(), outputs=1)
    codes = CODES.numpy()
    result = ours.train(module, X.numpy(), codes, loss="binary_log_loss", max_iter=3)
    bce = nn.functional.binary_cross_entropy_with_logits(module(X)[:, 0], CODES.float()).item()
    assert bce == pytest.approx(result.history["train_loss"][-1], rel=1e-4)
    one_row = torch.zeros(len(X))
    one_row[3] = 1
    ours.train(module, X, X[:, 0], sample_weight=one_row, max_iter=40, rho=3.0)
    assert module(X[3:4]).item() == pytest.approx(X[3, 0].item(), abs=0.05)


def test_without_bias_and_other_layers_are_refused_by_index_and_class():
    lin = nn.Linear
    shared = lin(3, 3)
    frozen = lin(3, 2).requires_grad_(False)
    cases = [
        ([lin(3, 4, bias=False), nn.ReLU(), lin(4, 2)], r"layer 0 \(Linear.*bias=False"),
        ([lin(3, 4), nn.GELU(), lin(4, 2)], r"layer 1 \(GELU.*expected Linear or one of .*ELU"),
        ([lin(3, 4), nn.ReLU(), nn.Dropout(), lin(4, 2)], r"layer 2 \(Dropout.*leave it out"),
        ([lin(3, 2), nn.Softmax(-1)], r"layer 1 \(Softmax.*takes logits"),
        ([lin(3, 2), nn.LogSoftmax(-1)], r"layer 1 \(LogSoftmax.*takes logits"),
        ([lin(3, 2), nn.ReLU()], r"layer 1 \(ReLU.*follows the last layer with weights"),
        ([nn.Tanh(), lin(3, 2)], r"layer 0 \(Tanh.*before the first layer with weights"),
        ([lin(3, 4), nn.Tanh(), nn.ReLU(), lin(4, 2)], r"layer 2 \(ReLU.*after another activation"),
        ([lin(3, 4), nn.ELU(0.5), lin(4, 2)], r"layer 1 \(ELU.*expected alpha=1"),
        ([lin(3, 4), nn.Hardtanh(-2, 2), lin(4, 2)], r"layer 1 \(Hardtanh.*expected min_val=-1"),
        ([lin(3, 4), nn.Softplus(2), lin(4, 2)], r"layer 1 \(Softplus.*expected beta=1"),
        ([lin(3, 4), nn.BatchNorm1d(4), lin(4, 2)], r"layer 1 \(BatchNorm1d"),
        ([nn.Sequential(lin(3, 4), nn.GELU()), lin(4, 2)], r"layer 0\.1 \(GELU"),
        ([shared, nn.ReLU(), shared, lin(3, 2)], r"layer 2 \(Linear.*shared"),
        ([frozen], r"layer 0 \(Linear.*frozen"),
        ([lin(3, 4), nn.ReLU(), lin(5, 2)], r"layer 2 \(Linear.*in_features=5; expected 4"),
        ([nn.Identity()], "no Linear layer"),
    ]
    for layers, message in cases:
        module = nn.Sequential(*layers)
        before = weights(module)
        with pytest.raises(ValueError, match=message):
            ours.train(module, X, CODES)
        assert all(torch.equal(a, b) for a, b in zip(before, weights(module), strict=True))


def test_other_wrong_input_is_refused():
    with pytest.raises(ValueError, match=r"module is a Linear; expected an nn\.Sequential"):
        ours.train(nn.Linear(3, 2), X, CODES)
    with pytest.raises(ValueError, match="option 'learning_rate' is unknown"):
        ours.train(network(nn.ReLU()), X, CODES, learning_rate=0.1)
    with pytest.raises(ValueError, match="class indices from 0 to 5; expected 0 to 1"):
        ours.train(network(nn.ReLU()), X, CODES * 5)
    with pytest.raises(ValueError, match="out_features=1"):
        ours.train(network(nn.ReLU(), outputs=1), X, CODES)
    with pytest.raises(ValueError, match="x has 2 columns; expected 3"):
        ours.train(network(nn.ReLU()), X[:, :2], CODES)
