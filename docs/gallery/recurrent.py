"""A recurrent network reads sequences of unequal length

Each sequence is a noisy sine with a hidden frequency, from 10 to 30 steps long. A recurrence of 24 units reads
them as they are, a list of arrays, and says which of three frequencies it was.

Settings: units, batches and epochs are round numbers and were not compared with others on these sequences. The accuracy
illustrates; it is no benchmark.
"""

import matplotlib.pyplot as plt
import numpy as np
from dladmm import Dense, DLADMMClassifier, Network, Recurrent

rng = np.random.default_rng(0)


def draw(count):
    classes = rng.integers(0, 3, count)
    sequences = []
    for c in classes:
        steps = np.arange(rng.integers(10, 31))
        wave = np.sin((0.4, 0.6, 0.8)[c] * steps + rng.uniform(0, 2 * np.pi))
        sequences.append((wave + rng.normal(0, 0.2, len(steps)))[:, None])
    return sequences, classes


(train, y_train), (test, y_test) = draw(600), draw(300)
network = Network((30, 2), [Recurrent(24), Dense(3)])  # one channel says where a sequence is
model = DLADMMClassifier(network=network, batch_size=64, max_iter=40, random_state=0)
model.fit(train, y_train)
right = model.predict(test) == y_test
print(f"{right.mean():.1%} of {len(right)} new sequences are right")

lengths = np.array([len(one) for one in test])
fig, (left, middle, end) = plt.subplots(1, 3, figsize=(10, 3.6), layout="constrained")
for c, colour in enumerate(("#2a6fbb", "#d1495b", "#66a182")):
    left.plot(test[int(np.flatnonzero(y_test == c)[0])][:, 0], color=colour, label=f"class {c}")
left.set(xlabel="step", title="a sequence of each class")
left.legend(fontsize=8)
middle.semilogy(model.loss_curve_, color="#2a6fbb")
middle.set(xlabel="epoch", title="training loss")
parts = {f"{a}-{a + 6}": right[(lengths >= a) & (lengths <= a + 6)].mean() for a in (10, 17, 24)}
end.bar(list(parts), list(parts.values()), color="#2a6fbb")
end.set(xlabel="steps of a sequence", ylim=(0, 1), title="share that is right, by length")
