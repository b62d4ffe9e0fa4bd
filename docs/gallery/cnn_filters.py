"""A convolutional network: its filters, its curve and its mistakes

The same estimator with a `Network`: two convolutions with max pooling on the handwritten digits. No rate is
chosen; the loss is watched, and the certificate says what became of it.

Settings: the layers and 20 epochs are round numbers and were not compared with others; `batch_size="auto"` is the rule
of the library. The accuracy illustrates; it is no benchmark.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from dladmm import Conv2D, Dense, DLADMMClassifier, MaxPool, Network

digits = load_digits()
split = train_test_split(digits.images / 16, digits.target, random_state=0)
X_train, X_test, y_train, y_test = split
network = Network(
    (8, 8, 1),
    [Conv2D(16, 3, padding="same"), "relu", MaxPool(2), Conv2D(32, 3), "relu", Dense(10)],
)
print(network.summary())
model = DLADMMClassifier(network=network, batch_size="auto", max_iter=20, random_state=0)
model.fit(X_train, y_train)
found = model.predict(X_test)
wrong = np.flatnonzero(found != y_test)
print(
    f"{len(wrong)} of {len(y_test)} new digits are wrong: {np.mean(found == y_test):.1%} are right"
)

fig = plt.figure(figsize=(9, 5.5), layout="constrained")
curve, filters, mistakes = fig.subfigures(1, 3, width_ratios=(1.3, 1, 1))
axes = curve.subplots()
axes.semilogy(model.loss_curve_, color="#2a6fbb")
axes.set(xlabel="epoch", ylabel="training loss", title="the loss of each epoch")
filters.suptitle("the 16 filters")
for k, ax in enumerate(filters.subplots(4, 4).flat):
    ax.imshow(model.coefs_[0][:, k].reshape(3, 3), cmap="RdBu")
    ax.axis("off")
mistakes.suptitle("mistakes: taken for, is")
for ax in (panels := mistakes.subplots(4, 2).ravel()):
    ax.axis("off")
for ax, row in zip(panels, wrong):
    ax.imshow(X_test[row], cmap="gray_r")
    ax.set_title(f"{found[row]}, {y_test[row]}", fontsize=8)
