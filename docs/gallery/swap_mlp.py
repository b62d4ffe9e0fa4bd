"""Swap MLPClassifier, and drop the learning rate

The same two lines, the same network, the same digits. What is gone is the choice of a rate: restored sweeps
have none, while Adam's best one has to be found.

Settings: ours are the defaults; Adam's rates are shown side by side, and none of them is chosen.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from dladmm import DLADMMClassifier

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=0)

ours = DLADMMClassifier((100,), random_state=0).fit(X_train, y_train)
print(f"restored sweeps: {ours.score(X_test, y_test):.1%} after {ours.n_iter_} iterations")

rates = [1e-4, 1e-3, 1e-2]
fig, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
axes.plot(ours.loss_curve_, lw=2.5, label="restored sweeps, full batch")
for rate in rates:
    mlp = MLPClassifier((100,), learning_rate_init=rate, max_iter=80, random_state=0)
    mlp.fit(X_train, y_train)
    print(f"Adam at {rate:g}: {mlp.score(X_test, y_test):.1%} after {mlp.n_iter_} epochs")
    axes.plot(mlp.loss_curve_, "--", label=f"Adam at {rate:g}, mini-batches")
axes.set(yscale="log", xlabel="iteration, or epoch", ylabel="training loss", xlim=(0, 80))
axes.legend()
