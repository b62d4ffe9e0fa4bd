"""Further along a sweep: `reach` times its step, where L_rho is lower there.

With v = (W, b, z, a) before a sweep and v' after it, the next iteration begins at
v + reach (v' - v) where L_rho is lower than at v'. p and u are those that belong to that point:
p = A(W, a), and u = -grad R(z_L), as Lemma 2 has it after every dual step. So L_rho falls by what
the sweep promises or by more (docs/mathematics.md). What reads x alone is linear in W: its p goes
along too, and needs no product.

Where rho <= 2H, L_rho has no lower bound along u = -grad R(z_L): <u, r> may fall for ever while the
rest grows. So the rest of L_rho, which is bounded, has to be lower too.
"""

from collections.abc import Callable
from functools import partial

from dladmm.core.data import Data
from dladmm.core.problem import Problem
from dladmm.core.relaxed.lagrangian import Lagrangian, lagrangian, penalised
from dladmm.core.relaxed.state import State, product
from dladmm.core.relaxed.step_rules import Matrix, StepRule
from dladmm.engine import trees
from dladmm.engine.arrays import Array, xp
from dladmm.network.graph import INPUT


def reach_of(problem: Problem, rule: StepRule) -> float:
    """How far a rule goes along a sweep; 1, its end, where zeros or constraints would be lost."""
    smooth = all(term.quadratic is not None for term in problem.regularizers)
    return rule.reach if isinstance(rule, Matrix) and smooth else 1.0


def over_relaxed(
    problem: Problem, reach: float, data: Data, before: State, after: State, rho: Array, nu: Array
) -> tuple[State, Lagrangian]:
    """The state to go on from, reach times the step from `before` or `after` itself, and L_rho."""
    ahead = ahead_of(problem, reach, data, before, after)
    at_ahead, at_after = (lagrangian(problem, data, state, rho, nu) for state in (ahead, after))
    lower: Callable[..., Array] = partial(xp.where, is_lower(at_ahead, at_after, rho, nu))
    return trees.map(lower, ahead, after), trees.map(lower, at_ahead, at_after)


def is_lower(ahead: Lagrangian, after: Lagrangian, rho: Array, nu: Array) -> Array:
    """Whether L_rho is lower ahead, with and without <u, r>."""
    bounded = penalised(ahead, rho, nu) < penalised(after, rho, nu)
    return (ahead.value < after.value) & bounded


def ahead_of(problem: Problem, reach: float, data: Data, before: State, after: State) -> State:
    """The state reach times the step from `before` to `after`, of the layers that are here."""
    further = partial(along, reach)
    W, b, z, a = (
        trees.map(further, getattr(before, kind), getattr(after, kind))
        for kind in ("W", "b", "z", "a")
    )
    p = tuple(
        further(before.p[l], after.p[l])
        if set(problem.sources[l]) == {INPUT} and after.p[l] is not None
        else product(problem, l, data.x, a, W)
        for l in range(problem.n_layers)
    )
    u = None if after.u is None else -problem.loss.gradient(z[-1], data.y)
    return State(W, b, z, a, p, u)


def along(reach: float, before: Array, after: Array) -> Array:
    """Reach times the step from one array to another."""
    return before + reach * (after - before)
