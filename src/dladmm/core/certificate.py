"""What a run proves about itself, from its records and the state it ended in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dladmm.core.problem import Problem

# Relative slack when L_rho is compared with its last value: rounding, not a rise.
RISE_TOLERANCE = {"float64": 1e-10, "float32": 1e-5}


def descent_constant(
    rho: float, nu: float, H: float, theta: float, tau: float, mass: float = math.inf
) -> float:
    """C_2 of Property 2: min(nu/2, C_1, theta/2, tau/2), not positive unless rho > 2 H.

    The b steps gain min(nu, rho) mass/2, mass the sum of sample weights: more than nu/2 or C_1
    unless the weights sum to less than one sample.

    The paper prints theta and tau where their halves belong, which is violated in practice, and
    C_1 = rho/2 - H/2 - H^2/rho from an inequality that lacks a factor 2; convexity of R repairs it
    as rho/2 - 2 H^2/rho, positive for the same rho > 2 H.
    """
    C1 = rho / 2 - 2 * H**2 / rho if math.isfinite(H) else -math.inf
    return min(nu / 2, C1, theta / 2, tau / 2, min(nu, rho) * mass / 2)


@dataclass(frozen=True)
class Certificate:
    """Which conditions of the theory held, what was observed, and what follows from both.

    Quantities a method does not have are NaN; `accepted` is the share of iterations whose step
    passed the safeguard, which only restored sweeps have.
    """

    method: str
    status: str
    n_iter: int
    rho: float
    nu: float
    lipschitz: float
    rho_exceeds_2H: bool
    lemma2_at_start: bool
    lemma2_violation: float
    rises: int
    largest_rise: float
    first_rise: int | None
    rise_tolerance: float
    sufficient_descent: bool | None
    least_C2: float
    c_k: float
    k_c_k: float
    subgradient_norm: float
    residual: float
    gap: float
    accepted: float
    theorems: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: no infinities or NaN."""
        plain = asdict(self)
        return {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in plain.items()
        }

    def summary(self) -> str:
        """The certificate in plain words."""
        if self.method == "restored":
            return "\n".join([*self._restored(), *self._theorem_lines()])
        condition = "holds" if self.rho_exceeds_2H else "does not hold"
        lines = [
            f"{self.method}: {self.status} after {self.n_iter} iterations",
            f"  condition rho > 2H    {condition}: rho = {self.rho:.3g}, H = {self.lipschitz:.3g}",
            f"  Lemma 2 at the start  {'yes' if self.lemma2_at_start else 'no'};"
            f" max |grad R + u| = {self.lemma2_violation:.2g} since",
            f"  L_rho rose            {self._rises()}",
            f"  sufficient descent    {self._descent()}",
            f"  Theorem 3             c_k = {self.c_k:.3g}, k c_k = {self.k_c_k:.3g}",
            f"  at the end            |subgradient| = {self.subgradient_norm:.3g},"
            f" |r| = {self.residual:.3g}, feed-forward gap = {self.gap:.3g}",
        ]
        return "\n".join([*lines, *self._theorem_lines()])

    def _restored(self) -> list[str]:
        rose = f"{self.rises} times, first at iteration {self.first_rise}"
        if math.isnan(self.accepted):
            return [
                f"{self.method}, mini-batches: {self.status} after {self.n_iter} epochs",
                f"  the mean loss rose    {rose if self.rises else 'never'}, from epoch to epoch",
            ]
        return [
            f"{self.method}: {self.status} after {self.n_iter} iterations",
            f"  the true loss rose    {rose if self.rises else 'never, regularisers included'}",
            f"  steps accepted        {100 * self.accepted:.0f} % of the iterations",
            f"  at the end            |subgradient| = {self.subgradient_norm:.3g}",
        ]

    def _theorem_lines(self) -> list[str]:
        return [f"  {name:<21} {text}" for name, text in self.theorems.items()]

    def _rises(self) -> str:
        if not self.rises:
            return "never, at constant rho and nu"
        return (
            f"{self.rises} times at constant rho and nu, first at iteration {self.first_rise},"
            f" at most by {self.largest_rise:.2g} of its value"
        )

    def _descent(self) -> str:
        if self.sufficient_descent is None:
            return "not claimed: C_2 is not positive"
        met = "met in every iteration" if self.sufficient_descent else "NOT met"
        return f"{met} with C_2 >= {self.least_C2:.3g}"


