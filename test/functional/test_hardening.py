"""How the binary was built: what an attacker who has found a memory error would still have to get past."""

import json
import re
import subprocess

import pytest
from conftest import BINARY

BUILD = BINARY.parent
SEGMENT = re.compile(r"^ +(LOAD|GNU_STACK) +(?:0x[0-9a-f]+ +){4}0x[0-9a-f]+ ([R ][W ][E ]) 0x", re.MULTILINE)
CFI = "x86 feature: IBT, SHSTK"


def readelf(*args):
    return subprocess.run(["readelf", "--wide", *args], check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def options():
    with open(BUILD / "meson-info" / "intro-buildoptions.json", encoding="utf-8") as file:
        return {option["name"]: option["value"] for option in json.load(file)}


def test_the_binary_can_be_anywhere_in_memory():
    assert "Type:                              DYN" in readelf("--file-header", str(BINARY))
    assert "Flags: NOW PIE" in readelf("--dynamic", str(BINARY))


def test_what_the_loader_writes_is_read_only_afterwards():
    assert " GNU_RELRO " in readelf("--program-headers", str(BINARY))
    assert "(FLAGS)              BIND_NOW" in readelf("--dynamic", str(BINARY))


def test_nothing_is_writable_and_executable():
    segments = dict(SEGMENT.findall(readelf("--program-headers", str(BINARY)))).keys()
    flags = [flags for _, flags in SEGMENT.findall(readelf("--program-headers", str(BINARY)))]
    assert {"LOAD", "GNU_STACK"} <= segments
    assert "R E" in flags and "RW " in flags
    assert not any("W" in text and "E" in text for text in flags)


def test_overflows_of_the_stack_and_of_buffers_are_noticed(options):
    symbols = readelf("--dyn-syms", str(BINARY))
    if options["b_sanitize"] != "none":  # which notice more, and get in the way of these
        return
    assert "__stack_chk_fail" in symbols
    if options["optimization"] not in ("0", "plain"):
        assert "__snprintf_chk" in symbols


def test_every_object_of_ours_is_ready_for_ibt_and_shstk():
    """The binary has the mark as soon as the C library's start files have it: none of ours stands in its way."""
    if "X86-64" not in readelf("--file-header", str(BINARY)):
        return
    objects = sorted(BUILD.glob("smart-router.p/*.o")) + sorted(BUILD.glob("src/**/*.a.p/*.o"))
    assert len(objects) > 100
    notes = readelf("--notes", *map(str, objects)).split("\nFile: ")
    assert len(notes) >= len(objects)
    assert [note.split("\n")[0] for note in notes if note.strip() and CFI not in note] == []
    start = subprocess.run(["cc", "-print-file-name=Scrt1.o"], check=True, capture_output=True, text=True).stdout.strip()
    assert (CFI in readelf("--notes", str(BINARY))) == (CFI in readelf("--notes", start))
