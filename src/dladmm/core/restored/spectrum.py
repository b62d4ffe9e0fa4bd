"""Second moments of low rank: what a metric needs of them, never formed as a matrix.

The moments M, n x n, of rows A with weights omega are known by their largest eigenvalues,

    M = U diag(values) U^T + rest (I - U U^T),

where `rest` is the mean of all others: with a damping, what is far below it does not matter, and
no more than n/delta eigenvalues can exceed delta mean(diag(M)). One product M U renews U: Nystrom's
approximation of M from it (Tropp et al., 2017) is exact where U has n columns.
"""

from typing import NamedTuple

import numpy as np

from dladmm.engine.arrays import Array, xp
from dladmm.engine.linalg import eigenpairs, factored_lower, orthonormal, solve_lower
from dladmm.engine.loops import either

RANK = 32


class Spectrum(NamedTuple):
    """The largest eigenvalues of second moments, their vectors as columns, and the others' mean."""

    vectors: Array
    values: Array
    rest: Array

    @property
    def mean(self) -> Array:
        """mean(diag(M)), never zero."""
        n, rank = self.vectors.shape
        trace = xp.sum(self.values) + (n - rank) * self.rest
        return xp.maximum(trace / n, np.finfo(trace.dtype).tiny)

    @property
    def trace(self) -> Array:
        return self.mean * self.vectors.shape[0]


class Damped(NamedTuple):
    """A symmetric matrix by its eigenvalues: `values` along the columns of U, `rest` elsewhere."""

    vectors: Array
    values: Array
    rest: Array

    def solve(self, B: Array) -> Array:
        """M^-1 B = (B - U diag(1 - rest/values) U^T B)/rest."""
        shares = 1 - self.rest / self.values
        return (B - self.vectors @ (shares[:, None] * (self.vectors.T @ B))) / self.rest

    def solve_right(self, B: Array) -> Array:
        """B M^-1."""
        shares = 1 - self.rest / self.values
        return (B - ((B @ self.vectors) * shares) @ self.vectors.T) / self.rest


def damped_inputs(K: Spectrum, delta: float) -> Damped:
    """K~ = K + delta mean(diag(K)) I."""
    d = delta * K.mean
    return Damped(K.vectors, K.values + d, K.rest + d)


def damped_outputs(S: Spectrum, epsilon: float, gain: Array) -> Damped:
    """S~ = gain (S/mean(diag(S)) + epsilon I)/(1 + epsilon)."""
    scale, mean = gain / (1 + epsilon), S.mean
    return Damped(S.vectors, scale * (S.values / mean + epsilon), scale * (S.rest / mean + epsilon))


def unknown(n: int, dtype: np.dtype) -> Spectrum:
    """Of n x n moments that nothing is known of: directions to begin with, and zeros."""
    rank = min(n, RANK)
    random = np.random.default_rng(n).standard_normal((n, rank))
    vectors = np.eye(n) if rank == n else np.linalg.qr(random)[0]
    return Spectrum(vectors.astype(dtype), np.zeros(rank, dtype), np.zeros((), dtype))


def change(old: Spectrum, product: Array, damping: float) -> Array:
    """How far moments with this product M U are from the old ones along the old vectors u,

    sum_u |<u, M u> - <u, M_old u>| / sum_u (<u, M_old u> + damping mean(diag(M_old)))."""
    seen = xp.sum(old.vectors * product, axis=0)
    return xp.sum(xp.abs(seen - old.values)) / xp.sum(old.values + damping * old.mean)


def renewed(old: Spectrum, product: Array, trace: Array, memory: Array) -> Spectrum:
    """Of memory x the old moments + (1 - memory) x those of some rows, which are known by their
    product with the old vectors, and their trace."""
    U = old.vectors
    n, rank = U.shape
    trace = memory * old.trace + (1 - memory) * trace
    # A shift keeps the factor of a singular matrix real; it is taken off the eigenvalues again.
    shift = rank * np.finfo(U.dtype).eps * trace + np.finfo(U.dtype).tiny
    Y = memory * U * old.values + (1 - memory) * product + shift * U
    H = U.T @ Y
    B = solve_lower(factored_lower((H + H.T) / 2), Y.T).T
    Q, R = orthonormal(B)
    values, vectors = eigenpairs(R @ R.T)
    values = xp.maximum(values - shift, 0)
    rest = xp.maximum(trace - xp.sum(values), 0) / max(n - rank, 1)
    new = Spectrum(Q @ vectors, values, rest if n > rank else xp.zeros_like(rest))
    return either(xp.all(xp.isfinite(new.vectors)), new, old)
