"""The certificate counted again, from a run's records alone and by nothing of the library's.

The formulas are those of docs/mathematics.md: a rise is an objective above the last one by more
than rounding, where neither rho, nu nor the strength of l2 has changed and nothing was restarted;
C_2 = min(nu/2, rho/2 - 2 H^2/rho, theta/2, tau/2, min(nu, rho) mass/2).
"""

import math

LIPSCHITZ = {"squared_error": 1.0, "log_loss": 0.5}
ROUNDING = {"float64": 1e-10, "float32": 1e-5}
LAST = ("rho", "nu", "residual", "gap")


def recounted(history, *, method, dtype, start, mass, H=None):
    """What a certificate should say, as a dictionary of the fields that records decide."""
    n = len(history.get("lagrangian", ()))
    L = [start, *history.get("lagrangian", ())]
    rises, sizes, descents, constants = [], [], [], []
    for k in range(1, n + 1):
        scale = max(abs(L[k - 1]), abs(L[k]))
        slack = ROUNDING[dtype] * scale
        same = k == 1 or not any(differ(history[n][k - 2 : k]) for n in CONSTANT if n in history)
        compared = same and history["restarted"][k - 1] == 0 and not math.isnan(L[k - 1])
        drop = L[k - 1] - L[k]
        if compared and drop < -slack:
            rises.append(k)
            sizes.append(-drop / scale)
        if method == "dladmm":
            rho, nu, theta, tau = (history[name][k - 1] for name in ("rho", "nu", "theta", "tau"))
            C1 = rho / 2 - 2 * H**2 / rho if math.isfinite(H) else -math.inf
            constants.append(min(nu / 2, C1, theta / 2, tau / 2, min(nu, rho) * mass / 2))
            if compared:
                descents.append(drop >= constants[-1] * history["moved"][k - 1] - slack)
    least = min(constants, default=math.nan)
    counted = {
        "n_iter": n,
        "rises": len(rises),
        "first_rise": rises[0] if rises else None,
        "largest_rise": max(sizes, default=0.0),
        "least_C2": least if math.isfinite(least) else math.nan,
        "sufficient_descent": all(descents) if least > 0 else None,
        **{name: history[name][-1] if name in history and n else math.nan for name in LAST},
    }
    if "moved" in history and n:
        counted["c_k"] = min(history["moved"])
        counted["k_c_k"] = n * min(history["moved"])
    if "lemma2" in history and n:
        counted["lemma2_violation"] = max(history["lemma2"])
    return counted


# What must stay the same for two values of the objective to be compared.
CONSTANT = ("rho", "nu", "alpha")


def differ(pair):
    one, two = pair
    return one != two and not (math.isnan(one) and math.isnan(two))


def differences(certificate, counted):
    """Fields in which the two are not exactly the same."""
    given = {name: getattr(certificate, name) for name in counted}
    both_unknown = lambda one, two: one != one and two != two  # noqa: E731
    return {
        name: (given[name], value)
        for name, value in counted.items()
        if given[name] != value and not both_unknown(given[name], value)
    }
