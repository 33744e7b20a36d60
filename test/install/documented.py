"""The commands of docs/INSTALL.md: `<!-- installs: WAY -->` marks a block. scripts/doc_commands.py explains how a block is read."""

import re
import sys

from conftest import ROOT

sys.path.insert(1, str(ROOT / "scripts"))
import doc_commands  # noqa: E402 (its folder is not known before)

MARK = re.compile(r"^<!-- installs: ([a-z-]+) -->$", re.MULTILINE)


def steps(way):
    """(command, what it shows or None) of every block of a way, in order."""
    text = (ROOT / "docs/INSTALL.md").read_text()
    blocks = []
    for mark in MARK.finditer(text):
        if mark.group(1) == way:
            block = doc_commands.blocks_of("<!-- run -->" + text[mark.end():])
            blocks.append(next(block)[2])
    assert blocks, f"docs/INSTALL.md has no commands for {way}"
    return [step for block in blocks for step in doc_commands.steps_of(block)]


def run(way, execute):
    """Runs the commands of a way by execute(command) -> what it prints; compares that with the document."""
    for command, shown in steps(way):
        printed = execute(command)
        assert shown is None or doc_commands.is_shown(shown, printed), f"{command} does not print\n{shown}\nbut\n{printed}"
