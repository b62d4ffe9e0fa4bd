"""Model files and checkpoints of format 1, written by version 0.1, are read as those of today;
newer ones, and pickles of another version, say so.

They were written on one machine with one release of JAX; on others the last bits differ.
"""

import pickle
import shutil
import warnings
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from sklearn.model_selection import train_test_split
from tolerances import ROUNDING, WEIGHTED_RUN

from dladmm import Checkpoints, DLADMMClassifier, Options, Params, Problem, __version__, solve
from dladmm.core.former import upgraded_identity
from dladmm.core.initial import FIRST_LAYER
from dladmm.estimators.model_files import load_model, save_model
from dladmm.io.model_file import ModelFileError
from dladmm.terms.layers import Dense
from dladmm.terms.regularizers import L2

FORMER = Path(__file__).parents[1] / "formats"
pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    # Of what orbax leaves behind: callbacks of a loop it has closed.
    "ignore::pytest.PytestUnraisableExceptionWarning",
)


def rows():
    """The data that those files were made from."""
    x = np.random.default_rng(7).normal(size=(60, 4))
    return x, (np.abs(x[:, 0]) + x[:, 1] > 0.5).astype(int)


def first_network(problem, x, seed, first_layer=1.0):
    """Where a run of 0.1 started: it drew its weights with JAX's generator."""
    keys = jax.random.split(jax.random.key(seed), 2 * problem.n_layers)
    spreads = [layer.initial_scale for layer in problem.layers]
    spreads[0] *= first_layer / np.sqrt(np.mean(x**2))
    W = [
        np.asarray(spread * jax.random.normal(key, layer.weight_shape))
        for spread, key, layer in zip(spreads, keys[::2], problem.layers, strict=True)
    ]
    return Params(tuple(W), tuple(np.zeros(layer.bias_shape) for layer in problem.layers))


def unpacked(name, folder):
    shutil.unpack_archive(FORMER / f"checkpoint-1-{name}.zip", folder)
    return Checkpoints(folder, every=100, resume=True)


def test_a_model_predicts_as_it_did(tmp_path):
    model = load_model(FORMER / "model-1")
    with np.load(FORMER / "model-1-expected.npz") as expected:
        found = model.estimator.predict_proba(expected["x"])
        np.testing.assert_allclose(found, expected["p"], rtol=ROUNDING)
    assert model.metadata["format_version"] == 1
    assert model.estimator.step_rule == "closed-form"  # the default of its time
    assert model.estimator.layers_ == (Dense((4,), 5), Dense((5,), 2))
    assert "the true loss rose" in model.estimator.certificate_.summary()
    save_model(tmp_path / "m", model.estimator)
    assert load_model(tmp_path / "m").metadata["format_version"] == 2


def test_a_run_goes_on_as_if_it_had_not_been_interrupted(tmp_path):
    x, y = rows()
    problem = Problem.dense((4, 5, 2), "tanh", "log_loss", "l2")
    options = Options(
        method="dladmm",
        step_rule="closed-form",
        rho=2.0,
        max_iter=11,
        tol=None,
        evaluate_every=5,
        dtype="float64",
    )

    def run(**how):
        return solve(problem, x, np.eye(2)[y], options=options, **how)

    resumed = run(checkpoints=unpacked("dladmm", tmp_path / "run"))
    alone = run(params=first_network(problem, x, options.seed))
    assert "by a Rayleigh quotient" in resumed.certificate.theorems["Steps"]
    assert resumed.resumed_from == 6
    for name in ("lagrangian", "residual", "train_loss"):
        np.testing.assert_allclose(resumed.history[name], alone.history[name], rtol=WEIGHTED_RUN)
    for one, other in zip(resumed.params.W, alone.params.W, strict=True):
        np.testing.assert_allclose(one, other, rtol=WEIGHTED_RUN)

    options = replace(options, step_rule=Options().step_rule)  # the default of today: another run
    with pytest.raises(ValueError, match="step_rule 'closed-form' instead of 'over-relaxed'"):
        run(checkpoints=unpacked("dladmm", tmp_path / "again"))


