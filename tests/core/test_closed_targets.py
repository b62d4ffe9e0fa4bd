"""Restored sweeps without a derivative: targets from the paper's own a and z updates."""

from dataclasses import dataclass

import jax
import numpy as np
import pytest
from problems import inputs, targets
from tolerances import ROUNDING, SEARCHED

from dladmm import Options, Problem, solve
from dladmm.core.methods import method_for
from dladmm.core.params import Params
from dladmm.core.restored import point
from dladmm.core.restored.point import closed_target, restore
from dladmm.terms.activations import Activation, PiecewiseLinear, Smooth, activations
from dladmm.terms.activations.piecewise import PiecewiseConstant

CONTINUOUS = [name for name in activations if activations.get(name).continuous]
SEVEN = ["sign", "step", "quantized_relu", "relu", "leaky_relu", "tanh", "sigmoid"]


def away_from_kinks(f, rng, n=400):
    z = rng.normal(size=(n, 5)) * 2
    left, right = f.slopes(z)
    near = np.any([np.abs(z - k) < 0.05 for k in getattr(f, "knots", ())] or [np.zeros_like(z)], 0)
    return np.where(near | (np.asarray(left) != np.asarray(right)), z + 0.2, z)


def errors_of_targets(f, rng):
    """How far targets are from the gradient at three steps of a, relative to its size."""
    z = away_from_kinks(f, rng)
    g = rng.normal(size=z.shape)
    gradient = np.asarray(f.times_slope(z, g))
    found = [np.asarray(closed_target(f, z, g, s)) for s in (0.1, 1e-2, 1e-3)]
    return [np.abs(r - gradient).mean() / np.abs(gradient).mean() for r in found]


@pytest.mark.parametrize("name", CONTINUOUS)
def test_targets_tend_to_the_gradient(name, rng):
    errors = errors_of_targets(activations.get(name), rng)
    assert errors[2] < 5e-3
    assert errors[2] <= errors[1] + ROUNDING / 1e-3
    assert errors[1] <= errors[0] + ROUNDING / 1e-2


@dataclass(frozen=True)
class Steep(PiecewiseLinear):
    """Slopes of which some are far above 1."""

    knots = (0.0, 1.0)
    pieces = ((0.5, 0.0), (8.0, 0.0), (3.0, 5.0))


STEEP = {"pieces": Steep(), "curve": Smooth(lambda z: 5 * jax.numpy.tanh(z))}


@pytest.mark.parametrize("f", STEEP.values(), ids=STEEP)
def test_targets_of_steep_activations_tend_to_the_gradient_too(f, rng, monkeypatch):
    errors = errors_of_targets(f, rng)
    assert errors[2] < 5e-3
    assert errors[2] <= errors[1] + ROUNDING / 1e-3
    assert errors[1] < errors[0]
    monkeypatch.setattr(point, "STEEPEST", 1.0)  # control: no slope is taken for more
    assert errors_of_targets(f, rng)[2] > 0.1


@pytest.mark.parametrize("name", CONTINUOUS)
def test_with_a_wrong_factor_they_do_not(name, rng):
    """Twice the way of z, right for slopes of 0 and 1 only; and the way of z itself for those."""
    f = activations.get(name)
    z = away_from_kinks(f, rng)
    g = rng.normal(size=z.shape)
    nu = np.sqrt((g**2).mean(1, keepdims=True)) / 1e-3
    way = nu * (z - np.asarray(f.argmin_z(z, np.asarray(f(z)) - g / nu)))
    gradient = np.asarray(f.times_slope(z, g))
    slopes = np.asarray(f.slopes(z)[0])
    factor = 1.0 if np.isin(slopes, (0, 1)).all() else 2.0
    some = (slopes > 0.1) & (slopes < 0.9) if factor == 2 else slopes == 1
    if some.any():
        assert np.abs(factor * way - gradient)[some].mean() > 0.1 * np.abs(gradient[some]).mean()
    else:  # slopes of next to 0 and 1 alone
        assert name == "leaky_relu"
        low = slopes < 0.1
        assert np.abs(2 * way - gradient)[low].mean() > 0.9 * np.abs(gradient[low]).mean()


def test_a_dead_unit_is_revived_where_the_gradient_asks_for_it():
    """First-order targets of ReLU are 0 below 0; the argmin goes up where that is better."""
    f = activations.get("relu")
    z, g = np.array([[-0.1, -0.1, 2.0]]), np.array([[-1.0, 1.0, 0.0]])
    r = np.asarray(closed_target(f, z, g, 1.0))
    np.testing.assert_array_equal(f.times_slope(z, g), [[0, 0, 0]])
    assert r[0, 0] == pytest.approx(-1.0)  # revived: all of the gradient
    assert r[0, 1] == 0  # what asks for less cannot have less


def test_no_gradient_gives_no_target():
    for name in SEVEN:
        z, g = inputs(4, 3), np.zeros((4, 3))
        r = closed_target(activations.get(name), z, g, 0.3)
        np.testing.assert_allclose(r, g, rtol=0, atol=1e-100)


@dataclass(frozen=True)
class Underived(Activation):
    """An activation through whose derivative no gradient can pass."""

    f: Activation

    any_arrays = True

    def __call__(self, z):
        return self.f(z)

    def argmin_z(self, m, a):
        return self.f.argmin_z(m, a)

    def slopes(self, z):
        raise AssertionError("a derivative was taken")


