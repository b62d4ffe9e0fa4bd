"""A monotone network

Weights that are not negative make an output that rises in every input. The constraint is met exactly, in every
iteration: what is promised holds between the rows, too. A free network follows the rows up and down.

Settings: activation, `tol` and `stop_at_noise` were chosen for each network on 60 rows held out, from the same list,
by the script itself.
"""

import itertools
import matplotlib.pyplot as plt
import numpy as np
from dladmm import DLADMMRegressor

rng = np.random.default_rng(0)
size = np.sort(rng.uniform(0, 1, 180))
fashion = 0.3 * np.sin(7 * size)  # which the rows have, and nobody wants to promise
price = np.sqrt(size) + fashion + 0.05 * rng.normal(size=180)
rows, grid = size[:, None], np.linspace(0, 1, 400)[:, None]
held_out = np.arange(180) % 3 == 1


def best_of(regularizer):
    """The fit that does best on the rows held out."""
    tried = []
    for activation, tol, stop in itertools.product(("relu", "tanh"), (1e-4, 1e-5), (True, False)):
        model = DLADMMRegressor(
            (64, 64),
            activation,
            tol=tol,
            stop_at_noise=stop,
            regularizer=regularizer,
            max_iter=1000,
            random_state=0,
        )
        model.fit(rows[~held_out], price[~held_out])
        tried.append((model.score(rows[held_out], price[held_out]), model))
    return max(tried, key=lambda one: one[0])


fits = {"free": best_of(None), "monotone": best_of("non_negative")}
for name, (r2, model) in fits.items():
    print(
        f"{name}: {model.activation}, tol={model.tol:g}, stop_at_noise={model.stop_at_noise},"
        f" R2 {r2:.2f} on the rows that chose it"
    )
    falls = (np.diff(model.predict(grid)) < -1e-12).mean()
    print(f"  falls in {falls:.0%} of the steps along the grid")
free, rising = fits["free"][1], fits["monotone"][1]
print("least weight of the monotone network:", min(float(W.min()) for W in rising.coefs_))

fig, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
axes.plot(size, price, "o", color="#8a8f98", ms=4, label="rows")
axes.plot(grid, free.predict(grid), "--", color="#d9822b", label="free")
axes.plot(grid, rising.predict(grid), color="#2a6fbb", lw=2.5, label="monotone")
axes.set(xlabel="size", ylabel="price")
axes.legend()
