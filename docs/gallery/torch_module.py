"""Train a PyTorch module

A module of yours goes in, and comes back trained: no optimiser, no scheduler, no loop. Beside it the loop with Adam
that it replaces, at three rates.

Settings: ours are the defaults; Adam's rates are shown side by side, and none of them is chosen. Both make 60 passes.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
import dladmm.torch

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=0)


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))


def right(module):
    outputs = module(torch.tensor(X_test, dtype=torch.float32))
    return (outputs.argmax(1).numpy() == y_test).mean()


module = network()
result = dladmm.torch.train(module, X_train, y_train, max_iter=60, tol=None)
print(f"dladmm.torch.train: {right(module):.1%} of the test rows, {result.status}")

fig, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
axes.plot(result.history["train_loss"], lw=2.5, label="dladmm.torch.train")
rows, classes = torch.tensor(X_train, dtype=torch.float32), torch.tensor(y_train)
for rate in (1e-2, 3e-2, 1e-1):
    adam, losses = network(), []
    optimizer = torch.optim.Adam(adam.parameters(), lr=rate)
    for _ in range(60):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(adam(rows), classes)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(f"Adam at {rate:g}, full batch: {right(adam):.1%}")
    axes.plot(losses, "--", label=f"torch.optim.Adam at {rate:g}")
axes.set(yscale="log", xlabel="iteration over all rows", ylabel="training loss")
axes.legend()
