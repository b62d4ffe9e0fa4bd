"""Train neural networks without a learning rate: dlADMM (KDD 2019) and restored sweeps."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dladmm._version import __version__
from dladmm.engine.process import respect_thread_limits

if TYPE_CHECKING:
    from dladmm.core.certificate import Certificate as Certificate
    from dladmm.core.options import Options as Options
    from dladmm.core.params import Params as Params
    from dladmm.core.params import forward as forward
    from dladmm.core.problem import Problem as Problem
    from dladmm.core.results import Progress as Progress
    from dladmm.core.results import Result as Result
    from dladmm.core.results import Status as Status
    from dladmm.core.solve import solve as solve
    from dladmm.estimators import DLADMMClassifier as DLADMMClassifier
    from dladmm.estimators import DLADMMRegressor as DLADMMRegressor
    from dladmm.io.checkpoints import Checkpoints as Checkpoints
    from dladmm.io.model_file import ModelFileError as ModelFileError

respect_thread_limits()

# Loaded when first asked for: scikit-learn takes a second, which `dladmm --help` need not wait for.
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

__all__ = [*_HOME, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dladmm' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
