"""assemble.py - makes the text of a script from its file, its library and the interface."""
import os
import re

from embed_redis.interface import InterfaceError
from embed_redis.lua import GLOBALS, Names, tokens_of

INCLUDE = re.compile(r"^(\s*)-- include (\S+)\s*$")
NAME = re.compile(r"^[a-z][a-z0-9_]*$")
ARGUMENT = re.compile(r"^-- @(arg|optional|list|each) ([a-z][a-z0-9_]*): \S")
DECLARED = re.compile(r"^-- @(uses|leaves) (.+)$")
WORD = re.compile(r"\w+")
TABLES = ("CONST", "TEXT", "KEY", "ARG", "ARG_AT", "EACH")
COLUMNS_MAX = 100


class ScriptError(Exception):
    pass


class File:
    """One file as it is written."""

    def __init__(self, path):
        self.path = path
        with open(path, encoding="utf-8") as file:
            self.lines = file.read().splitlines()
        self.arguments = {"arg": [], "optional": [], "list": [], "each": []}
        self.values = set()  # words of the lines that name the arguments
        self.declared = {"uses": set(), "leaves": set()}
        self.includes = [match.group(2) for match in map(INCLUDE.match, self.lines) if match]
        for number, line in enumerate(self.lines, 1):
            self.read(line, f"{path}:{number}")

    def read(self, line, where):
        if len(line) > COLUMNS_MAX:
            raise ScriptError(f"{where}: the line is longer than {COLUMNS_MAX} columns")
        argument, declared = ARGUMENT.match(line), DECLARED.match(line)
        if argument:
            self.arguments[argument.group(1)].append(argument.group(2))
            self.values |= set(WORD.findall(line))
        if declared:
            self.declared[declared.group(1)] |= {name.strip() for name in declared.group(2).split(",")}

    def code(self):
        return [(line, f"{self.path}:{number}") for number, line in enumerate(self.lines, 1)]


class Folder:
    """All files of a folder of scripts."""

    def __init__(self, directory, interface):
        self.directory = directory
        self.interface = interface
        self.files = {}

    def names(self, below=""):
        folder = os.path.join(self.directory, below)
        files = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        names = [name[:-4] for name in files if name.endswith(".lua")]
        for name in names:
            if not NAME.match(name):
                raise ScriptError(f"{folder}/{name}.lua: a name is made of a-z, 0-9 and _")
        return names

    def file(self, path, asked_by=None):
        if path not in self.files:
            if not os.path.isfile(path):
                raise ScriptError(f"{asked_by or path}: there is no {path} to include")
            self.files[path] = File(path)
        return self.files[path]

    def script(self, name):
        return self.file(os.path.join(self.directory, name + ".lua"))

    def part(self, name, asked_by):
        path = os.path.join(self.directory, "lib", name + ".lua")
        if not NAME.match(name):
            raise ScriptError(f"{asked_by}: there is no {path} to include")
        return self.file(path, asked_by)

    def provided(self, file):
        """The names that a file gets from its includes, and from theirs."""
        names = set()
        for name in file.includes:
            part = self.part(name, file.path)
            names |= set(Names(part.code()).left) | self.provided(part)
        return names

    def check_part(self, name):
        """A part of the library says which names of its includer it uses, and which variables it leaves."""
        file = self.part(name, self.directory)
        names = Names(file.code())
        used = set(names.free) - GLOBALS - set(TABLES) - self.provided(file)
        left = {name for name, kind in names.left.items() if kind == "variable"}
        for word, found in (("uses", used), ("leaves", left)):
            declared = file.declared[word]
            if found - declared:
                raise ScriptError(f"{file.path}: no line '-- @{word}' names {', '.join(sorted(found - declared))}")
            if declared - found:
                raise ScriptError(f"{file.path}: '-- @{word}' names {', '.join(sorted(declared - found))} for nothing")

    def check_parts(self):
        included = {name for file in self.files.values() for name in file.includes}
        for name in self.names("lib"):
            self.check_part(name)
            if name not in included:
                raise ScriptError(f"{self.directory}/lib/{name}.lua: no script includes this")


