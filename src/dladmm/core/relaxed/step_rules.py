"""How theta and tau of a majorised step are chosen."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class ClosedForm:
    """theta and tau by their smallest accepted value, a Rayleigh quotient: no trials.

    One value per row of W and per sample of a, over which phi separates; one for all if `scalar`.
    With a regulariser that is not quadratic, the quotient starts a backtracking with `growth`.
    """

    scalar: bool = False
    growth: float = 2.0
    max_trials: int = 60

    def __post_init__(self) -> None:
        _check_search(self.growth, self.max_trials)


@dataclass(frozen=True)
class Backtracking:
    """The paper's Algorithms 2-5 to the letter: a scalar from `start`, times `growth` per trial.

    When `max_trials` do not suffice the block stays where it is, and the record says so.
    """

    start: float = 1.0
    growth: float = 2.0
    max_trials: int = 60
    scalar: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.start < float("inf"):
            raise ValueError(f"start={self.start!r} is not valid; expected a finite number > 0")
        _check_search(self.growth, self.max_trials)


@dataclass(frozen=True)
class Matrix:
    """theta and tau as matrices: theta = c (K + d I), K the Gram matrix of the layer's inputs, and
    tau = nu I + c W^T W, with which a goes to its exact minimiser.

    d = delta mean(diag(K)); None: delta is found in every step (matrix_steps.damping). reach: how
    far to go along a whole sweep's step, where L_rho is lower there (over_relaxation.py).
    """

    delta: float | None = None
    reach: float = 1.0
    scalar: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.delta is not None and not 0 < self.delta < float("inf"):
            raise ValueError(f"delta={self.delta!r} is not valid; expected a finite number > 0")
        if not 1 <= self.reach < float("inf"):
            raise ValueError(f"reach={self.reach!r} is not valid; expected a finite number >= 1")


def _check_search(growth: float, max_trials: int) -> None:
    if not 1 < growth < float("inf"):
        raise ValueError(f"growth={growth!r} is not valid; expected a finite number > 1")
    if max_trials < 1:
        raise ValueError(f"max_trials={max_trials!r} is not valid; expected an integer >= 1")


VectorRule = ClosedForm | Backtracking  # a number for each row of W and each sample of a
StepRule = VectorRule | Matrix
STEP_RULES: dict[str, StepRule] = {
    "over-relaxed": Matrix(reach=2.0),
    "matrix": Matrix(),
    "closed-form": ClosedForm(),
    "closed-form-scalar": ClosedForm(scalar=True),
    "backtracking": Backtracking(),
}


@dataclass(frozen=True)
class SweepOptions:
    """How the subproblems of a sweep are solved."""

    step_rule: StepRule
    zl_solver: str


def step_rule(rule: str | StepRule) -> StepRule:
    """The rule of this name, or the rule itself."""
    return STEP_RULES[rule] if isinstance(rule, str) else rule
