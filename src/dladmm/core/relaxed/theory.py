"""What the paper's theorems say of a run of dlADMM; the errata are in docs/mathematics.md."""

import math
from collections.abc import Sequence

from dladmm.core.method import Account, Guarantee, Row
from dladmm.core.problem import Problem
from dladmm.core.relaxed.over_relaxation import reach_of
from dladmm.core.relaxed.step_rules import StepRule


def descent_constant(
    rho: float, nu: float, H: float, theta: float, tau: float, mass: float = math.inf
) -> float:
    """C_2 of Property 2: min(nu/2, C_1, theta/2, tau/2), not positive unless rho > 2 H; theta and
    tau are the least ones of any row, or the least eigenvalues where they are matrices.

    The b steps gain min(nu, rho) mass/2, mass the sum of sample weights: more than nu/2 or C_1
    unless the weights sum to less than one sample.

    The paper prints theta and tau where their halves belong, which is violated in practice, and
    C_1 = rho/2 - H/2 - H^2/rho from an inequality that lacks a factor 2; convexity of R repairs it
    as rho/2 - 2 H^2/rho, positive for the same rho > 2 H.
    """
    C1 = rho / 2 - 2 * H**2 / rho if math.isfinite(H) else -math.inf
    return min(nu / 2, C1, theta / 2, tau / 2, min(nu, rho) * mass / 2)


STEPS = {
    "ClosedForm": "theta and tau as small as the majorisation allows, by a Rayleigh quotient",
    "Backtracking": "theta and tau by backtracking, one number each, as in Algorithms 2-5",
    "Matrix": "theta and tau are matrices; C_2 has half the least eigenvalue",
}
FURTHER = "; then up to {:g} times a sweep's step, where L_rho is lower there"


def dladmm_guarantee(problem: Problem, account: Account, rule: StepRule) -> Guarantee:
    """Sufficient descent in every iteration, and which theorem's conditions held."""
    H, (rows, drops, mass, lemma2_at_start) = problem.loss.lipschitz, account
    constants = [
        descent_constant(row["rho"], row["nu"], H, row["theta"], row["tau"], mass) for row in rows
    ]
    least = min(constants, default=math.nan)
    met = all(
        math.isnan(drop) or drop >= C2 * row["moved"] - rounding
        for C2, row, (drop, rounding) in zip(constants, rows, drops, strict=True)
    )
    reach = reach_of(problem, rule)
    further = FURTHER.format(reach) if reach > 1 else ""
    steps = {"Steps": STEPS[type(rule).__name__] + further}
    theorems = steps | _theorems(problem, rows, lemma2_at_start)
    return Guarantee(
        theorems, met if least > 0 else None, least if math.isfinite(least) else math.nan
    )


def _theorems(problem: Problem, rows: Sequence[Row], lemma2_at_start: bool) -> dict[str, str]:
    H = problem.loss.lipschitz
    missing = []
    if not math.isfinite(H):
        missing.append("the loss has no Lipschitz gradient")
    elif any(row["rho"] <= 2 * H for row in rows):
        missing.append("rho > 2H did not hold throughout")
    if any(row["rho"] != rows[0]["rho"] or row["nu"] != rows[0]["nu"] for row in rows):
        missing.append("rho or nu changed")
    if not lemma2_at_start:
        missing.append("u did not start at -grad R(z_L)")
    if any(row["exhausted"] for row in rows):
        missing.append("a backtracking ran out of trials")
    if any(not f.continuous for f in problem.activations):
        missing.append("an activation is not continuous")
    covered = "does not apply: " + "; ".join(missing) if missing else "applies"
    return {
        "Theorem 1": f"{covered} (descent and the subgradient bound; not boundedness)",
        "Theorem 2": "does not apply: the objective is not known to be coercive, nor argmin_z"
        " continuous, so limit points are not covered",
        "Theorem 3": f"{covered} (rate of c_k)",
    }
