"""How the scripts for Redis get into the binary: scripts/embed-redis-scripts."""

import hashlib
import pathlib
import re
import subprocess

import pytest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "embed-redis-scripts"


@pytest.fixture
def folder(tmp_path):
    """folder({"name": text}, {"name": text of lib/name}, text of interface.txt) writes scripts."""
    directory = tmp_path / "scripts"
    (directory / "lib").mkdir(parents=True)

    def write(scripts, library=(), interface=""):
        for name, text in dict(scripts).items():
            (directory / f"{name}.lua").write_text(text)
        for name, text in dict(library).items():
            (directory / "lib" / f"{name}.lua").write_text(text)
        (directory / "interface.txt").write_text(interface)
        return directory

    return write


def run(*words):
    return subprocess.run([str(TOOL), *map(str, words)], capture_output=True, text=True, check=False)


def embed(directory, tmp_path):
    return run(directory, tmp_path / "out.c", tmp_path / "out.h", tmp_path / "out.d")


def text_of(directory, name):
    done = run("--print", directory, name)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_includes_go_deep_and_come_once(folder):
    directory = folder(
        {"a": "-- include one\n-- include two\nreturn one\n"},
        {"one": "-- include two\nlocal one = 1\n", "two": "local two = 2\n"},
    )
    assert text_of(directory, "a") == "local two = 2\nlocal one = 1\nreturn one\n"


def test_an_include_may_be_indented(folder):
    directory = folder({"a": "if KEYS[1] then\n  -- include one\nend\n"}, {"one": "local one = 1\n"})
    assert text_of(directory, "a") == "if KEYS[1] then\nlocal one = 1\nend\n"


def test_an_indented_include_is_seen_by_its_block_alone(folder):
    directory = folder({"a": "if KEYS[1] then\n  -- include one\nend\n-- include one\n-- include one\n"}, {"one": "local one = 1\n"})
    assert text_of(directory, "a") == "if KEYS[1] then\nlocal one = 1\nend\nlocal one = 1\n"


def test_comments_and_indentation_are_not_sent_but_strings_stay(folder):
    directory = folder({"a": "-- head\n\nif KEYS[1] then\n  -- why\n  error('-- not a comment')\nend\n"})
    assert text_of(directory, "a") == "if KEYS[1] then\nerror('-- not a comment')\nend\n"


def test_a_text_of_many_lines_is_refused(folder):
    done = run("--print", folder({"a": "local s = [[\n  -- text\n  more]]\nreturn s\n"}), "a")
    assert done.returncode != 0 and "a.lua:1" in done.stderr


@pytest.mark.parametrize("name", ["none", "../a", "A"])
def test_what_is_not_there_is_not_included(folder, name):
    directory = folder({"a": f"-- include {name}\n"})
    done = run("--print", directory, "a")
    assert done.returncode != 0 and name in done.stderr


