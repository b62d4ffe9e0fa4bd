"""Networks on the command line: presets, JSON files, folders of images, data sets of sequences."""

import json

import numpy as np
import pytest
from command_line import run
from PIL import Image
from sklearn.datasets import load_digits

from dladmm.data.datasets import load_part
from dladmm.network import Network
from dladmm.network.presets import PRESETS, preset, read_network


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A few digits, a sub-folder for each."""
    root, digits = tmp_path_factory.mktemp("images"), load_digits()
    for i in range(120):
        path = root / f"digit {digits.target[i]}" / f"{i}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray((digits.images[i] * 15).astype(np.uint8)).save(path)
    return root


def test_a_folder_of_images_is_fitted_and_predicted(folder, tmp_path):
    model, out = tmp_path / "digits.model", tmp_path / "predicted.csv"
    given = ("--network", "lenet", "--max-iter", "8", "--test-size", "0", "--engine", "numpy")
    fitted = run("fit", str(folder), "--out", str(model), *given)
    assert fitted.code == 0, fitted.out
    assert "convolution 3x3 + ReLU + max pool 2x2" in fitted.out
    predicted = run("predict", str(model), str(folder), "--out", str(out))
    assert predicted.code == 0, predicted.out
    labels = out.read_text().splitlines()[1:]
    assert len(labels) == 120
    assert sum("digit" in line for line in labels) == 120


def test_a_network_from_a_json_file(tmp_path):
    path = tmp_path / "network.json"
    layers = [{"conv2d": {"filters": 4, "size": [3, 3]}}, "relu", {"max_pool": 2}]
    more = [{"residual": [{"conv2d": {"filters": 4, "size": 3, "padding": "same"}}]}, "relu"]
    path.write_text(json.dumps({"in_shape": [8, 8, 1], "layers": [*layers, *more, {"dense": 10}]}))
    network = read_network(path)
    assert network.out_shape == (10,)
    assert network.graph.layers[0].out_shape == (6, 6, 4)
    model = tmp_path / "model"
    given = ("--network", str(path), "--max-iter", "2", "--engine", "numpy")
    fitted = run("fit", "digits", "--out", str(model), *given)
    assert fitted.code == 0, fitted.out


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("[1]", "is no network"),
        ('{"in_shape": [8, 8, 1]}', "is no network"),
        ('{"in_shape": [8, 8, 1], "layers": [{"lstm": 3}]}', "lstm does not fit: its gates"),
        ('{"in_shape": [8], "layers": [{"dense": {"units": 1, "x": 2}}]}', "dense has no 'x'"),
    ],
)
def test_a_json_file_that_is_no_network_is_refused(content, sentence, tmp_path):
    path = tmp_path / "network.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=sentence):
        read_network(path)


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("shape", [(8, 8, 1), (28, 28, 1), (32, 32, 3), (40, 1)])
def test_presets_fit_images_and_sequences(name, shape):
    network = preset(name, shape, 7)
    assert isinstance(network, Network)
    assert network.out_shape == (7,)
    assert np.prod(network.in_shape) == np.prod(shape)


def test_what_a_preset_does_not_fit_is_refused(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("a,b,c\n" + "\n".join(f"{i},{i % 3},{i % 2}" for i in range(40)))
    out = str(tmp_path / "model")
    refused = run("fit", str(table), "--target", "c", "--out", out, "--network", "lenet")
    assert refused.code != 0
    assert "--network lenet does not fit" in refused.err
    with pytest.raises(ValueError, match="network 'alexnet' is unknown; expected one of lenet"):
        preset("alexnet", (28, 28, 1), 10)
    with pytest.raises(ValueError, match="expected \\(steps, channels\\) or"):
        preset("lenet", (784,), 10)


def test_a_folder_without_images_or_of_unequal_ones_is_refused(tmp_path):
    out = str(tmp_path / "model")
    empty = run("fit", str(tmp_path), "--out", out)
    assert empty.code != 0
    assert "has no images; expected a sub-folder for each class" in empty.err
    for k, size in enumerate((4, 5)):
        (tmp_path / f"class {k}").mkdir()
        Image.fromarray(np.zeros((size, size), np.uint8)).save(tmp_path / f"class {k}" / "a.png")
    unequal = run("fit", str(tmp_path), "--out", out)
    assert "expected all of one size" in unequal.err.replace("\n", " ")


def stored(folder):
    """Data sets as a data directory has them, with a few samples each."""
    (folder / "sequences").mkdir()
    (folder / "cifar10-jpeg").mkdir()
    x = np.arange(2 * 40, dtype=float).reshape(2, 40)
    np.savez(folder / "sequences/mnist1d.npz", x_train=x, y_train=[1, 2], x_test=x, y_test=[1, 2])
    x = np.zeros((1, 29, 12))
    x[0, :2] = [[1] * 12, [2] * 12]
    np.savez(folder / "sequences/japanese-vowels.npz", x_test=x, y_test=[9], length_test=[2])
    path = folder / "one.jpg"
    Image.fromarray(np.full((32, 32, 3), 128, np.uint8)).save(path)
    content = np.frombuffer(path.read_bytes(), np.uint8)
    both = np.concatenate([content, content])
    offsets = [0, len(content), 2 * len(content)]
    np.savez(folder / "cifar10-jpeg/test.npz", jpeg=both, offsets=offsets, labels=[3, 4])


def test_data_sets_of_a_data_directory(tmp_path):
    stored(tmp_path)
    x, y = load_part("mnist1d", tmp_path, "train")
    assert x.shape == (2, 40)
    np.testing.assert_array_equal(y, [1, 2])
    x, y = load_part("japanese-vowels", tmp_path, "test")
    x = x.reshape(1, 29, 13)
    np.testing.assert_array_equal(x[0, -2:, -1], [1, 1])
    np.testing.assert_array_equal(x[0, -1, :12], [2] * 12)
    assert not x[0, :-2].any()
    x, y = load_part("cifar10-jpeg", tmp_path, "test")
    assert x.shape == (2, 3072)
    np.testing.assert_allclose(x, 128 / 255, atol=0.01)
    np.testing.assert_array_equal(y, [3, 4])


def test_a_data_set_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ValueError, match="mnist1d is read from a data directory, and there is no"):
        load_part("mnist1d", tmp_path, "train")


@pytest.mark.parametrize("name", ["rnn", "resnet-small"])
def test_presets_are_fitted_inspected_and_predicted(name, folder, tmp_path):
    """A first layer that reads more than x, and one that is read twice."""
    model = tmp_path / "model"
    given = ("--network", name, "--max-iter", "2", "--test-size", "0", "--engine", "numpy")
    fitted = run("fit", str(folder), "--out", str(model), "--json", *given)
    assert fitted.code == 0, fitted.err
    assert fitted.json["network"][0] == 64
    assert run("inspect", str(model)).code == 0
    assert run("predict", str(model), str(folder), "--out", str(tmp_path / "p.csv")).code == 0
