"""Counts

How many bicycles pass in an hour is a count: never negative, and the more there are the more they vary. The
Poisson loss knows both.

Settings: the activation was chosen on 1,000 rows held out, by the script itself; it is judged on 1,000 others.
Everything else is the default but for two layers of 64.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import mean_poisson_deviance
from dladmm import DLADMMRegressor

rng = np.random.default_rng(0)
hour, warm = rng.uniform(0, 24, 4000), rng.uniform(-5, 30, 4000)


def rate(hour, warm):
    rush = np.exp(-((hour - 8) ** 2) / 3) + np.exp(-((hour - 17.5) ** 2) / 5)
    return (2 + 60 * rush) * np.exp((warm - 30) / 25)


bicycles = rng.poisson(rate(hour, warm))
rows = np.column_stack([hour, warm])
train, held_out, test = slice(0, 2000), slice(2000, 3000), slice(3000, 4000)
models, found = {}, {}
for activation in ("relu", "tanh"):
    model = DLADMMRegressor((64, 64), activation=activation, loss="poisson", random_state=0)
    models[activation] = model.fit(rows[train], bicycles[train])
    found[activation] = mean_poisson_deviance(bicycles[held_out], model.predict(rows[held_out]))
    print(f"deviance of {activation} on the rows held out: {found[activation]:.2f}")
chosen = min(found, key=found.get)
model = models[chosen]

guesses = {
    "the truth itself": rate(hour[test], warm[test]),
    f"the network, {chosen}": model.predict(rows[test]),
    "the mean": np.full(1000, bicycles[train].mean()),
}
for name, guess in guesses.items():
    print(f"deviance of {name} on other rows: {mean_poisson_deviance(bicycles[test], guess):.2f}")

fig, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
day = np.linspace(0, 24, 300)
for degrees, colour in ((25, "#d9822b"), (5, "#2a6fbb")):
    axes.plot(
        day,
        model.predict(np.column_stack([day, np.full(300, degrees)])),
        color=colour,
        lw=2,
        label=f"network, {chosen}, {degrees} °C",
    )
    axes.plot(day, rate(day, degrees), "--", color=colour, lw=1, label=f"truth, {degrees} °C")
axes.set(xlabel="hour", ylabel="bicycles an hour")
axes.legend()
