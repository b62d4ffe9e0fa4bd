"""Full batches below an activation with jumps: those layers have a step of their own."""

import numpy as np
import pytest
from problems import small

from dladmm import Options, Problem, solve
from dladmm.core.data import make_data
from dladmm.core.initial import initial_params
from dladmm.core.restored import full_batch
from dladmm.terms.regularizers import L1, L2, NonNegative

SETTINGS = {"max_iter": 40, "tol": None, "dtype": "float64", "engine": "numpy"}


@pytest.mark.parametrize(
    ("activations", "expected"),
    [
        (("relu", "tanh", "relu"), 0),
        (("sign", "relu", "relu"), 1),
        (("relu", "step", "tanh"), 2),
        (("sign", "relu", "quantized_relu"), 3),
    ],
)
def test_layers_are_below_a_jump_up_to_the_last_one(activations, expected):
    problem = Problem.dense((4, 5, 5, 5, 3), activations)
    assert full_batch.layers_below_a_jump(problem) == expected


@pytest.mark.parametrize("term", [L1(0.5), L2(0.5), NonNegative()], ids=str)
def test_a_step_of_zero_leaves_the_layers_below_as_they_are(term):
    problem, x, y = small(
        "squared_error", 40, (4, 6, 5, 3), activation=("relu", "sign"), regularizer=term
    )
    data = make_data(problem, x, y, None, with_gram=False)
    params = initial_params(problem, "he", 1, np.dtype(np.float64))
    if isinstance(term, NonNegative):
        params = params._replace(W=tuple(abs(W) for W in params.W))
    state = full_batch.begin(problem, data, params)
    metrics = full_batch.metrics_of(problem, state)
    new, promised = full_batch.proposal(problem, state, metrics, np.float64(0.1), np.float64(0))
    for l in (0, 1):
        np.testing.assert_array_equal(new.W[l], params.W[l])
        np.testing.assert_array_equal(new.b[l], params.b[l])
    assert np.abs(new.W[2] - params.W[2]).max() > 1e-4
    both, more = full_batch.proposal(problem, state, metrics, np.float64(0.1), np.float64(0.1))
    np.testing.assert_array_equal(both.W[2], new.W[2])
    assert np.abs(both.W[1] - params.W[1]).max() > 1e-4  # a control
    assert more > promised > 0


def final_loss():
    problem, x, y = small("log_loss", 200, (4, 12, 3), activation="sign")
    result = solve(problem, x, y, options=Options(**SETTINGS))
    losses = np.array(result.history["lagrangian"])
    assert (np.diff(losses) <= 0).all()
    return losses[-1]


def test_one_step_for_all_would_be_as_short_as_the_jumps_allow(monkeypatch):
    own = final_loss()
    monkeypatch.setattr(full_batch, "layers_below_a_jump", lambda problem: 0)
    assert own < 0.8 * final_loss()
