"""A layer of one's own: one class and one registry line, and the shared tests pick it up."""

from dataclasses import dataclass

import jax.numpy as jnp

from dladmm.terms.layers import Layer, layers


@dataclass(frozen=True)
class Selected(Layer):
    """A dense layer behind a fixed mask: its units see only the inputs that are named."""

    inputs: int
    seen: tuple[int, ...]
    outputs: int

    @property
    def in_shape(self):
        return (self.inputs,)

    @property
    def out_shape(self):
        return (self.outputs,)

    @property
    def fan_in(self):
        return len(self.seen)

    def expand(self, a):
        return a[:, jnp.asarray(self.seen)]

    def collapse(self, rows):
        nothing = jnp.zeros((rows.shape[0], self.inputs), rows.dtype)
        return nothing.at[:, jnp.asarray(self.seen)].add(rows)

    @classmethod
    def example(cls):
        return cls(5, (0, 2, 3), 4)


layers.register("selected", Selected.example)


def layers_under_test():
    """One of each registered layer."""
    return [layers.get(name) for name in layers]
