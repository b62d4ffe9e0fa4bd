"""What a checkpoint holds is the whole `LoopState`: no field is left out, none is changed."""

import json
from dataclasses import dataclass, fields

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import small, start

from dladmm import Options
from dladmm.core import keeping
from dladmm.core.loop import LoopState
from dladmm.core.methods import method_for


@dataclass
class Longer(LoopState):
    """A state with a field that nobody has heard of yet."""

    momentum: float = 0.0


def a_state(kind, method, **more):
    problem, x, y = small("log_loss")
    data, state = start(problem, x, y)
    if method == "restored":
        state = method_for(problem, Options()).begin(data, state.params, None)
    best = jax.tree.map(lambda v: v + 1, state.params)
    rows = [{"lagrangian": 2.0, "seconds": 0.5, "gap": float("nan")}]
    numbers = {"start": 3.0, "best_score": -0.5, "gained": -0.6, "gained_at": 2, "quiet": 1}
    return problem, kind(
        state, state.params, best, {"rho": 2.0, "nu": 0.1}, True, iteration=4, least_rho=20.0,
        recoveries=1, restarted=True, rows=rows, **numbers, **more,
    )  # fmt: skip


@pytest.mark.parametrize("method", ["dladmm", "restored"])
@pytest.mark.parametrize(("kind", "more"), [(LoopState, {}), (Longer, {"momentum": 0.9})])
def test_every_field_comes_back(kind, more, method, monkeypatch):
    monkeypatch.setattr(keeping, "LoopState", kind)
    problem, at = a_state(kind, method, **more)
    how = method_for(problem, Options(method=method))
    shot = keeping.to_snapshot(how, None, at, 40)
    plain = json.loads(json.dumps(shot.plain))  # as a checkpoint stores it
    back = keeping.from_snapshot(how, type(shot)(shot.by_sample, shot.rest, plain, 40))
    defaults = kind(None, None, None, {}, False)
    for field in fields(kind):
        one, two = getattr(at, field.name), getattr(back, field.name)
        assert repr(one) != repr(getattr(defaults, field.name)), "a default would tell nothing"
        assert jax.tree.structure(one) == jax.tree.structure(two)
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
            np.testing.assert_array_equal(a, b)


def test_rows_of_samples_are_kept_apart_from_the_rest():
    problem, at = a_state(LoopState, "dladmm")
    shot = keeping.to_snapshot(method_for(problem, Options(method="dladmm")), None, at, 40)
    assert {v.shape[0] for v in jax.tree.leaves(shot.by_sample)} == {40}
    assert all(isinstance(v, jnp.ndarray) for v in jax.tree.leaves(shot.rest))
