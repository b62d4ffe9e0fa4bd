"""Losses R(z; y): value, gradient, Lipschitz constant H of the gradient, prox, prediction link.

Each is a sum over samples of a convex function of that sample's row of z. The last layer's
subproblem (equations 5 and 15 of the paper) is, per sample,

    prox(q, u, y, rho) = argmin_z R(z; y) + <u, z - q> + rho/2 |z - q|^2,   q = p_L + b_L.

u is kept apart from q: at the paper's rho = 1e-6 the shifted centre q - u/rho would lose all
digits of q in float32.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dladmm.engine.arrays import Array, xp
from dladmm.engine.loops import repeat


@dataclass(frozen=True)
class Loss:
    """The contract. `lipschitz` is H; infinity where the gradient is not Lipschitz.

    classifies: whether targets are rows of 0 and 1, so that accuracy is defined; one-hot rows, or
    with `multilabel` any, where a row counts as right if all its labels are. one_vs_rest: whether
    two classes need one output only, and K classes K independent ones. has_noise_level: whether R
    is the negative log-likelihood of Gaussian noise but for its variance, which is then to be
    estimated; log-losses are likelihoods as they are.
    """

    lipschitz: ClassVar[float] = float("inf")
    classifies: ClassVar[bool] = False
    one_vs_rest: ClassVar[bool] = False
    multilabel: ClassVar[bool] = False
    has_noise_level: ClassVar[bool] = False

    def check_targets(self, y: np.ndarray) -> None:
        """ValueError if y, already two-dimensional and finite, does not fit this loss.

        Parameters
        ----------
        y : array
            The targets, a row for each sample.
        """

    def value(self, z: Array, y: Array) -> Array:
        """R(z_i; y_i) for each sample i, shape (N,).

        Parameters
        ----------
        z : array
            The outputs, a row for each sample.
        y : array
            The targets, a row for each sample.

        Returns
        -------
        array
            A number for each sample.
        """
        raise TypeError(f"{type(self).__name__} does not define value")

    def gradient(self, z: Array, y: Array) -> Array:
        """dR/dz, shaped like z.

        Parameters
        ----------
        z : array
            The outputs, a row for each sample.
        y : array
            The targets, a row for each sample.

        Returns
        -------
        array
            The gradient, shaped like z.
        """
        raise TypeError(f"{type(self).__name__} does not define gradient")

    def value_and_gradient(self, z: Array, y: Array) -> tuple[Array, Array]:
        """Both; a loss whose two share most of their work says so here.

        Parameters
        ----------
        z : array
            The outputs, a row for each sample.
        y : array
            The targets, a row for each sample.

        Returns
        -------
        tuple of array
            What `value` and `gradient` return.
        """
        return self.value(z, y), self.gradient(z, y)

    def stationarity(self, z: Array, y: Array, u: Array) -> Array:
        """The distance of -u to dR(z), elementwise: zero where Lemma 2 holds.

        Parameters
        ----------
        z : array
            The outputs, a row for each sample.
        y : array
            The targets, a row for each sample.
        u : array
            The dual, shaped like z.

        Returns
        -------
        array
            Distances, shaped like z.
        """
        return xp.abs(self.gradient(z, y) + u)

    def curvature_roots(self, z: Array, y: Array) -> Array | None:
        """Vectors c_k of each sample, (N, k, outputs), with sum_k c_k c_k^T the Hessian of R in z;
        None where R has kinks, so that no second derivative says how it bends.

        Parameters
        ----------
        z : array
            The outputs, a row for each sample.
        y : array
            The targets, a row for each sample.

        Returns
        -------
        array or None
            The vectors, if the Hessian is known.
        """
        return None

    def standardised(self, y: np.ndarray, weights: np.ndarray | None) -> tuple[Any, Any, Any]:
        """(centre, scale, loss): what to train on (y - centre)/scale with, for any unit of y.

        Parameters
        ----------
        y : array
            The targets, a row for each sample.
        weights : array or None
            How much each sample counts.

        Returns
        -------
        tuple
            The centre, the scale and the loss.
        """
        return 0.0, 1.0, self

    def prox(self, q: Array, u: Array, y: Array, rho: Array, z: Array) -> tuple[Array, Array]:
        """argmin_z R(z; y) + <u, z - q> + rho/2 |z - q|^2 from the start z, and iterations used.

        Parameters
        ----------
        q : array
            The centre, a row for each sample.
        u : array
            The dual, shaped like q.
        y : array
            The targets, a row for each sample.
        rho : array
            The penalty, a number.
        z : array
            Where to begin.

        Returns
        -------
        tuple of array
            z, and how many iterations it took.
        """
        raise TypeError(f"{type(self).__name__} does not define prox")

    def predict(self, z: Array) -> Array:
        """What the network's output z stands for: probabilities, or the values themselves.

        Parameters
        ----------
        z : array
            The outputs, a row for each sample.

        Returns
        -------
        array
            A row for each sample.
        """
        return z

    def target_scale(self, y: np.ndarray, weights: np.ndarray | None) -> tuple[Any, Any]:
        """The centre and the spread of what an output starts with, one each or one per output.

        Parameters
        ----------
        y : array
            The targets, a row for each sample.
        weights : array or None
            How much each sample counts.

        Returns
        -------
        tuple
            The centre and the spread.
        """
        return 0.0, 1.0

    def initial_output(self, y: Array) -> Array:
        """The z_L a run of the authors' code starts from: +-1 for classes.

        Parameters
        ----------
        y : array
            The targets, a row for each sample.

        Returns
        -------
        array
            z_L, shaped like y.
        """
        return 2 * y - 1 if self.classifies else y


def wright_omega(x: Array) -> Array:
    """The w > 0 with w + ln w = x, by Newton on that equation from an asymptotic start."""
    w = xp.where(x > 1, x - xp.log(xp.maximum(x, 1.0)), xp.exp(xp.minimum(x, 1.0) - 0.5))
    w = xp.maximum(w, np.finfo(x.dtype).tiny)

    def improve(w: Array) -> Array:
        # In ln w the equation is convex and Newton cannot leave w > 0.
        # Kept above zero: at w = 0 the next log would give 0 * inf.
        w = w * xp.exp((x - w - xp.log(w)) / (1 + w))
        return xp.maximum(w, np.finfo(x.dtype).tiny)

    return repeat(6, improve, w)
