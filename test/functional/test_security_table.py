"""SECURITY.md names the tests for each threat: each of them exists."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


LABELS = ("Protection", "Tests", "Remains")


def threats():
    """The threats of the document, each with the texts of its labels."""
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    section = re.split(r"^## ", text, flags=re.M)[-1]
    assert section.startswith("Threats\n")
    for entry in re.split(r"^- (?=\*\*)", section, flags=re.M)[1:]:
        entry = entry.split("\n### ")[0]
        name, *parts = re.split(r"^  - ", entry, flags=re.M)
        yield " ".join(name.split()).strip("*."), dict(" ".join(part.split()).split(": ", 1) for part in parts)


def exists(kind, name):
    if kind == "unit":
        return (ROOT / f"test/unit/test_{name}.c").exists()
    if kind == "fuzz":
        return (ROOT / f"test/fuzz/fuzz_{name}.c").exists()
    if kind == "conformance":
        return (ROOT / "test/conformance" / name).exists()
    if name.startswith("bench/"):
        return (ROOT / name).exists()
    if name.startswith("make "):
        return re.search(rf"^{name.removeprefix('make ')}:", (ROOT / "Makefile").read_text(), re.M) is not None
    file, _, function = name.partition("::")
    paths = [path for folder in ("functional", "install") if (path := ROOT / "test" / folder / file).exists()]
    return any(not function or f"def {function}(" in path.read_text() for path in paths)


def test_every_threat_has_known_labels_and_says_what_is_done_or_what_remains():
    found = list(threats())
    assert len(found) > 30
    for name, parts in found:
        assert list(parts) == [label for label in LABELS if label in parts], name
        assert "Protection" in parts or "Remains" in parts, name


def test_the_tests_that_the_threats_name_exist():
    names = 0
    missing = []
    for threat, parts in threats():
        for kind, name in re.findall(r"(?:(unit|fuzz|conformance) )?`([^`]+)`", parts.get("Tests", "")):
            names += 1
            if not exists(kind, name):
                missing.append((threat, name))
    assert missing == []
    assert names > 50
