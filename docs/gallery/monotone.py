"""A monotone network

Weights that are not negative make an output that rises in every input. The constraint is met exactly, in every
iteration: what is promised holds between the rows, too. A free network follows the rows up and
down. `stop_at_noise=False`, since the usual end of a fit comes far too early under this constraint.
"""

import matplotlib.pyplot as plt
import numpy as np
from dladmm import DLADMMRegressor

rng = np.random.default_rng(0)
size = np.sort(rng.uniform(0, 1, 120))
fashion = 0.3 * np.sin(7 * size)  # which the rows have, and nobody wants to promise
price = np.sqrt(size) + fashion + 0.05 * rng.normal(size=120)
rows, grid = size[:, None], np.linspace(0, 1, 400)[:, None]

settings = {"hidden_layer_sizes": (64, 64), "random_state": 0, "max_iter": 1000}
free = DLADMMRegressor(activation="tanh", tol=1e-4, **settings).fit(rows, price)
rising = DLADMMRegressor(
    activation="tanh", regularizer="non_negative", stop_at_noise=False, tol=1e-5, **settings
).fit(rows, price)
for name, model in (("free", free), ("monotone", rising)):
    falls = (np.diff(model.predict(grid)) < -1e-12).mean()
    print(f"{name}: falls in {falls:.0%} of the steps along the grid")
print("least weight of the monotone network:", min(float(W.min()) for W in rising.coefs_))

fig, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
axes.plot(size, price, "o", color="#8a8f98", ms=4, label="rows")
axes.plot(grid, free.predict(grid), "--", color="#d9822b", label="free")
axes.plot(grid, rising.predict(grid), color="#2a6fbb", lw=2.5, label="monotone")
axes.set(xlabel="size", ylabel="price")
axes.legend()
