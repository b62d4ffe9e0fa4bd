"""Train neural networks without a learning rate: dlADMM (KDD 2019) and restored sweeps."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dladmm._version import __version__
from dladmm.engine.process import respect_thread_limits

if TYPE_CHECKING:
    from dladmm.callbacks.tracking import MLflow as MLflow
    from dladmm.callbacks.tracking import TensorBoard as TensorBoard
    from dladmm.core.certificate import Certificate as Certificate
    from dladmm.core.options import Options as Options
    from dladmm.core.params import Params as Params
    from dladmm.core.params import forward as forward
    from dladmm.core.problem import Problem as Problem
    from dladmm.core.results import Progress as Progress
    from dladmm.core.results import Result as Result
    from dladmm.core.results import Status as Status
    from dladmm.core.solve import solve as solve
    from dladmm.engine.devices import make_mesh as make_mesh
    from dladmm.engine.devices import own_rows as own_rows
    from dladmm.estimators import DLADMMClassifier as DLADMMClassifier
    from dladmm.estimators import DLADMMRegressor as DLADMMRegressor
    from dladmm.estimators.model_files import load_model as load_model
    from dladmm.io.checkpoints import Checkpoints as Checkpoints
    from dladmm.io.model_file import ModelFileError as ModelFileError
    from dladmm.network import AveragePool as AveragePool
    from dladmm.network import Conv1D as Conv1D
    from dladmm.network import Conv2D as Conv2D
    from dladmm.network import Dense as Dense
    from dladmm.network import Flatten as Flatten
    from dladmm.network import GlobalAveragePool as GlobalAveragePool
    from dladmm.network import Masking as Masking
    from dladmm.network import MaxPool as MaxPool
    from dladmm.network import Network as Network
    from dladmm.network import Recurrent as Recurrent
    from dladmm.network import Residual as Residual
    from dladmm.terms.activations import Activation as Activation
    from dladmm.terms.activations import HardSigmoid as HardSigmoid
    from dladmm.terms.activations import HardTanh as HardTanh
    from dladmm.terms.activations import Identity as Identity
    from dladmm.terms.activations import LeakyReLU as LeakyReLU
    from dladmm.terms.activations import PiecewiseConstant as PiecewiseConstant
    from dladmm.terms.activations import PiecewiseLinear as PiecewiseLinear
    from dladmm.terms.activations import QuantizedReLU as QuantizedReLU
    from dladmm.terms.activations import ReLU as ReLU
    from dladmm.terms.activations import ReLU6 as ReLU6
    from dladmm.terms.activations import Sign as Sign
    from dladmm.terms.activations import Smooth as Smooth
    from dladmm.terms.activations import Step as Step
    from dladmm.terms.activations import activations as activations
    from dladmm.terms.layers import Layer as Layer
    from dladmm.terms.layers import layers as layers
    from dladmm.terms.losses import AbsoluteError as AbsoluteError
    from dladmm.terms.losses import BinaryLogLoss as BinaryLogLoss
    from dladmm.terms.losses import Hinge as Hinge
    from dladmm.terms.losses import Huber as Huber
    from dladmm.terms.losses import LogLoss as LogLoss
    from dladmm.terms.losses import Loss as Loss
    from dladmm.terms.losses import MultilabelHinge as MultilabelHinge
    from dladmm.terms.losses import MultilabelLogLoss as MultilabelLogLoss
    from dladmm.terms.losses import Poisson as Poisson
    from dladmm.terms.losses import Quantile as Quantile
    from dladmm.terms.losses import SquaredError as SquaredError
    from dladmm.terms.losses import losses as losses
    from dladmm.terms.regularizers import L1 as L1
    from dladmm.terms.regularizers import L2 as L2
    from dladmm.terms.regularizers import Box as Box
    from dladmm.terms.regularizers import ElasticNet as ElasticNet
    from dladmm.terms.regularizers import GroupLasso as GroupLasso
    from dladmm.terms.regularizers import NonNegative as NonNegative
    from dladmm.terms.regularizers import Regularizer as Regularizer
    from dladmm.terms.regularizers import regularizers as regularizers

respect_thread_limits()

# Loaded when first asked for: scikit-learn takes a second, which `dladmm --help` need not wait for.
_HOME = {
    "Certificate": "dladmm.core.certificate",
    "Checkpoints": "dladmm.io.checkpoints",
    "MLflow": "dladmm.callbacks.tracking",
    "ModelFileError": "dladmm.io.model_file",
    "TensorBoard": "dladmm.callbacks.tracking",
    "DLADMMClassifier": "dladmm.estimators",
    "DLADMMRegressor": "dladmm.estimators",
    "Options": "dladmm.core.options",
    "Params": "dladmm.core.params",
    "Problem": "dladmm.core.problem",
    "Progress": "dladmm.core.results",
    "Result": "dladmm.core.results",
    "Status": "dladmm.core.results",
    "forward": "dladmm.core.params",
    "load_model": "dladmm.estimators.model_files",
    "make_mesh": "dladmm.engine.devices",
    "own_rows": "dladmm.engine.devices",
    "solve": "dladmm.core.solve",
}

# What a user plugs in, so that nobody imports from an inner room.
_TERMS = {
    "dladmm.terms.activations": (
        "Activation",
        "HardSigmoid",
        "HardTanh",
        "Identity",
        "LeakyReLU",
        "PiecewiseConstant",
        "PiecewiseLinear",
        "QuantizedReLU",
        "ReLU",
        "ReLU6",
        "Sign",
        "Smooth",
        "Step",
        "activations",
    ),
    "dladmm.network": (
        "AveragePool",
        "Conv1D",
        "Conv2D",
        "Dense",
        "Flatten",
        "GlobalAveragePool",
        "Masking",
        "MaxPool",
        "Network",
        "Recurrent",
        "Residual",
    ),
    "dladmm.terms.layers": ("Layer", "layers"),
    "dladmm.terms.losses": (
        "AbsoluteError",
        "BinaryLogLoss",
        "Hinge",
        "Huber",
        "LogLoss",
        "Loss",
        "MultilabelHinge",
        "MultilabelLogLoss",
        "Poisson",
        "Quantile",
        "SquaredError",
        "losses",
    ),
    "dladmm.terms.regularizers": (
        "Box",
        "ElasticNet",
        "GroupLasso",
        "L1",
        "L2",
        "NonNegative",
        "Regularizer",
        "regularizers",
    ),
}
_HOME |= {name: room for room, names in _TERMS.items() for name in names}

__all__ = [*_HOME, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dladmm' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
