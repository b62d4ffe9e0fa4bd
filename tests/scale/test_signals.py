"""SIGTERM, SIGHUP and Ctrl-C end a fit with its best network and a checkpoint, alone or as several
processes; whoever goes on from there ends with the bits of a run that was left alone. A process
that is stopped (SIGSTOP) or cut off, and not dead, ends the others, and harms nothing later."""

import json
import os
import re
import signal
import socket
from contextlib import suppress
from unittest import mock

import numpy as np
import psutil
import pytest
from fits import Fit
from networks import ADDRESS, Networks, allowed
from tolerances import WEIGHTED_RUN

from dladmm.estimators.model_files import load_model

ASKED = [signal.SIGTERM, signal.SIGHUP, signal.SIGINT]
FROZEN_SECONDS = 60  # within which the others of one that is stopped have ended
HEARTBEAT = 10  # seconds in place of 30, which benchmarks/faults.py waits
WITHOUT_A_WORD = "this process was ended without a word of its own: JAX ends one that has not heard"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def programs(tmp_path_factory):
    """A run finds the programs that an earlier one has compiled."""
    with mock.patch.dict(os.environ, {"DLADMM_CACHE": str(tmp_path_factory.mktemp("programs"))}):
        yield


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    fit = Fit(tmp_path_factory.mktemp("alone"), seconds=0, keep=False)
    assert fit.ended()[0] == 0
    return fit


@pytest.mark.parametrize("number", ASKED, ids=lambda number: number.name)
def test_a_fit_that_is_asked_to_end_keeps_everything(tmp_path, undisturbed, number):
    fit = Fit(tmp_path).wait_for_iterations(4)
    code, out, err = fit.asked(number)
    assert code == 128 + number
    record = json.loads(out)
    assert (record["status"], record["n_iter"]) == ("interrupted", fit.kept[-1])
    assert f"interrupted after {fit.kept[-1]} iterations; the best network is kept" in err
    assert load_model(tmp_path / "m").estimator.n_iter_ == fit.kept[-1]
    resumed = Fit(tmp_path, "--resume", seconds=0)
    code, out, err = resumed.ended()
    assert (code, json.loads(out)["resumed_from"]) == (0, fit.kept[-1]), err
    assert resumed.bits() == undisturbed.bits()


def test_an_iteration_that_takes_too_long_is_given_up(tmp_path):
    fit = Fit(tmp_path, seconds=0, keep=False, stuck_after=3).wait_for_iterations(4)
    code, out, _ = fit.asked(signal.SIGTERM)
    assert (code, json.loads(out)["n_iter"]) == (128 + signal.SIGTERM, 3)
    assert load_model(tmp_path / "m").estimator.n_iter_ == 3


def test_a_signal_that_was_to_be_ignored_still_is(tmp_path):
    """As under `nohup`."""
    fit = Fit(tmp_path, ignored=[signal.SIGHUP])
    fit.wait_for_iterations(3).process.send_signal(signal.SIGHUP)
    before = fit.noted.stat().st_size
    fit.wait_for_iterations(before + 3)
    assert fit.asked(signal.SIGTERM)[0] == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("number", "whom"),
    [
        (signal.SIGTERM, "the launcher"),
        (signal.SIGHUP, "the launcher"),
        (signal.SIGINT, "all of them"),  # as a terminal sends Ctrl-C
        (signal.SIGTERM, "process 1"),
    ],
)
def test_several_processes_agree_on_where_to_end(tmp_path, undisturbed, number, whom):
    fit = Fit(tmp_path, count=3).wait_for_iterations(9)
    children = {p.cmdline()[-1]: p for p in psutil.Process(fit.process.pid).children()}
    for child in children.values() if whom == "all of them" else ():
        child.send_signal(number)
    code, out, err = fit.asked(number, children["1"] if whom == "process 1" else None)
    assert code == 128 + number, err
    assert json.loads(out)["n_iter"] == fit.kept[-1]
    assert not any(child.is_running() for child in children.values())
    if whom == "the launcher":
        resumed = Fit(tmp_path, "--resume", seconds=0)  # by one process
        code, out, err = resumed.ended()
        assert (code, json.loads(out)["resumed_from"]) == (0, fit.kept[-1]), err
        assert resumed.losses == pytest.approx(undisturbed.losses, rel=WEIGHTED_RUN)


def test_a_fit_that_is_asked_to_end_while_it_reads_has_nothing_to_keep(tmp_path):
    fit = Fit(tmp_path, paused="dladmm.cli.loading:Reading.rows").wait_for_iterations(1)
    code, out, err = fit.asked(signal.SIGTERM)
    assert (code, out) == (128 + signal.SIGTERM, ""), err
    assert err == "dladmm: interrupted before there was a network to keep\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["noted"]