class Script:
    """The text of one script. `lines`: (text, place) of each line as Redis gets it."""

    def __init__(self, folder, name):
        self.folder = folder
        self.name = name
        self.file = folder.script(name)
        self.parts = set()
        self.used = set()
        self.arguments = self.file.arguments
        fixed = folder.interface.common + self.arguments["arg"] + self.arguments["optional"] + self.arguments["list"]
        self.places = {argument: at for at, argument in enumerate(fixed, 1)}
        if len(self.arguments["list"]) > 1 or len(self.places) != len(fixed):
            raise ScriptError(f"{self.file.path}: an argument is there twice, or there are two lists")
        self.lines = self.assemble(self.file, self.parts)
        # A value that an argument may have is used, also where the script has only an else for it.
        for name in self.file.values & set(folder.interface.entries):
            folder.interface.entries[name].is_used = True
        self.check()

    def text(self):
        return "".join(line + "\n" for line, _ in self.lines)

    def has_deadline(self):
        return "deadline" in self.parts

    def assemble(self, file, seen):
        result = []
        inner, indent = seen, ""
        for line, place in file.code():
            match = INCLUDE.match(line)
            if not match:
                line = self.replaced(line, place)
                result += [(line, place)] if line else []
                inner, indent = (seen, "") if line else (inner, indent)
                continue
            # An indented include stands in a block, and only that block sees what it brings. Those that
            # stand together share it.
            if match.group(1) != indent:
                inner, indent = set(seen) if match.group(1) else seen, match.group(1)
            if match.group(2) not in inner:
                part = self.folder.part(match.group(2), file.path)
                inner.add(match.group(2))
                result += self.assemble(part, inner)
        return result

    def replaced(self, line, place):
        """The line without comments and indentation, with values instead of names of the interface."""
        words = [list(word) for word in tokens_of(line, place) if word[0] != "comment"]
        for at, (kind, text) in enumerate(words):
            if kind != "name" or text not in TABLES:
                continue
            if at + 2 >= len(words) or words[at + 1][1] != "." or words[at + 2][0] != "name":
                raise ScriptError(f"{place}: {text} is followed by a dot and a name")
            is_length = at > 0 and words[at - 1][1] == "#"
            words[at][1] = self.value(text, words[at + 2][1], is_length, place)
            words[at][0] = words[at + 1][0] = words[at + 2][0] = "done"
            words[at + 1][1] = words[at + 2][1] = ""
            if is_length:
                words[at - 1][1] = ""
        return "".join(text for _, text in words).strip()

    def value(self, table, name, is_length, place):
        if table in ("ARG", "ARG_AT"):
            if name not in self.places:
                raise ScriptError(f"{place}: {self.name} has no argument {name}")
            self.used.add(name)
            return f"ARGV[{self.places[name]}]" if table == "ARG" else str(self.places[name])
        if table == "EACH":
            return self.each(name, place)
        value = self.folder.interface.find(table, name, place).value
        if table == "KEY":
            return f"P .. '{value}'"
        if is_length:
            return str(len(value))
        return str(value) if isinstance(value, int) and table == "CONST" else f"'{value}'"

    def each(self, name, place):
        group = self.arguments["each"]
        if not group or name not in ("FIRST", "SIZE") or (name == "FIRST" and self.arguments["list"]):
            raise ScriptError(f"{place}: {self.name} has no EACH.{name}")
        return str(len(self.places) + 1 if name == "FIRST" else len(group))

    def check(self):
        unknown = {name: place for name, place in Names(self.lines).free.items() if name not in GLOBALS}
        for name, place in sorted(unknown.items()):
            raise ScriptError(f"{place}: {name} is not defined in {self.name}")
        unused = set(self.arguments["arg"] + self.arguments["optional"] + self.arguments["list"]) - self.used
        if unused:
            raise ScriptError(f"{self.file.path}: nothing uses the argument {', '.join(sorted(unused))}")


__all__ = ["Folder", "InterfaceError", "Script", "ScriptError"]
