"""The documents: what they mark is run, and their links lead somewhere, in the tree and after an installation."""

import pathlib
import re
import subprocess
import sys

import pytest
from conftest import BINARY, DEADLINE_S, ROOT

sys.path.insert(0, str(ROOT / "scripts"))
import doc_commands  # noqa: E402

LINK = re.compile(r"\[[^]]*\]\(([^)#:]+)(?:#[^)]*)?\)|<img src=\"([^\":]+)\"")


@pytest.mark.parametrize("name", ["README.md", "docs/AGENTS.md", "docs/CLI.md"])
def test_the_marked_commands_print_what_is_shown(name):
    assert doc_commands.check(BINARY.parent, ROOT / name) > 3


@pytest.mark.parametrize(
    "text",
    [
        "<!-- run -->\n\n    $ echo a\n    b\n",
        "<!-- run -->\n\n    $ echo a\n    a b\n",
        "<!-- run -->\n\n    false\n",
        "<!-- run -->\n\n    $ printf a; exit 3\n    a\n",
        "<!-- run -->\n\ntext\n",
        "<!-- start -->\n\n    HTTP_PORT=x make run\n",
    ],
)
def test_a_command_that_does_something_else_is_found(tmp_path, text):
    (tmp_path / "document.md").write_text(text)
    with pytest.raises(doc_commands.Wrong):
        doc_commands.check(BINARY.parent, tmp_path / "document.md")


def test_what_is_shown_may_be_abbreviated_and_broken(tmp_path):
    document = tmp_path / "document.md"
    document.write_text('<!-- run -->\n\n    $ echo \'{"a":1,"b":2,\' \\\n      "at 2020-01-01T00:00:00Z"\n    {"a":1,\n     …\n     at 2026-02-08T10:00:00Z\n')
    assert doc_commands.check(BINARY.parent, document) == 1


def broken_links(folder):
    documents = [folder / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
    documents += sorted((folder / "docs").glob("*.md"))
    links = [(document, link) for document in documents for pair in LINK.findall(document.read_text()) for link in pair if link]
    assert len(links) > 30
    return [(str(document), link) for document, link in links if not (document.parent / link).exists()]


def test_links_between_documents_work_in_the_tree_and_where_they_are_installed(tmp_path):
    assert broken_links(ROOT) == []
    prefix = tmp_path / "usr"
    subprocess.run([ROOT / "scripts/install", BINARY.parent, tmp_path, "/usr"], check=True, timeout=DEADLINE_S)
    assert broken_links(prefix / "share/doc/smart-router") == []
    done = subprocess.run([prefix / "bin/smart-router", "version"], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0 and pathlib.Path(prefix / "share/doc/smart-router/LICENSE").exists()
