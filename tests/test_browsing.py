"""Tests in a browser: skipped where there is none, but not where CI says that all is there."""

import shutil

import pytest
from browsing import absent, programs


@pytest.mark.parametrize(("ci", "ends"), [("true", pytest.fail), ("", pytest.skip)])
def test_without_a_browser_ci_fails_and_others_skip(ci, ends, monkeypatch):
    monkeypatch.setenv("CI", ci)
    with pytest.raises(ends.Exception, match="the browser is not installed"):
        absent("the browser is")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ends.Exception, match="chromium-driver are not installed"):
        programs()
