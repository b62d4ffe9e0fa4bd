"""`solve`: from a problem and data to a trained network, its records and its certificate."""

import math
import time
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dladmm.core.certificate import certify
from dladmm.core.choice import chosen_engine
from dladmm.core.data import Arrays, targets_of_all
from dladmm.core.held_out import HeldOut
from dladmm.core.initial import params_for_data
from dladmm.core.keeping import Keeper
from dladmm.core.loop import Loop, LoopState, Run
from dladmm.core.memory import check_fits
from dladmm.core.messages import explained
from dladmm.core.options import Options, precision
from dladmm.core.params import Params
from dladmm.core.problem import Problem
from dladmm.core.restored.mini_batch import Stream
from dladmm.core.results import BROKEN_OFF, Callback, Result, Status
from dladmm.core.snapshot import StoreSettings
from dladmm.core.validation import check_inputs, check_params, checked_method
from dladmm.engine import trees
from dladmm.engine.arrays import is_jax
from dladmm.engine.process import is_out_of_memory
from dladmm.engine.processes import over_processes, process_count, refused_together
from dladmm.terms.losses import Loss


def solve(
    problem: Problem,
    x: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    validation: tuple[Any, Any, Any] | None = None,
    validation_decides: bool = True,
    options: Options | None = None,
    params: Params | None = None,
    stream: Stream | None = None,
    callback: Callback | None = None,
    checkpoints: StoreSettings | None = None,
) -> Result:
    """Minimise Problem 2 for this data, by `options.method`, from `params` or random weights.

    Ctrl-C ends the run with the best network recorded so far.

    Parameters
    ----------
    problem : Problem
        The network, its loss and its regularisers.
    x, y : array
        A row for each sample; y has one column per network output (one-hot rows for log_loss).
    sample_weight : array or None
        How much each sample counts.
    validation : tuple or None
        (x, y, weights or None) of rows to score the network on, as `validation_score` in the
        history.
    validation_decides : bool
        Whether their score says when the run ends and which network is the best; otherwise the
        training loss does, as without them.
    options : Options or None
        How to solve.
    params : Params or None
        The weights to start from; random ones by default.
    stream : Stream or None
        The state another run over mini-batches ended with: this one goes on from there, moments
        included.
    callback : callable or None
        Called with a Progress after each iteration; True ends the run.
    checkpoints : Checkpoints or None
        Keeps the run as it goes, and lets another call go on with it to the same bits.

    Returns
    -------
    Result
        The network, why the run ended, its records and its certificate.

    Examples
    --------
    >>> import numpy as np
    >>> from dladmm import Options, Problem, solve
    >>> x = np.random.default_rng(0).normal(size=(200, 3))
    >>> y = np.maximum(x[:, :1], 0) - x[:, 1:2]
    >>> problem = Problem.dense([3, 16, 1], loss="squared_error")
    >>> result = solve(problem, x, y, options=Options(max_iter=50))
    >>> result.certificate.rises
    0
    """
    began = time.perf_counter()
    shape = _shape(x)
    options = _resolved(problem, shape, options or Options())
    method = checked_method(problem, options)
    engine = chosen_engine(method, options, next(iter(shape), 0))
    with refused_together():
        _check_room(problem, x, shape, replace(options, engine=engine.name))
        arrays = check_inputs(problem, x, y, sample_weight, options.dtype)
        held_out = None if validation is None else _held_out(problem, validation, options.dtype)
    if params is not None:
        check_params(problem, params)
    with engine.computing(options.dtype):
        run = Run(
            options=options,
            method=method,
            data=method.prepare(arrays, engine),
            engine=engine,
            mass=_mass(arrays),
            loss_unit=1.0 if held_out and validation_decides else _loss_unit(problem, arrays),
            dtype=np.dtype(options.dtype),
            held_out=None if held_out is None else HeldOut.of(held_out, engine, validation_decides),
            began=began,
        )
        at = _beginning(run, arrays, params, stream)
        keeper = None
        if checkpoints is not None:
            given = stream if stream is not None else params
            keeper = Keeper(checkpoints, run, at, arrays, given)
            at = keeper.found or at  # not both: the rows of two states may not fit
        return _finished(*_looped(run, at, callback, keeper), arrays[0].shape[0])


def _held_out(problem: Problem, rows: tuple[Any, Any, Any], dtype: str) -> Arrays:
    try:
        return check_inputs(problem, *rows, dtype)
    except ValueError as error:
        raise ValueError(f"validation: {error}") from None


def default_rho(loss: Loss) -> float:
    """3H for numbers, inside the theorems' rho > 2H; 0.1 for classes; 1 where there is no H.

    At 0.1 a classifier's own loss falls faster than at 3H (digits, 200 iterations: about half the
    loss), but it is outside the theorems; the certificate counts the rises of L_rho, if any.
    """
    if loss.classifies:
        return 0.1
    return 3 * loss.lipschitz if math.isfinite(loss.lipschitz) else 1.0


def _shape(x: Any) -> tuple[int, ...]:
    """Of the rows as they were given; empty where their lengths differ, which is refused later."""
    try:
        return np.shape(x)
    except ValueError:
        return ()


def _check_room(problem: Problem, x: Any, shape: tuple[int, ...], options: Options) -> None:
    """ValueError where this run does not fit, a copy of rows of another type included."""
    dtype = np.dtype(options.dtype)
    copied = 0 if getattr(x, "dtype", None) == dtype else math.prod(shape) * dtype.itemsize
    check_fits(problem, next(iter(shape), 0), options, copied)


