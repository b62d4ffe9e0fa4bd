"""Factorisations: of symmetric matrices, and bases of the columns of others."""

from typing import Any

import numpy as np
from scipy.linalg import lapack

from dladmm.engine.arrays import Array, is_jax, namespace, xp


def _of_jax() -> Any:
    from jax.scipy import linalg

    return linalg


def _lapack(name: str, M: Any) -> Any:
    """LAPACK's own function: SciPy's take longer to check small matrices than to factor them."""
    return getattr(lapack, ("s" if M.dtype == np.float32 else "d") + name)


def factored(M: Array) -> Any:
    """The Cholesky factor of M, for `solve_factored`; of NaN where M is not positive definite."""
    if is_jax(M):
        return _of_jax().cho_factor(M)
    factor, failed = _lapack("potrf", M)(M.T, lower=True)
    return factor * float("nan") if failed else factor


def solve_factored(factor: Any, right: Array) -> Array:
    """M^-1 right, from the factor of M."""
    if isinstance(factor, np.ndarray):
        return _lapack("potrs", factor)(factor, right, lower=True)[0]
    return _of_jax().cho_solve(factor, right)


def solve_positive(M: Array, right: Array) -> Array:
    """M^-1 right; NaN where M is not positive definite."""
    if is_jax(M):
        return solve_factored(factored(M), right)
    _, solved, failed = _lapack("posv", M)(M.T, right, lower=True)
    return solved * float("nan") if failed else solved


def factored_lower(M: Array) -> Array:
    """L with M = L L^T, lower triangular; of NaN where M is not positive definite."""
    if is_jax(M):
        return _of_jax().cholesky(M, lower=True)
    factor, failed = _lapack("potrf", M)(M.T, lower=True, clean=True)
    return factor * float("nan") if failed else factor


def solve_lower(L: Array, right: Array) -> Array:
    """L^-1 right."""
    if is_jax(L):
        return _of_jax().solve_triangular(L, right, lower=True)
    return _lapack("trtrs", L)(L, right, lower=True)[0]


def orthonormal(B: Array) -> tuple[Array, Array]:
    """(Q, R) with B = Q R and orthonormal columns Q, as many as B has."""
    if not is_jax(B) and not np.isfinite(B).all():
        return B, B[: B.shape[1]]  # of NaN, which NumPy refuses
    return tuple(namespace(B).linalg.qr(B))


def eigenpairs(M: Array) -> tuple[Array, Array]:
    """The eigenvalues of a symmetric matrix, in rising order, and their vectors as columns."""
    if not is_jax(M) and not np.isfinite(M).all():
        return M[0], M  # of NaN, which NumPy refuses
    return tuple(namespace(M).linalg.eigh(M))


def inverse_trace(M: Array, plus: float) -> Array:
    """tr((M + plus I)^-1), from the inverse of the Cholesky factor."""
    raised = plus_identity(M, plus)
    if is_jax(M):
        factor = _of_jax().cholesky(raised, lower=True)
        inverted = _of_jax().solve_triangular(factor, identity(M), lower=True)
    else:
        # The upper factor: its inverse takes a tenth less time.
        factor, failed = _lapack("potrf", M)(raised.T, lower=False, overwrite_a=True)
        inverted = _lapack("trtri", M)(factor, lower=False, overwrite_c=True)[0].T
        if failed:
            return M[0, 0] * float("nan")
    return xp.vdot(inverted, inverted)


def pseudo_inverse(M: Array) -> Array:
    """The pseudo-inverse of a symmetric matrix; of NaN where it has none, being NaN itself."""
    if is_jax(M):
        return namespace(M).linalg.pinv(M, hermitian=True)
    # NumPy's own takes several times as long for the few columns there are.
    values, vectors = eigenpairs(M)
    sizes = np.abs(values)
    kept = ~(sizes <= 10 * len(M) * np.finfo(M.dtype).eps * sizes.max())  # as JAX does; NaN too
    return (vectors * np.where(kept, 1 / np.where(kept, values, 1), 0)) @ vectors.T


def plus_identity(M: Array, times: Any) -> Array:
    """M + times I."""
    if is_jax(M) or is_jax(times):
        return M + times * identity(M)
    raised = M.copy()
    raised.reshape(-1)[:: len(M) + 1] += times
    return raised


def identity(M: Array) -> Array:
    """I of M's size and dtype."""
    return namespace(M).eye(M.shape[0], dtype=M.dtype)
