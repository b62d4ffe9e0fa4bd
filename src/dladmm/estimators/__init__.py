"""scikit-learn estimators. There is no learning rate; `method` picks the algorithm."""

from dladmm.estimators.classifier import DLADMMClassifier
from dladmm.estimators.regressor import DLADMMRegressor

__all__ = ["DLADMMClassifier", "DLADMMRegressor"]
