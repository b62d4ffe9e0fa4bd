"""Two runs of the same fit, one by each engine: how far they are apart, and whether they agree."""

import numpy as np
from tolerances import ENGINES, FLOAT32_ENGINES

AGREED = {"float64": ENGINES, "float32": FLOAT32_ENGINES}


def apart(one, other):
    """How far the losses of two runs are apart after the first iteration and at the end, relative
    to themselves."""
    ends = zip(*(np.take(v.history["lagrangian"], [0, -1]) for v in (one, other)), strict=True)
    return max(abs(a - b) / abs(a) for a, b in ends)


def check_agreement(one, other, dtype, within=None):
    """Losses, certificate and iterations of two runs in this dtype."""
    assert all(W.dtype == dtype for W in (*one.params.W, *one.params.b))
    assert apart(one, other) < (within or AGREED[dtype])
    assert one.n_iter == other.n_iter
    same = ("rises", "sufficient_descent", "theorems", "status", "lemma2_at_start")
    for name in same:
        assert getattr(one.certificate, name) == getattr(other.certificate, name), name
    # A step that changes the loss by its rounding may be taken by one and not by the other.
    steps = [result.certificate.accepted for result in (one, other)]
    np.testing.assert_allclose(*steps, atol=1 / 20 + 1e-9)
