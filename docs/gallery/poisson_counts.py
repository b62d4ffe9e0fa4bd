"""Counts

How many bicycles pass in an hour is a count: never negative, and the more there are the more they vary. The
Poisson loss knows both. A smooth rate wants a smooth activation: with ReLU the same network is far from done after
200 iterations.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import mean_poisson_deviance
from dladmm import DLADMMRegressor

rng = np.random.default_rng(0)
hour, warm = rng.uniform(0, 24, 3000), rng.uniform(-5, 30, 3000)


def rate(hour, warm):
    rush = np.exp(-((hour - 8) ** 2) / 3) + np.exp(-((hour - 17.5) ** 2) / 5)
    return (2 + 60 * rush) * np.exp((warm - 30) / 25)


bicycles = rng.poisson(rate(hour, warm))
rows = np.column_stack([hour, warm])
guesses = {"the truth itself": rate(hour[2000:], warm[2000:])}
for activation in ("relu", "tanh"):
    model = DLADMMRegressor((64, 64), activation=activation, loss="poisson", random_state=0)
    model.fit(rows[:2000], bicycles[:2000])
    guesses[f"the network, {activation}"] = model.predict(rows[2000:])
guesses["the mean"] = np.full(1000, bicycles[:2000].mean())
for name, guess in guesses.items():
    print(f"deviance of {name}: {mean_poisson_deviance(bicycles[2000:], guess):.2f}")

fig, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
day = np.linspace(0, 24, 300)
for degrees, colour in ((25, "#d9822b"), (5, "#2a6fbb")):
    axes.plot(
        day,
        model.predict(np.column_stack([day, np.full(300, degrees)])),
        color=colour,
        lw=2,
        label=f"network, tanh, {degrees} °C",
    )
    axes.plot(day, rate(day, degrees), "--", color=colour, lw=1, label=f"truth, {degrees} °C")
axes.set(xlabel="hour", ylabel="bicycles an hour")
axes.legend()
