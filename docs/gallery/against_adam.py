"""dlADMM against Adam, with the gap shown

The paper's method, which has no backpropagation: dlADMM drives its own objective down while the network itself
learns more slowly. The gap between the two is what its relaxed variables hide. Adam, and restored sweeps, have none.

Settings: Adam's rate is the best of four on a quarter of the training rows, chosen by the script itself. dlADMM has its
defaults for ρ and ν, which were not tuned for these rows, and no l2, as its loss is compared.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from dladmm import DLADMMClassifier

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=0)
fixed = {"hidden_layer_sizes": (64, 64), "max_iter": 150, "tol": None, "random_state": 0}
runs = {
    "dlADMM": DLADMMClassifier(method="dladmm", alpha=0.0, **fixed).fit(X_train, y_train),
    "restored sweeps": DLADMMClassifier(**fixed).fit(X_train, y_train),
}


def adam_at(rate, X, y):
    return MLPClassifier(
        (64, 64),
        batch_size=len(X),
        learning_rate_init=rate,
        max_iter=150,
        n_iter_no_change=1000,
        random_state=0,
    ).fit(X, y)


X_fit, X_held, y_fit, y_held = train_test_split(X_train, y_train, random_state=0)
rates = (1e-3, 3e-3, 1e-2, 3e-2)
rate = max(rates, key=lambda rate: adam_at(rate, X_fit, y_fit).score(X_held, y_held))
adam = adam_at(rate, X_train, y_train)

fig, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
for name, model in runs.items():
    print(
        f"{name}: {model.score(X_test, y_test):.1%} of the test rows, network's loss {model.loss_:.3f}"
    )
    loss = np.array(model.history_["train_loss"])
    seen = np.flatnonzero(np.isfinite(loss))
    axes.plot(seen + 1, loss[seen], lw=2, label=f"{name}: the network's loss")
gap = np.array(runs["dlADMM"].history_["gap"])
loss = np.array(runs["dlADMM"].history_["train_loss"])
seen = np.flatnonzero(np.isfinite(gap))
axes.fill_between(
    seen + 1,
    np.maximum(loss[seen] - gap[seen], 1e-4),
    loss[seen],
    alpha=0.15,
    label="dlADMM: the gap, hidden by the relaxation",
)
print(f"Adam at {rate:g}, full batch: {adam.score(X_test, y_test):.1%}, loss {adam.loss_:.3f}")
axes.plot(range(1, len(adam.loss_curve_) + 1), adam.loss_curve_, "--", label=f"Adam at {rate:g}")
axes.set(yscale="log", xlabel="iteration over all rows", ylabel="loss per row", ylim=(1e-4, None))
axes.legend()