def certify(
    problem: Problem,
    *,
    method: str,
    status: str,
    dtype: str,
    rows: Sequence[Mapping[str, float]],
    start: float,
    mass: float,
    lemma2_at_start: bool,
    subgradient_norm: float,
) -> Certificate:
    """The certificate of a run: `rows` are its records, `start` the L_rho it began with,
    `mass` the sum of the sample weights."""
    H, tolerance = problem.loss.lipschitz, RISE_TOLERANCE[dtype]
    rises: list[tuple[int, float]] = []
    descent_met, least_C2 = True, math.inf
    before: Mapping[str, float] | None = None
    for k, row in enumerate(rows, 1):
        value = start if before is None else before["lagrangian"]
        same = before is None or all(before.get(c) == row.get(c) for c in ("rho", "nu"))
        drop, scale = value - row["lagrangian"], max(abs(value), abs(row["lagrangian"]))
        rising = same and not row["restarted"] and drop < -tolerance * scale
        if rising:
            rises.append((k, -drop / scale))
        if method == "dladmm":
            C2 = descent_constant(row["rho"], row["nu"], H, row["theta"], row["tau"], mass)
            least_C2 = min(least_C2, C2)
            if same and not row["restarted"]:
                descent_met &= drop >= C2 * row["moved"] - tolerance * scale
        before = row
    last = rows[-1] if rows else {}
    claims_descent = bool(rows) and least_C2 > 0 and method == "dladmm"
    rho = last.get("rho", math.nan)
    return Certificate(
        method=method,
        status=status,
        n_iter=len(rows),
        rho=rho,
        nu=last.get("nu", math.nan),
        lipschitz=H,
        rho_exceeds_2H=bool(rho > 2 * H),
        lemma2_at_start=lemma2_at_start,
        lemma2_violation=max((row["lemma2"] for row in rows if "lemma2" in row), default=math.nan),
        rises=len(rises),
        largest_rise=max((size for _, size in rises), default=0.0),
        first_rise=rises[0][0] if rises else None,
        rise_tolerance=tolerance,
        sufficient_descent=descent_met if claims_descent else None,
        least_C2=least_C2 if math.isfinite(least_C2) else math.nan,
        c_k=last.get("c_k", math.nan),
        k_c_k=last.get("k_c_k", math.nan),
        subgradient_norm=subgradient_norm,
        residual=last.get("residual", math.nan),
        gap=last.get("gap", math.nan),
        accepted=sum(row["accepted"] for row in rows) / len(rows)
        if "accepted" in last
        else math.nan,
        theorems=_theorems(problem, method, rows, lemma2_at_start),
    )


def _theorems(
    problem: Problem, method: str, rows: Sequence[Mapping[str, float]], lemma2_at_start: bool
) -> dict[str, str]:
    """Each theorem of the paper: whether its conditions hold here, and which do not."""
    if method == "restored" and rows and "accepted" not in rows[0]:
        return {
            "Guarantee": "none: steps on mini-batches are capped and watched for blow-ups, but no"
            " step is checked against the loss of all samples"
        }
    if method == "restored":
        discontinuous = any(not f.continuous for f in problem.activations)
        return {
            "Guarantee": "every accepted step lowers the true loss"
            + (
                "; hidden weights under a discontinuous activation have no gradient, so the"
                " subgradient is that of their targets, not of the loss"
                if discontinuous
                else " by a share of what its slope promises"
            ),
            "Theorems 1-3": "are about L_rho away from feasible points, which this method restores",
        }
    if method != "dladmm":
        return {"Theorems 1-3": f"do not speak of method {method!r}"}
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
