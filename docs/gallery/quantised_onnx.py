"""Two signs and four levels, exported to ONNX

`sign` has no derivative and a quantised ReLU none that says anything. Both are trained as they are, exported, and
run by another program with the same answers.

Settings: the width, the levels and the iterations are round numbers, the same for all three, and were not compared
with others. The accuracies illustrate; they are no benchmark.
"""

import matplotlib.pyplot as plt
import numpy as np
import onnxruntime
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from dladmm import DLADMMClassifier, QuantizedReLU

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=0)
activations = {"relu": "relu", "4 levels": QuantizedReLU(n_levels=4, step=0.5), "sign": "sign"}

fig, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
for panel, (name, activation) in zip(axes, activations.items()):
    model = DLADMMClassifier((128,), activation=activation, random_state=0, max_iter=100)
    model.fit(X_train, y_train)
    model.to_onnx(f"{name}.onnx", dtype="float32")
    session = onnxruntime.InferenceSession(f"{name}.onnx")
    inputs = {session.get_inputs()[0].name: X_test.astype(np.float32)}
    labels = session.run(None, inputs)[0]
    same = (np.asarray(labels).ravel() == model.predict(X_test)).mean()
    print(f"{name}: {model.score(X_test, y_test):.1%} right, ONNX agrees on {same:.1%} of the rows")
    z = X_test @ model.coefs_[0] + model.intercepts_[0]
    f = {"relu": lambda v: np.maximum(v, 0), "sign": lambda v: np.where(v >= 0, 1, -1)}
    hidden = f[name](z) if name in f else 0.5 * np.clip(np.floor(z / 0.5 + 0.5), 0, 3)
    panel.hist(hidden.ravel(), bins=40, color="#2a6fbb")
    panel.set(
        title=f"{name}: {model.score(X_test, y_test):.1%}", xlabel="hidden values", yscale="log"
    )
    panel.set_ylim(0.5, 1e5)
