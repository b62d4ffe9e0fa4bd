"""Everything public has a docstring that names each of its parameters, in numpydoc's form."""

import inspect
import re

import pytest

import dladmm
import dladmm.torch

TERMS = set(dladmm._HOME) & {
    name for name, room in dladmm._HOME.items() if room.startswith("dladmm.terms")
}
PUBLIC = sorted(set(dladmm._HOME) - TERMS)
SECTION = re.compile(r"^(Parameters|Attributes)\n-+\n(.*?)(?=^\S[^\n]*\n---|\Z)", re.M | re.S)


def named(doc):
    """Names that the sections about parameters and attributes describe, each with some words."""
    found = set()
    for _, body in SECTION.findall(inspect.cleandoc(doc or "")):
        for entry in re.findall(r"^(\S.*? : .*\n(?:[ ]+\S.*\n?)+)", f"{body}\n", re.M):
            found |= {name.strip().lstrip("*") for name in entry.split(" : ")[0].split(",")}
    return found


def wanted(thing):
    parameters = inspect.signature(thing).parameters.values()
    return {p.name for p in parameters if p.name not in ("self", "cls") and p.name[0] != "_"}


def functions():
    """(name, function or class) of all that is public, methods included."""
    for name in PUBLIC:
        thing = getattr(dladmm, name)
        yield name, thing
        if inspect.isclass(thing) and thing.__module__.startswith("dladmm"):
            for method, function in inspect.getmembers(thing, callable):
                home = getattr(function, "__module__", "") or ""
                is_field = method in getattr(thing, "__dataclass_fields__", ())
                if method[0] != "_" and home.startswith("dladmm") and not is_field:
                    yield f"{name}.{method}", function
    yield "torch.train", dladmm.torch.train


CASES = dict(functions())
WITHOUT = {"Status", "ModelFileError"}  # an enumeration, and an error


@pytest.mark.parametrize("name", CASES)
def test_it_names_its_parameters(name):
    doc = CASES[name].__doc__
    assert doc
    assert re.match(r"\S.*[.;]?$", doc.splitlines()[0])
    if name.split(".")[0] not in WITHOUT:
        assert wanted(CASES[name]) - named(doc) == set()


@pytest.mark.parametrize("name", sorted(TERMS))
def test_a_term_says_what_it_computes(name):
    assert inspect.getdoc(getattr(dladmm, name))


def test_a_parameter_without_words_is_found():
    def f(a, b):
        """Do.

        Parameters
        ----------
        a : int
            A number.
        b : int
        """

    assert wanted(f) - named(f.__doc__) == {"b"}
