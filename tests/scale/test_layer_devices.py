"""Layers in groups, each on devices or in a process of its own: L_rho never rises, only neighbours
exchange, the same bits in processes and after a kill, and what fewer bits cost."""

import itertools
import json
import math
import os
import shlex
import signal
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from fits import HANGS_SECONDS, Fit
from layer_runs import SIZES, exchanged
from recount import LIPSCHITZ, differences, recounted
from test_launch import child

from dladmm import Options, Problem, solve
from dladmm.engine import devices
from dladmm.engine.devices import make_mesh

WITHIN = 1.01  # of the sequential sweep's L_rho
SCALARS = 60  # at most, that an iteration adds up
WEIGHTS = sum(n * (m + 1) for m, n in itertools.pairwise(SIZES))  # b among them


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"rho": 1.5, "step_rule": "closed-form"},
        {"rho": 1.5},
        {"rho": 1.5, "nu_schedule": "adaptive"},
        {"rho": 1e-3, "dual_start": "zero", "layer_messages": "8bit"},
    ],
    ids=str,
)
def test_a_recount_of_the_certificate_agrees_exactly(server, options):
    found = server.call("layer_runs", "certified", 2, max_iter=20, **options)
    how = {"method": "dladmm", "dtype": "float64", "start": math.nan, "H": LIPSCHITZ["log_loss"]}
    again = recounted(found["history"], mass=found["mass"], **how)
    certificate = SimpleNamespace(**found["certificate"])
    assert differences(certificate, again) == {}
    assert certificate.n_iter == 20
    again["residual"] *= 1 + 1e-15  # the control
    assert set(differences(certificate, again)) == {"residual"}


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["over-relaxed", "matrix", "closed-form"])
def test_three_groups_never_raise_l_rho_and_reach_what_the_sweep_does(server, rule):
    many = {"step_rule": rule, "max_iter": 400, "layer_devices": 3}
    alone = {"step_rule": rule, "max_iter": 200, "engine": "jax"}
    sequential, groups = server.call("layer_runs", "on_devices", 3, cases=[alone, many])
    assert groups["rises"] == 0
    assert groups["descent"] is True  # Property 2 in every iteration
    # A boundary moves once in an iteration, so that it takes more of them, but not twice as many.
    reached = groups["lagrangian"]
    assert reached[399] <= WITHIN * sequential["lagrangian"][-1] < reached[199]
    assert groups["loss"][-1] < groups["loss"][0]  # of the network itself
    assert groups["theorems"]["Layers"].startswith("1-2, 3-4, 5-6 ")


@pytest.mark.slow
def test_processes_give_the_bits_of_devices(server):
    cases = [
        {"max_iter": 200, "layer_devices": 3},
        {"max_iter": 30, "layer_devices": 3, "layer_messages": "8bit"},
    ]
    together, few_bits = server.call("layer_runs", "on_devices", 3, cases=cases)
    exact, rounded = server.as_processes("layer_runs", 3, cases=cases)
    assert exact["network"] == together["network"]
    assert exact["lagrangian"] == together["lagrangian"]
    assert exact["rises"] == rounded["rises"] == 0
    assert rounded["network"] == few_bits["network"] != together["network"]


@pytest.mark.slow
def test_groups_spread_their_samples_over_devices_and_processes(server):
    """Two groups of two devices each, in one process and in four."""
    case = {"max_iter": 30, "layer_devices": 2}
    (narrow,) = server.call("layer_runs", "on_devices", 3, cases=[case])
    (wide,) = server.call("layer_runs", "on_devices", 4, cases=[case | {"devices": 4}])
    assert wide["lagrangian"][-1] == pytest.approx(narrow["lagrangian"][-1], rel=1e-9)
    assert wide["loss"][-1] == pytest.approx(narrow["loss"][-1], rel=1e-9)
    (found,) = server.as_processes("layer_runs", 4, cases=[case])
    assert found["lagrangian"][-1] == pytest.approx(wide["lagrangian"][-1], rel=1e-9)


