"""How the scripts for Redis get into the binary: scripts/embed-redis-scripts."""

import hashlib
import pathlib
import re
import subprocess

import pytest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "embed-redis-scripts"


@pytest.fixture
def folder(tmp_path):
    """folder({"name": text}, {"name": text of lib/name}) writes scripts."""
    directory = tmp_path / "scripts"
    (directory / "lib").mkdir(parents=True)

    def write(scripts, library=()):
        for name, text in dict(scripts).items():
            (directory / f"{name}.lua").write_text(text)
        for name, text in dict(library).items():
            (directory / "lib" / f"{name}.lua").write_text(text)
        return directory

    return write


def run(*words):
    return subprocess.run([str(TOOL), *map(str, words)], capture_output=True, text=True, check=False)


def text_of(directory, name):
    done = run("--print", directory, name)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_includes_go_deep_and_come_once(folder):
    directory = folder(
        {"a": "-- include one\n-- include two\nreturn a\n"},
        {"one": "-- include two\nlocal one = 1\n", "two": "local two = 2\n"},
    )
    assert text_of(directory, "a") == "local two = 2\nlocal one = 1\nreturn a\n"


def test_an_include_may_be_indented(folder):
    directory = folder({"a": "if x then\n  -- include one\nend\n"}, {"one": "local one = 1\n"})
    assert text_of(directory, "a") == "if x then\nlocal one = 1\nend\n"


def test_an_indented_include_is_seen_by_its_block_alone(folder):
    directory = folder({"a": "if x then\n  -- include one\nend\n-- include one\n-- include one\n"}, {"one": "local one = 1\n"})
    assert text_of(directory, "a") == "if x then\nlocal one = 1\nend\nlocal one = 1\n"


def test_comments_and_indentation_are_not_sent_but_strings_stay(folder):
    directory = folder({"a": "-- head\n\nif x then\n  -- why\n  y('-- not a comment')\nend\n"})
    assert text_of(directory, "a") == "if x then\ny('-- not a comment')\nend\n"


def test_a_file_with_a_text_of_many_lines_keeps_them(folder):
    directory = folder({"a": "local s = [[\n  -- text\n  more]]\nreturn s\n"})
    assert text_of(directory, "a") == "local s = [[\n  -- text\n  more]]\nreturn s\n"


@pytest.mark.parametrize("name", ["none", "../a", "A"])
def test_what_is_not_there_is_not_included(folder, name):
    directory = folder({"a": f"-- include {name}\n"})
    done = run("--print", directory, "a")
    assert done.returncode != 0 and name in done.stderr


def test_a_folder_without_scripts_gives_an_empty_table(folder, tmp_path):
    done = run(folder({}), tmp_path / "out.c", tmp_path / "out.d")
    assert done.returncode == 0, done.stderr
    assert "redis_script_count = 0" in (tmp_path / "out.c").read_text()


def test_the_table_has_the_hash_of_what_is_sent(folder, tmp_path):
    directory = folder({"b": "return 'quoted \"b\" \\\\ é ??/'\n", "a": "return 1\n"})
    assert run(directory, tmp_path / "out.c", tmp_path / "out.d").returncode == 0
    table = re.findall(r'\{"(\w+)", .*"([0-9a-f]{40})", (true|false)\}', (tmp_path / "out.c").read_text())
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
    directory = folder({"a": "-- include deadline\n", "b": "return 1\n"}, {"deadline": "local late = 1\n"})
    assert run(directory, tmp_path / "out.c", tmp_path / "out.d").returncode == 0
    assert re.findall(r'\{"(\w+)", .*, (true|false)\}', (tmp_path / "out.c").read_text()) == [("a", "true"), ("b", "false")]


def test_what_the_table_depends_on_is_named(folder, tmp_path):
    directory = folder({"a": "-- include one\n"}, {"one": "local one = 1\n"})
    assert run(directory, tmp_path / "out.c", tmp_path / "out.d").returncode == 0
    target, _, paths = (tmp_path / "out.d").read_text().partition(": ")
    assert target == str(tmp_path / "out.c")
    for path in (directory, directory / "lib", directory / "a.lua", directory / "lib" / "one.lua"):
        assert str(path) in paths.split()
