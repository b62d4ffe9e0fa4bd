"""kfac-jax at full batch, in a process of its own that may have another JAX; run by `kfac.py`.

Nothing of this library is imported. Named a folder and a first damping, it reads data and weights
from `given.npz` there, compiles by steps thrown away, and then makes one step for every line it
reads: the network is `made.npz`, the step's own seconds are the answer.
"""

import itertools
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import kfac_jax
import numpy as np

Layers = list[tuple[Any, Any]]
THROWN_AWAY = 6  # its damping is adapted in every fifth step, by a program of its own


def loss(layers: Layers, batch: tuple[Any, Any]) -> Any:
    """The mean log-loss of a ReLU network."""
    x, labels = batch
    for W, b in layers[:-1]:
        x = jax.nn.relu(x @ W + b)
    W, b = layers[-1]
    z = x @ W + b
    kfac_jax.register_softmax_cross_entropy_loss(z, labels)
    rows = jnp.arange(z.shape[0])
    return -jnp.mean(jax.nn.log_softmax(z)[rows, labels])


def serve(folder: Path, damping: float, answer: Any) -> None:
    """Rate, momentum and damping follow its own quadratic model, as its documentation has it."""
    with np.load(folder / "given.npz") as given:
        batch = (jnp.asarray(given["x"]), jnp.asarray(given["labels"]))
        count = sum(name.startswith("W") for name in given.files)
        given_layers = [(given[f"W{l}"], given[f"b{l}"]) for l in range(count)]
        seed = int(given["seed"])
    optimizer = kfac_jax.Optimizer(
        value_and_grad_func=jax.value_and_grad(loss),
        l2_reg=0.0,
        use_adaptive_learning_rate=True,
        use_adaptive_momentum=True,
        use_adaptive_damping=True,
        initial_damping=damping,
        multi_device=False,
    )
    rows = itertools.repeat(batch)

    def begin() -> tuple[Any, Any, Any]:
        layers = jax.tree.map(jnp.array, given_layers)  # copies: a step takes its arguments over
        key, first = jax.random.split(jax.random.PRNGKey(seed))
        return layers, optimizer.init(layers, first, batch), key

    def step(k: int, layers: Any, state: Any, key: Any) -> tuple[Any, Any, Any]:
        key, own = jax.random.split(key)
        new, state, _ = optimizer.step(layers, state, own, data_iterator=rows, global_step_int=k)
        return jax.block_until_ready((new, state, key))

    run = begin()
    for k in range(THROWN_AWAY):
        run = step(k, *run)
    run = jax.block_until_ready(begin())
    answer({"ready": True})
    for k, _ in enumerate(sys.stdin):
        began = time.perf_counter()
        run = step(k, *run)
        seconds = time.perf_counter() - began
        W, b = zip(*run[0], strict=True)
        layers = {f"W{l}": V for l, V in enumerate(W)} | {f"b{l}": v for l, v in enumerate(b)}
        np.savez(folder / "made.npz", **layers)
        answer({"seconds": seconds})


def main() -> None:
    # What a library prints must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(what: dict[str, Any]) -> None:
        print(json.dumps(what), file=answers, flush=True)

    serve(Path(sys.argv[1]), float(sys.argv[2]), answer)


if __name__ == "__main__":
    main()
