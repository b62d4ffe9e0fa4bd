"""Factorisations of symmetric positive definite matrices."""

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


def inverse(M: Array) -> Array:
    """M^-1."""
    return solve_factored(factored(M), identity(M))


def inverse_trace(M: Array) -> Array:
    """tr(M^-1), from the inverse of its Cholesky factor."""
    if is_jax(M):
        factor = _of_jax().cholesky(M, lower=True)
        inverted = _of_jax().solve_triangular(factor, identity(M), lower=True)
    else:
        factor, failed = _lapack("potrf", M)(M.T, lower=True)
        inverted = _lapack("trtri", M)(factor, lower=True, overwrite_c=True)[0].T
        if failed:
            return M[0, 0] * float("nan")
    return xp.vdot(inverted, inverted)


def pseudo_inverse(M: Array) -> Array:
    """The pseudo-inverse of a symmetric matrix; of NaN where it has none, being NaN itself."""
    try:
        return namespace(M).linalg.pinv(M, hermitian=True)
    except np.linalg.LinAlgError:  # NumPy's own; JAX returns NaN by itself
        return M * float("nan")


def identity(M: Array) -> Array:
    """I of M's size and dtype."""
    return namespace(M).eye(M.shape[0], dtype=M.dtype)
