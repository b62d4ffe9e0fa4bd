"""One algorithm on one device and on many: the same losses, and nothing but all-reduces."""

import json
import os
import socket
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from runs import METHODS, found_collectives

RUNS = Path(__file__).with_name("runs.py")
TOLERANCE = {"float64": 1e-9, "float32": 1e-4}  # relative, of the loss after 50 iterations


def start(name, devices=1, **settings):
    flags = f"--xla_force_host_platform_device_count={devices}"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, str(RUNS), name, json.dumps(settings)]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def result(process):
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err[-4000:]
    return json.loads(out.splitlines()[-1])


CASES = [
    {"method": method, "dtype": dtype, "devices": devices}
    for method, dtype, devices in product(METHODS, TOLERANCE, (1, 2, 4))
]


@pytest.fixture(scope="module")
def on_devices():
    found = result(start("on_devices", 4, cases=CASES))
    return {(c["method"], c["dtype"], c["devices"]): f for c, f in zip(CASES, found, strict=True)}


@pytest.mark.slow
@pytest.mark.parametrize("devices", [2, 4])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("method", METHODS)
def test_many_devices_give_the_loss_of_one(on_devices, method, dtype, devices):
    one, many = on_devices[method, dtype, 1], on_devices[method, dtype, devices]
    assert len(one) == len(many) == 50
    assert many[-1] == pytest.approx(one[-1], rel=TOLERANCE[dtype])
    assert one[-1] < one[0]
    assert one != many or dtype == "float32"  # they were not the same program


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
def test_processes_give_the_loss_of_one_device(on_devices, count):
    methods = ["dladmm", "admm", "restored"]  # batches are drawn from each process's own rows
    with socket.create_server(("127.0.0.1", 0)) as free:
        coordinator = f"127.0.0.1:{free.getsockname()[1]}"
    shared = {"coordinator": coordinator, "count": count, "methods": methods, "dtype": "float64"}
    running = [start("as_process", index=index, **shared) for index in range(count)]
    found = [result(process) for process in running]
    assert all(one == found[0] for one in found)
    for method, losses in zip(methods, found[0], strict=True):
        expected = on_devices[method, "float64", 1][-1]
        assert losses[-1] == pytest.approx(expected, rel=TOLERANCE["float64"])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["dladmm", "admm", "restored"])
def test_only_all_reduces_cross_and_their_size_does_not_depend_on_the_samples(method):
    small, large = (result(start("collectives", 4, method=method, n=n)) for n in (1009, 20_011))
    assert small[0] == large[0] == ["all-reduce"]
    assert 0 < small[1] == large[1]


def test_the_search_for_collectives_finds_them():
    text = """
    %ar = f32[3,4]{1,0} all-reduce(f32[3,4]{1,0} %x), channel_id=1
    %both = (f32[2]{0}, s32[]) all-reduce-start(f32[2]{0} %a, s32[] %b)
    %ag = f32[8]{0} all-gather(f32[2]{0} %y), dimensions={0}
    """
    assert found_collectives(text) == (["all-gather", "all-reduce"], 4 * 12 + 8 + 4 + 32)
