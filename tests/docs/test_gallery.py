"""The gallery: every example has its page and picture, runs, and prints what its page shows;
`make gallery` writes them.
"""

import json
import re
import sys
import warnings

import pytest
from run_records import ROOT

from dladmm.experiments.machine import describe_machine

sys.path.insert(0, str(ROOT / "docs" / ".site"))
import gallery

SHOWN = gallery.GALLERY  # where it is, also while a test has it write elsewhere
SCRIPTS = sorted(path.stem for path in gallery.GALLERY.glob("*.py"))


def test_every_script_is_in_the_gallery():
    assert sorted(gallery.NAMES) == SCRIPTS
    assert (gallery.GALLERY / "index.md").read_text(encoding="utf-8") == gallery.index()
    known = json.loads((gallery.GALLERY / "gallery.json").read_text(encoding="utf-8"))
    assert set(known) == set(SCRIPTS)


@pytest.mark.parametrize("name", SCRIPTS)
def test_its_page_shows_the_script_as_it_is(name):
    page = (gallery.GALLERY / f"{name}.md").read_text(encoding="utf-8")
    title, text, code = gallery.parts(name)
    assert page.startswith(f"# {title}\n\n{text}\n")
    assert f"```python\n{code}\n```" in page
    assert (gallery.GALLERY / f"{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", SCRIPTS)
def test_its_page_says_how_its_settings_were_chosen(name):
    """Either the script chooses them on rows held out, or it is said that nothing was compared."""
    _, text, code = gallery.parts(name)
    said = " ".join(text.split()).partition("Settings: ")[2]
    assert len(said) > 60
    assert ("held" in code) is ("chosen" in said and "none of them is chosen" not in said)


# What a gallery of this library has to show.
SUBJECTS = {
    "swap_mlp": "MLPClassifier", "exact_zeros": "L1(", "monotone": "non_negative",
    "quantised_onnx": "to_onnx", "quantile_bands": "Quantile", "poisson_counts": "poisson",
    "cnn_filters": "Conv2D", "residual": "Residual", "patterns": "Conv1D",
    "recurrent": "Recurrent", "certificates": "certificate.rises",
    "torch_module": "dladmm.torch.train", "against_adam": "gap",
}  # fmt: skip


def test_the_gallery_has_every_subject():
    assert set(SUBJECTS) <= set(SCRIPTS)
    assert all(what in gallery.parts(name)[2] for name, what in SUBJECTS.items())


def test_one_certificate_holds_and_one_does_not():
    page = (gallery.GALLERY / "certificates.md").read_text(encoding="utf-8")
    inside, outside = page.split("--- outside\n")[0], page.split("--- outside\n")[1]
    assert "condition rho > 2H    holds" in inside
    assert "L_rho rose            never" in inside
    assert "does not hold" in outside.split("---")[0]
    assert "times at constant rho" in outside.split("---")[0]


# What is rounding alone, and another one by how XLA compiles.
ROUNDING = re.compile(r"(?<=max \|grad R \+ u\| = )\S+")


def shown(name):
    """What a page says that its script prints."""
    page = (SHOWN / f"{name}.md").read_text(encoding="utf-8")
    return re.search(r"```text\n(.*?)\n```", page, re.S)[1]


def is_alike(name):
    """Whether the page was made with the processor and the releases that are here: on others sums
    are rounded otherwise, and after a hundred iterations a row more is right or wrong."""
    made = json.loads((SHOWN / "gallery.json").read_text(encoding="utf-8"))[name]
    here = describe_machine()
    return all(made["machine"][key] == here[key] for key in ("processor", "python", "jax", "numpy"))


def differing(page, printed, *, alike):
    """(line of the page, line printed) where they differ; elsewhere only how many there are."""
    lines = [ROUNDING.sub("~", text.strip()).splitlines() for text in (page, printed)]
    if len(lines[0]) != len(lines[1]):
        return [tuple(lines)]
    return [pair for pair in zip(*lines, strict=True) if alike and pair[0] != pair[1]]


def test_a_page_that_shows_another_figure_is_noticed():
    page = shown("certificates")
    assert differing(page, f"{page}\n", alike=True) == []
    # Rounding may differ, a figure may not, and a line more may on no machine.
    assert differing(page, re.sub(r"\+ u\| = 4\.4e-06", "+ u| = 4.3e-06", page), alike=True) == []
    ((was, now),) = differing(page, page.replace("18 times", "19 times"), alike=True)
    assert (was.replace("18", "19"), "18 times" in was) == (now, True)
    assert differing(page, f"one more\n{page}", alike=False) != []


@pytest.mark.optimised  # what trains convolutions takes ten times as long otherwise
@pytest.mark.slow
@pytest.mark.float32
@pytest.mark.parametrize("name", SCRIPTS)
def test_it_runs_and_leaves_a_figure(name, tmp_path, monkeypatch):
    monkeypatch.setattr(gallery, "GALLERY", tmp_path)
    (tmp_path / f"{name}.py").write_text(
        (ROOT / "docs" / "gallery" / f"{name}.py").read_text(encoding="utf-8"), encoding="utf-8"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        printed, _ = gallery.run(name)
    assert differing(shown(name), printed, alike=is_alike(name)) == []
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
