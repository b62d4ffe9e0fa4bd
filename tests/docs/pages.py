"""What README, CONTRIBUTING and docs show: blocks of code, and the commands in them."""

import re

from run_records import ROOT

BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.M | re.S)
ANY_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
# Pages whose commands are run in their order among the Python blocks.
WITH_COMMANDS = ("README.md", "docs/start.md", "docs/guide/tables.md", "docs/models.md")


def blocks(page):
    return BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


def commands(text):
    """The commands of a block, without prompts, remarks and breaks in the middle."""
    lines = text.replace("\\\n", " ").splitlines()
    shown = (line.removeprefix("$ ").split("  #")[0].strip() for line in lines)
    return [line for line in shown if line and not line.startswith("#")]


def all_commands():
    """(page, language of its block, command) of README, CONTRIBUTING and docs, of all kinds of
    blocks."""
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")):
        for language, text in ANY_BLOCK.findall(page.read_text(encoding="utf-8")):
            for command in commands(text) if language in ("console", "bash", "text", "") else ():
                yield str(page.relative_to(ROOT)), language, command
