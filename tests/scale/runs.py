"""Runs on several devices, in processes of their own: a process has its devices from its start.

Called by forks.py with settings that were JSON, and so is what they return. `on_devices` needs four
devices, `as_process` the coordinator's address, the number of processes and its own.
"""

import re
from dataclasses import replace

import numpy as np

METHODS = {
    "dladmm": {"method": "dladmm", "rho": 1.5, "step_rule": "closed-form"},
    "matrix": {"method": "dladmm", "rho": 1.5},
    "admm": {"method": "admm", "rho": 1.0},
    "restored": {"method": "restored"},
    "batches": {"method": "restored", "batch_size": 64},
}
N, SIZES, ITERATIONS = 1009, (6, 8, 3), 50  # a prime: no number of devices divides it
GRAPHS = ("cnn", "residual", "recurrent", "masked")


def network_of(name):
    """A small network of a kind. Smooth, as dense ones are here."""
    from dladmm import AveragePool, Conv2D, Dense, Masking, Network, Recurrent, Residual

    same = Conv2D(2, 3, padding="same")
    return {
        "cnn": lambda: Network((5, 4, 1), [Conv2D(3, 2), "tanh", AveragePool(2), Dense(3)]),
        "residual": lambda: Network((4, 3, 1), [same, "tanh", Residual([same]), "tanh", Dense(3)]),
        "recurrent": lambda: Network((4, 2), [Recurrent(4), Dense(3)]),
        "masked": lambda: Network((4, 3), [Masking(), Recurrent(4), Dense(3)]),
    }[name]()


def problem_and_rows(n=N, network=None):
    from dladmm import Problem

    if network is not None:
        return of_network(n, network)
    rng = np.random.default_rng(7)
    x = rng.normal(size=(n, SIZES[0]))
    labels = (np.abs(x[:, 0]) + x[:, 1] > 0.5).astype(int) + (x[:, 2] > 0.5)
    weights = rng.uniform(0.5, 2, n)
    # Smooth: at the kinks of ReLU a search in float32 may go another way for the last digit.
    return Problem.dense(SIZES, "tanh", "log_loss", "l2"), x, np.eye(3)[labels], weights


def of_network(n, name):
    from dladmm import Problem

    network, rng = network_of(name), np.random.default_rng(7)
    x = rng.normal(size=(n, *network.in_shape))
    if name == "masked":
        x[..., -1] = 1
        x[np.arange(4) < rng.integers(0, 4, (n, 1))] = 0
    last = x.reshape(n, -1)[:, -3:]
    labels = (np.abs(last[:, 0]) + last[:, 1] > 0.5).astype(int) + (last[:, 0] > 0.5)
    problem = Problem.of_network(network, "log_loss", "l2")
    return problem, x, np.eye(3)[labels], rng.uniform(0.5, 2, n)


def trained(name, dtype, devices, rows=None, iterations=ITERATIONS, checkpoints=None, network=None):
    from dladmm import Options, solve
    from dladmm.terms.regularizers import Evidence

    problem, x, y, weights = problem_and_rows(network=network)
    rows = slice(None) if rows is None else rows
    if name == "evidence":  # restored sweeps that find the strength of l2
        name = "restored"
        problem = replace(problem, regularizers=(Evidence(),) * problem.n_layers)
    options = Options(
        **METHODS[name],
        max_iter=iterations,
        tol=None,
        evaluate_every=10,
        dtype=dtype,
        devices=devices,
    )
    return solve(
        problem,
        x[rows],
        y[rows],
        sample_weight=weights[rows],
        options=options,
        checkpoints=checkpoints,
    )


def losses(*args, **settings):
    """The true training loss after each iteration."""
    return trained(*args, **settings).history["train_loss"]