def test_a_model_that_is_being_saved_is_saved(tmp_path, undisturbed):
    """The signal comes between its bytes and its name."""
    fit = Fit(tmp_path, seconds=0, keep=False, paused="os:fsync")
    fit.wait_for(lambda: "|" in fit.noted.read_text())
    assert not (tmp_path / "m").exists()
    code, out, err = fit.asked(signal.SIGTERM)
    assert (code, json.loads(out)["status"]) == (128 + signal.SIGTERM, "max_iter"), err
    assert fit.bits() == undisturbed.bits()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m", "noted"]


def test_the_score_on_rows_held_out_is_given_up_and_the_model_stays(tmp_path):
    rows = np.random.default_rng(0).normal(size=(60, 3))
    np.savetxt(tmp_path / "t.csv", rows, "%.3f", ",", header="a,b,y", comments="")
    fit = Fit(tmp_path, "--max-iter", "4", "--target", "y", keep=False, data=(tmp_path / "t.csv",))
    fit.wait_for((tmp_path / "m").exists)
    fit.wait_for_iterations(fit.noted.stat().st_size + 2)
    code, out, err = fit.asked(signal.SIGTERM)
    record = json.loads(out)
    assert (code, record["held_out"], record["n_iter"]) == (128 + signal.SIGTERM, None, 4), err
    assert "no held-out score: interrupted; the model of all rows is saved" in err
    assert load_model(tmp_path / "m").estimator.n_iter_ == 4


def test_a_stopped_process_is_named_and_all_are_ended(tmp_path):
    fit = Fit(tmp_path, "--checkpoint-every", "3", count=3, heartbeat=HEARTBEAT)
    fit.wait_for_iterations(15)
    children = {p.cmdline()[-1]: p for p in psutil.Process(fit.process.pid).children()}
    listening = [c.laddr.ip for p in children.values() for c in p.net_connections() if not c.raddr]
    assert {re.sub("^::ffff:", "", ip) for ip in listening} <= {"127.0.0.1", "::1"}
    children["1"].send_signal(signal.SIGSTOP)
    code, _, err = fit.ended(FROZEN_SECONDS)
    assert (code, err.count("\n")) == (1, 1), err
    assert "process 1 of 3 has been stopped for 5 s" in err
    assert "--resume" in err
    assert not any(child.is_running() for child in children.values())


def one_of(folder, of_all, k, **more):
    more |= {"noted": f"noted-{k}", "heartbeat": HEARTBEAT}
    return Fit(folder, *of_all, "--process-id", k, **more)


def test_the_first_process_stopped_without_a_launcher_harms_nothing_when_it_goes_on(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        where = f"127.0.0.1:{free.getsockname()[1]}"
    of_three = ("--checkpoint-every", "3", "--coordinator", where, "--num-processes", 3)
    fits = [one_of(tmp_path, of_three, k) for k in range(3)]
    fits[0].wait_for_checkpoint().process.send_signal(signal.SIGSTOP)
    try:
        for fit in fits[1:]:
            code, _, err = fit.ended(FROZEN_SECONDS)
            assert (code != 0, WITHOUT_A_WORD in err.splitlines()[-1]) == (True, True), err
        kept = fits[0].kept
        assert kept
        # The one that is stopped still holds the model and the folder.
        code, _, err = Fit(tmp_path, "--resume").ended()
        assert (code, "by another run" in err) == (2, True), err
    finally:
        with suppress(ProcessLookupError):
            fits[0].process.send_signal(signal.SIGCONT)
    assert fits[0].ended(FROZEN_SECONDS)[0] != 0  # it has lost the others
    assert not (tmp_path / "m").exists()
    resumed = Fit(tmp_path, "--resume", seconds=0)
    code, out, err = resumed.ended()
    assert code == 0, err
    assert json.loads(out)["resumed_from"] >= kept[-1]


@pytest.mark.skipif(not allowed(), reason="network namespaces need root")
def test_processes_one_of_which_is_cut_off_all_end_with_a_sentence(tmp_path, undisturbed):
    where = f"{ADDRESS.format(1)}:4000"
    of_three = ("--checkpoint-every", "3", "--coordinator", where, "--num-processes", 3)
    with Networks(tmp_path, 3) as networks:
        fits = [one_of(tmp_path, of_three, k, within=networks.inside(k)) for k in range(3)]
        fits[0].wait_for_checkpoint()
        networks.cut(1)
        for fit in fits:
            code, _, err = fit.ended(FROZEN_SECONDS)
            assert code not in (0, None), err
            assert WITHOUT_A_WORD in err.splitlines()[-1], err
    assert not (tmp_path / "m").exists()
    resumed = Fit(tmp_path, "--resume", seconds=0)
    code, out, err = resumed.ended()
    assert code == 0, err
    assert json.loads(out)["resumed_from"] >= 3
    assert resumed.losses == pytest.approx(undisturbed.losses, rel=WEIGHTED_RUN)
