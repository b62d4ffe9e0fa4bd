"""Special functions JAX does not have."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array


def wright_omega(x: Array) -> Array:
    """The w > 0 with w + ln w = x, by Newton on that equation from an asymptotic start."""
    w = jnp.where(x > 1, x - jnp.log(jnp.maximum(x, 1.0)), jnp.exp(jnp.minimum(x, 1.0) - 0.5))
    w = jnp.maximum(w, np.finfo(x.dtype).tiny)

    def improve(_: int, w: Array) -> Array:
        # In ln w the equation is convex and Newton cannot leave w > 0.
        # Kept above zero: at w = 0 the next log would give 0 * inf.
        w = w * jnp.exp((x - w - jnp.log(w)) / (1 + w))
        return jnp.maximum(w, np.finfo(x.dtype).tiny)

    return jax.lax.fori_loop(0, 6, improve, w)
