"""The rooms of the package and the one direction of its imports, read off the source itself."""

import ast
from pathlib import Path

import pytest

import dladmm

SOURCE = Path(dladmm.__file__).parent
# Each room may import those before it; rooms that share a place do not know each other.
ORDER = [
    {"_version"},
    {"engine"},
    {"terms"},
    {"network"},
    {"core"},
    {"callbacks", "data", "io"},
    {"export", "report"},
    {"estimators", "torch"},
    {"experiments"},
    {"bench"},
    {"paper"},
    {"cli"},
]
PLACE = {room: k for k, rooms in enumerate(ORDER) for room in rooms}
PUBLIC = {"__init__.py", "__main__.py"}  # the package's face, which knows every room
METHODS = {"restored", "dladmm", "admm"}


def modules():
    return [path.relative_to(SOURCE) for path in sorted(SOURCE.rglob("*.py"))]


def imported(code):
    """Every module of the package that this code imports, anywhere in it."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.startswith("dladmm"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dladmm"):
            yield from (f"{node.module}.{name.name}" for name in node.names)


def backward(path, code):
    """Imports of this file that go against the order."""
    own = path.parts[0].removesuffix(".py")
    for module in imported(code):
        other = module.split(".")[1]
        if other != own and PLACE[other] >= PLACE[own]:
            yield module


@pytest.mark.parametrize("path", [p for p in modules() if str(p) not in PUBLIC], ids=str)
def test_imports_go_one_way(path):
    assert list(backward(path, (SOURCE / path).read_text())) == []


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("terms/loss.py", "from dladmm.core.problem import Problem"),
        ("io/files.py", "def save():\n    from dladmm.estimators import DLADMMClassifier"),
        ("experiments/setup.py", "from dladmm import cli"),
        ("data/tables.py", "import dladmm.io.files"),
    ],
)
def test_an_import_that_goes_back_is_found(path, code):
    assert len(list(backward(Path(path), code))) == 1


def test_every_room_has_its_place():
    found = {path.parts[0].removesuffix(".py") for path in modules() if str(path) not in PUBLIC}
    assert found == set(PLACE)


@pytest.mark.parametrize(
    ("room", "others"),
    [("relaxed", ("restored",)), ("restored", ("relaxed",))],
)
def test_the_algorithms_do_not_know_each_other(room, others):
    files = list((SOURCE / "core" / room).glob("*.py"))
    assert files
    for file in files:
        for module in imported(file.read_text()):
            assert not module.startswith(tuple(f"dladmm.core.{other}" for other in others)), file


def compared_methods(code):
    """Names of methods that this code compares something with."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Compare):
            for one in ast.walk(node):
                if isinstance(one, ast.Constant) and one.value in METHODS:
                    yield one.value


def test_nobody_compares_the_name_of_a_method():
    assert list(compared_methods("if options.method == 'restored': pass")) == ["restored"]
    found = {str(p) for p in modules() if list(compared_methods((SOURCE / p).read_text()))}
    assert found == set()


def test_only_layers_take_weights_and_bias_apart():
    sliced = {str(p) for p in modules() if "[:, :-1]" in (SOURCE / p).read_text()}
    assert sliced == {"terms/layers/base.py"}


def test_the_page_about_the_rooms_names_every_file():
    page = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text()
    files = [p for p in modules() if p.name not in (*PUBLIC, "_version.py")]
    assert len(files) > 100
    assert [str(p) for p in files if f"`{p.stem}" not in page and f"{p.name}`" not in page] == []
