"""What an activation is: f and the global argmin_z of its subproblem.

Every activation solves, elementwise and globally (equations 4 and 14 of the paper, where both
terms carry the weight nu/2 and so the weight drops out),

    argmin_z (z - m)^2 + (f(z) - a)^2.
"""

from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

from dladmm.engine.arrays import Array, xp
from dladmm.terms.registry import needs_jax


@dataclass(frozen=True)
class Activation:
    """The contract: f, its argmin_z, and its one-sided slopes for the subgradient.

    Assumption 1 of the paper asks for a `continuous` f; the certificate says if it is. uses_slope:
    whether its derivative says how a gradient passes through it. pools: whether f(z) has one number
    for several of z.
    """

    continuous: ClassVar[Any] = True
    uses_slope: ClassVar[Any] = True
    pools: ClassVar[bool] = False

    @property
    def has_slopes(self) -> bool:
        """Whether it says how a gradient passes through it."""
        return type(self).slopes is not Activation.slopes

    @property
    def has_argmin(self) -> bool:
        """Whether it has an argmin_z."""
        return type(self).argmin_z is not Activation.argmin_z

    def out_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of f(z) of one sample, z of this shape: the same, unless f pools.

        Parameters
        ----------
        shape : tuple of int
            Of z.

        Returns
        -------
        tuple of int
            Of f(z).
        """
        return shape

    def __call__(self, z: Array) -> Array:
        """f(z), elementwise.

        Parameters
        ----------
        z : array
            Any numbers.

        Returns
        -------
        array
            f(z).
        """
        raise TypeError(f"{type(self).__name__} does not define f")

    def argmin_z(self, m: Array, a: Array) -> Array:
        """Global argmin_z (z - m)^2 + (f(z) - a)^2, elementwise.

        Parameters
        ----------
        m, a : array
            What z and f(z) should be near to.

        Returns
        -------
        array
            z, shaped like m.
        """
        raise TypeError(f"{type(self).__name__} does not define argmin_z")

    def slopes(self, z: Array) -> tuple[Array, Array]:
        """The left and the right derivative of f at z, elementwise.

        Parameters
        ----------
        z : array
            Where.

        Returns
        -------
        tuple of array
            Both derivatives, shaped like z.
        """
        raise TypeError(f"{type(self).__name__} does not define slopes")

    def times_slope(self, z: Array, g: Array) -> Array:
        """f'(z) g with the left derivative, elementwise: how a gradient passes through f.

        Parameters
        ----------
        z : array
            Where.
        g : array
            A gradient in f(z).

        Returns
        -------
        array
            The gradient in z.
        """
        return self.slopes(z)[0] * g

    def for_each_z(self, v: Array, z: Array) -> Array:
        """What v says of each f(z), said of each z: the same, unless f pools.

        Parameters
        ----------
        v : array
            A number for each f(z).
        z : array
            What f was taken of.

        Returns
        -------
        array
            A number for each z.
        """
        return v


@dataclass(frozen=True)
class WithoutSlope(Activation):
    """f as it is, but for its derivative, which nobody is to take."""

    uses_slope: ClassVar[bool] = False

    f: Activation

    @property
    def continuous(self) -> bool:
        return bool(self.f.continuous)

    @property
    def needs_jax(self) -> bool:
        return needs_jax(self.f)

    @property
    def has_argmin(self) -> bool:
        return self.f.has_argmin

    def out_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return self.f.out_shape(shape)

    def for_each_z(self, v: Array, z: Array) -> Array:
        return self.f.for_each_z(v, z)

    def __call__(self, z: Array) -> Array:
        return self.f(z)

    def argmin_z(self, m: Array, a: Array) -> Array:
        return self.f.argmin_z(m, a)


def best(candidates: list[tuple[Array, Array]]) -> Array:
    """The z of the (z, cost) pair with the lowest cost; ties go to the earlier pair."""
    return reduce(
        lambda best, new: (
            xp.where(new[1] < best[1], new[0], best[0]),
            xp.minimum(new[1], best[1]),
        ),
        candidates,
    )[0]
