"""Train neural networks by alternating minimisation: dlADMM (KDD 2019) and what follows it."""

from dladmm._version import __version__
from dladmm.threads import respect_thread_limits

respect_thread_limits()

from dladmm.core.certificate import Certificate  # noqa: E402
from dladmm.core.problem import Problem  # noqa: E402
from dladmm.core.solve import Options, Progress, Result, Status, solve  # noqa: E402
from dladmm.core.state import Params, forward  # noqa: E402
from dladmm.estimators import DLADMMClassifier, DLADMMRegressor  # noqa: E402

__all__ = [
    "Certificate",
    "DLADMMClassifier",
    "DLADMMRegressor",
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
