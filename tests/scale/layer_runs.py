"""Runs with layers in groups, in processes of their own, as runs.py has those of samples."""

import hashlib
import re
from contextlib import ExitStack
from unittest import mock

import numpy as np
from runs import found_collectives

SIZES = (6, 12, 12, 12, 12, 12, 3)
ROWS = 203  # which neither groups nor devices divide


def problem_and_rows(n=ROWS):
    from dladmm import Problem

    rng = np.random.default_rng(7)
    x = rng.normal(size=(n, SIZES[0]))
    labels = (np.abs(x[:, 0]) + x[:, 1] > 0.5).astype(int) + (x[:, 2] > 0.5)
    weights = rng.uniform(0.5, 2, n)
    return Problem.dense(SIZES, "relu", "log_loss", "l2"), x, np.eye(3)[labels], weights


def trained(rows=None, folder=None, every=5, **options):
    from dladmm import Checkpoints, Options, solve

    problem, x, y, weights = problem_and_rows()
    rows = slice(None) if rows is None else rows
    how = {"method": "dladmm", "rho": 1.5, "tol": None, "dtype": "float64"} | options
    kept = None if folder is None else Checkpoints(folder, every=every, resume=True)
    given = (problem, x[rows], y[rows])
    result = solve(*given, sample_weight=weights[rows], options=Options(**how), checkpoints=kept)
    network = b"".join(v.tobytes() for v in (*result.params.W, *result.params.b))
    return {
        "lagrangian": result.history["lagrangian"],
        "loss": result.history["train_loss"],
        "rises": result.certificate.rises,
        "descent": result.certificate.sufficient_descent,
        "theorems": result.certificate.theorems,
        "subgradient": result.certificate.subgradient_norm,
        "resumed_from": result.resumed_from,
        "network": hashlib.sha256(network).hexdigest(),
    }


def certified(**options):
    """What a recount needs of a run: its history, its certificate, and the sum of its weights."""
    from dataclasses import asdict

    from dladmm import Options, solve

    problem, x, y, weights = problem_and_rows()
    how = Options(method="dladmm", tol=None, dtype="float64", layer_devices=2, **options)
    result = solve(problem, x, y, sample_weight=weights, options=how)
    return {
        "history": result.history,
        "certificate": asdict(result.certificate),
        "mass": float(weights.sum()),
    }


def on_devices(cases):
    return [trained(**case) for case in cases]


def as_process(coordinator, count, index, cases):
    import jax

    jax.distributed.initialize(coordinator, count, index)
    from dladmm.engine.devices import make_mesh, own_rows

    rows = own_rows(ROWS, make_mesh(None))
    return [trained(rows=rows, **case) for case in cases]


PERMUTES = r"= (.+?) collective-permute(?:-start)?\(.*?source_target_pairs=\{(.*?)\}\}"


def exchanged(text):
    """Of a compiled program: its kinds of collectives, the bytes that go between devices by
    collective-permute and by all else, and the pairs of devices."""
    kinds, size = found_collectives(text)
    pairs, arrays, counted = set(), 0, 0
    for shapes, links in re.findall(PERMUTES, text):
        _, own = found_collectives(f"= {shapes} collective-permute(")
        moved = re.findall(r"(\d+),(\d+)", links)
        arrays, counted = arrays + own * len(moved), counted + own
        pairs |= {(int(source), int(target)) for source, target in moved}
    return {"kinds": kinds, "arrays": arrays, "rest": size - counted, "pairs": sorted(pairs)}


def exchanges(cases):
    """For each case both exchanges of an iteration, what the formula says of their arrays, and the
    same of the network where its loss is measured."""
    return [exchanges_of(**case) for case in cases]


def exchanges_of(groups, messages, n, devices, gathers=False):
    from dladmm import Options
    from dladmm.core.initial import initial_params
    from dladmm.core.method import Start
    from dladmm.core.methods import method_for
    from dladmm.core.relaxed import layer_parallel
    from dladmm.engine import layer_mesh
    from dladmm.engine.devices import Engine, make_mesh

    problem, x, y, weights = problem_and_rows(n)
    options = Options(method="dladmm", layer_devices=groups, layer_messages=messages)
    method = method_for(problem, options)
    engine = Engine(True, make_mesh(devices, groups))
    data = method.prepare(tuple(v.astype(np.float32) for v in (x, y, weights)), engine)
    params = engine.replicate(initial_params(problem, "he", 0, np.dtype("float32")))
    state = method.begin(data, params, Start())
    programs = {
        "crossed": (layer_mesh, "crossed"),
        "gathered": (layer_mesh, "_gathered"),
        "measured": (layer_parallel, "evaluate_run"),
    }
    texts = {name: [] for name in programs}

    def noted(name, program):
        def called(*given):
            texts[name].append(program.lower(*given).compile().as_text())
            return program(*given)

        return called

    def advanced(state, with_loss):
        one, flag = engine.replicate((np.float32(1), np.asarray(with_loss)))
        with ExitStack() as patched:
            for name, (module, own) in programs.items():
                program = noted(name, getattr(module, own))
                patched.enter_context(mock.patch.object(module, own, program))
            return method.advance(data, state, (one, one), flag)[0]

    state = advanced(state, with_loss=False)
    found = list(map(exchanged, texts["crossed"]))
    without_loss = len(texts["gathered"]) + len(texts["measured"])
    if gathers:
        advanced(state, with_loss=True)
    n_rows = data.groups[0].x.shape[0]
    return {
        "found": found,
        "formula": n_rows * method.message_bytes(4),
        "without_loss": without_loss,
        "gathered": list(map(exchanged, texts["gathered"])),
        "gathered_formula": method.gathered_bytes(4),
        "measured": list(map(exchanged, texts["measured"])),
    }


def accuracies(messages, seeds):
    """On rows of digits that were not trained on, for each kind of messages the mean over seeds."""
    from dladmm import Options, solve
    from dladmm.data.datasets import load_dataset
    from dladmm.experiments.setup import image_setup

    setup = image_setup(load_dataset("digits"), 2_000, (100, 100))
    how = {"method": "dladmm", "layer_devices": 3, "max_iter": 50, "tol": None, "dtype": "float32"}

    def accuracy(kind, seed):
        options = Options(**how, seed=seed, layer_messages=kind)
        network = solve(setup.problem, *setup.arrays[:2], options=options).params
        return float(setup.on_test(network).accuracy)

    return {kind: np.mean([accuracy(kind, seed) for seed in range(seeds)]) for kind in messages}
