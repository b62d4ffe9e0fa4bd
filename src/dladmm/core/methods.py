"""The methods, each as the loop sees it: begin, advance by one iteration, say where it stands.

`Relaxed` iterates on all variables of L_rho by a sweep of `core.sweep`; `FullBatch` and `MiniBatch`
are restored sweeps, which iterate on the network alone. What an iteration tells is one vector of
scalars, so a single small transfer brings all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh

from dladmm.core import restored, stream
from dladmm.core.lagrangian import Evaluation, evaluate, lagrangian, subgradient_norm
from dladmm.core.problem import Problem
from dladmm.core.restored import Restored, RestoredRecord
from dladmm.core.sharding import EVERYWHERE, ROWS, layout_of_own, place_rows, spread
from dladmm.core.state import (
    DATA,
    STATE,
    Data,
    Params,
    Rows,
    State,
    make_data,
    refreshed,
    state_from_params,
    state_of,
)
from dladmm.core.stream import Batches, Stream, StreamRecord
from dladmm.core.sweep import SWEEPS, Record, SweepOptions

if TYPE_CHECKING:
    from dladmm.core.options import Options

Penalties = tuple[Array, Array]  # rho, nu
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray | None]  # x, y, sample weights


@dataclass(frozen=True)
class Start:
    """How z_L and u begin: u = -grad R(z_L) or 0, and z_L at the authors' +-1 if asked."""

    dual_from_gradient: bool = True
    authors_output: bool = False


class Method(Protocol):
    """What the loop asks of a method; `state` is the method's own pytree."""

    @property
    def has_penalties(self) -> bool:
        """Whether rho and nu mean anything; a run with them can be restarted with larger ones."""

    @property
    def init(self) -> str:
        """Where its runs start unless told."""

    @property
    def overlaps(self) -> bool:
        """Whether the next iteration is launched before this one's records are read."""

    def prepare(self, problem: Problem, arrays: Arrays, mesh: Mesh | None) -> Any:
        """The data as the method reads them: this process's rows, on its devices."""

    def begin(self, problem: Problem, data: Any, params: Params, start: Start) -> Any:
        """A feasible state of this network; iterations may overwrite the buffers of `params`."""

    def advance(
        self,
        problem: Problem,
        options: SweepOptions,
        data: Any,
        state: Any,
        penalties: Penalties,
        with_loss: Array,
    ) -> tuple[Any, Params, Array]:
        """One iteration: the new state, its network to keep, and its records as one vector."""

    def names(self, problem: Problem) -> list[str]:
        """Names of that vector's entries."""

    def refresh(self, problem: Problem, data: Any, state: Any) -> Any:
        """The same state without the rounding its running quantities have gathered."""

    def objective(self, problem: Problem, data: Any, state: Any, penalties: Penalties) -> Array:
        """The value the method promises not to raise."""

    def stationarity(self, problem: Problem, data: Any, state: Any, penalties: Penalties) -> Array:
        """The norm of the objective's smallest subgradient."""


