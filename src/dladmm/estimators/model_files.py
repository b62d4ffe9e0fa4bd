"""A trained estimator as a model file: its parameters, fitted attributes and preprocessing."""

import dataclasses
import json
import math
import warnings
from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dladmm._version import __version__
from dladmm.core.certificate import Certificate
from dladmm.core.params import Params
from dladmm.core.problem import Problem, chain, described_layers, layers_from
from dladmm.core.validation import check_params
from dladmm.estimators.classifier import DLADMMClassifier
from dladmm.estimators.regressor import DLADMMRegressor
from dladmm.io.json_values import decode, encode
from dladmm.io.model_file import ModelFileError, read_model_file, write_model_file

_CLASSES: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (DLADMMClassifier, DLADMMRegressor)
}


@dataclasses.dataclass(frozen=True)
class LoadedModel:
    """What a model file holds; `metadata` is its JSON as stored, for inspection."""

    estimator: Any
    preprocessing: dict[str, Any] | None
    metadata: dict[str, Any]


def save_model(
    path: str | PathLike[str], estimator: Any, preprocessing: Mapping[str, Any] | None = None
) -> None:
    """Write a fitted estimator to `path`, whole or not at all; an older file survives any error.

    `preprocessing` is any plain JSON dictionary; it comes back from `load_model` unchanged.
    """
    if type(estimator) not in _CLASSES.values():
        raise ValueError(
            f"estimator is a {type(estimator).__name__}, which a model file cannot hold;"
            f" expected a fitted {' or '.join(_CLASSES)}"
        )
    check_is_fitted(estimator, "coefs_")
    content = {
        "estimator": type(estimator).__name__,
        "layers": described_layers(estimator.layers_),
        "parameters": _parameters(estimator),
        "fitted": _fitted(estimator),
        "history": list(estimator.history_),
        "certificate": encode("certificate_", dataclasses.asdict(estimator.certificate_)),
        "preprocessing": _checked_json(preprocessing),
    }
    write_model_file(path, content, _tensors(estimator))


def load_model(path: str | PathLike[str]) -> LoadedModel:
    """The model in a file, with its preprocessing; ModelFileError if it does not fit this version.

    A file that cannot be opened raises its OSError.

    Parameters
    ----------
    path : str or path
        A file that `save` or `dladmm fit` wrote.

    Returns
    -------
    LoadedModel
        Its `estimator`, the `preprocessing` of a table or None, and `metadata`, its JSON as stored.
    """
    metadata, tensors = read_model_file(path)
    try:
        estimator, preprocessing = _rebuild(metadata, tensors), metadata["preprocessing"]
    except Exception as error:  # whatever a file that is not one of ours may cause
        raise ModelFileError(
            f"{path} was written by dladmm {metadata.get('library_version')} and does not fit"
            f" this version, {__version__}: {error}"
        ) from error
    return LoadedModel(estimator, preprocessing, metadata)


def load_estimator(path: str | PathLike[str], expected: type[Any]) -> Any:
    """The estimator in the file at `path`; ModelFileError if it is not an `expected`."""
    estimator = load_model(path).estimator
    if not isinstance(estimator, expected):
        raise ModelFileError(
            f"{path} holds a {type(estimator).__name__}; expected a {expected.__name__}"
        )
    return estimator


# Writing: arrays go to tensors, everything else to JSON.

_POSTERIOR = ("covariance_", "noise_variance_")
_IN_TENSORS = ("coefs_", "intercepts_", "history_", *_POSTERIOR)
_APART = (*_IN_TENSORS, "certificate_", "layers_")


def _tensors(estimator: Any) -> dict[str, np.ndarray]:
    return {
        **{f"coefs.{l}": W for l, W in enumerate(estimator.coefs_)},
        **{f"intercepts.{l}": b for l, b in enumerate(estimator.intercepts_)},
        **{
            f"history.{name}": np.asarray(values, dtype=np.float64)
            for name, values in estimator.history_.items()
        },
        **{
            f"posterior.{name}": np.array(getattr(estimator, name))
            for name in _POSTERIOR
            if getattr(estimator, name, None) is not None
        },
    }


def _parameters(estimator: Any) -> dict[str, Any]:
    parameters = estimator.get_params(deep=False)
    seed = parameters["random_state"]
    if not (seed is None or isinstance(seed, int | np.integer)):
        warnings.warn(
            f"random_state={seed!r} cannot be held by a model file; the loaded model has None",
            stacklevel=3,
        )
        parameters["random_state"] = None
    # Of the machine that trained, not of the model.
    for name in ("devices", "layer_devices", "checkpoints", "callbacks"):
        parameters[name] = None
    return {name: encode(name, value) for name, value in parameters.items()}


