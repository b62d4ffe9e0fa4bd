"""One default configuration over six data sets, against the best of Adam over five learning rates.

`DLADMMClassifier()` and `DLADMMRegressor()` untouched; `MLPClassifier` and `MLPRegressor` with
their defaults but for the rate. Standardised inputs and repeated 5-fold scores for the tables;
10,000 training images and the test images for MNIST and Fashion-MNIST. Prints one JSON object.
Named an earlier one, it takes Adam's scores from there, which do not depend on this library.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold, cross_val_score
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dladmm import DLADMMClassifier, DLADMMRegressor
from dladmm.data.datasets import load_dataset
from dladmm.experiments.machine import describe_machine

RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
REPEATS, IMAGES = 4, 10_000
TABLES = {
    "digits": load_digits,
    "breast cancer": load_breast_cancer,
    "wine": load_wine,
    "diabetes": load_diabetes,
}


def table_score(name, model):
    """The mean score over repeated folds."""
    X, y = TABLES[name](return_X_y=True)
    kind = RepeatedKFold if name == "diabetes" else RepeatedStratifiedKFold
    folds = kind(n_splits=5, n_repeats=REPEATS, random_state=0)
    return float(np.mean(cross_val_score(make_pipeline(StandardScaler(), model), X, y, cv=folds)))


def image_score(name, model):
    """The test accuracy after training on the first images."""
    data = load_dataset(name)
    model.fit(data.x_train[:IMAGES], data.y_train[:IMAGES])
    return float(model.score(data.x_test, data.y_test))


def compare(name, score, known):
    regression = name == "diabetes"
    ours, theirs = (
        (DLADMMRegressor, MLPRegressor) if regression else (DLADMMClassifier, MLPClassifier)
    )
    adam = known.get(name) or {
        f"{rate:g}": score(name, theirs(learning_rate_init=rate, random_state=0)) for rate in RATES
    }
    mine = score(name, ours(random_state=0))
    row = {"data": name, "dladmm": mine, "best adam": max(adam.values()), "adam": adam}
    row["behind"] = row["best adam"] - mine
    print(f"{name:<14} {mine:.4f} against {row['best adam']:.4f}", file=sys.stderr, flush=True)
    return row


if __name__ == "__main__":
    warnings.simplefilter("ignore", ConvergenceWarning)
    earlier = json.loads(Path(sys.argv[1]).read_text()) if sys.argv[1:] else {"rows": []}
    known = {row["data"]: row["adam"] for row in earlier["rows"]}
    rows = [compare(name, table_score, known) for name in TABLES]
    rows += [compare(name, image_score, known) for name in ("mnist", "fashion-mnist")]
    here = describe_machine()
    report = {"rows": rows, "repeats": REPEATS, "images": IMAGES, "machine": here}
    report["adam_machine"] = earlier.get("adam_machine", earlier.get("machine", here))
    print(json.dumps(report, indent=2))