# Unused arguments are kept: not every method reads all of the rows whose memory it takes over.
@partial(
    jax.jit,
    static_argnames=("method", "problem", "options"),
    donate_argnames="rows",
    keep_unused=True,
)
def iterate(
    method: str,
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
        state, record = SWEEPS[method](problem, options, data, state_of(rows, params), rho, nu)
        nan = jnp.full((), jnp.nan, state.u.dtype)
        real = jax.lax.cond(
            with_loss,
            lambda params: evaluate(problem, params, data.x, data.y, data.samples),
            lambda params: Evaluation(nan, nan),
            state.params,
        )
        return state.rows, state.params, stacked((record, real), state.u.dtype)

    into = (DATA, ROWS, EVERYWHERE, EVERYWHERE, EVERYWHERE, EVERYWHERE)
    out = (ROWS, EVERYWHERE, EVERYWHERE)
    return spread(data.samples, own, into, out)(data, rows, params, rho, nu, with_loss)


def stacked(scalars: Any, dtype: jnp.dtype) -> Array:
    """Every scalar of a pytree, in one vector."""
    return jnp.stack([s.astype(dtype) for s in jax.tree.leaves(scalars)])


@dataclass(frozen=True)
class Relaxed:
    """A method on all variables of L_rho: dlADMM itself, or the baseline."""

    sweep: str
    has_penalties: bool = True
    init: str = "he"
    overlaps: bool = True

    def prepare(self, problem: Problem, arrays: Arrays, mesh: Mesh | None = None) -> Data:
        return padded_data(problem, arrays, with_gram=True, mesh=mesh)

    def begin(self, problem: Problem, data: Data, params: Params, start: Start) -> State:
        return state_from_params(
            problem, params, data, start.dual_from_gradient, start.authors_output
        )

    def advance(
        self,
        problem: Problem,
        options: SweepOptions,
        data: Data,
        state: State,
        penalties: Penalties,
        with_loss: Array,
    ) -> tuple[State, Params, Array]:
        rows, params, vector = iterate(
            self.sweep, problem, options, data, state.rows, state.params, *penalties, with_loss
        )
        return state_of(rows, params), params, vector

    def names(self, problem: Problem) -> list[str]:
        hidden = range(1, problem.n_layers)
        parts = [
            "lagrangian",
            "risk",
            "regularization",
            "residual",
            *(f"linear_gap_{l}" for l in hidden),
            *(f"activation_gap_{l}" for l in hidden),
        ]
        return [*parts, *Record._fields[1:], "train_loss", "train_accuracy"]

    def refresh(self, problem: Problem, data: Data, state: State) -> State:
        return state_of(refreshed(problem, data, state.rows, state.params), state.params)

    def objective(self, problem: Problem, data: Data, state: State, penalties: Penalties) -> Array:
        return _lagrangian_value(problem, data, state, *penalties)

    def stationarity(
        self, problem: Problem, data: Data, state: State, penalties: Penalties
    ) -> Array:
        return _stationarity(problem, data, state, *penalties)


@partial(jax.jit, static_argnames="problem")
def _lagrangian_value(problem: Problem, data: Data, state: State, rho: Array, nu: Array) -> Array:
    own = lambda *where: lagrangian(problem, *where).value  # noqa: E731
    into = (DATA, STATE, EVERYWHERE, EVERYWHERE)
    return spread(data.samples, own, into, EVERYWHERE)(data, state, rho, nu)


@partial(jax.jit, static_argnames="problem")
def _stationarity(problem: Problem, data: Data, state: State, rho: Array, nu: Array) -> Array:
    own = partial(subgradient_norm, problem)
    into = (DATA, STATE, EVERYWHERE, EVERYWHERE)
    return spread(data.samples, own, into, EVERYWHERE)(data, state, rho, nu)


@partial(jax.jit, static_argnames="problem")
def real_loss(problem: Problem, data: Data, params: Params) -> Evaluation:
    """The network itself on the data of a run."""
    own = lambda data, params: evaluate(problem, params, data.x, data.y, data.samples)  # noqa: E731
    return spread(data.samples, own, (DATA, EVERYWHERE), EVERYWHERE)(data, params)


@dataclass(frozen=True)
class FullBatch:
    """Restored sweeps over the full batch: F itself, which never rises."""

    has_penalties: bool = False
    init: str = "scaled"
    overlaps: bool = True

    def prepare(self, problem: Problem, arrays: Arrays, mesh: Mesh | None = None) -> Data:
        return padded_data(problem, arrays, with_gram=False, mesh=mesh)

    def begin(self, problem: Problem, data: Data, params: Params, start: Start) -> Restored:
        return _begin(problem, data, params)

    def advance(
        self,
        problem: Problem,
        options: SweepOptions,
        data: Data,
        state: Restored,
        penalties: Penalties,
        with_loss: Array,
    ) -> tuple[Restored, Params, Array]:
        return iterate_restored(problem, data, state)

    def names(self, problem: Problem) -> list[str]:
        return list(RestoredRecord._fields)

    def refresh(self, problem: Problem, data: Data, state: Restored) -> Restored:
        return state  # nothing in it is a running quantity

    def objective(
        self, problem: Problem, data: Data, state: Restored, penalties: Penalties
    ) -> Array:
        return state.measured.objective

    def stationarity(
        self, problem: Problem, data: Data, state: Restored, penalties: Penalties
    ) -> Array:
        return restored.gradient_norm(problem, state.params, state.measured)


@partial(jax.jit, static_argnames="problem")
def _begin(problem: Problem, data: Data, params: Params) -> Restored:
    own = partial(restored.begin, problem)
    return spread(data.samples, own, (DATA, EVERYWHERE), EVERYWHERE)(data, params)


@partial(jax.jit, static_argnames="problem", donate_argnames="state")
def iterate_restored(
    problem: Problem, data: Data, state: Restored
) -> tuple[Restored, Params, Array]:
    """One restored sweep as one program."""

    def own(data: Data, state: Restored) -> tuple[Restored, Params, Array]:
        state, record = restored.restored_sweep(problem, data, state)
        return state, state.params, stacked(record, state.step.dtype)

    return spread(data.samples, own, (DATA, EVERYWHERE), EVERYWHERE)(data, state)


@dataclass(frozen=True)
class MiniBatch:
    """Restored sweeps over mini-batches; one iteration is an epoch."""

    batch_size: int
    seed: int
    decay: bool = True
    seen: int = 0
    has_penalties: bool = False
    init: str = "scaled"
    overlaps: bool = False  # launching an epoch takes as long as the epoch

    def prepare(self, problem: Problem, arrays: Arrays, mesh: Mesh | None = None) -> Batches:
        return Batches(*arrays, self.batch_size, self.seed, self.decay, self.seen, mesh)

    def begin(self, problem: Problem, data: Batches, params: Params, start: Start) -> Stream:
        return stream.begin(problem, params)

    def advance(
        self,
        problem: Problem,
        options: SweepOptions,
        data: Batches,
        state: Stream,
        penalties: Penalties,
        with_loss: Array,
    ) -> tuple[Stream, Params, Array]:
        state, record = stream.epoch(problem, data, state)
        params = jax.tree.map(jnp.copy, state.params)  # the next epoch donates its own
        return state, params, stacked(record, state.scale.dtype)

    def names(self, problem: Problem) -> list[str]:
        return list(StreamRecord._fields)

    def refresh(self, problem: Problem, data: Batches, state: Stream) -> Stream:
        return state

    def objective(
        self, problem: Problem, data: Batches, state: Stream, penalties: Penalties
    ) -> Array:
        return jnp.full((), jnp.nan, state.scale.dtype)  # no pass over all samples is ever made

    def stationarity(
        self, problem: Problem, data: Batches, state: Stream, penalties: Penalties
    ) -> Array:
        return jnp.full((), jnp.nan, state.scale.dtype)


def method_names() -> tuple[str, ...]:
    return ("restored", *SWEEPS)


def method_for(options: Options, resumed: Stream | None = None) -> Method:
    """The method these options name, going on from a stream if one is given."""
    if options.method != "restored":
        return Relaxed(options.method)
    if options.batch_size is None:
        return FullBatch()
    seen = 0 if resumed is None else int(resumed.seen)
    return MiniBatch(options.batch_size, options.seed, options.batch_decay, seen)


def padded_data(
    problem: Problem, arrays: Arrays, with_gram: bool, mesh: Mesh | None = None
) -> Data:
    """This process's rows on its devices, in blocks; repeated rows of weight zero fill the last."""
    x, y, weights = arrays
    blocks, rows, count = layout_of_own(x.shape[0], mesh)
    if rows * (1 if mesh is None else mesh.size) > count and weights is None:
        weights = np.ones(x.shape[0], x.dtype)
    placed = None if weights is None else place_rows(weights, rows, mesh, filling="constant")
    inputs, targets = place_rows(x, rows, mesh), place_rows(y, rows, mesh)
    return make_data(problem, inputs, targets, placed, blocks, with_gram, mesh, count)
