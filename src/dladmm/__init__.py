"""Train neural networks by alternating minimisation: dlADMM (KDD 2019) and what follows it."""

from dladmm._version import __version__
from dladmm.core.certificate import Certificate
from dladmm.core.problem import Problem
from dladmm.core.solve import Options, Progress, Result, Status, solve
from dladmm.core.state import Params, forward

__all__ = [
    "Certificate",
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
