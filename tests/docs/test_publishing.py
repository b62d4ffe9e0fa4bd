"""The site of a release on gh-pages: its front page leads to the newest version that is there."""

import os
import subprocess

import pytest
from run_records import ROOT

QUIET = {
    **os.environ,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    **{f"GIT_{who}_{what}": "nobody@localhost" for who in ("AUTHOR", "COMMITTER")
       for what in ("NAME", "EMAIL")},
}  # fmt: skip


def git(folder, *words):
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, env=QUIET, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def clone(tmp_path):
    """A repository with one commit, pushed to a bare one beside it."""
    git(tmp_path, "init", "--bare", "--quiet", "origin.git")
    git(tmp_path, "clone", "--quiet", "origin.git", "clone")
    folder = tmp_path / "clone"
    (folder / "code.py").write_text("x = 1\n")
    (folder / ".gitignore").write_text("build\n")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", "code")
    git(folder, "push", "--quiet", "origin", "HEAD:main")
    (folder / "build" / "site").mkdir(parents=True)
    return folder


def publish(folder, version):
    (folder / "build" / "site" / "index.html").write_text(f"the site of {version}")
    command = ["bash", str(ROOT / ".ci" / "publish-docs"), version]
    done = subprocess.run(command, cwd=folder, env=QUIET, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def published(folder, name):
    return git(folder.parent / "origin.git", "show", f"gh-pages:{name}")


def test_the_front_page_leads_to_the_newest_version_not_to_the_last_one(clone):
    leads = []
    for version in ("v0.2", "v0.10", "v0.9.1", "v1.0rc1"):  # a mended old version comes late
        publish(clone, version)
        leads.append(published(clone, "index.html").split("url=")[1].split("/")[0])
    assert leads == ["v0.2", "v0.10", "v0.10", "v0.10"]
    assert published(clone, "v0.9.1/index.html") == "the site of v0.9.1"
    assert published(clone, "v0.2/index.html") == "the site of v0.2"
    files = git(clone.parent / "origin.git", "ls-tree", "--name-only", "gh-pages").split()
    assert files == [".nojekyll", "index.html", "v0.10", "v0.2", "v0.9.1", "v1.0rc1"]
    assert git(clone, "worktree", "list").count("\n") == 1
    assert git(clone, "status", "--porcelain") == ""


def test_a_version_is_published_again(clone):
    publish(clone, "v0.2rc1")
    assert "url=v0.2rc1/" in published(clone, "index.html")
    (clone / "build" / "site" / "old.html").write_text("a page")
    publish(clone, "v0.2")
    (clone / "build" / "site" / "old.html").unlink()
    publish(clone, "v0.2")
    pages = git(clone.parent / "origin.git", "ls-tree", "--name-only", "gh-pages:v0.2").split()
    assert pages == ["index.html"]
    assert "url=v0.2/" in published(clone, "index.html")
