"""A certificate in plain words: what was promised, what was seen, and what follows."""

import math
from typing import Any


def certificate_words(certificate: Any) -> list[str]:
    """Sentences for who does not know the paper."""
    words = [f"The run ended after {certificate.n_iter} {certificate.unit} ({certificate.status})."]
    words += _relaxed(certificate) if certificate.has_penalties else _restored(certificate)
    return [*words, *(f"{name}: {text}." for name, text in certificate.theorems.items())]


def _restored(certificate: Any) -> list[str]:
    checked = math.isfinite(certificate.accepted)
    # Where the strength is found anew, the loss is another one from then on.
    seen = f"at a constant strength of l2, {_rises(certificate)}"
    if not checked:
        return [
            "It went through the rows in mini-batches: that the loss falls is not guaranteed.",
            f"From epoch to epoch the training loss, {seen}.",
        ]
    words = [
        f"The training loss, regularisers included and {seen}: every step was checked before it was"
        " taken."
    ]
    words.append(f"{certificate.accepted:.0%} of the iterations had a step that passed.")
    if math.isfinite(certificate.subgradient_norm):
        words.append(
            f"At the end its slope was {certificate.subgradient_norm:.3g}; 0 would be a point where"
            " no small step helps."
        )
    return words


def _relaxed(certificate: Any) -> list[str]:
    holds = "holds" if certificate.rho_exceeds_2H else "does not hold"
    words = [
        f"The paper's theorems ask for a penalty rho above {2 * certificate.lipschitz:.3g}; it was"
        f" {certificate.rho:.3g}, so that this condition {holds}.",
        f"What the method minimises, the augmented Lagrangian, {_rises(certificate)}.",
    ]
    if certificate.sufficient_descent is not None:
        met = "in every iteration" if certificate.sufficient_descent else "NOT in every iteration"
        words.append(f"It fell by at least as much as the paper promises {met}.")
    words.append(
        f"The network's own loss is {certificate.gap:.3g} per row above what the relaxed variables"
        " show: that is what the relaxation hides."
    )
    return words


def _rises(certificate: Any) -> str:
    if not certificate.rises:
        return "never rose"
    times = "once" if certificate.rises == 1 else f"{certificate.rises} times"
    return (
        f"rose {times}, first in {certificate.unit.removesuffix('s')} {certificate.first_rise}, at"
        f" most by {certificate.largest_rise:.2g} of its value"
    )


def figure_text(value: float | None) -> str:
    """Four digits, and no powers of ten where a number fits."""
    if value is None or not math.isfinite(value):
        return "—"
    return f"{value:,.0f}" if 1_000 <= abs(value) < 1e9 else f"{value:.4g}"