def run(activation, targets_="closed", **more):
    x = inputs(200, 6)
    problem = Problem.dense((6, 16, 16, 3), activation)
    options = {"targets": targets_, "max_iter": 40, "tol": None, "stop_at_noise": False}
    options |= {"dtype": "float64", "seed": 3} | more
    return solve(problem, x, targets("log_loss", x), options=Options(**options))


@pytest.mark.parametrize("activation", SEVEN)
@pytest.mark.parametrize("engine", ["numpy", "jax"])
def test_the_true_loss_never_rises(activation, engine):
    result = run(activation, engine=engine)
    losses = np.array([np.inf, *result.history["lagrangian"]])
    assert (np.diff(losses) <= 0).all()
    assert losses[-1] < 0.9 * losses[1]
    assert result.certificate.rises == 0
    assert PASSED_NONE in result.certificate.theorems["Guarantee"]


PASSED_NONE = "; no gradient passed through the derivative of an activation"


@pytest.mark.parametrize(
    ("activation", "targets_", "words"),
    [
        (("relu", "tanh"), "first-order", " by a share of what its slope promises"),
        (("sign", "relu"), "first-order", "; the targets of activations 1 are closed, gradients"),
        (("tanh", "step"), "first-order", "; the targets of activations 2 are closed, gradients"),
        (("sign", "step"), "first-order", PASSED_NONE),
        (("sign", "relu"), "closed", PASSED_NONE),
    ],
)
def test_a_guarantee_says_which_derivatives_gradients_passed(activation, targets_, words):
    result = run(activation, targets_, engine="numpy", max_iter=3)
    said = result.certificate.theorems["Guarantee"]
    assert said.startswith(f"every accepted step lowers the true loss{words}")


@pytest.mark.parametrize("name", CONTINUOUS)
def test_no_gradient_passes_through_a_derivative(name):
    how, f = {"engine": "numpy", "max_iter": 10}, Underived(activations.get(name))
    assert run(f, **how).history["lagrangian"] == run(name, **how).history["lagrangian"]
    control = Problem.dense((6, 16, 3), f)
    with pytest.raises(AssertionError, match="a derivative was taken"):
        solve(control, inputs(20, 6), np.eye(3)[[0] * 20], options=Options())


def searched(f, m, a):
    """argmin_z by looking at f alone, on ever finer grids between z = m and f(z) = a."""
    z, width = m, np.abs(np.asarray(f(m)) - a)
    for _ in range(12):
        grid = z[..., None] + width[..., None] * np.linspace(-1, 1, 201)
        costs = (grid - m[..., None]) ** 2 + (np.asarray(f(grid)) - a[..., None]) ** 2
        z = np.take_along_axis(grid, costs.argmin(-1)[..., None], -1)[..., 0]
        width = width / 20
    return z


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "softplus", "elu"])
def test_targets_of_curves_are_what_a_search_without_derivatives_finds(name, rng, monkeypatch):
    """Newton's method, by which argmin_z of a curve is found, reads f' to get there, no more."""
    f = activations.get(name)
    z, g = rng.normal(size=(2, 50, 5))
    expected = np.asarray(closed_target(f, z, g, 0.1))
    monkeypatch.setattr(Smooth, "argmin_z", searched)
    found = np.asarray(closed_target(f, z, g, 0.1))
    np.testing.assert_allclose(found, expected, rtol=0, atol=SEARCHED * np.abs(g).max())


def test_it_is_another_method_than_first_order_but_for_sign_and_step():
    for activation, same in (("relu", False), ("tanh", False), ("sign", True)):
        one, other = (
            run(activation, how).history["lagrangian"][-1] for how in ("closed", "first-order")
        )
        assert (one == other) is same


def test_mini_batches_take_closed_targets_too():
    losses = run("tanh", batch_size=20, max_iter=10).history["train_loss"]
    assert losses[-1] < 0.6 * losses[0]


def test_the_gradient_of_a_network_is_the_limit_of_its_targets(monkeypatch):
    """Through all layers, against JAX's own gradient."""
    x = inputs(50, 6)
    y = targets("log_loss", x)
    problem = Problem.dense((6, 8, 8, 3), "tanh")
    rng = np.random.default_rng(4)
    W = tuple(rng.normal(size=layer.weight_shape) / 2 for layer in problem.layers)
    params = Params(W, tuple(np.zeros(layer.bias_shape) for layer in problem.layers))
    closed = method_for(problem, Options(targets="closed")).problem

    def loss(params):
        a = x
        for l, (W, b) in enumerate(zip(params.W, params.b, strict=True)):
            z = a @ W.T + b
            a = jax.numpy.tanh(z) if l < 2 else z
        return problem.loss.value(z, y).sum()

    exact = jax.grad(loss)(params)
    errors = []
    for share in (0.1, 1e-2, 1e-3):
        monkeypatch.setattr(point, "SHARE", share)
        found = restore(closed, params, x, y)
        W1 = found.targets[0].T @ x
        errors.append(np.abs(W1 - exact.W[0]).max() / np.abs(exact.W[0]).max())
    assert errors[2] < 2e-3
    assert errors[2] < errors[1] < errors[0]


def test_piecewise_constant_functions_have_no_slope_to_use():
    assert not PiecewiseConstant.uses_slope
    assert all(activations.get(name).uses_slope for name in CONTINUOUS)
