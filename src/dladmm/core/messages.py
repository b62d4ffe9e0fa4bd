"""Why a run ended, in words."""

import math

from dladmm.core.loop import LoopState, Run
from dladmm.core.results import Status


def explained(status: Status, run: Run, at: LoopState) -> str:
    """One sentence about the end of a run."""
    options = run.options
    if status is Status.TOL:
        if at.quiet >= options.patience:
            return f"residual and change stayed below residual_tol={options.residual_tol:g}"
        what = "the training loss" if run.judge is None else "the held-out score"
        return f"{what} gained less than tol={options.tol:g} in {options.patience} iterations"
    if status is Status.NOISE:
        return "the gradient is no larger than its own sampling noise: nothing is left to learn"
    if status is Status.MAX_ITER:
        dropped = f", {at.recoveries} of them dropped as non-finite" if at.recoveries else ""
        falling = " and the loss is still falling" if still_falling(run, at) else ""
        return f"max_iter={options.max_iter} iterations were made{dropped}{falling}"
    if status is Status.STOPPED:
        return "the caller's own callback ended the run"
    if status is Status.INTERRUPTED:
        return "interrupted; this is the best network recorded"
    if status is Status.MEMORY:
        return (
            f"there was not enough memory for iteration {len(at.rows) + 1}; this is the best"
            " network recorded. Try mini-batches (batch_size), fewer units, or fewer processes"
        )
    if not run.method.has_penalties:
        return "the loss is not finite at the start; try standardised inputs, or float64"
    rho, nu = at.penalty["rho"], at.penalty["nu"]
    return (
        f"values became non-finite {at.recoveries} times, at last with rho={rho:g}, nu={nu:g}; this"
        " is the best network recorded. Try standardised inputs, a larger rho, or float64"
    )


def still_falling(run: Run, at: LoopState) -> bool:
    """Whether the last `patience` iterations have gained `tol` of training loss."""
    losses = [row["train_loss"] for row in at.rows]
    known = [(k, v) for k, v in enumerate(losses) if math.isfinite(v)]
    if len(known) < 2:
        return False
    last, value = known[-1]
    before = [v for k, v in known if k <= last - run.options.patience] or [known[0][1]]
    return value < before[-1] - (run.options.tol or 0)