def cut_small():
    """One device has seven blocks of rows then, each of four two; the last layer three parts."""
    from dladmm.core.relaxed import weight_updates
    from dladmm.core.relaxed.step_rules import ClosedForm
    from dladmm.engine import walks

    walks.BLOCK_ROWS, walks.CACHED, weight_updates.LEAST_UNITS = 150, 0, 1
    assert weight_updates.unit_parts(problem_and_rows()[0].layers[-1], ClosedForm()) == 3


def on_devices(cases):
    cut_small()
    settings = [{"name": case["method"], **case} for case in cases]
    for case in settings:
        del case["method"]
    return [losses(**case) for case in settings]


def moved(folder, method, counts, network=None):
    """One run that goes on, again and again, on another number of devices; and the same on one."""
    from dladmm import Checkpoints

    cut_small()
    kept, resumed_from = Checkpoints(folder, every=5, resume=True), []
    for k, count in enumerate(counts, 1):
        part = ITERATIONS * k // len(counts)
        how = {"iterations": part, "checkpoints": kept, "network": network}
        result = trained(method, "float64", count, **how)
        resumed_from.append(result.resumed_from)
    alone = losses(method, "float64", None, network=network)
    return resumed_from, result.history["train_loss"], alone


def as_process(coordinator, count, index, cases):
    import jax

    jax.distributed.initialize(coordinator, count, index)
    from dladmm.engine.devices import make_mesh, own_rows

    cut_small()
    rows = own_rows(N, make_mesh(None))
    return [
        losses(case["method"], case["dtype"], None, rows, network=case.get("network"))
        for case in cases
    ]


def collectives(sizes, network=None):
    """(kinds, bytes of results) of the collectives in each method's iteration on four devices."""
    methods = [one for one in METHODS if network is None or one != "admm"]
    return {method: [compiled_collectives(method, n, network) for n in sizes] for method in methods}


def compiled_collectives(method, n, network):
    from dladmm import Options
    from dladmm.core.initial import initial_params
    from dladmm.core.method import Start
    from dladmm.core.methods import method_for
    from dladmm.core.relaxed.method import iterate
    from dladmm.core.restored import mini_batch
    from dladmm.core.restored.batches import Batches
    from dladmm.core.restored.method import iterate_restored
    from dladmm.engine.devices import Engine, make_mesh

    problem, x, y, weights = problem_and_rows(n, network)
    engine = Engine(True, make_mesh(4))
    arrays = tuple(v.astype(np.float32) for v in (x, y, weights))
    params = engine.replicate(initial_params(problem, "he", 0, np.dtype("float32")))
    if method == "batches":
        batches = Batches(*arrays, size=64, seed=0, engine=engine)
        groups, one, count = [], np.float32(1), np.int32(batches.group)
        next(batches.stepped(lambda state, group, count: (groups.append(group), None), None))
        state = mini_batch.begin(problem, params)
        lowered = mini_batch.batch_steps.lower(problem, state, groups[0], count, one, one)
        return found_collectives(lowered.compile().as_text())
    how = method_for(problem, Options(**METHODS[method]))
    data = how.prepare(arrays, engine)
    state = how.begin(data, params, Start())
    if method == "restored":
        lowered = iterate_restored.lower(problem, data, state)
    else:
        one, flag = engine.replicate((np.float32(1), np.asarray(False)))
        given = (data, state.rows, state.params, one, one, flag)
        lowered = iterate.lower(type(how).sweep, problem, how.options, *given)
    return found_collectives(lowered.compile().as_text())


WIDTHS = {"f32": 4, "s32": 4, "pred": 1, "f64": 8, "u32": 4, "s64": 8, "u16": 2, "s8": 1}
KINDS = "all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter|collective-broadcast"


def found_collectives(text):
    kinds, size = set(), 0
    for shapes, kind in re.findall(rf"= (.+?) ({KINDS})(?:-start)?\(", text):
        kinds.add(kind)
        for name, sides in re.findall(r"(\w+)\[([\d,]*)\]", shapes):
            entries = np.prod([int(side) for side in sides.split(",") if side], dtype=int)
            size += WIDTHS[name] * int(entries)
    return sorted(kinds), size
