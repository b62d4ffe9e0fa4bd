"""Optimisers that a knowledgeable person would pick for mini-batches, as optax documents them.

A rate is over a stated small grid where a method has one; methods that say they need none are a
group of their own, run as their defaults are. Where a method says that another network than the
one it steps from is to be evaluated, that one is.

Methods without a rate run as their documentation recommends too. Prodigy and D-Adaptation ask for
a linear decay, Mechanic for a warm-up and a cosine: they need to know then how long the run is, and
are in a group that says so. DoG's authors evaluate an average of the iterates, which needs nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from optax import contrib

from dladmm.core.data import Arrays, Data
from dladmm.core.params import Params
from dladmm.core.problem import Problem
from dladmm.core.restored.batches import Batches
from dladmm.engine.loops import over
from dladmm.experiments.baselines import Made, Trainer, loss_and_gradient

ADAM, TUNED, SCHEDULED, RATE_FREE = "constant rate", "tuned", "scheduled", "rate-free"
RATE_FREE_SCHEDULED = "rate-free, over a given number of epochs"
PRECONDITIONED = "preconditioned"
GAMMA = 8.0  # of DoG's average (Shamir and Zhang, 2013), in its paper and its authors' code


@dataclass(frozen=True)
class Rival:
    """An optimiser: `make(rate, steps)`, steps being those of its schedule; its rates, its epochs
    (None where it has none), the sizes of batches, and whether it evaluates another network."""

    name: str
    group: str
    make: Callable[[float, int], Any]
    rates: tuple[float | None, ...] = (None,)
    epochs: tuple[int | None, ...] = (None,)
    sizes: tuple[int, ...] = (256, 512)
    evaluated: Callable[[Any, Params], Params] | None = None


class Averaged(NamedTuple):
    """An optimiser's memory, the average of its iterates and how many there were."""

    inner: Any
    average: Any
    count: Any


def averaged(method: Any) -> Any:
    """The optimiser, with the polynomial-decay average Z <- Z + (1 + g)/(k + g) (V - Z) beside."""
    method = optax.with_extra_args_support(method)

    def init(params: Any) -> Averaged:
        return Averaged(method.init(params), params, jnp.zeros((), jnp.int32))

    def update(gradient: Any, memory: Averaged, params: Any, **extra: Any) -> Any:
        step, inner = method.update(gradient, memory.inner, params, **extra)
        count = memory.count + 1
        c = (1 + GAMMA) / (count + GAMMA)
        new = optax.apply_updates(params, step)
        average = jax.tree.map(lambda Z, V: Z + c.astype(Z.dtype) * (V - Z), memory.average, new)
        return step, Averaged(inner, average, count)

    return optax.GradientTransformationExtraArgs(init, update)


def _average(memory: Averaged, params: Params) -> Params:
    return memory.average


def _falling(steps: int) -> Any:
    return optax.linear_schedule(1.0, 0.0, steps)


