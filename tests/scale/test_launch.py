"""`dladmm launch`: several processes give the model of one; a dead one ends all, and is named."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pandas as pd
import psutil
import pytest

from dladmm.cli.processes import LOST_ANOTHER, Child, how_to_resume, join, wait_for_all

PROMISED_SECONDS = 60  # within which the others end
FIT = ("digits", "--hidden", "12", "--max-iter", "30", "--dtype", "float64", "--json")


@pytest.fixture(scope="module", autouse=True)
def programs(tmp_path_factory):
    """A run that goes on, and the next test, find the programs that an earlier run has compiled."""
    with mock.patch.dict(os.environ, {"DLADMM_CACHE": str(tmp_path_factory.mktemp("programs"))}):
        yield


def dladmm(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "dladmm", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
        text=True,
    )


def ended(process, seconds=300):
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.terminate()  # a launcher ends its processes then
        raise
    return process.returncode, out, err


def wait_for(happened, launcher, seconds=300):
    end = time.monotonic() + seconds
    while not happened():
        if launcher.poll() is not None or time.monotonic() > end:
            launcher.terminate()
            raise AssertionError(ended(launcher))
        time.sleep(0.01)


def launched(count, *more):
    return dladmm("launch", "-n", count, "--", "fit", *FIT, *more)


def record(process):
    code, out, err = ended(process)
    assert code == 0, err
    return json.loads(out)


def child(launcher, index):
    """The process of this index, once it is there."""
    for process in psutil.Process(launcher.pid).children():
        if process.cmdline()[-1] == str(index):
            return process
    raise AssertionError(f"there is no process {index}")


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    return record(dladmm("fit", *FIT, "--out", folder / "m"))


@pytest.mark.slow
@pytest.mark.parametrize("killed", [0, 1])  # the first one is the coordinator too
def test_a_killed_process_is_named_the_others_end_and_the_run_goes_on(tmp_path, alone, killed):
    where = ("--out", tmp_path / "m", "--checkpoint", tmp_path / "run", "--checkpoint-every", "2")
    launcher = launched(3, *where)
    wait_for(lambda: any(p.name.isdigit() for p in (tmp_path / "run").glob("*")), launcher)
    child(launcher, killed).send_signal(signal.SIGKILL)
    code, _, err = ended(launcher, PROMISED_SECONDS)
    assert code == 1
    assert f"process {killed} of 3 was ended by SIGKILL" in err
    command = re.search(r"go on with: dladmm (.*)$", err, re.MULTILINE)[1]
    resumed = record(dladmm(*shlex.split(command)))
    assert resumed["resumed_from"] >= 2
    for key in ("train_loss", "train_score", "test_score", "n_iter"):
        assert resumed[key] == pytest.approx(alone[key], rel=1e-9)


@pytest.mark.slow
def test_each_process_reads_its_part_of_a_table_with_a_sorted_target(tmp_path):
    rng = np.random.default_rng(0)
    price = np.sort(rng.normal(size=301))
    price[:160] = price[:160].min()  # the first process sees one value only
    frame = pd.DataFrame({"price": price, "size": price + 0.1 * rng.normal(size=301)})
    frame["note"] = 'on "two"\nlines'
    frame.loc[frame.index[::50], "price"] = np.nan  # rows that are left out
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=64)
    frame.to_csv(tmp_path / "t.csv", index=False)
    fit = ("--target", "price", "--hidden", "4", "--max-iter", "20", "--json")
    one = record(dladmm("fit", tmp_path / "t.parquet", *fit, "--out", tmp_path / "one"))
    for count, table in ((2, "t.parquet"), (3, "t.csv")):
        launcher = dladmm(
            "launch", "-n", count, "--", "fit", tmp_path / table, *fit, "--out", tmp_path / "m"
        )
        both = record(launcher)
        assert both["task"] == "regression"
        for key in ("train_loss", "train_score"):
            assert both[key] == pytest.approx(one[key], rel=1e-9)
        for key in ("train", "held_out"):
            assert both[key] == pytest.approx(one[key], rel=1e-9)
    predicted = dladmm("predict", tmp_path / "m", tmp_path / "t.parquet", "--out",
                       tmp_path / "p.csv", "--json")  # fmt: skip
    assert record(predicted)["score"] == pytest.approx(both["train_score"], rel=1e-6)


@pytest.mark.slow
def test_a_process_may_die_before_there_is_anything_to_go_on_from(tmp_path):
    launcher = launched(2, "--out", tmp_path / "m", "--max-iter", "100000")
    wait_for(lambda: len(psutil.Process(launcher.pid).children()) == 2, launcher)
    child(launcher, 0).send_signal(signal.SIGKILL)
    code, _, err = ended(launcher, PROMISED_SECONDS)
    assert code == 1
    assert "process 0 of 2 was ended by SIGKILL" in err
    assert "without --checkpoint DIR there is nothing to go on from" in err
    assert not (tmp_path / "m").exists()


@pytest.mark.slow
def test_processes_find_each_other_by_the_variables_of_slurm(tmp_path, alone):
    running = []
    for index in range(2):
        slurm = {
            "SLURM_JOB_ID": str(os.getpid()),
            "SLURM_STEP_NODELIST": "127.0.0.1",
            "SLURM_NTASKS": "2",
            "SLURM_PROCID": str(index),
            "SLURM_LOCALID": str(index),
            "SLURM_STEP_NUM_NODES": "1",
        }
        command = [sys.executable, "-m", "dladmm", "fit", *FIT, "--out", str(tmp_path / "m")]
        running.append(
            subprocess.Popen(
                [*command, "--coordinator", "auto"],
                env=os.environ | slurm | {"JAX_PLATFORMS": "cpu"},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    assert record(running[0])["train_loss"] == pytest.approx(alone["train_loss"], rel=1e-9)
    assert ended(running[1])[:2] == (0, "")


@pytest.mark.slow
def test_what_all_processes_refuse_is_said_once(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,x\n2,y\n")
    launcher = dladmm(
        "launch", "-n", 2, "--", "fit", tmp_path / "t.csv", "--target", "c", "--out", tmp_path / "m"
    )
    code, _, err = ended(launcher)
    assert code == 2
    assert err.count("\n") == 1
    assert "there is no column 'c'" in err


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((None, 2, None), "--coordinator is missing"),
        (("here", 2, 0), "'here' is not valid; expected HOST:PORT"),
        (("h:1", None, 0), "--num-processes and --process-id are missing"),
        (("h:1", 2, 2), "--process-id 2 is not valid; expected 0 to 1"),
    ],
)
def test_processes_that_cannot_be_joined_are_refused(given, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        join(*given)


@pytest.mark.parametrize(
    ("codes", "blamed"),
    [
        ((LOST_ANOTHER, -signal.SIGTERM), 1),
        ((LOST_ANOTHER, -signal.SIGABRT, 0), 1),
        ((-signal.SIGABRT, 1), 1),
        ((-signal.SIGKILL, LOST_ANOTHER), 0),
    ],
)
def test_who_died_first_is_blamed_and_not_who_noticed(codes, blamed):
    ended = [SimpleNamespace(poll=lambda code=code: code, returncode=code) for code in codes]
    children = [Child(number, process, None) for number, process in enumerate(ended)]
    assert wait_for_all(children).number == blamed


def test_the_command_that_resumes_is_the_command_itself():
    command = ["fit", "my data.parquet", "--checkpoint", "run"]
    assert how_to_resume(command, 3) == (
        "go on with: dladmm launch -n 3 -- fit 'my data.parquet' --checkpoint run --resume"
    )
    assert how_to_resume([*command, "--resume"], 3) == how_to_resume(command, 3)
