"""Two runs of one folder, or of one --out, are told apart; readers see the old model or the new."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from command_line import run
from fits import Fit

from dladmm import DLADMMRegressor
from dladmm.estimators.model_files import load_model
from dladmm.io.files import lock_file


@pytest.mark.slow
def test_a_second_run_is_refused_and_the_first_one_goes_on(tmp_path):
    """Into the same --out, and into the same folder of checkpoints."""
    first = Fit(tmp_path, seconds=1).wait_for_iterations(2)
    second = Fit(tmp_path, keep=False, noted="second")
    code, _, err = second.ended()
    assert (code, err.count("\n")) == (2, 1)
    assert "--out" in err
    assert "is being written by another run" in err
    third = Fit(tmp_path, "--out", tmp_path / "other", noted="third")
    code, _, err = third.ended()
    assert (code, err.count("\n")) == (2, 1)
    assert "run is in use by another run" in err
    assert first.process.poll() is None
    assert first.asked(signal.SIGTERM)[0] == 128 + signal.SIGTERM
    assert load_model(tmp_path / "m").estimator.n_iter_ == first.kept[-1]
    assert not list(tmp_path.glob(".*lock"))  # nothing is left beside a model


@pytest.mark.parametrize(
    ("command", "written"),
    [
        ("compare t.csv --target y --out . --methods restored --iterations 1", "compare.png"),
        ("reproduce table3 fig5 --quick --out .", "fig5.json"),
        ("fit t.csv --target y --out m --report r.html --max-iter 2 --hidden 2", "r.html"),
    ],
)
def test_other_commands_too_have_one_file_each(tmp_path, monkeypatch, command, written):
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).normal(size=(60, 3))
    np.savetxt("t.csv", rows, "%.3f", ",", header="a,b,y", comments="")
    with lock_file(tmp_path / f".{written}.lock"):
        refused = run(*command.split())
        assert (refused.code, refused.err.count("\n")) == (2, 1), refused.err
        assert f"{written} is being written by another run" in refused.err
        assert not (tmp_path / written).exists()
        other = run("reproduce", "report", "--out", tmp_path)  # of the same folder
        assert other.code == 0, other.err
    if not command.startswith("reproduce"):  # which would take minutes
        (tmp_path / f".{written}.lock").unlink()
        assert run(*command.split()).code == 0
        assert (tmp_path / written).exists()
    assert not list(tmp_path.glob(".*lock")) or command.startswith("reproduce")


def test_a_file_is_held_by_one_until_it_ends(tmp_path):
    path = tmp_path / "lock"
    hold = "from dladmm.io.files import lock_file; from pathlib import Path; import time;"
    hold += f"f = lock_file(Path({str(path)!r})); print('held', flush=True); time.sleep(100)"
    other = subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "held\n"
    with pytest.raises(BlockingIOError, match="held by another process"):
        lock_file(path)
    other.kill()
    other.wait()
    other.stdout.close()
    with lock_file(path) as held:
        assert held is not None


def test_readers_of_a_model_that_is_being_replaced_see_the_old_or_the_new(tmp_path):
    x = np.random.default_rng(0).normal(size=(30, 3))
    models = [
        DLADMMRegressor((k,), max_iter=2, tol=1e9, n_iter_no_change=1).fit(x, x[:, 0])
        for k in (3, 40)
    ]
    known = {len(model.intercepts_[0]): model.predict(x).tobytes() for model in models}
    path, end = tmp_path / "m", time.monotonic() + 1.5
    models[0].save(path)

    def read():
        seen = []
        while time.monotonic() < end:
            model = DLADMMRegressor.load(path)
            size = len(model.intercepts_[0])
            assert model.predict(x).tobytes() == known[size]
            seen.append(size)
        return seen

    with ThreadPoolExecutor(2) as readers:
        reading = [readers.submit(read) for _ in range(2)]
        while time.monotonic() < end:
            for model in models:
                model.save(path)
        seen = [size for reader in reading for size in reader.result()]
    assert set(seen) == {3, 40}
    assert os.listdir(tmp_path) == ["m"]