def test_a_folder_without_scripts_gives_an_empty_table(folder, tmp_path):
    done = embed(folder({}), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "redis_script_count = 0" in (tmp_path / "out.c").read_text()


def test_the_table_has_the_hash_of_what_is_sent(folder, tmp_path):
    directory = folder({"b": "return 'quoted \"b\" \\\\ é ??/'\n", "a": "return 1\n"})
    assert embed(directory, tmp_path).returncode == 0
    table = re.findall(r'\{"(\w+)", .*"([0-9a-f]{40})", (true|false), ', (tmp_path / "out.c").read_text())
    assert table == [(name, hashlib.sha1(text_of(directory, name).encode()).hexdigest(), "false") for name in ("a", "b")]
    # The compiler must read back the same bytes.
    program = tmp_path / "show.c"
    program.write_text(
        '#include <stdio.h>\n#include "out.c"\n'
        "int main(void) { fwrite(redis_script_table[1].text, 1, redis_script_table[1].text_len, stdout); return 0; }\n"
    )
    source = TOOL.parents[1] / "src"
    subprocess.run(["cc", "-I", str(source), "-I", str(tmp_path), str(program), "-o", str(tmp_path / "show")], check=True)
    assert subprocess.check_output([str(tmp_path / "show")]).decode() == text_of(directory, "b")


def test_the_table_says_which_scripts_take_a_deadline(folder, tmp_path):
    directory = folder({"a": "-- include deadline\n", "b": "return 1\n"}, {"deadline": "error(1)\n"})
    assert embed(directory, tmp_path).returncode == 0
    assert re.findall(r'\{"(\w+)", .*", (true|false), ', (tmp_path / "out.c").read_text()) == [("a", "true"), ("b", "false")]


def test_what_the_table_depends_on_is_named(folder, tmp_path):
    directory = folder({"a": "-- include one\n"}, {"one": "-- @leaves one\nlocal one = 1\n"})
    assert embed(directory, tmp_path).returncode == 0
    target, _, paths = (tmp_path / "out.d").read_text().partition(": ")
    assert target.split() == [str(tmp_path / "out.c"), str(tmp_path / "out.h")]
    for path in (directory, directory / "lib", directory / "a.lua", directory / "lib" / "one.lua", directory / "interface.txt"):
        assert str(path) in paths.split()


INTERFACE = """# two of each
common prefix
number LIFE_MS 60000 How long.
number KEY_MS LIFE_MS-1 A little less.
text WORD 'word' A text.
text WORDS '<WORD> and <WORD>' Two of them.
key PODS 'pods' A key.
core PODS_MAX A constant of core.
"""
USES_ALL = """local P = ARG.prefix
return {CONST.LIFE_MS, TEXT.KEY_MS, CONST.WORDS, #CONST.WORD, KEY.PODS, CONST.PODS_MAX, 'KEY.PODS'}
"""


def test_names_of_the_interface_become_values(folder):
    directory = folder({"a": USES_ALL}, interface=INTERFACE)
    assert text_of(directory, "a") == (
        "local P = ARGV[1]\nreturn {60000, '59999', 'word and word', 4, P .. 'pods', 50000, 'KEY.PODS'}\n"
    )


def test_c_gets_the_same_names(folder, tmp_path):
    done = embed(folder({"a": USES_ALL}, interface=INTERFACE), tmp_path)
    assert done.returncode == 0, done.stderr
    header = (tmp_path / "out.h").read_text()
    assert "SCRIPT_LIFE_MS = 60000," in header and '#define SCRIPT_WORDS "word and word"' in header
    assert '#define SCRIPT_KEY_PODS "pods"' in header and "PODS_MAX" not in header
    # The compiler compares the value that was read from core.
    assert "_Static_assert(PODS_MAX == 50000," in (tmp_path / "out.c").read_text()


@pytest.mark.parametrize("name", ["CONST.NONE", "TEXT.NONE", "KEY.NONE", "KEY.WORD", "ARG.none", "EACH.FIRST", "CONST"])
def test_an_unknown_name_is_an_error(folder, name):
    done = run("--print", folder({"a": f"return {name}\n"}, interface="text WORD 'word' A text.\n"), "a")
    assert done.returncode != 0 and "a.lua:1" in done.stderr and name.split(".")[-1] in done.stderr


@pytest.mark.parametrize("line", ["number UNUSED 1 A number.", "text UNUSED 'x' A text.", "key UNUSED 'x' A key."])
def test_a_name_that_no_script_uses_is_an_error(folder, tmp_path, line):
    done = embed(folder({"a": "return 1\n"}, interface=line + "\n"), tmp_path)
    assert done.returncode != 0 and "UNUSED" in done.stderr
    assert not (tmp_path / "out.c").exists()


@pytest.mark.parametrize(
    "line",
    ["number ONE one It.", "number ONE 1", "text ONE one It.", "text ONE '<NONE>' It.", "core NO_SUCH_NAME It.", "What?"],
)
def test_an_interface_that_cannot_be_read_is_an_error(folder, line):
    done = run("--print", folder({"a": "return 1\n"}, interface=line + "\n"), "a")
    assert done.returncode != 0 and done.stderr


def test_arguments_are_named_in_their_order(folder, tmp_path):
    script = (
        "-- @arg first: one\n-- @optional second: two\n-- @each name: a name\n-- @each value: a value\n"
        "return {ARG.first, ARG.second, ARG_AT.second, EACH.FIRST, EACH.SIZE}\n"
    )
    directory = folder({"a": script}, interface="common prefix\n")
    assert text_of(directory, "a") == "return {ARGV[2], ARGV[3], 3, 4, 2}\n"
    assert embed(directory, tmp_path).returncode == 0
    header = (tmp_path / "out.h").read_text()
    for line in ("SCRIPT_A_ARG_FIRST = 1,", "SCRIPT_A_ARG_SECOND = 2,", "SCRIPT_A_ARGS = 2,", "SCRIPT_A_EACH = 2,"):
        assert line in header


def test_an_argument_that_is_not_used_is_an_error(folder):
    done = run("--print", folder({"a": "-- @arg first: one\nreturn 1\n"}), "a")
    assert done.returncode != 0 and "first" in done.stderr


@pytest.mark.parametrize(
    "part, wrong",
    [
        ("local left = 1\n", "left"),
        ("-- @leaves gone\nlocal function f()\n  local gone\n  return gone\nend\n", "gone"),
        ("return used\n", "used"),
        ("-- @uses used\nreturn 1\n", "used"),
        ("local function f(a)\n  return a, b\nend\n", "b"),
    ],
)
def test_a_part_of_the_library_says_what_it_uses_and_leaves(folder, tmp_path, part, wrong):
    directory = folder({"a": "local used, b = 1, 2\n-- include one\n"}, {"one": part})
    done = embed(directory, tmp_path)
    assert done.returncode != 0 and "one.lua" in done.stderr and wrong in done.stderr


def test_a_part_that_says_it_is_accepted(folder, tmp_path):
    part = "-- @uses used\n-- @leaves left\nlocal left = used\nlocal function f(a)\n  return {used = a}\nend\n"
    done = embed(folder({"a": "local used = 1\n-- include one\n"}, {"one": part}), tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_part_that_no_script_includes_is_an_error(folder, tmp_path):
    done = embed(folder({"a": "return 1\n"}, {"one": "error(1)\n"}), tmp_path)
    assert done.returncode != 0 and "one.lua" in done.stderr


@pytest.mark.parametrize(
    "text",
    ["return none\n", "if KEYS[1] then\n  local none\nend\nreturn none\n", "none = 1\n",
     "for none = 1, 2 do\nend\nreturn none\n", "-- include one\n"],
)
def test_a_script_that_uses_what_nothing_defines_is_an_error(folder, text):
    done = run("--print", folder({"a": text}, {"one": "-- @uses none\nerror(none)\n"}), "a")
    assert done.returncode != 0 and "none is not defined in a" in done.stderr


def test_a_long_line_is_an_error(folder):
    done = run("--print", folder({"a": "-- " + "x" * 98 + "\n"}), "a")
    assert done.returncode != 0 and "100 columns" in done.stderr
