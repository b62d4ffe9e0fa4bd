"""What a method is: everything that the rest of the library asks of one.

A method is a frozen object, made for a problem from its options. It begins, advances by one
iteration and says where it stands; what it needs of a problem, the memory it takes and what it
guarantees are its own to say too, so that nobody else compares a method's name. What an iteration
records is one vector of scalars, so a single small transfer brings all of it.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dladmm.core.data import Arrays
from dladmm.core.evaluate import Evaluation, evaluate_run
from dladmm.core.params import Params
from dladmm.core.problem import Problem
from dladmm.engine import trees
from dladmm.engine.arrays import Array, vector
from dladmm.engine.devices import Engine
from dladmm.terms.activations import Activation, MaxPooled, WithoutSlope

Penalties = tuple[Array, Array]  # rho, nu
Row = Mapping[str, float]  # the record of one iteration


@dataclass(frozen=True)
class Start:
    """How z_L and u begin: u = -grad R(z_L) or 0, and z_L at the authors' +-1 if asked."""

    dual_from_gradient: bool = True
    authors_output: bool = False


class Account(NamedTuple):
    """What a guarantee is judged by: the records of a run, and what is known besides.

    drops: for each record by how much the objective fell, NaN where penalties changed or the run
    was restarted, and the rounding allowed. mass: the sum of the sample weights.
    """

    rows: Sequence[Row]
    drops: Sequence[tuple[float, float]]
    mass: float
    lemma2_at_start: bool


class Guarantee(NamedTuple):
    """What a method claims of a run: each theorem in words, and sufficient descent if it has any.

    `sufficient_descent` is None where it is not claimed; `least_C2` is then NaN or not positive.
    """

    theorems: dict[str, str]
    sufficient_descent: bool | None = None
    least_C2: float = float("nan")


@dataclass(frozen=True)
class Method(ABC):
    """The contract; `state` is the method's own pytree.

    name: as in `Options`. has_penalties: whether rho and nu mean anything; a run with them can be
    restarted with larger ones. init: where its runs start by default. overlaps: whether the next
    iteration is launched before this one's records are read. objective_name and unit: what it
    minimises and what one iteration is called, in a certificate. streams: whether it can go on
    with other rows from where it ended, batch by batch.
    """

    name: ClassVar[str]
    has_penalties: ClassVar[bool]
    init: ClassVar[str]
    objective_name: ClassVar[str]
    overlaps: ClassVar[bool] = True
    unit: ClassVar[str] = "iterations"
    streams: ClassVar[bool] = False

    problem: Problem

    @abstractmethod
    def requires(self) -> None:
        """ValueError, in one sentence, for a problem the method cannot work on."""

    @abstractmethod
    def prepare(self, arrays: Arrays, engine: Engine) -> Any:
        """The data as the method reads them: this process's rows, on its devices."""

    @abstractmethod
    def begin(self, data: Any, params: Params, start: Start) -> Any:
        """A feasible state of this network; iterations may overwrite the buffers of `params`."""

    @abstractmethod
    def advance(
        self, data: Any, state: Any, penalties: Penalties, with_loss: Array
    ) -> tuple[Any, Params, Array]:
        """One iteration: the new state, its network to keep, and its records as one vector."""

    @abstractmethod
    def names(self) -> list[str]:
        """Names of that vector's entries."""

    @abstractmethod
    def run_bytes(self, n_samples: int, itemsize: int) -> int:
        """What a run holds at its peak, within a few percent for large ones."""

    @abstractmethod
    def exchanged_bytes(self, itemsize: int) -> int:
        """What the all-reduces of one iteration add up over devices, but for some scalars; it does
        not depend on the number of samples."""

    @abstractmethod
    def guarantee(self, account: Account) -> Guarantee:
        """What the theory says of a run."""

    # What a method may leave as it is.

    # Multiplications and additions of a whole run from which JAX is done sooner, compilation
    # included, as `dladmm bench engines` finds it on two cores: docs/performance.md.
    crossing: ClassVar[float] = 2e12

    def iteration_flops(self, n_samples: int) -> float:
        """Multiplications and additions in an iteration's products, roughly: forward, back, and
        the gradient of every layer."""
        weights = sum(layer.positions * layer.n_weights for layer in self.problem.layers)
        return 6.0 * n_samples * weights

    def rows_at_once(self, n_samples: int) -> int:
        """How many samples go into a product, of so many."""
        return n_samples

    @property
    def can_reweigh(self) -> bool:
        """Whether a run can find the strengths of l2 by the evidence, for this problem."""
        return False

    @property
    def reweighs(self) -> bool:
        """Whether it is asked to, so that its objective changes as it goes."""
        return False

    def before(self, k: int, data: Any, state: Any) -> Any:
        """The state that iteration k goes on from."""
        return state

    def whole(self, data: Any, params: Params) -> Params:
        """A network that `advance` has returned, as every process can read all of it: its layers
        may lie with different ones. All processes ask for it together."""
        return params

    def evaluate(self, data: Any, params: Params) -> Evaluation:
        """The network's own loss and accuracy on the data of a run."""
        found: Evaluation = evaluate_run(self.problem, data, params)
        return found

    def refresh(self, data: Any, state: Any) -> Any:
        """The same state without the rounding its running quantities have gathered."""
        return state

    def objective(self, data: Any, state: Any, penalties: Penalties) -> float:
        """The value the method promises not to raise; NaN where there is none."""
        return float("nan")

    def stationarity(self, data: Any, state: Any, penalties: Penalties) -> float:
        """The norm of the objective's smallest subgradient; NaN where it is not known."""
        return float("nan")

    def split(self, state: Any) -> tuple[Any, Any]:
        """(what has one row per sample, the rest) of a state: a checkpoint keeps them apart."""
        return (), state

    def join(self, by_sample: Any, rest: Any) -> Any:
        """The inverse of `split`."""
        return rest

    def resumed(self, data: Any, state: Any) -> None:  # noqa: B027 (most have nothing to do)
        """Called where a run goes on from another one's state, before its first iteration."""


def stacked(scalars: Any, dtype: np.dtype) -> Array:
    """Every scalar of a pytree, in one vector."""
    return vector(list(trees.leaves(scalars)), dtype)


def no_argmin(f: Activation, l: int, asked: str, instead: str) -> str:
    """Why a method that needs argmin_z cannot have this activation of layer l."""
    f = f.f if isinstance(f, WithoutSlope) else f
    what = f"max pooling after {_kind(f.f)}" if isinstance(f, MaxPooled) else _kind(f)
    return (
        f"activation {l}, {what}, has no argmin_z in closed form, which {asked} needs; expected"
        f" an activation made of straight pieces, such as ReLU, or {instead}"
    )


def _kind(f: Activation) -> str:
    """Its name if it is a smooth function, which may be any, or that of its class."""
    return getattr(f, "name", None) or type(f).__name__
