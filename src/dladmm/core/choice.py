"""Which engine a run computes with.

NumPy begins at once; JAX compiles first, a few seconds for each shape of network and data, and is
faster from then on. "auto" takes JAX where a whole run has more products than `Method.crossing` and
no limit on memory leaves too little room for it.
"""

from dladmm.core.method import Method
from dladmm.core.options import Options
from dladmm.engine.devices import Engine, make_mesh
from dladmm.engine.limits import has_room_for_jax
from dladmm.engine.processes import process_count

# Multiplications and additions of an iteration, or of a batch, from which its products are worth
# sharing between cores. Below it threads gain nothing, and cost much where other work wants the
# cores: those that wait ask again and again.
SHARED = 1.2e9
ITERATIONS = 60  # what most runs make before nothing is left to gain


def chosen_engine(method: Method, options: Options, n_samples: int) -> Engine:
    """The engine of these options for so many samples of this process; ValueError where NumPy is
    asked for what it cannot do. It does not depend on what a run that goes on may change."""
    reason = why_jax(method, options)
    if options.engine == "numpy" and reason:
        raise ValueError(f"engine='numpy' {reason}; expected 'auto' or 'jax'")
    flops = method.iteration_flops(n_samples)
    takes_long = flops * ITERATIONS > method.crossing
    sooner = options.engine == "auto" and takes_long and has_room_for_jax()
    if reason or options.engine == "jax" or sooner:
        return Engine(True, make_mesh(options.devices, options.layer_devices))
    at_once = method.iteration_flops(method.rows_at_once(n_samples))
    return Engine(False, one_thread=at_once < SHARED)


def why_jax(method: Method, options: Options) -> str:
    """What NumPy cannot do of this run, in words; empty where it can do all of it."""
    if process_count() > 1:
        return "works in one process"
    if options.devices is not None:
        return f"has no devices, but devices={options.devices!r}"
    if options.layer_devices is not None:
        return f"has no devices, but layer_devices={options.layer_devices!r}"
    if method.problem.needs_jax:
        return "cannot compute a term of this network, which needs JAX"
    return ""