def _fitted(estimator: Any) -> dict[str, Any]:
    return {
        name: encode(name, value)
        for name, value in vars(estimator).items()
        if name.endswith("_") and name[0] != "_" and name not in _APART
    }


def _checked_json(preprocessing: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if preprocessing is None:
        return None
    try:
        copy = json.loads(json.dumps(dict(preprocessing), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ValueError(f"preprocessing is not plain JSON: {error}") from None
    return copy


# Reading.


def _rebuild(metadata: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Any:
    kind = _CLASSES.get(metadata["estimator"])
    if kind is None:
        raise ValueError(f"the estimator {metadata['estimator']!r} is unknown")
    parameters = {name: decode(value) for name, value in metadata["parameters"].items()}
    unknown = sorted(set(parameters) - set(kind().get_params(deep=False)))
    if unknown:
        raise ValueError(f"the parameter {unknown[0]!r} of {kind.__name__} is unknown")
    estimator = kind(**parameters)
    for name, value in metadata["fitted"].items():
        setattr(estimator, name, decode(value))
    network = estimator.network
    estimator.layers_ = _layers(metadata) if network is None else network.graph.layers
    n_layers = len(estimator.layers_)
    estimator.coefs_ = [tensors[f"coefs.{l}"] for l in range(n_layers)]
    estimator.intercepts_ = [tensors[f"intercepts.{l}"] for l in range(n_layers)]
    estimator.history_ = {name: tensors[f"history.{name}"].tolist() for name in metadata["history"]}
    for name in _POSTERIOR:
        setattr(estimator, name, tensors.get(f"posterior.{name}"))
    estimator.certificate_ = _certificate(decode(metadata["certificate"]))
    # An activation or a loss a user has registered must be registered here too.
    problem = fitted_problem(estimator)
    _check_network(estimator, problem)
    return estimator


def fitted_problem(estimator: Any) -> Problem:
    """What a fitted estimator has trained, but for its regularisers."""
    if estimator.network is not None:
        return Problem.of_network(estimator.network, estimator.loss)
    return Problem.of_layers(estimator.layers_, estimator.activation, estimator.loss)


def _check_network(estimator: Any, problem: Problem) -> None:
    """ValueError where parts of a model, each of them valid, are not those of one network."""
    W, b = tuple(W.T for W in estimator.coefs_), tuple(estimator.intercepts_)
    check_params(problem, Params(W, b))
    inputs, outputs = math.prod(problem.in_shape), math.prod(problem.out_shape)
    if (estimator.n_features_in_, estimator.n_outputs_) != (inputs, outputs):
        raise ValueError(
            f"it has {estimator.n_features_in_} features and {estimator.n_outputs_} outputs;"
            f" expected {inputs} and {outputs}, as its network has"
        )
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None and np.shape(names) != (inputs,):
        raise ValueError(f"feature_names_in_ has shape {np.shape(names)}; expected ({inputs},)")
    n_classes = max(2, outputs)  # one output is enough for two
    if isinstance(estimator, DLADMMClassifier) and (
        not isinstance(estimator.classes_, np.ndarray) or estimator.classes_.shape != (n_classes,)
    ):
        raise ValueError(
            f"classes_={estimator.classes_!r} is not valid; expected an array of {n_classes}"
        )
    if isinstance(estimator, DLADMMRegressor) and not isinstance(estimator.y_is_vector_, bool):
        raise ValueError(f"y_is_vector_={estimator.y_is_vector_!r} is not valid; expected a bool")


def _layers(metadata: Mapping[str, Any]) -> tuple[Any, ...]:
    """Format 1 named the sizes of dense layers only."""
    if metadata["format_version"] == 1:
        first, *units = metadata["layer_sizes"]
        return chain((first,), units)
    return layers_from(metadata["layers"])


def _certificate(stored: Mapping[str, Any]) -> Certificate:
    """Fields this version has added are not a number; those it has dropped are left out.

    Format 1 did not say what was minimised: only L_rho has a rho.
    """
    names = [field.name for field in dataclasses.fields(Certificate)]
    known = {name: stored.get(name, math.nan) for name in names}
    if "objective" not in stored:
        relaxed, epochs = not math.isnan(known["rho"]), math.isnan(known["accepted"])
        known["objective"] = "L_rho" if relaxed else "the mean loss" if epochs else "the true loss"
        known["unit"] = "epochs" if epochs and not relaxed else "iterations"
    return Certificate(**known)
