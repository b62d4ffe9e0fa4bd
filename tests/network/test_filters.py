"""Group lasso on real images: whole filters exactly zero, and the others predict as well."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from dladmm import L1, L2, DLADMMClassifier, GroupLasso, Options, Problem, forward, solve
from dladmm.network import Conv2D, Dense, MaxPool, Network

pytestmark = [
    pytest.mark.float32,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

IMAGES, DIGITS = load_digits().images / 16, load_digits().target
TRAIN, TEST = slice(0, 1200), slice(1200, None)
FILTERS = 16


def network_of(filters):
    return Network((8, 8, 1), [Conv2D(filters, 3), "relu", MaxPool(2), Dense(10)])


RUNS = {
    "full batch": ({"max_iter": 60}, 10.0),
    "mini-batches": ({"max_iter": 30, "batch_size": 100}, 30.0),
}


def fitted(term, filters=FILTERS, **how):
    model = DLADMMClassifier(
        network=network_of(filters), regularizer=[term, L2(1.0)], random_state=0, tol=None, **how
    )
    return model.fit(IMAGES[TRAIN], DIGITS[TRAIN])


def zero_filters(model):
    """How many filters have no weight that is not zero."""
    return int((~model.coefs_[0].any(axis=0)).sum())


def score(model):
    return model.score(IMAGES[TEST], DIGITS[TEST])


@pytest.mark.parametrize("name", RUNS)
def test_whole_filters_are_zero_and_the_others_predict_as_well(name):
    how, strength = RUNS[name]
    plain, sparse = fitted(L2(1.0), **how), fitted(GroupLasso(strength), **how)
    assert zero_filters(plain) == 0
    assert 2 <= zero_filters(sparse) <= FILTERS - 2
    of_others = sparse.coefs_[0][:, sparse.coefs_[0].any(axis=0)]
    assert (of_others == 0).mean() < 0.05  # rows as a whole, not entries
    assert score(sparse) > score(plain) - 0.02


def test_dladmm_makes_whole_filters_zero_as_its_lagrangian_falls():
    how = {"method": "dladmm", "step_rule": "closed-form", "max_iter": 100}
    sparse = fitted(GroupLasso(1000.0), **how)
    assert 1 <= zero_filters(sparse) <= FILTERS - 2
    assert sparse.certificate_.rises == 0
    assert score(sparse) > 0.75


def test_dladmm_keeps_zero_filters_and_the_others_predict_as_well():
    """From a network that restored sweeps have found: phi pulls no filter away from zero."""
    term, images, codes = GroupLasso(10.0), IMAGES[TRAIN, ..., None], np.eye(10)[DIGITS[TRAIN]]
    problem = Problem.of_network(network_of(FILTERS), regularizer=[term, L2(1.0)])
    start = solve(problem, images, codes, options=Options(max_iter=60, tol=None)).params
    options = Options(method="dladmm", max_iter=30, tol=None)
    result = solve(problem, images, codes, options=options, params=start)
    off, still = (~np.asarray(W).any(axis=1) for W in (start.W[0], result.params.W[0]))
    assert 2 <= off.sum() <= FILTERS - 2
    assert still[off].all()
    assert np.abs(np.asarray(result.params.W[0]) - start.W[0]).max() > 1e-4  # the others move
    assert result.certificate.rises == 0
    right = [
        (np.asarray(forward(problem, p, IMAGES[TEST, ..., None])).argmax(1) == DIGITS[TEST]).mean()
        for p in (start, result.params)
    ]
    assert right[1] > right[0] - 0.02


def test_entries_that_are_zero_make_no_filters():
    """A control: l1 takes single weights."""
    model = fitted(L1(1.0), max_iter=60)
    zeros = model.coefs_[0] == 0
    assert zeros.mean() > 0.05
    assert zero_filters(model) < FILTERS * zeros.mean()


def test_a_network_without_its_zero_filters_predicts_the_same():
    sparse = fitted(GroupLasso(10.0), max_iter=60)
    W, b = sparse.coefs_[0], sparse.intercepts_[0]
    used = W.any(axis=0)
    dense = sparse.coefs_[1].reshape(3, 3, FILTERS, 10)
    constant = np.maximum(b[~used], 0)  # what a filter of zeros passes on at every place
    z = sparse.intercepts_[1] + np.einsum("hwfk,f->k", dense[:, :, ~used], constant)
    layer = network_of(int(used.sum())).graph.layers[0]
    p = layer.apply(W[:, used].T, IMAGES[TEST][..., None]) + b[used]
    a = np.maximum(p, 0)[:, :6, :6].reshape(-1, 3, 2, 3, 2, int(used.sum())).max(axis=(2, 4))
    z = z + np.einsum("nhwf,hwfk->nk", a, dense[:, :, used])
    np.testing.assert_array_equal(z.argmax(axis=1), sparse.predict(IMAGES[TEST]))
