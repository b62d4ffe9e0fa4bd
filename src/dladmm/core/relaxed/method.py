"""The methods that iterate on all variables of L_rho: dlADMM itself, and the baseline."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import isfinite, prod
from typing import Any, ClassVar

import numpy as np

from dladmm.core.data import DATA, Arrays, Data, padded_data, reads_x_alone
from dladmm.core.evaluate import Evaluation, evaluate
from dladmm.core.method import Account, Guarantee, Method, Penalties, Start, no_argmin, stacked
from dladmm.core.params import Params
from dladmm.core.problem import Problem
from dladmm.core.relaxed.admm import admm_sweep
from dladmm.core.relaxed.lagrangian import lagrangian, subgradient_norm
from dladmm.core.relaxed.over_relaxation import reach_of
from dladmm.core.relaxed.state import STATE, Rows, State, refreshed, state_from_params, state_of
from dladmm.core.relaxed.step_rules import Matrix, SweepOptions
from dladmm.core.relaxed.sweep import Record, dladmm_sweep
from dladmm.core.relaxed.theory import dladmm_guarantee
from dladmm.core.relaxed.weight_updates import unit_parts
from dladmm.engine.arrays import Array
from dladmm.engine.devices import EVERYWHERE, JAX, ROWS, Engine, spread
from dladmm.engine.loops import branch
from dladmm.engine.programs import compiled
from dladmm.engine.walks import BLOCK_ROWS, blocks_for

Sweep = Callable[[Problem, SweepOptions, Data, State, Array, Array], tuple[State, Record]]


# Unused arguments are kept: not every method reads all of the rows whose memory it takes over.
@compiled("sweep", "problem", "options", donate="rows", keep_unused=True)
def iterate(
    sweep: Sweep,
    problem: Problem,
    options: SweepOptions,
    data: Data,
    rows: Rows,
    params: Params,
    rho: Array,
    nu: Array,
    with_loss: Array,
) -> tuple[Rows, Params, Array]:
    """One sweep as one program; the real loss is in its records where `with_loss` asks for it.

    What has a row per sample is rewritten in place; the network is not, since callers keep it.
    """

    def own(
        data: Data, rows: Rows, params: Params, rho: Array, nu: Array, with_loss: Array
    ) -> tuple[Rows, Params, Array]:
        state, record = sweep(problem, options, data, state_of(rows, params), rho, nu)
        nan = np.full((), np.nan, state.u.dtype)
        real = branch(
            with_loss,
            lambda params: evaluate(problem, params, data.x, data.y, data.samples),
            lambda params: Evaluation(nan, nan),
            state.params,
        )
        return state.rows, state.params, stacked((record, real), state.u.dtype)

    into = (DATA, ROWS, EVERYWHERE, EVERYWHERE, EVERYWHERE, EVERYWHERE)
    out = (ROWS, EVERYWHERE, EVERYWHERE)
    return spread(data.samples, own, into, out)(data, rows, params, rho, nu, with_loss)


@dataclass(frozen=True)
class Relaxed(Method):
    """A method on all variables of L_rho, by its sweep."""

    has_penalties: ClassVar[bool] = True
    init: ClassVar[str] = "he"
    objective_name: ClassVar[str] = "L_rho"
    sweep: ClassVar[Sweep]

    options: SweepOptions

    def requires(self) -> None:
        for l, f in enumerate(self.problem.activations, 1):
            if not f.has_argmin:
                asked = f"method={self.name!r}"
                raise ValueError(no_argmin(f, l, asked, "method='restored'"))
        if self.options.zl_solver != "newton" and not isfinite(self.problem.loss.lipschitz):
            raise ValueError(
                f"zl_solver={self.options.zl_solver!r} needs a loss with a Lipschitz gradient,"
                f" which {type(self.problem.loss).__name__} has not; expected zl_solver='newton'"
            )

    def prepare(self, arrays: Arrays, engine: Engine = JAX) -> Data:
        return padded_data(self.problem, arrays, with_gram=True, engine=engine)

    def begin(self, data: Data, params: Params, start: Start) -> State:
        return state_from_params(
            self.problem, params, data, start.dual_from_gradient, start.authors_output
        )

    def advance(
        self, data: Data, state: State, penalties: Penalties, with_loss: Array
    ) -> tuple[State, Params, Array]:
        sweep = type(self).sweep
        rows, params, vector = iterate(
            sweep, self.problem, self.options, data, state.rows, state.params, *penalties, with_loss
        )
        return state_of(rows, params), params, vector

    def names(self) -> list[str]:
        hidden = range(1, self.problem.n_layers)
        parts = [
            "lagrangian",
            "risk",
            "regularization",
            "residual",
            *(f"linear_gap_{l}" for l in hidden),
            *(f"activation_gap_{l}" for l in hidden),
        ]
        return [*parts, *Record._fields[1:], "train_loss", "train_accuracy"]

    def refresh(self, data: Data, state: State) -> State:
        return state_of(refreshed(self.problem, data, state.rows, state.params), state.params)

    def objective(self, data: Data, state: State, penalties: Penalties) -> float:
        return float(_measured(_value, self.problem, data, state, *penalties))

    def stationarity(self, data: Data, state: State, penalties: Penalties) -> float:
        return float(_measured(subgradient_norm, self.problem, data, state, *penalties))

    def split(self, state: State) -> tuple[Rows, Params]:
        return state.rows, state.params

    def join(self, by_sample: Rows, rest: Params) -> State:
        return state_of(by_sample, rest)

    def run_bytes(self, n_samples: int, itemsize: int) -> int:
        """Rows: x, y, z, a, p, u and what an iteration computes on the way. Besides: the network,
        and the temporaries of one block of rows."""
        widths = [prod(layer.out_shape) for layer in self.problem.layers]
        n_in, n_out, hidden = prod(self.problem.in_shape), widths[-1], sum(widths[:-1])
        rows = n_samples + blocks_for(n_samples)[1]
        # Ten of the output's width: z, p, y, u, and what the steps on u and z_L compute on the way.
        per_row = n_in + 3 * hidden + 10 * n_out
        more_per_row, block = self._temporaries(n_samples)
        weights = sum(layer.n_weights for layer in self.problem.layers)
        fixed = self.problem.layers[0].fan_in ** 2 + 6 * weights + min(rows, BLOCK_ROWS) * block
        return int((rows * (per_row + more_per_row) + fixed) * itemsize)

    @abstractmethod
    def _temporaries(self, n_samples: int) -> tuple[float, int]:
        """Numbers for each sample, and for each row of one block, beside the variables.

        Where temporaries are of all samples at once, how many live together is the compiler's
        choice, so their factors are fitted to its account.
        """


@dataclass(frozen=True)
class DLADMM(Relaxed):
    """The paper's method."""

    name: ClassVar[str] = "dladmm"
    sweep: ClassVar[Sweep] = dladmm_sweep
    crossing: ClassVar[float] = 2e11  # of its time, passes over arrays take as much as products

    def _temporaries(self, n_samples: int) -> tuple[float, int]:
        widths = [prod(layer.out_shape) for layer in self.problem.layers]
        rule, layers = self.options.step_rule, self.problem.layers
        if rule.scalar:
            return 3.2 * sum(widths[:-1]), 0
        by_parts = layers[1 if n_samples >= layers[0].fan_in else 0 :]  # the first has x^T x
        parts = [layer.positions * -(-layer.units // unit_parts(layer, rule)) for layer in by_parts]
        # Further along a sweep: the point before it, the one ahead, and what it is chosen by.
        further = 3 * sum(widths[:-1]) + 2 * max(widths) if reach_of(self.problem, rule) > 1 else 0
        return max(parts, default=0) + further, 4 * max(widths)

    def run_bytes(self, n_samples: int, itemsize: int) -> int:
        """With matrix steps also K of the widest layer, damped, and its factor."""
        grams = isinstance(self.options.step_rule, Matrix)
        widest = max(layer.fan_in for layer in self.problem.layers)
        return super().run_bytes(n_samples, itemsize) + 3 * grams * widest**2 * itemsize

    def exchanged_bytes(self, itemsize: int) -> int:
        """With an l2 regulariser or none: b twice; W and |A(G)|^2 twice, W_1 once; Gram matrices
        where steps have them, but for that of x, which is known."""
        grams = isinstance(self.options.step_rule, Matrix)
        numbers = 0
        for l, layer in enumerate(self.problem.layers):
            gram, step = grams * layer.fan_in**2, layer.n_weights + layer.units
            numbers += 2 * layer.units * layer.has_bias
            if l > 0:
                numbers += 2 * (step + gram)
            elif reads_x_alone(self.problem):
                numbers += layer.n_weights
            else:  # both steps on W_1 read the same
                numbers += 2 * step + gram
        return numbers * itemsize

    def guarantee(self, account: Account) -> Guarantee:
        return dladmm_guarantee(self.problem, account, self.options.step_rule)


@dataclass(frozen=True)
class ADMM(Relaxed):
    """The baseline, Taylor et al. (2016)."""

    name: ClassVar[str] = "admm"
    sweep: ClassVar[Sweep] = admm_sweep

    def requires(self) -> None:
        super().requires()
        if not self.problem.is_chain or any(v.positions > 1 for v in self.problem.layers):
            raise ValueError(
                "method='admm' solves a by least squares in all numbers of a sample and knows dense"
                " layers one after the other only; expected method='dladmm' or 'restored'"
            )
        for l, regularizer in enumerate(self.problem.regularizers, 1):
            if regularizer.quadratic is None:
                raise ValueError(
                    f"method='admm' solves W by least squares and cannot take the"
                    f" {type(regularizer).__name__} regularizer of layer {l}; expected none or l2,"
                    " or method='dladmm'"
                )

    def _temporaries(self, n_samples: int) -> tuple[float, int]:
        hidden = sum(prod(layer.out_shape) for layer in self.problem.layers[:-1])
        return prod(self.problem.in_shape) / 2 + 3.5 * hidden, 0

    def exchanged_bytes(self, itemsize: int) -> int:
        """Means of a and z, the Gram matrix, and the products with z."""
        numbers = sum(
            layer.fan_in + layer.units + layer.fan_in**2 + layer.n_weights
            for layer in self.problem.layers
        )
        return numbers * itemsize

    def guarantee(self, account: Account) -> Guarantee:
        return Guarantee({"Theorems 1-3": f"do not cover method {self.name!r}"})


def _value(*given: Any) -> Array:
    return lagrangian(*given).value


@compiled("measure", "problem")
def _measured(
    measure: Callable[..., Array], problem: Problem, data: Data, state: State, rho: Array, nu: Array
) -> Array:
    """A scalar of the whole state, on all its devices."""
    into = (DATA, STATE, EVERYWHERE, EVERYWHERE)
    own = spread(data.samples, partial(measure, problem), into, EVERYWHERE)
    return own(data, state, rho, nu)
