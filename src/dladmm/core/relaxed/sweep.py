"""Algorithm 1 of the paper: one iteration of dlADMM.

It takes and returns a State, and records what it did as scalars. Everything that is a sum over
samples goes through `Samples`, so a sharded run calls this very function.
"""

from typing import NamedTuple

from dladmm.core.data import Data
from dladmm.core.evaluate import relative_change
from dladmm.core.problem import Problem
from dladmm.core.relaxed.blocks import Blocks
from dladmm.core.relaxed.lagrangian import Lagrangian, lagrangian, lemma2_violation
from dladmm.core.relaxed.over_relaxation import over_relaxed, reach_of
from dladmm.core.relaxed.state import State
from dladmm.core.relaxed.step_rules import SweepOptions
from dladmm.engine.arrays import Array, xp


class Record(NamedTuple):
    """The record of one iteration; scalars only, so that a single small transfer brings all of it.

    `moved` is the sum in c_k (Theorem 3), `bound` the sum that bounds the subgradient (Property
    3), theta and tau their least values, `change` the relative change of (W, b), `zl_change`
    the norm of z_L's change. Quantities a method does not have are NaN.
    """

    lagrangian: Lagrangian
    lemma2: Array
    moved: Array
    bound: Array
    theta: Array
    tau: Array
    change: Array
    zl_change: Array
    zl_iterations: Array
    trials: Array
    exhausted: Array


def dladmm_sweep(
    problem: Problem, options: SweepOptions, data: Data, state: State, rho: Array, nu: Array
) -> tuple[State, Record]:
    """Algorithm 1: every block backward from layer L to 1, then forward from 1 to L, then u."""
    blocks = Blocks(problem, options, data, state, rho, nu)
    last = problem.n_layers - 1

    for l in range(last, -1, -1):
        if l < last:
            blocks.step_a(l)
        blocks.step_z(l)
        blocks.step_b(l)
        blocks.step_W(l)

    blocks.turn()

    for l in range(last + 1):
        blocks.step_W(l)
        blocks.step_b(l)
        blocks.step_z(l)
        if l < last:
            blocks.step_a(l)

    new = swept = blocks.step_u()
    reach = reach_of(problem, options.step_rule)
    if reach > 1:
        new, parts = over_relaxed(problem, reach, data, state, swept, rho, nu)
    else:
        parts = lagrangian(problem, data, new, rho, nu)
    return new, Record(
        lagrangian=parts,
        lemma2=lemma2_violation(problem, data, new),
        moved=blocks.moved(),
        bound=blocks.subgradient_bound(swept),
        theta=blocks.least_curvature("W"),
        tau=blocks.least_curvature("a"),
        change=relative_change(new, state),
        zl_change=xp.sqrt(data.samples.total((new.z[-1] - state.z[-1]) ** 2)),
        zl_iterations=blocks.zl_iterations,
        trials=blocks.count("trials"),
        exhausted=blocks.count("exhausted"),
    )