@pytest.mark.slow
def test_only_neighbours_exchange_and_the_bytes_are_those_of_the_formula(server):
    cases = [
        {"groups": 3, "messages": messages, "n": n, "devices": devices, "gathers": gathers}
        for messages, gathers in (("exact", True), ("bfloat16", False), ("8bit", False))
        for n, devices in ((203, 3), (409, 3), (203, 6))
    ]
    sizes = {}
    for case, found in zip(
        cases, server.call("layer_runs", "exchanges", 6, cases=cases), strict=True
    ):
        up, down = found["found"]
        wide = case["devices"] // 3  # devices of one group are numbered one after the other
        neighbours = [(source, source + wide) for source in range(2 * wide)]
        assert up["kinds"] == ["collective-permute"]
        assert down["kinds"] == ["all-reduce", "collective-permute"]
        assert [tuple(pair) for pair in up["pairs"]] == neighbours
        assert sorted((target, source) for source, target in down["pairs"]) == neighbours
        assert up["arrays"] + down["arrays"] == found["formula"]
        assert (up["rest"], down["rest"] <= 4 * SCALARS) == (0, True)
        assert found["without_loss"] == 0
        for gathered, measured in zip(found["gathered"], found["measured"], strict=True):
            assert gathered["kinds"] == measured["kinds"] == ["all-reduce"]
            assert gathered["rest"] == found["gathered_formula"] == 4 * WEIGHTS
            assert measured["rest"] <= 4 * SCALARS
        assert len(found["gathered"]) == case["gathers"]
        sizes[case["messages"], case["n"], case["devices"]] = found["formula"]
    # For each sample two boundaries of 12 units, up and down; samples are filled up to whole rows.
    assert sizes["exact", 203, 3] == 204 * 2 * 2 * 12 * 4
    assert sizes["8bit", 203, 3] == 204 * 2 * 2 * 13
    assert sizes["exact", 203, 3] == 2 * sizes["bfloat16", 203, 3] > 3.5 * sizes["8bit", 203, 3]


def test_what_goes_to_others_than_neighbours_is_seen():
    """The control: the search finds every pair, and other kinds."""
    text = """
    %a = f32[4,3]{1,0} collective-permute(%x), channel_id=1, source_target_pairs={{0,1},{1,2}}, x
    %b = s8[4,5]{1,0} collective-permute(%y), channel_id=2, source_target_pairs={{2,0}}
    %c = f32[10]{0} all-gather(f32[5]{0} %z), dimensions={0}
    """
    found = exchanged(text)
    assert found["pairs"] == [(0, 1), (1, 2), (2, 0)]
    assert (found["arrays"], found["rest"]) == (2 * 48 + 20, 40)
    assert found["kinds"] == ["all-gather", "collective-permute"]


@pytest.mark.slow
@pytest.mark.parametrize("messages", ["exact", "8bit"])
def test_a_run_goes_on_to_the_same_bits_and_with_other_groups(server, tmp_path, messages):
    run = {"layer_messages": messages, "layer_devices": 3}
    parts = [run | {"folder": str(tmp_path / "run"), "max_iter": k} for k in (12, 20)]
    others = [{"layer_devices": 2}, {"layer_devices": None, "engine": "jax"}]
    moved = [
        part
        for k, other in enumerate(others)
        for part in (
            run | {"folder": str(tmp_path / f"{k}"), "max_iter": 12},
            run | other | {"folder": str(tmp_path / f"{k}"), "max_iter": 20},
        )
    ]
    cases = [run | {"max_iter": 20}, *parts, *moved]
    whole, _, resumed, *rest = server.call("layer_runs", "on_devices", 3, cases=cases)
    assert resumed["resumed_from"] == 10
    assert resumed["network"] == whole["network"]
    assert resumed["lagrangian"] == whole["lagrangian"]
    for part in rest[1::2]:
        assert part["resumed_from"] == 10
        assert part["rises"] == 0
        assert part["lagrangian"][:10] == whole["lagrangian"][:10]
        assert part["lagrangian"][-1] == pytest.approx(whole["lagrangian"][-1], rel=0.02)


