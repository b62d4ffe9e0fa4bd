"""A certificate that holds, and one that does not

The paper's theorems ask for ρ > 2H. With ρ = 1.5 they cover a run on the log-loss, and L_ρ falls in every iteration.
With a small ρ, the dual at zero and z_L not solved for to the end, as in the authors' code, they do not: L_ρ rises,
and the certificate counts how often. Outside the theorems it need not rise, as the third run shows: ρ = 0.1, which is
the default for classes since networks learn faster with it.

Settings: ρ = 1.5 is a round number above 2H, and the third run is the default. Those of the second were looked for
until L_ρ rose often enough to be seen: it shows what a certificate says of such a run, not how frequent they are.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from dladmm import Options, Problem, solve

X, y = load_digits(return_X_y=True)
problem = Problem.dense([64, 32, 10])
common = {"method": "dladmm", "max_iter": 100, "tol": None, "engine": "numpy"}
runs = {
    "inside the theorems": Options(rho=1.5, nu=1.0, **common),
    "outside": Options(
        rho=1e-3,
        nu=1e-3,
        dual_start="zero",
        zl_solver="authors",
        step_rule="backtracking",
        init="paper",
        **common,
    ),
    "outside, by default": Options(**common),
}
fig, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
for name, options in runs.items():
    result = solve(problem, X / 16, np.eye(10)[y], options=options)
    print(f"--- {name}\n{result.certificate.summary()}\n")
    axes.plot(result.history["lagrangian"], label=f"{name}: {result.certificate.rises} rises")
axes.set(yscale="symlog", xlabel="iteration", ylabel="augmented Lagrangian")
axes.legend()
