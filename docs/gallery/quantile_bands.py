"""Bands by quantiles

Noise that grows with x, and is not a bell curve. Two networks for two quantiles make a band that is as wide as it
has to be. The loss has a kink, where a method that checks every step against it may stop early: mini-batches do not.
"""

import matplotlib.pyplot as plt
import numpy as np
from dladmm import DLADMMRegressor, Quantile

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 4, 1500))
y = np.sin(2 * x) + (0.1 + 0.25 * x) * rng.gamma(2.0, 0.7, 1500)
rows, grid = x[:, None], np.linspace(0, 4, 300)[:, None]

fig, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
axes.plot(x, y, ".", color="#8a8f98", ms=2)
bands = {}
for q in (0.05, 0.5, 0.95):
    model = DLADMMRegressor(
        (32, 32), activation="tanh", loss=Quantile(q), batch_size=64, random_state=0
    )
    model.fit(rows, y)
    bands[q] = model.predict(grid)
    below = (y < model.predict(rows)).mean()
    print(f"{below:.1%} of the rows lie below the quantile {q:.0%}")
axes.fill_between(grid[:, 0], bands[0.05], bands[0.95], color="#2a6fbb", alpha=0.2)
axes.plot(grid, bands[0.5], color="#2a6fbb", lw=2)
axes.set(xlabel="x", ylabel="y")
