"""Any network of this library as an ONNX file, by onnxruntime."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator

runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytest.importorskip("onnx", reason="the onnx extra is not installed")

from dladmm import DLADMMClassifier, Network, Problem  # noqa: E402
from dladmm.core.params import Params, forward  # noqa: E402
from dladmm.export.onnx import to_onnx  # noqa: E402
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
from dladmm.terms.activations import activations  # noqa: E402
from dladmm.terms.layers import Dense as DenseMap  # noqa: E402

pytestmark = [pytest.mark.float32, pytest.mark.slow]

AGREEMENT = 1e-5
NETWORKS = {
    "cnn": Network((7, 6, 2), [
        Conv2D(3, (3, 2), padding="same"), "relu", MaxPool(2),
        Conv2D(4, 2, 2, padding=1, dilation=2), "tanh", AveragePool((2, 1)), Dense(3),
    ]),
    "groups": Network((7, 6, 4), [
        Conv2D(6, (3, 2), padding="same", groups=2), "relu", Conv2D(6, 2, groups=6), "tanh",
        Dense(3),
    ]),
    "masked": Network((9, 3), [Masking(), Recurrent(4), Dense(3)]),
    "residual": Network((7, 6, 2), [
        Residual([Conv2D(3, 3, padding="same"), "relu", Conv2D(2, 3, padding="same")]), "relu",
        Residual([
            Conv2D(4, 3, strides=2, padding="same"), "relu",
            Residual([Conv2D(4, 3, padding="same")]), "relu", Conv2D(5, 1),
        ]), "relu", GlobalAveragePool(), Dense(6), "relu", Residual([Dense(3)]),
    ]),
    "conv1d, recurrent": Network((9, 2), [
        Conv1D(3, 2, dilation=2), "relu", AveragePool(2), Recurrent(4, "relu", "all"),
        Recurrent(5, "hard_tanh", "all"), Recurrent(4), Dense(6), "softplus", Dense(3),
    ]),
    "recurrent, residual": Network((9, 2), [
        Recurrent(3, states="all"), Residual([Conv1D(3, 3, padding="same")]), "relu", MaxPool(2),
        Recurrent(3, "sigmoid", "all"), Dense(3),
    ]),
}  # fmt: skip


class Fitted(BaseEstimator):
    """What an exporter asks of a fitted estimator."""

    def fit(self, X, y):
        raise AssertionError("nothing is trained here")


def random_params(network, seed=0):
    random = np.random.default_rng(seed)
    layers = network.graph.layers
    drawn = [random.normal(size=(layer.units, layer.n_columns)) / 2 for layer in layers]
    pairs = [layer.from_matrix(M) for layer, M in zip(layers, drawn, strict=True)]
    return Params(*map(tuple, zip(*pairs, strict=True)))


def fitted(network, params=None, loss="squared_error", **more):
    params = random_params(network) if params is None else params
    known = {"network": network, "layers_": network.graph.layers, "loss": loss, **more}
    model = Fitted()
    coefs = [W.T for W in params.W]
    vars(model).update(coefs_=coefs, intercepts_=list(params.b), y_is_vector_=False, **known)
    return model


def outputs(model, x):
    params = Params(tuple(W.T for W in model.coefs_), tuple(model.intercepts_))
    return forward(Problem.of_network(model.network, model.loss), params, np.float64(x))


def samples(network, count=5):
    shape = (count, *network.in_shape)
    return np.random.default_rng(2).normal(size=shape).astype(np.float32)


def run(path, x):
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": x}), strict=True))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_file_computes_what_the_network_computes(name, dtype, tmp_path):
    model, x = fitted(NETWORKS[name]), samples(NETWORKS[name])
    path = tmp_path / "m.onnx"
    assert to_onnx(model, path, dtype=dtype) == []
    expected = outputs(model, x)
    np.testing.assert_allclose(run(path, x)["prediction"], expected, AGREEMENT, AGREEMENT)
    one = run(path, x[:1])["prediction"]
    np.testing.assert_allclose(one, expected[:1], AGREEMENT, AGREEMENT)


def test_the_comparison_can_fail(tmp_path):
    """Control: with other weights it does not agree."""
    network = NETWORKS["cnn"]
    x = samples(network)
    to_onnx(fitted(network, random_params(network, 1)), tmp_path / "m.onnx")
    other = run(tmp_path / "m.onnx", x)["prediction"]
    assert np.abs(other - outputs(fitted(network), x)).max() > 100 * AGREEMENT


@pytest.mark.parametrize("f", list(activations))
def test_every_activation_recurs_and_is_pooled(f, tmp_path):
    network = Network(
        (6, 2), [Conv1D(3, 2), f, MaxPool(2), Conv1D(3, 1), f, Recurrent(3, f), Dense(2)]
    )
    model, x = fitted(network), samples(network)
    to_onnx(model, tmp_path / "m.onnx")
    out = run(tmp_path / "m.onnx", x)["prediction"]
    np.testing.assert_allclose(out, outputs(model, x), AGREEMENT, AGREEMENT)


def test_classes_and_probabilities(tmp_path):
    """With one output for two classes too, through a pooling and a skip."""
    for last in (Dense(1), Residual([Dense(1)])):
        network = Network(
            (4, 2), [Conv1D(3, 2), "relu", GlobalAveragePool(), Dense(2), "relu", last]
        )
        model = fitted(network, loss="binary_log_loss", classes_=np.array(["no", "yes"]))
        x = samples(network, 20)
        to_onnx(model, tmp_path / "m.onnx")
        out, z = run(tmp_path / "m.onnx", x), outputs(model, x)[:, 0]
        np.testing.assert_allclose(out["probabilities"][:, 1], 1 / (1 + np.exp(-z)), atol=AGREEMENT)
        np.testing.assert_array_equal(out["label"], np.where(z > 0, "yes", "no"))


def test_the_same_by_torch(tmp_path):
    torch = pytest.importorskip("torch", reason="the torch extra is not installed")
    from dladmm.export.torch_modules import to_torch

    network = NETWORKS["residual"]
    model = fitted(network, loss="log_loss", classes_=np.arange(3))
    x = samples(network)
    with torch.no_grad():
        probabilities = to_torch(model)(torch.tensor(x)).numpy()
    z = outputs(model, x)
    expected = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    assert np.abs(probabilities - expected).max() < AGREEMENT
    to_onnx(model, tmp_path / "m.onnx")
    assert np.abs(run(tmp_path / "m.onnx", x)["probabilities"] - expected).max() < AGREEMENT


ESTIMATED = {
    "cnn": Network((6, 6, 1), [Conv2D(3, 3, padding=1), "relu", MaxPool(2), Dense(2)]),
    "residual": Network((6, 6, 1), [
        Conv2D(3, 3), "relu", Residual([Conv2D(4, 3, strides=2, padding="same")]), "relu",
        GlobalAveragePool(), Dense(2),
    ]),
    "recurrent": Network((12, 3), [Recurrent(5), Dense(2)]),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ESTIMATED)
def test_fitted_estimators_give_the_same_in_torch_and_onnx(name, tmp_path):
    """From a model file, and with samples in a unit of their own."""
    torch = pytest.importorskip("torch", reason="the torch extra is not installed")
    network = ESTIMATED[name]
    x = 30 + 5 * samples(network, 40)
    y = np.where(x[:, 0].reshape(40, -1).sum(1) > 30 * x[0, 0].size, "more", "less")
    model = DLADMMClassifier(network=network, max_iter=3, engine="numpy", random_state=0)
    model.fit(x, y).save(tmp_path / "m.safetensors")
    model = DLADMMClassifier.load(tmp_path / "m.safetensors")
    expected = model.predict_proba(x)
    assert np.ptp(expected) > 0.1  # control: not the same for all samples
    with torch.no_grad():
        out = model.to_torch(torch.float64)(torch.tensor(x, dtype=torch.float64)).numpy()
    assert np.abs(out - expected).max() < AGREEMENT
    model.to_onnx(tmp_path / "m.onnx")
    out = run(tmp_path / "m.onnx", x)
    assert np.abs(out["probabilities"] - expected).max() < AGREEMENT
    np.testing.assert_array_equal(out["label"], model.predict(x))


def trained_modules():
    """A CNN, a residual network and a recurrence as PyTorch has them, and what they take."""
    import torch
    from torch import nn

    import dladmm.torch as ours

    torch.manual_seed(0)
    block = ours.Residual(
        nn.Sequential(nn.Conv2d(1, 3, 3, 2, 1), nn.ReLU(), nn.Conv2d(3, 4, 3, padding=1)),
        nn.Conv2d(1, 4, 1, 2),
    )
    image, steps = torch.randn(20, 1, 6, 6), torch.randn(20, 5, 2)
    pooled = (nn.Conv2d(1, 3, 3, padding="same"), nn.MaxPool2d(2), nn.ReLU())
    averaged = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
    yield (
        nn.Sequential(*pooled, nn.Conv2d(3, 4, 2), nn.Tanh(), nn.Flatten(), nn.Linear(16, 2)),
        image,
    )
    yield nn.Sequential(block, nn.ReLU(), *averaged), image
    yield nn.Sequential(nn.RNN(2, 4, batch_first=True), ours.LastState(), nn.Linear(4, 2)), steps


def test_trained_torch_modules_give_the_same_through_onnx(tmp_path):
    torch = pytest.importorskip("torch", reason="the torch extra is not installed")
    from dladmm.export.torch_reading import Reading
    from dladmm.torch import train

    for module, x in trained_modules():
        before = module(x).detach().numpy()
        train(module, x, (x.flatten(1).sum(1) > 0).long(), engine="numpy", max_iter=3)
        reading = Reading(module, x.shape)
        to_onnx(fitted(reading.network, reading.params()), tmp_path / "m.onnx")
        out = run(tmp_path / "m.onnx", reading.samples(x.numpy()))["prediction"]
        with torch.no_grad():
            assert np.abs(out - module(x).numpy()).max() < AGREEMENT
        # Control: before it was trained it had other outputs.
        assert np.abs(out - before).max() > 100 * AGREEMENT


def test_two_masked_recurrences_are_refused(tmp_path):
    network = Network((9, 3), [Masking(), Recurrent(4, states="all"), Recurrent(4), Dense(3)])
    with pytest.raises(ValueError, match="both masked, cannot be exported to ONNX; expected one"):
        to_onnx(fitted(network), tmp_path / "model.onnx")


def test_a_layer_of_another_kind_is_refused_by_its_name(tmp_path):
    class Halved(DenseMap):
        pass

    model = fitted(Network((3,), [Dense(2)]), activation="relu")
    model.network, model.layers_ = None, (Halved((3,), 2),)
    with pytest.raises(ValueError, match="Halved cannot be exported to ONNX; expected Dense"):
        to_onnx(model, tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())
