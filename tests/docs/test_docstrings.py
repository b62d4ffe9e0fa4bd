"""Everything public has a docstring that names each of its parameters, in numpydoc's form."""

import inspect
import re

import pytest

import dladmm
import dladmm.torch
from dladmm.report.model_report import Report

SECTION = re.compile(r"^(Parameters|Attributes)\n-+\n(.*?)(?=^\S[^\n]*\n---|\Z)", re.M | re.S)
RETURNS = re.compile(r"^Returns\n-------\n\S.*\n +\S", re.M)
# Of `Layer`: what a new layer defines. Everything else follows from it, for the methods to use.
OF_LAYERS = {"expand", "collapse"}


def named(doc):
    """Names that the sections about parameters and attributes describe, each with some words."""
    found = set()
    for _, body in SECTION.findall(inspect.cleandoc(doc or "")):
        for entry in re.findall(r"^(\S.*? : .*\n(?:[ ]+\S.*\n?)+)", f"{body}\n", re.M):
            found |= {name.strip().lstrip("*") for name in entry.split(" : ")[0].split(",")}
    return found


def wanted(thing):
    parameters = inspect.signature(thing).parameters.values()
    if inspect.isclass(thing) and "__init__" not in vars(thing):
        # What another library's own __init__ passes on: *args and **kwargs.
        parameters = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return {p.name for p in parameters if p.name not in ("self", "cls") and p.name[0] != "_"}


def returns(function):
    """Whether it gives something back, by its annotation."""
    if inspect.isclass(function) or isinstance(function, property):
        return False
    return inspect.signature(function).return_annotation not in (None, "None")


def methods(thing):
    """Its public functions: those written here, and `__call__`; what overrides one inherits."""
    for name, member in vars(thing).items():
        function = inspect.unwrap(getattr(member, "__func__", member))
        if name in getattr(thing, "__dataclass_fields__", ()):
            continue  # a parameter that is a function
        is_public = name[0] != "_" or (name == "__call__" and thing is dladmm.Activation)
        if not (inspect.isfunction(function) and is_public):
            continue
        if issubclass(thing, dladmm.Layer) and name not in OF_LAYERS:
            continue
        if thing is dladmm.Layer or not any(hasattr(base, name) for base in thing.__mro__[1:]):
            yield name, function


def cases():
    """(name, function or class) of all that is public, methods included."""
    torch = {f"torch.{name}": getattr(dladmm.torch, name) for name in dladmm.torch.__all__}
    for name, thing in ({one: getattr(dladmm, one) for one in dladmm._HOME} | torch).items():
        if not callable(thing):
            continue  # a registry of names
        yield name, thing
        if inspect.isclass(thing):
            for base in thing.__mro__:
                if base.__module__.startswith("dladmm"):
                    yield from ((f"{name}.{one}", method) for one, method in methods(base))
    yield "Report", Report
    yield from ((f"Report.{name}", method) for name, method in methods(Report))


CASES = dict(cases())
# Of others, and without parameters of their own: an enumeration, an error, what scikit-learn adds.
WITHOUT = {"Status", "ModelFileError"}


@pytest.mark.parametrize("name", sorted(CASES))
def test_it_names_its_parameters_and_what_it_returns(name):
    thing = CASES[name]
    doc = inspect.getdoc(thing)
    assert doc
    assert re.match(r"\S.*[.;]?$", doc.splitlines()[0])
    if name.split(".")[0] not in WITHOUT:
        assert wanted(thing) - named(doc) == set()
        assert RETURNS.search(doc) or not returns(thing)


def test_all_that_is_public_is_looked_at():
    assert {"Activation.argmin_z", "Loss.prox", "Regularizer.value", "Layer.expand"} <= set(CASES)
    assert {"DLADMMClassifier.to_onnx", "torch.train", "torch.Residual", "L1"} <= set(CASES)
    assert {name.split(".")[0] for name in CASES} >= set(dladmm._HOME) - {
        "activations", "layers", "losses", "regularizers"}  # fmt: skip


def test_a_parameter_without_words_and_a_missing_section_are_found():
    def f(a, b) -> int:
        """Do.

        Parameters
        ----------
        a : int
            A number.
        b : int
        """

    assert wanted(f) - named(f.__doc__) == {"b"}
    assert returns(f)
    assert not RETURNS.search(inspect.getdoc(f))
