"""One set of defaults: `solve`, both estimators and the command line agree on every one."""

import inspect
from dataclasses import fields

import pytest

from dladmm import DLADMMClassifier, DLADMMRegressor, Options
from dladmm.cli.fit import fit
from dladmm.cli.options import parse_sizes

# Parameters of the estimators and of the command line that have another name in `Options`.
ESTIMATOR = {"patience": "n_iter_no_change", "seed": None}
# What scikit-learn's users decide by a fit, not by an option, or what only researchers need.
OWN = {"dual_start", "residual_tol", "evaluate_every", "refresh_every", "seed"}
OWN |= {"max_recoveries"}


@pytest.mark.parametrize("kind", [DLADMMClassifier, DLADMMRegressor])
def test_the_estimators_have_the_defaults_of_solve(kind):
    given, compared = kind().get_params(), 0
    for field in fields(Options):
        if field.name not in OWN:
            name = ESTIMATOR.get(field.name, field.name)
            assert given[name] == field.default, name
            compared += 1
    assert compared == len(fields(Options)) - len(OWN)


def test_the_command_line_has_the_defaults_of_the_estimators():
    command = {name: p.default for name, p in inspect.signature(fit).parameters.items()}
    estimator = DLADMMClassifier().get_params()
    assert parse_sizes("--hidden", command["hidden"]) == estimator["hidden_layer_sizes"]
    shared = command.keys() & estimator.keys()
    assert shared >= {"activation", "method", "alpha", "batch_size", "max_iter", "dtype", "devices"}
    for name in shared - {"loss"}:  # None: it follows from the task
        assert command[name] == estimator[name], name
