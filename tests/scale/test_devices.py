"""One algorithm on one device and on many: the same losses, and nothing but all-reduces."""

import itertools
from types import SimpleNamespace

import jax
import pytest
from runs import GRAPHS, METHODS, found_collectives, problem_and_rows

from dladmm import Options
from dladmm.core.methods import method_for
from dladmm.engine import devices

DEVICES = (1, 2, 4)  # against None: no mesh at all
MOST = 4
SCALARS = 60  # at most, that an iteration adds up besides what `exchanged_bytes` counts
TOLERANCE = {"float64": 1e-9, "float32": 1e-4}  # relative, of the loss after 50 iterations


@pytest.mark.slow
@pytest.mark.parametrize("method", [*METHODS, "evidence"])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_many_devices_give_the_loss_of_one(server, method, dtype):
    cases = [{"method": method, "dtype": dtype, "devices": count} for count in (None, *DEVICES)]
    one, *others = server.call("runs", "on_devices", MOST, cases=cases)
    assert one[-1] < one[0]
    for many in others:
        assert len(one) == len(many) == 50
        assert many[-1] == pytest.approx(one[-1], rel=TOLERANCE[dtype])


ON_GRAPHS = [
    *itertools.product(["restored", "batches"], GRAPHS, ["float64"]),
    ("matrix", "cnn", "float64"),
    ("matrix", "masked", "float64"),
    ("dladmm", "recurrent", "float64"),
    ("restored", "residual", "float32"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "network", "dtype"), ON_GRAPHS)
def test_many_devices_give_the_loss_of_one_on_graphs(server, method, network, dtype):
    case = {"method": method, "network": network, "dtype": dtype}
    one, four = server.call(
        "runs", "on_devices", MOST, cases=[case | {"devices": n} for n in (None, 4)]
    )
    # The paper's method lowers L_rho: the network's own loss may be higher after few iterations.
    assert abs(one[-1] - one[0]) > 0.01 * one[0]
    assert len(one) == len(four) == 50
    assert four[-1] == pytest.approx(one[-1], rel=TOLERANCE[dtype])


@pytest.mark.slow
@pytest.mark.parametrize(("count", "network"), [(2, None), (3, None), (2, "masked")])
def test_processes_give_the_loss_of_one_device(server, count, network):
    methods = ("dladmm", "admm", "restored")  # batches are drawn from each process's own rows
    if network:
        methods = ("dladmm", "restored")
    kinds = [{"method": method, "dtype": dtype} for method in methods for dtype in TOLERANCE]
    cases = [case | {"network": network} for case in kinds]
    found = server.as_processes("runs", count, cases=cases)
    alone = server.call(
        "runs", "on_devices", MOST, cases=[case | {"devices": None} for case in cases]
    )
    for case, losses, expected in zip(cases, found, alone, strict=True):
        assert losses[-1] == pytest.approx(expected[-1], rel=TOLERANCE[case["dtype"]])


@pytest.mark.slow
@pytest.mark.parametrize("network", [None, "residual"])
def test_a_run_goes_on_with_another_number_of_devices(server, network, tmp_path):
    settings = {"folder": str(tmp_path / "run"), "method": "dladmm", "counts": [4, 2, 3, 1, 4]}
    settings["network"] = network
    resumed_from, found, alone = server.call("runs", "moved", MOST, **settings)
    assert resumed_from == [0, 5, 15, 25, 35]  # the last one before each part's own end
    assert len(found) == len(alone) == 50
    assert found[-1] == pytest.approx(alone[-1], rel=TOLERANCE["float64"])


@pytest.mark.slow
@pytest.mark.parametrize("network", [None, *GRAPHS])
def test_only_all_reduces_cross_and_their_size_does_not_depend_on_the_samples(server, network):
    problem = problem_and_rows(network=network)[0]
    of_methods = server.call("runs", "collectives", MOST, sizes=[20_011, 60_013], network=network)
    for method, found in of_methods.items():
        (kinds, size), (kinds_of_more, size_of_more) = found
        assert kinds == kinds_of_more == ["all-reduce"]
        assert size == size_of_more
        estimated = method_for(problem, Options(**METHODS[method])).exchanged_bytes(itemsize=4)
        assert estimated < size <= estimated + 4 * SCALARS


def fake_devices(*owners):
    return [SimpleNamespace(process_index=owner) for owner in owners]


@pytest.mark.parametrize(
    ("owners", "words"),
    [((0, 1, 0, 1), "those of a process one after the other"), ((0, 0), "has none of process 1")],
)
def test_a_mesh_that_rows_cannot_be_dealt_to_is_refused(monkeypatch, owners, words):
    monkeypatch.setattr(devices, "process_count", lambda: 2)
    monkeypatch.setattr(jax, "devices", lambda: fake_devices(*owners))
    with pytest.raises(ValueError, match=words):
        devices.make_mesh(len(owners))


def test_a_list_and_a_mesh_of_devices_are_taken():
    here = jax.devices()[:1]
    assert devices.make_mesh(here) == devices.make_mesh(devices.make_mesh(1))


def test_the_search_for_collectives_finds_them():
    text = """
    %ar = f32[3,4]{1,0} all-reduce(f32[3,4]{1,0} %x), channel_id=1
    %both = (f32[2]{0}, s32[]) all-reduce-start(f32[2]{0} %a, s32[] %b)
    %ag = f32[8]{0} all-gather(f32[2]{0} %y), dimensions={0}
    """
    assert found_collectives(text) == (["all-gather", "all-reduce"], 4 * 12 + 8 + 4 + 32)
