"""Sequences of unequal length: a padded sequence counts as it would without its padding."""

from functools import partial

import numpy as np
import pytest
from tolerances import EXACT_STEP, ROUNDING

from dladmm import DLADMMClassifier, Options, Problem, solve
from dladmm.core.initial import initial_params
from dladmm.core.params import forward
from dladmm.core.restored.point import restore
from dladmm.data.sequences import padded
from dladmm.network import Conv1D, Dense, GlobalAveragePool, Masking, Network, Recurrent
from dladmm.terms.layers import Masked

CHANNELS, CLASSES = 2, 3
LENGTHS = [1, 2, 3, 5, 8, 8, 4]
STACKED = [Masking(), Recurrent(4, "tanh", states="all"), Recurrent(3, "relu"), Dense(CLASSES)]
LOCAL = {"dtype": "float64", "tol": None, "max_iter": 12, "rho": 1.5}


def network_of(steps, layers=STACKED):
    return Network((steps, CHANNELS + 1), layers)


def sequences_of(lengths, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, CHANNELS)) for n in lengths], np.eye(CLASSES)[
        rng.integers(0, CLASSES, len(lengths))
    ]


def sums_of(problem, params, x, y):
    """The outputs, and of each layer all that its step is made of, added up over samples."""
    point = restore(problem, params, x, y)
    found = []
    for layer, a, r in zip(problem.layers, point.inputs, point.targets, strict=True):
        found += [
            layer.gradient_matrix(r, a, None),
            layer.gram_with_bias(a, None),
            layer.unit_gram(r, None),
            layer.squared_gradients(r, a, None),
            layer.gradient_gram(r, a).trace(),
        ]
    return point.output, found


def sums_together_and_alone():
    """All sequences filled up to one length, and each of them alone, without padding."""
    sequences, y = sequences_of(LENGTHS)
    whole = Problem.of_network(network_of(max(LENGTHS)))
    params = initial_params(whole, "paper", 0, np.dtype(np.float64))
    together = sums_of(whole, params, padded(sequences, whole.in_shape), y)
    alone = []
    for one, target in zip(sequences, y, strict=True):
        problem = Problem.of_network(network_of(len(one)))
        alone.append(sums_of(problem, params, padded([one], problem.in_shape), target[None]))
    outputs, parts = zip(*alone, strict=True)
    return together, (np.concatenate(outputs), [sum(each) for each in zip(*parts, strict=True)])


def errors(together, alone):
    """Of the outputs, and of each sum, relative to its size."""
    of_outputs = np.abs(together[0] - alone[0]).max()
    pairs = zip(together[1], alone[1], strict=True)
    return of_outputs, [
        np.abs(one - two).max() / max(np.abs(two).max(), 1e-30) for one, two in pairs
    ]


def test_every_sum_is_that_of_the_sequences_alone():
    of_outputs, of_sums = errors(*sums_together_and_alone())
    assert of_outputs <= ROUNDING
    assert max(of_sums) <= EXACT_STEP


def test_without_the_mask_the_padding_counts(monkeypatch):
    """A control: targets before a sequence enter the moments."""
    monkeypatch.setattr(Masked, "mask", lambda self, x: None)
    _, of_sums = errors(*sums_together_and_alone())
    assert max(of_sums) > 1e-3


def test_a_bias_before_a_sequence_changes_the_outputs():
    """A control: what the same recurrence gives without Masking, whose bias is always on."""
    sequences, _ = sequences_of([3])
    outputs = []
    for steps in (3, 6):
        problem = Problem.of_network(network_of(steps, STACKED[1:]))
        params = initial_params(problem, "paper", 0, np.dtype(np.float64))
        outputs.append(forward(problem, params, padded(sequences, problem.in_shape)))
    assert np.abs(outputs[0] - outputs[1]).max() > 1e-4


def losses_by_steps(**how):
    """The losses of a run on sequences of four steps, filled up to no more and to seven."""
    sequences, y = sequences_of([4] * 40, seed=1)
    found = []
    for steps in (4, 7):
        problem = Problem.of_network(network_of(steps))
        x = padded(sequences, problem.in_shape)
        result = solve(problem, x, y, options=Options(**LOCAL | how))
        found.append(np.array(result.history["lagrangian"]))
        assert found[-1][-1] < found[-1][0]
    return found


RUNS = [
    {"engine": "numpy"},
    {"engine": "jax"},
    {"engine": "numpy", "batch_size": 10},
    {"engine": "jax", "batch_size": 10},
    {"engine": "numpy", "method": "dladmm"},
    {"engine": "jax", "method": "dladmm"},
    {"engine": "numpy", "method": "dladmm", "step_rule": "matrix"},
    {"engine": "numpy", "method": "dladmm", "step_rule": "closed-form"},
    {"engine": "numpy", "method": "dladmm", "step_rule": "backtracking"},
]


