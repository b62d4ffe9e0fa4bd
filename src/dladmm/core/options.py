"""How to solve: the one set of defaults, for `solve`, the estimators and the command line.

Nothing here needs JAX, so that `dladmm --help` can show the defaults at once.
"""

from dataclasses import dataclass
from typing import Any

from dladmm.core.relaxed.schedules import Schedule
from dladmm.core.relaxed.step_rules import StepRule

# The network that estimators and the command line train unless told otherwise.
HIDDEN = (100,)
ACTIVATION = "relu"
ALPHA = "evidence"  # l2 strength
FIXED_ALPHA = 1e-4  # where the evidence does not apply


@dataclass(frozen=True)
class Options:
    """How to solve. Penalties are per sample: they do not depend on the number of samples.

    Parameters
    ----------
    method : "restored", "dladmm" or "admm"
        Restored sweeps, the paper's method, or the one it is compared with. Restored sweeps use
        neither penalties nor the options of subproblems, and record the real loss every time.
    rho : float or None
        Penalty of the output's constraint; None is 0.1 for classes and 3H for numbers.
    nu : float
        Penalty of the hidden layers' constraints.
    rho_schedule, nu_schedule : str or Schedule
        "constant", "paper" or "adaptive".
    step_rule : str or StepRule
        How theta and tau are found: a name of `STEP_RULES` in core/relaxed/step_rules.py, of which
        "closed-form" is the paper's text and "backtracking" its algorithms to the letter.
    zl_solver : "newton", "fista" or "authors"
        How z_L is solved for.
    targets : "first-order" or "closed"
        What restored sweeps move a layer towards: by the derivative of an activation where it has
        one, or by the paper's z update, so that no gradient passes through a derivative.
    init : "auto", "scaled", "he" or "paper"
        Where the weights start; "auto" is the method's own choice.
    dual_start : "auto", "gradient" or "zero"
        "gradient" for u = -grad R(z_L), which Lemma 2 needs; "zero" as in the authors' code;
        "auto" takes the gradient where rho > 2H.
    batch_size : int, "auto" or None
        Restored sweeps work on mini-batches of so many rows, an iteration is an epoch and the loss
        its mean; "auto" takes a size from rows and width (`auto_size` in
        core/restored/batches.py).
    max_iter : int
        The most iterations, or epochs.
    tol : float or None
        The run ends once the training loss, or the held-out score if there is one, has not gained
        this for `patience` iterations; None: neither this nor `stop_at_noise` ends it.
    patience : int
        How many iterations `tol` and `residual_tol` wait for.
    stop_at_noise : bool
        Whether to end once the gradient is no larger than its sampling noise, where the method
        records that.
    residual_tol : float
        Where it is above 0, the run also ends once the residual per output and the relative change
        of (W, b) have stayed below it for `patience` iterations.
    evaluate_every : int
        The real loss is recorded every so many iterations: it costs one forward pass, an eighth of
        an iteration.
    refresh_every : int
        Running products are recomputed every so many iterations.
    max_recoveries : int
        After a non-finite value rho is raised tenfold, at most so many times.
    seed : int
        For the weights to start from and the order of mini-batches.
    dtype : "auto", "float32" or "float64"
        "auto" is float64 up to 10,000 numbers in x, where it costs little, else float32.
    devices : None, int, list of JAX devices or mesh
        What the samples are spread over; a mesh has the one axis "data".
    layer_devices : None or int
        dlADMM only: the layers are cut into so many groups, each with devices of its own, that work
        at the same time; `devices` is then the count of all groups together, by default one for
        each, or in several processes all there are.
    layer_messages : "exact", "bfloat16" or "8bit"
        What two groups tell each other of the boundary between them: its values, or how they
        change, in sixteen or eight bits.
    engine : "auto", "numpy" or "jax"
        NumPy computes at once, JAX compiles first; "auto" takes the one that should be done sooner
        (core/choice.py).
    """

    method: str = "restored"
    rho: float | None = None
    nu: float = 1.0
    rho_schedule: str | Schedule = "constant"
    nu_schedule: str | Schedule = "constant"
    step_rule: str | StepRule = "over-relaxed"
    zl_solver: str = "newton"
    targets: str = "first-order"
    init: str = "auto"
    dual_start: str = "auto"
    batch_size: int | str | None = None
    max_iter: int = 200
    tol: float | None = 1e-3
    patience: int = 10
    stop_at_noise: bool = True
    residual_tol: float = 0.0
    evaluate_every: int = 5
    refresh_every: int = 100
    max_recoveries: int = 4
    seed: int = 0
    dtype: str = "auto"
    devices: Any = None
    layer_devices: int | None = None
    layer_messages: str = "exact"
    engine: str = "auto"


DEFAULTS = Options()

# "auto" takes float64 up to this many entries of X: there weights equal repeated rows to the last
# digits, and the time of a fit is no matter. Above, float32 takes three quarters of it.
FLOAT64_UP_TO = 10_000


def precision(dtype: str, n_numbers: int) -> str:
    """What "auto" means for an x of this many numbers; any other dtype is itself."""
    if dtype != "auto":
        return dtype
    return "float64" if n_numbers <= FLOAT64_UP_TO else "float32"
