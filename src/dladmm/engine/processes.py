"""Several processes of one run: how many there are, and what they tell each other.

There is one unless JAX was told of more (`jax.distributed.initialize`), so one that has not loaded
JAX is alone.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np


def process_count() -> int:
    return sys.modules["jax"].process_count() if _is_distributed() else 1


def process_index() -> int:
    return sys.modules["jax"].process_index() if _is_distributed() else 0


def _is_distributed() -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and jax.distributed.is_initialized()


def over_processes(values: Any) -> np.ndarray:
    """`values` of every process, along a new first axis."""
    own = np.atleast_1d(np.asarray(values))
    if process_count() > 1:
        from jax.experimental import multihost_utils

        # As bytes: JAX would cut eight-byte numbers to four by default.
        raw = np.frombuffer(own.tobytes(), np.uint8)
        gathered = np.asarray(multihost_utils.process_allgather(raw))
        all_of_them = np.frombuffer(gathered.tobytes(), own.dtype).reshape(-1, *own.shape)
    else:
        all_of_them = own[None]
    return all_of_them[:, 0] if np.ndim(values) == 0 else all_of_them


@contextmanager
def refused_together() -> Iterator[None]:
    """What one process refuses, or cannot read or write, is refused by all of them: the others
    would wait for it forever. Nothing inside may wait for other processes.
    """
    if process_count() == 1:
        yield
        return
    problem = ""
    try:
        yield
    except (ValueError, OSError) as error:
        problem = str(error) or type(error).__name__
    problems = [text for text in texts_of_processes(problem) if text]
    if problems:
        raise ValueError(problems[0])


def texts_of_processes(text: str) -> list[str]:
    """`text` of every process."""
    content = np.frombuffer(text.encode(), np.uint8)
    lengths = over_processes(np.int32(content.size))
    longest = max(1, int(lengths.max()))  # nothing at all cannot be gathered
    padded = over_processes(np.pad(content, (0, longest - content.size)))
    return [row[:n].tobytes().decode() for row, n in zip(padded, lengths, strict=True)]


def agreed_step(name: str, proposed: int | None) -> int | None:
    """What the first process to propose a number under this name has proposed; None so far.

    It goes through JAX's coordinator and waits for no other process.
    """
    from jax._src.distributed import global_state  # JAX has no public way to it

    client: Any = global_state.client
    key = f"dladmm/{name}"
    if proposed is not None:
        with suppress(RuntimeError):  # another one was first
            client.key_value_set(key, str(proposed))
    try:
        return int(client.key_value_try_get(key))
    except RuntimeError:  # nobody has
        return None
