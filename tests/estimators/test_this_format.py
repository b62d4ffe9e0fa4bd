"""Model files and checkpoints of format 2, as version 0.2 wrote them, are read as they were then,
by every later version too.

`PYTHONPATH=src:tests python tests/estimators/test_this_format.py` wrote them, with what they
predict and how the run went on, into tests/formats; a later format gets files of its own.
"""

import shutil
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from tolerances import ROUNDING, WEIGHTED_RUN

from dladmm import Checkpoints, DLADMMClassifier, DLADMMRegressor, Network, Options, Problem, solve
from dladmm.estimators.model_files import load_model, save_model
from dladmm.network import Conv2D, Dense, MaxPool, Residual

FORMATS = Path(__file__).parents[1] / "formats"
IMAGES = Network(
    (4, 4, 1),
    [Conv2D(2, 2, padding="same"), "relu", MaxPool(2), Residual([Conv2D(2, 1)]), "tanh", Dense(1)],
)
SERIES = ("lagrangian", "residual", "train_loss")


def rows(columns):
    x = np.random.default_rng(7).normal(size=(60, columns))
    return x, (np.abs(x[:, 0]) + x[:, 1] > 0.5).astype(int)


def fitted(name):
    common = {"max_iter": 6, "random_state": 0, "engine": "numpy"}
    if name == "dense":
        x, y = rows(4)
        return DLADMMClassifier((5,), **common).fit(x, np.array(["no", "yes"])[y]), x
    x, _ = rows(16)
    return DLADMMRegressor(network=IMAGES, batch_size=20, **common).fit(x, x[:, 0] + x[:, 1]), x


def output(estimator, x):
    return estimator.predict_proba(x) if hasattr(estimator, "classes_") else estimator.predict(x)


def run(folder, max_iter):
    x, y = rows(4)
    options = Options(method="dladmm", rho=2.0, max_iter=max_iter, tol=None, evaluate_every=5,
                      dtype="float64", engine="numpy")  # fmt: skip
    problem = Problem.dense((4, 5, 2), "tanh", "log_loss", "l2")
    keeping = Checkpoints(folder, every=6, keep=1, resume=True, warn=lambda text: None)
    return solve(problem, x, np.eye(2)[y], options=options, checkpoints=keeping)


# Of what orbax leaves behind: callbacks of a loop it has closed.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.mark.parametrize("name", ["dense", "network"])
def test_a_model_predicts_as_it_did(name, tmp_path):
    model = load_model(FORMATS / f"model-2-{name}")
    assert model.metadata["format_version"] == 2
    with np.load(FORMATS / "expected-2.npz") as expected:
        x, found = expected[f"{name}-x"], output(model.estimator, expected[f"{name}-x"])
        np.testing.assert_allclose(found, expected[f"{name}-p"], rtol=ROUNDING)
    assert model.estimator.network == (IMAGES if name == "network" else None)
    save_model(tmp_path / "m", model.estimator)  # and goes through a file of today
    again = output(load_model(tmp_path / "m").estimator, x)
    np.testing.assert_array_equal(again, found)
    with pytest.raises(AssertionError):  # the control
        np.testing.assert_allclose(output(model.estimator, x + 1e-6), found, rtol=ROUNDING)


def test_a_run_goes_on_as_it_did(tmp_path):
    shutil.unpack_archive(FORMATS / "checkpoint-2.zip", tmp_path / "run")
    resumed = run(tmp_path / "run", 11)
    assert resumed.resumed_from == 6
    with np.load(FORMATS / "expected-2.npz") as expected:
        for name in SERIES:
            np.testing.assert_allclose(resumed.history[name], expected[name], rtol=WEIGHTED_RUN)


def write():
    expected = {}
    for name in ("dense", "network"):
        estimator, x = fitted(name)
        save_model(FORMATS / f"model-2-{name}", estimator)
        expected |= {f"{name}-x": x[:10], f"{name}-p": output(estimator, x[:10])}
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder) / "run", 6)
        shutil.make_archive(str(FORMATS / "checkpoint-2"), "zip", Path(folder) / "run")
        history = run(Path(folder) / "run", 11).history
    np.savez_compressed(FORMATS / "expected-2.npz", **expected, **{k: history[k] for k in SERIES})


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    write()