def test_the_held_out_scores_of_a_fit_go_on_too(tmp_path):
    """As an estimator of 0.1 called `solve`; those of today train in other units: another run."""
    x, y = rows()
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    train, held = train_test_split(np.arange(60), test_size=0.1, random_state=seed, stratify=y)
    problem = Problem.dense((4, 5, 2), "relu", "log_loss", L2(1e-4))
    options = Options(seed=seed, dtype="float64", tol=0.0, max_iter=11, patience=100)
    Y = np.eye(2)[y]

    def run(**how):
        held_out = (x[held], Y[held], None)
        return solve(problem, x[train], Y[train], validation=held_out, options=options, **how)

    resumed = run(checkpoints=unpacked("early", tmp_path))
    alone = run(params=first_network(problem, x[train], seed, FIRST_LAYER))
    assert resumed.resumed_from == 6
    scores = (result.history["validation_score"][:-1] for result in (resumed, alone))
    np.testing.assert_allclose(*scores, rtol=WEIGHTED_RUN)
    for one, other in zip(resumed.best_params.W, alone.best_params.W, strict=True):
        np.testing.assert_allclose(one, other, rtol=WEIGHTED_RUN)


def test_another_network_is_still_told_from_this_one():
    former = {"format": 1, "network": "6-8-3", "seed": 0}
    now = upgraded_identity(former, {"held-out rows": [1, 2]})
    assert now["layer 1"] == {"layer": "dense", "inputs": [6], "outputs": 8}
    assert now["layer 2"] == {"layer": "dense", "inputs": [8], "outputs": 3}
    assert "network" not in now
    assert now["held-out rows"] == [1, 2]
    assert upgraded_identity(now, {}) == now


def test_the_step_rule_belongs_to_the_method_that_has_one():
    former = {"format": 1, "network": "6-8-3", "step_rule": "closed-form"}
    for method, expected in (("dladmm", "closed-form"), ("restored", "matrix")):
        now = upgraded_identity(former | {"method": method}, {"step_rule": "matrix"})
        assert now["step_rule"] == expected


def test_a_pickle_of_another_version_says_so(monkeypatch):
    x, y = rows()
    model = DLADMMClassifier((3,), max_iter=2).fit(x, y)
    kept = pickle.dumps(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same = pickle.loads(kept)  # the control: nothing is said
    np.testing.assert_array_equal(same.predict_proba(x), model.predict_proba(x))
    assert vars(same).keys() == vars(model).keys()
    monkeypatch.setattr("dladmm.estimators.exporting.__version__", "9.0")
    with pytest.warns(
        UserWarning, match=f"was pickled by dladmm {__version__}, and this is dladmm 9"
    ):
        pickle.loads(kept)
    state = {k: v for k, v in model.__getstate__().items() if k != "_dladmm_version"}
    with pytest.warns(UserWarning, match="was pickled by dladmm 0.1 or"):
        DLADMMClassifier().__setstate__(state)


def test_a_checkpoint_of_a_newer_format_is_refused_by_name(tmp_path, monkeypatch):
    x, y = rows()
    problem = Problem.dense((4, 5, 2), "relu", "log_loss")
    options = Options(max_iter=4, tol=None, dtype="float64", engine="numpy")

    def run():
        keeping = Checkpoints(tmp_path / "run", every=2, resume=True)
        return solve(problem, x, np.eye(2)[y], options=options, checkpoints=keeping)

    with monkeypatch.context() as later:
        later.setattr("dladmm.core.snapshot.FORMAT", 3)
        run()
    for _ in range(2):  # nothing is moved away
        with pytest.raises(ValueError, match="is newer: it has format 3, and this is dladmm"):
            run()


def test_a_model_of_a_newer_format_is_refused_by_name(tmp_path, monkeypatch):
    x, y = rows()
    with monkeypatch.context() as later:
        later.setattr("dladmm.io.model_file.FORMAT_VERSION", 3)
        save_model(tmp_path / "m", DLADMMClassifier((3,), max_iter=2).fit(x, y))
    with pytest.raises(
        ModelFileError, match="is newer: it has format version 3, written by dladmm"
    ):
        load_model(tmp_path / "m")
