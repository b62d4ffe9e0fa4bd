"""Bands by quantiles

Noise that grows with x, and is not a bell curve. Networks for two quantiles make a band that is as wide as it has to
be. The loss has a kink, where a method that checks every step against it may stop early; mini-batches do not check.

Settings: full batch or mini-batches, and the activation, were chosen on 500 rows held out by the loss itself, by the
script; how many rows lie below a quantile is counted on 500 others.
"""

import itertools
import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import mean_pinball_loss
from dladmm import DLADMMRegressor, Quantile

rng = np.random.default_rng(0)
x = rng.uniform(0, 4, 2000)
y = np.sin(2 * x) + (0.1 + 0.25 * x) * rng.gamma(2.0, 0.7, 2000)
rows, grid = x[:, None], np.linspace(0, 4, 300)[:, None]
train, held_out, test = slice(0, 1000), slice(1000, 1500), slice(1500, 2000)

fig, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
axes.plot(x, y, ".", color="#8a8f98", ms=2)
bands = {}
for q in (0.05, 0.5, 0.95):
    tried = []
    for activation, size in itertools.product(("relu", "tanh"), (None, 64)):
        model = DLADMMRegressor(
            (32, 32), activation, loss=Quantile(q), batch_size=size, random_state=0
        )
        model.fit(rows[train], y[train])
        loss = mean_pinball_loss(y[held_out], model.predict(rows[held_out]), alpha=q)
        tried.append((loss, model))
    loss, model = min(tried, key=lambda one: one[0])
    bands[q] = model.predict(grid)
    below = (y[test] < model.predict(rows[test])).mean()
    size = f"mini-batches of {model.batch_size}" if model.batch_size else "full batch"
    print(f"quantile {q:.0%}: {model.activation}, {size}; {below:.1%} of new rows lie below it")
axes.fill_between(grid[:, 0], bands[0.05], bands[0.95], color="#2a6fbb", alpha=0.2)
axes.plot(grid, bands[0.5], color="#2a6fbb", lw=2)
axes.set(xlabel="x", ylabel="y")
