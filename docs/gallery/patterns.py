"""A one-dimensional convolution finds a pattern wherever it is

Each signal is noise with one of three short pulses somewhere in it. Eight filters of 15 steps slide over the signal; the
largest answer of each one says whether its pattern is there, and the filters come to look like the pulses.

Settings: filters, their length and 30 epochs are round numbers and were not compared with others on these signals. The
accuracy illustrates; it is no benchmark.
"""

import matplotlib.pyplot as plt
import numpy as np
from dladmm import Conv1D, Dense, DLADMMClassifier, MaxPool, Network

rng = np.random.default_rng(0)
steps = np.linspace(-1, 1, 15)
bump = np.exp(-8 * steps**2)
pulses = {"bump": bump, "swing": 2 * steps * bump, "burst": np.cos(9 * steps) * bump}


def draw(count, noise=0.3):
    classes = rng.integers(0, 3, count)
    signals = rng.normal(0, noise, (count, 100, 1))
    for signal, c in zip(signals, classes):
        at = rng.integers(0, 86)
        signal[at : at + 15, 0] += list(pulses.values())[c]
    return signals, np.array(list(pulses))[classes]


network = Network((100, 1), [Conv1D(8, 15), "relu", MaxPool(86), Dense(3)])
print(network.summary())
model = DLADMMClassifier(network=network, batch_size=64, max_iter=30, random_state=0)
model.fit(*draw(2000))
noises = (0.1, 0.2, 0.3, 0.4, 0.5)
scores = [model.score(*draw(1000, noise)) for noise in noises]
print(f"new signals that are right, trained with noise of 0.3: {scores[2]:.1%}")
print(f"with noise of 0.5: {scores[4]:.1%}")

fig = plt.figure(figsize=(10, 5), layout="constrained")
top, bottom = fig.subfigures(2, 1)
left, middle, right = top.subplots(1, 3)
(signal,), (name,) = draw(1)
left.plot(signal[:, 0], color="#2a6fbb")
left.set(title=f"a signal: somewhere is a {name}", xlabel="step")
for name, pulse in pulses.items():
    middle.plot(pulse, label=name)
middle.set(title="the pulses", xlabel="step")
middle.legend(fontsize=8)
right.plot(noises, scores, "o-", color="#2a6fbb")
right.set(title="share of new signals that is right", xlabel="noise", ylim=(0, 1.02))
bottom.suptitle("the eight filters")
for k, ax in enumerate(bottom.subplots(1, 8, sharey=True)):
    ax.plot(model.coefs_[0][:, k], color="#d1495b")
    ax.axhline(0, color="gray", lw=0.5)
    ax.set_xticks([])