def _warmed(steps: int) -> Any:
    return optax.warmup_cosine_decay_schedule(0.0, 1.0, steps // 10, steps)


def _mechanic(rate: float, steps: int) -> Any:
    return contrib.mechanize(optax.adam(1.0))


RIVALS = (
    Rival(
        "schedule-free adamw",
        TUNED,
        lambda rate, steps: contrib.schedule_free_adamw(rate),
        (2.5e-3, 5e-3),
        evaluated=contrib.schedule_free_eval_params,
    ),
    Rival(
        "one-cycle adam",
        SCHEDULED,
        lambda rate, steps: optax.adam(optax.cosine_onecycle_schedule(steps, rate)),
        (3e-3, 1e-2),
        (3, 5),
        (256,),
    ),
    Rival(
        "cosine adam",
        SCHEDULED,
        lambda rate, steps: optax.adam(optax.cosine_decay_schedule(rate, steps)),
        (3e-3,),
        (3, 5),
        (256,),
    ),
    Rival(
        "cosine muon",
        SCHEDULED,
        lambda rate, steps: contrib.muon(optax.cosine_decay_schedule(rate, steps)),
        (2e-2,),
        (3,),
        (512,),
    ),
    Rival(
        "averaged adam",
        TUNED,
        lambda rate, steps: averaged(optax.adam(rate)),
        (1e-3, 3e-3),
        sizes=(256,),
        evaluated=_average,
    ),
    Rival("momo-adam", TUNED, lambda rate, steps: contrib.momo_adam(rate), (1e-2,)),
    Rival("prodigy", RATE_FREE, lambda rate, steps: contrib.prodigy()),
    Rival("dog", RATE_FREE, lambda rate, steps: contrib.dog()),
    Rival("d-adapt adamw", RATE_FREE, lambda rate, steps: contrib.dadapt_adamw()),
    Rival("mechanic adam", RATE_FREE, _mechanic),
    Rival(
        "averaged dog", RATE_FREE, lambda rate, steps: averaged(contrib.dog()), evaluated=_average
    ),
    Rival(
        "linear prodigy",
        RATE_FREE_SCHEDULED,
        lambda rate, steps: contrib.prodigy(_falling(steps)),
        epochs=(3, 5),
        sizes=(256,),
    ),
    Rival(
        "linear d-adapt adamw",
        RATE_FREE_SCHEDULED,
        lambda rate, steps: contrib.dadapt_adamw(_falling(steps)),
        epochs=(3, 5),
        sizes=(256,),
    ),
    Rival(
        "cosine mechanic adam",
        RATE_FREE_SCHEDULED,
        lambda rate, steps: contrib.mechanize(optax.adam(_warmed(steps))),
        epochs=(3, 5),
        sizes=(256,),
    ),
)
BY_NAME = {rival.name: rival for rival in RIVALS}


def _made(name: str, rate: float | None, steps: int) -> Any:
    made = BY_NAME[name].make(rate or 0.0, steps)
    return optax.with_extra_args_support(made)


@partial(jax.jit, static_argnames=("name", "rate", "steps"))
def beginning(name: str, rate: float | None, steps: int, params: Params) -> Any:
    """The memory before the first step; compiled, so that no two arrays are one."""
    return _made(name, rate, steps).init(params)


@partial(jax.jit, static_argnames=("name", "rate", "steps", "problem"), donate_argnames=("memory",))
def rival_steps(
    name: str,
    rate: float | None,
    steps: int,
    problem: Problem,
    group: Data,
    count: Array,
    params: Params,
    memory: Any,
) -> tuple[tuple[Params, Any], Array]:
    """A step on the mean loss over each of the first `count` batches of a group; its value goes
    with it, for those that ask for it."""

    def step(state: tuple[Params, Any], batch: Data) -> tuple[Params, Any]:
        params, memory = state
        value, gradient, _ = loss_and_gradient(problem, batch, params)
        update, memory = _made(name, rate, steps).update(gradient, memory, params, value=value)
        return optax.apply_updates(params, update), memory

    return over(count, step, (params, memory), group), count + 0


@partial(jax.jit, static_argnames="name")
def evaluated(name: str, memory: Any, params: Params) -> Any:
    """The network to be looked at."""
    own = BY_NAME[name].evaluated
    return params if own is None else own(memory, params)


def rival(
    problem: Problem,
    arrays: Arrays,
    params: Params,
    seed: int,
    *,
    name: str,
    rate: float | None,
    epochs: int | None,
    size: int,
    per_epoch: int,
) -> Trainer:
    """A rival on mini-batches; a network every 1/per_epoch of an epoch. A schedule that is over
    stays where it ended."""
    batches = Batches(*arrays, size, seed)
    how = (name, rate, batches.per_epoch * (epochs or 1))

    def step(state: Any, group: Data, count: Array) -> tuple[Any, Array]:
        return rival_steps(*how, problem, group, count, *state)

    state: Any = params, beginning(*how, params)
    while True:
        for state in batches.stepped(step, state, per_epoch):  # noqa: B020
            network, memory = state
            yield Made(jax.block_until_ready(evaluated(name, memory, network)))
