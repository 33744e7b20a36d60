"""SECURITY.md says which test shows what: each of them exists."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


def rows():
    text = (ROOT / "SECURITY.md").read_text()
    table = text[text.index("| threat |") :].splitlines()[2:]
    for line in table:
        if not line.startswith("|"):
            break
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if not cells[0].startswith("**"):
            yield cells


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
    path = ROOT / "test/functional" / file
    return path.exists() and (not function or f"def {function}(" in path.read_text())


def test_every_row_has_four_cells():
    found = list(rows())
    assert len(found) > 30
    assert [cells[0] for cells in found if len(cells) != 4] == []


def test_the_tests_that_the_table_names_exist():
    missing = []
    for cells in rows():
        for kind, name in re.findall(r"(?:(unit|fuzz|conformance) )?`([^`]+)`", cells[2]):
            if not exists(kind, name):
                missing.append((cells[0], name))
    assert missing == []
