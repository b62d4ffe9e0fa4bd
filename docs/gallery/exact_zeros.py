"""Exact zeros, and the columns they name

With an l1 regulariser the weights of many columns are zero: not small, zero. What is left over names the
measurements that a diagnosis needs.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from dladmm import L1, DLADMMClassifier

data = load_breast_cancer()
X = StandardScaler().fit_transform(data.data)
X_train, X_test, y_train, y_test = train_test_split(X, data.target, random_state=0)
model = DLADMMClassifier((16,), regularizer=[L1(10.0), L1(0.1)], random_state=0)
model.fit(X_train, y_train)

size = np.abs(model.coefs_[0]).sum(axis=1)
used = size > 0
print(
    f"{used.sum()} of {len(used)} columns are used, {model.score(X_test, y_test):.1%} of new rows are right"
)
print("used:", ", ".join(data.feature_names[used]))

order = np.argsort(size)
fig, axes = plt.subplots(figsize=(8, 6.5), layout="constrained")
axes.barh(data.feature_names[order], size[order], color=np.where(used[order], "#2a6fbb", "#8a8f98"))
axes.set(xlabel="sum of the absolute weights of a column")
axes.tick_params(axis="y", labelsize=8)