@pytest.mark.parametrize("how", RUNS, ids=str)
def test_more_padding_gives_the_same_run(how):
    short, long = losses_by_steps(**how)
    np.testing.assert_allclose(long, short, rtol=1e-9)


@pytest.mark.parametrize("how", RUNS[::2][:3], ids=str)
def test_without_the_mask_more_padding_gives_another_run(how, monkeypatch):
    monkeypatch.setattr(Masked, "mask", lambda self, x: None)
    short, long = losses_by_steps(**how)
    assert np.abs(long / short - 1).max() > 1e-4


def test_the_bias_stays_at_zero():
    sequences, y = sequences_of(LENGTHS)
    problem = Problem.of_network(network_of(8))
    for method in ("restored", "dladmm"):
        options = Options(**LOCAL | {"method": method, "init": "paper"})
        result = solve(problem, padded(sequences, problem.in_shape), y, options=options)
        assert not any(np.any(b) for b in result.params.b[:2])
        assert np.any(result.params.b[2])


# Estimators.

few_iterations = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def learnt(steps, sequences, classes, **more):
    network = network_of(steps, [Masking(), Recurrent(6), Dense(2)])
    model = DLADMMClassifier(network=network, random_state=0, dtype="float64", **more)
    return model.fit(sequences, classes)


def unequal(n=120, unit=1.0):
    """The first step decides, however much follows and precedes it."""
    rng = np.random.default_rng(3)
    sequences = [rng.normal(size=(rng.integers(1, 6), CHANNELS)) for _ in range(n)]
    return [unit * one for one in sequences], [bool(one[0, 0] > 0) for one in sequences]


@few_iterations
def test_a_model_does_not_depend_on_the_steps_it_has_room_for():
    sequences, classes = unequal()
    few, many = (learnt(steps, sequences, classes, max_iter=40) for steps in (5, 11))
    expected = few.predict_proba(sequences)
    np.testing.assert_allclose(many.predict_proba(sequences), expected, atol=1e-8)
    assert few.score(sequences, classes) > 0.9


@few_iterations
def test_a_model_does_not_depend_on_the_unit_of_its_sequences():
    found = []
    for unit in (1.0, 1e4):
        sequences, classes = unequal(unit=unit)
        found.append(learnt(7, sequences, classes, max_iter=15).predict_proba(sequences))
    np.testing.assert_allclose(found[1], found[0], atol=1e-8)


@few_iterations
def test_a_model_file_holds_the_mask(tmp_path):
    sequences, classes = unequal()
    model = learnt(6, sequences, classes, max_iter=5)
    model.save(tmp_path / "model")
    loaded = DLADMMClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(sequences), model.predict_proba(sequences))
    assert loaded.network == model.network


# Refusals.

PADDED = partial(padded, shape=(4, CHANNELS + 1))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: x[:, ::-1],  # zeros behind
        lambda x: np.where(np.arange(4)[:, None] == 0, [5.0, 0, 0], x),  # something in the padding
        lambda x: x * [1, 1, 0],  # no marks at all
    ],
)
def test_samples_that_are_not_marked_are_refused(wrong):
    sequences, y = sequences_of([2, 3, 4])
    x = PADDED(sequences)
    with pytest.raises(ValueError, match=r"x has \d samples whose last channel does not mark"):
        solve(Problem.of_network(network_of(4)), wrong(x), y, options=Options(**LOCAL))


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([Recurrent(3), Masking(), Dense(2)], "it is not the first; expected Masking before"),
        ([Masking(), Conv1D(3, 2), Dense(2)], "it would read padded steps; expected Recurrent"),
        ([Masking(), Recurrent(3, states="all"), GlobalAveragePool(), Dense(2)], "padded steps"),
        ([Masking(), Recurrent(3, states="all")], r'expected Recurrent\(states="last"\)'),
        ([Masking(), Recurrent(3, "sigmoid"), Dense(2)], "its activation is 0.5 at 0; expected"),
    ],
)
def test_what_would_read_padding_is_refused(layers, message):
    with pytest.raises(ValueError, match=message):
        network_of(5, layers)


def test_masking_needs_sequences():
    with pytest.raises(ValueError, match="Masking"):
        Network((5, 4, 1), [Masking(), Recurrent(3), Dense(2)])
    with pytest.raises(ValueError, match="its inputs have one channel"):
        Network((5, 1), [Masking(), Recurrent(3), Dense(2)])


def test_the_summary_counts_no_bias_twice():
    network = network_of(5, [Masking(), Recurrent(6), Dense(2)])
    assert "recurrence, masked" in network.summary()
    assert network.n_weights == 6 * (CHANNELS + 1 + 6) + 2 * 7
