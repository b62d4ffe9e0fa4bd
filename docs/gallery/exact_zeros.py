"""Exact zeros, and the columns they name

With an l1 regulariser the weights of many columns are zero: not small, zero. What is left over names the
measurements that a diagnosis needs.

Settings: the strength of the first layer was chosen on a third of the training rows, by the script itself: the
strongest with which at most one more of those rows is wrong than with the best.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from dladmm import L1, DLADMMClassifier

data = load_breast_cancer()
X_train, X_test, y_train, y_test = train_test_split(data.data, data.target, random_state=0)
X_fit, X_held, y_fit, y_held = train_test_split(X_train, y_train, test_size=1 / 3, random_state=0)


def fitted(strength, X, y):
    """A strength is per data set: twice the rows bear twice the strength."""
    terms = [L1(strength * len(X) / len(X_train)), L1(0.1)]
    model = DLADMMClassifier((16,), regularizer=terms, random_state=0)
    return make_pipeline(StandardScaler(), model).fit(X, y)


wrong = {s: (fitted(s, X_fit, y_fit).predict(X_held) != y_held).sum() for s in (1, 3, 10, 30, 100)}
strength = max(s for s, count in wrong.items() if count <= min(wrong.values()) + 1)
print("wrong of", len(y_held), "held out, by strength:", {s: int(n) for s, n in wrong.items()})
model = fitted(strength, X_train, y_train)

size = np.abs(model[-1].coefs_[0]).sum(axis=1)
used = size > 0
print(
    f"strength {strength}: {used.sum()} of {len(used)} columns are used,"
    f" {model.score(X_test, y_test):.1%} of new rows are right"
)
print("used:", ", ".join(data.feature_names[used]))

order = np.argsort(size)
fig, axes = plt.subplots(figsize=(8, 6.5), layout="constrained")
axes.barh(data.feature_names[order], size[order], color=np.where(used[order], "#2a6fbb", "#8a8f98"))
axes.set(xlabel="sum of the absolute weights of a column")
axes.tick_params(axis="y", labelsize=8)
