"""TensorBoard and MLflow: what their own readers find in the files that were written."""

import json
import math
import socket
import subprocess
import sys
import time
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

import numpy as np
import pytest

from dladmm import DLADMMClassifier, MLflow, TensorBoard

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore::DeprecationWarning",
    "ignore::FutureWarning",
)


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(60, 3))
    return X, (X[:, 0] > 0).astype(int)


def fitted(rows, callbacks):
    model = DLADMMClassifier((4,), max_iter=5, tol=None, random_state=0, callbacks=callbacks)
    return model.fit(*rows)


def test_tensorboard_reads_every_record(rows, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with TensorBoard(tmp_path) as board:
        model = fitted(rows, board)
    found = EventAccumulator(str(tmp_path)).Reload()
    kept = {name for name, values in model.history_.items() if any(map(math.isfinite, values))}
    assert set(found.Tags()["scalars"]) == kept
    losses = found.Scalars("train_loss")
    assert [one.step for one in losses] == [1, 2, 3, 4, 5]
    np.testing.assert_allclose(
        [one.value for one in losses], model.history_["train_loss"], rtol=1e-6
    )


def answered(address, server, seconds=120):
    """The first answer of a server that says anything, as JSON."""
    opener, end = build_opener(ProxyHandler({})), time.monotonic() + seconds
    while time.monotonic() < end:
        assert server.poll() is None, server.stderr.read()
        try:
            said = json.load(opener.open(address, timeout=10))
        except URLError:  # it does not listen yet
            said = None
        if said:
            return said
        time.sleep(0.1)
    raise AssertionError(f"{address} says nothing")


@pytest.mark.slow
def test_tensorboard_shows_the_run(rows, tmp_path):
    with TensorBoard(tmp_path / "first") as board:
        fitted(rows, board)
    with socket.create_server(("127.0.0.1", 0)) as free:
        where = ("--host", "127.0.0.1", "--port", str(free.getsockname()[1]))
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(tmp_path), *where]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert answered(f"http://127.0.0.1:{where[-1]}/data/runs", server) == ["first"]
        finally:
            server.kill()


def test_mlflow_reads_every_record(rows, tmp_path, monkeypatch):
    from mlflow.tracking import MlflowClient

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # files, so that no server is needed
    where = tmp_path.as_uri()
    log = MLflow("a trial", where, run_name="first")
    with log:
        model = fitted(rows, [log])
    client = MlflowClient(where)
    run = client.get_run(log.run_id)
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "first"
    history = client.get_metric_history(log.run_id, "train_loss")
    assert [one.step for one in history] == [1, 2, 3, 4, 5]
    np.testing.assert_allclose([one.value for one in history], model.history_["train_loss"])
    with MLflow("a trial", where) as second:  # of the same experiment
        assert client.get_run(second.run_id).info.experiment_id == run.info.experiment_id


def test_a_callback_ends_the_fit_and_others_are_called_all_the_same(rows):
    seen = []
    model = fitted(rows, [lambda p: p.iteration == 2, lambda p: seen.append(p.iteration)])
    assert model.status_ == "stopped"
    assert seen == [1, 2]
    assert fitted(rows, None).n_iter_ == 5


def test_what_is_no_function_is_refused(rows):
    with pytest.raises(ValueError, match="callbacks has 3; expected functions"):
        fitted(rows, [3])


def test_a_model_file_has_no_callbacks(rows, tmp_path):
    model = fitted(rows, lambda p: None)
    model.save(tmp_path / "m")
    assert DLADMMClassifier.load(tmp_path / "m").callbacks is None
