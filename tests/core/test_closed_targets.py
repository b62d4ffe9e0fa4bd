"""Restored sweeps without a derivative: targets from the paper's own a and z updates."""

import jax
import numpy as np
import pytest
from problems import inputs, targets
from tolerances import ROUNDING

from dladmm import Options, Problem, solve
from dladmm.core.methods import method_for
from dladmm.core.params import Params
from dladmm.core.restored.point import closed_target, restore
from dladmm.terms.activations import Activation, activations
from dladmm.terms.activations.piecewise import PiecewiseConstant

CONTINUOUS = [name for name in activations if activations.get(name).continuous]
SEVEN = ["sign", "step", "quantized_relu", "relu", "leaky_relu", "tanh", "sigmoid"]


def away_from_kinks(f, rng, n=400):
    z = rng.normal(size=(n, 5)) * 2
    left, right = f.slopes(z)
    near = np.any([np.abs(z - k) < 0.05 for k in getattr(f, "knots", ())] or [np.zeros_like(z)], 0)
    return np.where(near | (np.asarray(left) != np.asarray(right)), z + 0.2, z)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_targets_tend_to_the_gradient(name, rng):
    f = activations.get(name)
    z = away_from_kinks(f, rng)
    g = rng.normal(size=z.shape)
    gradient = np.asarray(f.times_slope(z, g))
    errors = [
        np.abs(np.asarray(closed_target(f, z, g, s)) - gradient).mean() for s in (0.1, 1e-2, 1e-3)
    ]
    scale = np.abs(gradient).mean()
    assert errors[2] < 5e-3 * scale
    assert errors[2] <= errors[1] + ROUNDING * scale / 1e-3
    assert errors[1] <= errors[0] + ROUNDING * scale / 1e-2


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


class Underived(Activation):
    """ReLU whose derivative cannot be taken."""

    any_arrays = True

    def __call__(self, z):
        return activations.get("relu")(z)

    def argmin_z(self, m, a):
        return activations.get("relu").argmin_z(m, a)

    def times_slope(self, z, g):
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
    assert "no derivative of an activation was taken" in result.certificate.theorems["Guarantee"]


def test_no_derivative_is_taken():
    assert run(Underived()).history["lagrangian"] == run("relu").history["lagrangian"]
    with pytest.raises(ValueError, match="needs the slopes of activation 1"):
        run(Underived(), "first-order")  # control: those are asked for


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
    from dladmm.core.restored import point

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