@pytest.mark.slow
def test_processes_resume_what_devices_have_begun(server, tmp_path):
    case = {"layer_devices": 3, "folder": str(tmp_path / "run")}
    (whole,) = server.call(
        "layer_runs", "on_devices", 3, cases=[{"layer_devices": 3, "max_iter": 20}]
    )
    server.call("layer_runs", "on_devices", 3, cases=[case | {"max_iter": 12}])
    (resumed,) = server.as_processes("layer_runs", 3, cases=[case | {"max_iter": 20}])
    assert resumed["resumed_from"] == 10
    assert resumed["network"] == whole["network"]


GROUPS = ("--method", "dladmm", "--layer-devices", "3", "--hidden", "12,12,12,12", "--test-size", 0)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, programs):
    fit = Fit(tmp_path_factory.mktemp("whole"), *GROUPS, count=3, seconds=0.0, keep=False)
    assert fit.ended()[0] == 0
    return fit


@pytest.mark.slow
@pytest.mark.parametrize("killed", [0, 1, 2])  # the last has the dual
def test_a_killed_group_ends_the_others_and_the_run_goes_on_to_the_same_bits(
    tmp_path, undisturbed, killed
):
    kept = ("--checkpoint", tmp_path / "run", "--checkpoint-every", "5")
    fit = Fit(tmp_path, *GROUPS, *kept, count=3, seconds=0.1, keep=False)
    fit.wait_for_iterations(3 * 12)  # of three processes
    child(fit.process, killed).send_signal(signal.SIGKILL)
    code, _, err = fit.ended(HANGS_SECONDS)
    assert code == 1
    assert f"process {killed} of 3 was ended by SIGKILL" in err
    command = shlex.split(err.split("go on with: dladmm ")[1].splitlines()[0])
    code, out, err = dladmm(*command)
    assert code == 0, err
    assert json.loads(out)["resumed_from"] >= 5
    assert fit.bits() == undisturbed.bits()


def dladmm(*arguments):
    command = [sys.executable, "-m", "dladmm", *arguments]
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_eight_bits_cost_at_most_a_point_of_accuracy(server):
    found = server.call("layer_runs", "accuracies", 3, messages=["exact", "8bit"], seeds=3)
    assert found["8bit"] >= found["exact"] - 0.01
    assert found["exact"] > 0.85  # a control: there is something to lose


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"method": "restored"}, "whose layers wait for each other"),
        ({"method": "admm"}, "whose layers wait for each other"),
        ({"layer_devices": 7}, "more than the network has layers; expected a number from 1 to 6"),
        ({"layer_devices": 0}, "layer_devices=0 is not valid; expected an integer >= 1"),
        ({"engine": "numpy"}, "engine='numpy' has no devices, but layer_devices=2"),
        ({"layer_messages": "4bit"}, "layer_messages='4bit' is unknown; expected one of exact"),
        ({}, "layer_devices=2 is more than the 1 cpu devices"),
    ],
    ids=str,
)
def test_groups_that_make_no_sense_are_refused_in_a_sentence(more, words):
    problem, x = Problem.dense(SIZES), np.zeros((4, SIZES[0]))
    options = Options(**{"method": "dladmm", "layer_devices": 2} | more)
    with pytest.raises(ValueError, match=words) as refused:
        solve(problem, x, np.eye(3)[[0, 1, 2, 0]], options=options)
    assert str(refused.value).count("\n") == 0


def test_groups_share_devices_alike():
    with pytest.raises(ValueError, match="layer_devices=2 does not divide the 1 devices"):
        make_mesh(1, 2)
    assert make_mesh(1, 1).size == 1


def test_groups_that_might_wait_for_each_other_are_refused():
    for owners, groups in (((0, 0, 0, 0), 2), ((0, 1, 2, 3), 2), ((0, 0, 1, 1), 4)):
        devices._check_owners(owners, groups)
    with pytest.raises(ValueError, match="layer_devices=2 gives process 0 devices of 2 groups"):
        devices._check_owners((0, 0, 1, 1), 2)
