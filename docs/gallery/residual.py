"""A residual network: what the skips do for depth

Ten convolutions one after the other on the handwritten digits, once with skips around pairs of them and once
without, everything else alike. A skip adds its input to what the pair computes, so that each pair learns what is
to be changed.

Settings: channels, depth and 15 epochs are round numbers and were not compared with others, and both networks have one
seed. The curves illustrate; they are no benchmark.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from dladmm import Conv2D, Dense, DLADMMClassifier, GlobalAveragePool, Network, Residual

digits = load_digits()
split = train_test_split(digits.images / 16, digits.target, random_state=0)
X_train, X_test, y_train, y_test = split


def build(skips):
    def pair(k, strides):
        first = Conv2D(k, 3, strides=strides, padding="same")
        return [first, "relu", Conv2D(k, 3, padding="same")]

    blocks = [pair(8, 1), pair(8, 1), pair(16, 2), pair(16, 1)]
    layers = [Conv2D(8, 3, padding="same"), "relu"]
    for block in blocks:
        layers += [*([Residual(block)] if skips else block), "relu"]
    return Network((8, 8, 1), [*layers, GlobalAveragePool(), Dense(10)])


print(build(skips=True).summary())
models = {}
for name, skips in (("with skips", True), ("without", False)):
    model = DLADMMClassifier(network=build(skips), batch_size=64, max_iter=15, random_state=0)
    models[name] = model.fit(X_train, y_train)
    right = model.score(X_test, y_test)
    print(f"{name}: training loss {model.loss_:.3f}, {right:.1%} of new digits are right")

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for (name, model), colour in zip(models.items(), ("#2a6fbb", "#d1495b")):
    left.semilogy(range(1, 16), model.loss_curve_, color=colour, label=name)
    wrong = model.predict(X_test) != y_test
    shares = [wrong[y_test == digit].mean() for digit in range(10)]
    place = np.arange(10) + (-0.2 if name == "with skips" else 0.2)
    right.bar(place, shares, 0.4, color=colour, label=name)
left.set(xlabel="epoch", ylabel="training loss", title="the loss of each epoch")
right.set(xlabel="digit", xticks=range(10), title="share of new digits that are wrong")
left.legend()
