"""What a run proves about itself, from its records and the state it ended in."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dladmm.core.method import Account, Method, Row

# Relative slack when L_rho is compared with its last value: rounding, not a rise.
RISE_TOLERANCE = {"float64": 1e-10, "float32": 1e-5}


@dataclass(frozen=True)
class Certificate:
    """Which conditions of the theory held, what was observed, and what follows from both.

    Quantities a method does not have are NaN.

    Parameters
    ----------
    method, status : str
        The algorithm, and why the run ended.
    n_iter : int
        How many iterations, or epochs, there were.
    rho, nu : float
        The penalties at the end.
    lipschitz : float
        H, the Lipschitz constant of the loss's gradient; infinite where there is none.
    rho_exceeds_2H : bool
        Whether the condition of the paper's theorems holds.
    lemma2_at_start : bool
        Whether the dual began at minus the gradient.
    lemma2_violation : float
        The largest |grad R + u| since.
    rises : int
        How often the objective rose, its constants being the same.
    largest_rise : float
        The largest of them, as a part of the value.
    first_rise : int or None
        The iteration of the first.
    rise_tolerance : float
        What counts as rounding, as a part of the value.
    sufficient_descent : bool or None
        Whether the descent of Property 2 was met in every iteration; None where it is not claimed.
    least_C2 : float
        The least constant it was met with.
    c_k, k_c_k : float
        The sequence of Theorem 3 at the end, and times the number of iterations.
    subgradient_norm : float
        The norm of the smallest subgradient at the end.
    residual : float
        How far the constraint of the outputs is from being met.
    gap : float
        The network's own loss minus the one of the relaxed variables, per sample.
    accepted : float
        The share of iterations whose step passed the safeguard, which only restored sweeps have.
    theorems : dict of str
        What follows, theorem by theorem, in words.
    objective, unit : str
        What `rises` counts the rises of, and what `n_iter` counts.
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
    objective: str = "L_rho"
    unit: str = "iterations"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: no infinities or NaN.

        Returns
        -------
        dict
            A value for each field.
        """
        unknown = lambda value: isinstance(value, float) and not math.isfinite(value)  # noqa: E731
        return {key: None if unknown(value) else value for key, value in asdict(self).items()}

    def summary(self) -> str:
        """The certificate in plain words.

        Returns
        -------
        str
            Several lines.
        """
        lines = [f"{self.method}: {self.status} after {self.n_iter} {self.unit}"]
        lines += self._relaxed_lines() if self.has_penalties else self._restored_lines()
        lines += [f"  {name:<21} {text}" for name, text in self.theorems.items()]
        return "\n".join(lines)

    @property
    def has_penalties(self) -> bool:
        """Whether the run was on L_rho, which has penalties, or on the loss itself."""
        return self.objective == "L_rho"

    def _relaxed_lines(self) -> list[str]:
        condition = "holds" if self.rho_exceeds_2H else "does not hold"
        return [
            f"  condition rho > 2H    {condition}: rho = {self.rho:.3g}, H = {self.lipschitz:.3g}",
            f"  Lemma 2 at the start  {'yes' if self.lemma2_at_start else 'no'};"
            f" max |grad R + u| = {self.lemma2_violation:.2g} since",
            f"  L_rho rose            {self._rises()}",
            f"  sufficient descent    {self._descent()}",
            f"  Theorem 3             c_k = {self.c_k:.3g}, k c_k = {self.k_c_k:.3g}",
            f"  at the end            |subgradient| = {self.subgradient_norm:.3g},"
            f" |r| = {self.residual:.3g}, feed-forward gap = {self.gap:.3g}",
        ]

    def _restored_lines(self) -> list[str]:
        monotone = math.isfinite(self.accepted)  # every step was checked against the loss
        what = "regularisers included" if monotone else "from epoch to epoch"
        never = f"never, {what}, at constant l2"
        first = f"first in {self.unit.removesuffix('s')} {self.first_rise}"
        rose = f"{self.rises} times, {first}" if self.rises else never
        lines = [f"  {f'{self.objective} rose':<21} {rose}"]
        if monotone:
            lines.append(f"  steps accepted        {100 * self.accepted:.0f} % of the iterations")
        if math.isfinite(self.subgradient_norm):
            lines.append(f"  at the end            |subgradient| = {self.subgradient_norm:.3g}")
        return lines

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


def changed(name: str, before: Row, row: Row) -> bool:
    """Whether a constant of the objective, where it has it, was another one in the last record."""
    one, two = before.get(name, math.nan), row.get(name, math.nan)
    return one != two and not (math.isnan(one) and math.isnan(two))


def certify(
    method: Method,
    *,
    status: str,
    dtype: str,
    rows: Sequence[Row],
    start: float,
    mass: float,
    lemma2_at_start: bool,
    subgradient_norm: float,
) -> Certificate:
    """The certificate of a run: `rows` are its records, `start` the objective it began with,
    `mass` the sum of the sample weights."""
    H, tolerance = method.problem.loss.lipschitz, RISE_TOLERANCE[dtype]
    drops, rises = [], []
    before: Mapping[str, float] = {"lagrangian": start}
    for k, row in enumerate(rows, 1):
        scale = max(abs(before["lagrangian"]), abs(row["lagrangian"]))
        same = k == 1 or not any(changed(name, before, row) for name in ("rho", "nu", "alpha"))
        comparable = same and not row["restarted"]
        drop = before["lagrangian"] - row["lagrangian"] if comparable else math.nan
        drops.append((drop, tolerance * scale))
        if drop < -tolerance * scale:
            rises.append((k, -drop / scale))
        before = row
    ends = ("rho", "nu", "c_k", "k_c_k", "residual", "gap")
    last = {name: rows[-1].get(name, math.nan) if rows else math.nan for name in ends}
    guarantee = method.guarantee(Account(rows, drops, mass, lemma2_at_start))
    accepted = [row["accepted"] for row in rows if "accepted" in row]
    return Certificate(
        method=method.name,
        status=status,
        n_iter=len(rows),
        lipschitz=H,
        rho_exceeds_2H=bool(last["rho"] > 2 * H),
        lemma2_at_start=lemma2_at_start,
        lemma2_violation=max((row["lemma2"] for row in rows if "lemma2" in row), default=math.nan),
        rises=len(rises),
        largest_rise=max((size for _, size in rises), default=0.0),
        first_rise=rises[0][0] if rises else None,
        rise_tolerance=tolerance,
        sufficient_descent=guarantee.sufficient_descent,
        least_C2=guarantee.least_C2,
        subgradient_norm=subgradient_norm,
        accepted=sum(accepted) / len(accepted) if accepted else math.nan,
        theorems=guarantee.theorems,
        objective=method.objective_name,
        unit=method.unit,
        **last,
    )