def _resolved(problem: Problem, shape: tuple[int, ...], options: Options) -> Options:
    """The options with what they leave open decided, for rows of this shape."""
    rho = default_rho(problem.loss) if options.rho is None else options.rho
    n_numbers = int(over_processes(np.int64(math.prod(shape))).sum())
    return replace(options, rho=rho, dtype=precision(options.dtype, n_numbers))


def _mass(arrays: Arrays) -> float:
    """The sum of the sample weights of all processes."""
    x, _, weights = arrays
    own = float(x.shape[0] if weights is None else weights.sum())
    return float(over_processes(own).sum())


def _loss_unit(problem: Problem, arrays: Arrays) -> float:
    """The mean loss of the targets' centre, of all processes; 1 where the loss has no unit."""
    _, y, weights = arrays
    centre, _, _ = problem.loss.standardised(*targets_of_all(y, weights))
    if np.ndim(centre) == 0:
        return 1.0
    at_centre: Any = np.broadcast_to(centre, y.shape)
    own = problem.loss.value(at_centre, y)
    omega = np.ones(len(y)) if weights is None else weights
    total, mass = over_processes([float(omega @ np.asarray(own)), float(omega.sum())]).sum(0)
    return float(total / mass) or 1.0


def _beginning(run: Run, arrays: Arrays, params: Params | None, stream: Stream | None) -> LoopState:
    """Where a run starts: at the given network or state, or at random weights."""
    options = run.options
    if stream is not None:
        params = stream.average
    if params is None:
        init = run.method.init if options.init == "auto" else options.init
        params = params_for_data(run.method.problem, init, options.seed, arrays)
    network = run.engine.replicate(trees.map(lambda v: np.asarray(v, run.dtype), params))
    assert options.rho is not None
    penalty = {"rho": float(options.rho), "nu": float(options.nu)}
    start = run.start(penalty["rho"], authors_output=options.init == "paper")
    if stream is None:
        state = run.begin(network, start)
    else:
        # A copy: iterations donate their state.
        state = run.engine.replicate(trees.map(np.array, stream))
        run.method.resumed(run.data, state)
    return LoopState(state, network, network, penalty, start.dual_from_gradient)


def _looped(
    run: Run, at: LoopState, callback: Callback | None, keeper: Keeper | None
) -> tuple[Loop, Status, int]:
    """The loop after its last iteration, why it ended, and how many iterations were made before."""
    together = process_count() == 1  # else whom to wait for may be gone
    hooks = () if keeper is None else (keeper.due, keeper.keep)
    loop, made_before = Loop(run, at, callback, *hooks), len(at.rows)
    try:
        if not made_before:
            at.start = run.method.objective(run.data, at.state, loop.penalties())
        status = loop.iterate()
        together = True
    except KeyboardInterrupt:
        if not together:
            raise
        status = Status.INTERRUPTED
    except (MemoryError, RuntimeError) as error:
        # Several processes cannot end this one by one; without a record there is no network.
        if not (together and at.rows and is_out_of_memory(error)):
            raise
        at.state = None  # whatever is left of it
        status = Status.MEMORY
    finally:
        if keeper is not None:
            keeper.store.close(wait=together)
    return loop, status, made_before


def _finished(loop: Loop, status: Status, resumed_from: int, n_samples: int) -> Result:
    run, at = loop.run, loop.at
    if status in BROKEN_OFF:
        at.network = at.best if math.isfinite(at.best_score) else at.network
        if status is not Status.MEMORY:
            loop.restore()
    elif at.rows and math.isnan(at.rows[-1]["train_loss"]):
        _measure_last(run, at)
    where = (run.data, at.state, loop.penalties())
    unknown = status in (Status.INTERRUPTED, Status.MEMORY)
    norm = math.nan if unknown else run.method.stationarity(*where)
    certificate = certify(
        run.method,
        status=str(status),
        dtype=run.options.dtype,
        rows=at.rows,
        start=at.start,
        mass=run.mass,
        lemma2_at_start=at.lemma2_at_start,
        subgradient_norm=norm,
    )
    whole = partial(run.method.whole, run.data)
    return Result(
        params=trees.map(np.asarray, whole(at.network)),
        best_params=trees.map(np.asarray, whole(at.best)),
        status=status,
        message=explained(status, run, at),
        n_iter=len(at.rows),
        history=_history(at.rows),
        certificate=certificate,
        resumed_from=resumed_from,
        state=_without_padding(run, at.state, n_samples),
    )


def _history(rows: list[dict[str, float]]) -> dict[str, list[float]]:
    """One value per iteration under each name; a run that goes on may score rows that the one
    before it did not, or the other way round."""
    names = dict.fromkeys(name for row in rows[:1] + rows[-1:] for name in row)
    return {name: [row.get(name, math.nan) for row in rows] for name in names}


def _measure_last(run: Run, at: LoopState) -> None:
    """The real loss of the last network, which its iteration did not measure."""
    real, last = run.method.evaluate(run.data, at.network), at.rows[-1]
    last["train_loss"], last["train_accuracy"] = float(real.loss), float(real.accuracy)
    last["gap"] = last["train_loss"] - last["risk"] / run.mass
    if run.judge is None and -last["train_loss"] > at.best_score:
        at.best = at.network


def _without_padding(run: Run, state: Any, n_samples: int) -> Any:
    """The state of the caller's own rows; each padded array is freed once it is cut."""
    if run.engine.mesh is not None or state is None:
        return state  # its rows are spread over devices

    def cut(v: Any) -> Any:
        if v.shape[0] == n_samples:
            return v
        kept = v[:n_samples]
        if is_jax(kept):
            kept.block_until_ready()
            v.delete()
        return kept

    by_sample, rest = run.method.split(state)
    return run.method.join(trees.map(cut, by_sample), rest)
