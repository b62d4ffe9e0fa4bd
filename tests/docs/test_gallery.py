"""The gallery: every example has its page and picture, and runs; `make gallery` writes them."""

import json
import sys
import warnings

import pytest
from figures import ROOT

sys.path.insert(0, str(ROOT / "docs" / ".site"))
import gallery

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
    assert printed.strip()
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
