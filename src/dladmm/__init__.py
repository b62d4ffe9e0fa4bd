"""Train neural networks by alternating minimisation: dlADMM (KDD 2019) and what follows it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dladmm._version import __version__
from dladmm.core.engine.process import keep_compiled_programs, respect_thread_limits

if TYPE_CHECKING:
    from dladmm.core.certificate import Certificate
    from dladmm.core.options import Options
    from dladmm.core.params import Params, forward
    from dladmm.core.problem import Problem
    from dladmm.core.results import Progress, Result, Status
    from dladmm.core.solve import solve
    from dladmm.estimators import DLADMMClassifier, DLADMMRegressor
    from dladmm.io.checkpoints import Checkpoints
    from dladmm.io.model_file import ModelFileError

respect_thread_limits()
keep_compiled_programs()

# Loaded when first asked for: JAX takes a second, which `dladmm --help` need not wait for.
_HOME = {
    "Certificate": "dladmm.core.certificate",
    "Checkpoints": "dladmm.io.checkpoints",
    "ModelFileError": "dladmm.io.model_file",
    "DLADMMClassifier": "dladmm.estimators",
    "DLADMMRegressor": "dladmm.estimators",
    "Options": "dladmm.core.options",
    "Params": "dladmm.core.params",
    "Problem": "dladmm.core.problem",
    "Progress": "dladmm.core.results",
    "Result": "dladmm.core.results",
    "Status": "dladmm.core.results",
    "forward": "dladmm.core.params",
    "solve": "dladmm.core.solve",
}

__all__ = [
    "Certificate",
    "Checkpoints",
    "DLADMMClassifier",
    "DLADMMRegressor",
    "ModelFileError",
    "Options",
    "Params",
    "Problem",
    "Progress",
    "Result",
    "Status",
    "__version__",
    "forward",
    "solve",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dladmm' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
