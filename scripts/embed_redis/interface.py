"""interface.py - reads what the scripts and the C sources both know: see scripts/redis/interface.txt."""
import glob
import os
import re

NAME = re.compile(r"^[A-Z][A-Z0-9_]*$")
ENTRY = re.compile(r"^(number|text|key|core)\s+(\S+)\s*(.*)$")
QUOTED = re.compile(r"^'([^'\\]*)'\s*(.*)$")
PART = re.compile(r"<([A-Z][A-Z0-9_]*)>")
PRODUCT = re.compile(r"^\d+(\s*\*\s*\d+)*$")
# How core writes a number or a text down in its headers.
CORE_NUMBER = r"^\s*{}\s*=\s*([^,]+),"
CORE_TEXT = r'^#define\s+{}\s+"([^"\\]*)"\s*(?:/\*.*)?$'


class InterfaceError(Exception):
    pass


class Entry:
    def __init__(self, kind, name, value, meaning):
        self.kind = kind
        self.name = name
        self.value = value  # a number or a text
        self.meaning = meaning
        self.header = None  # of core: where it is from
        self.is_used = False


def product(text):
    result = 1
    for factor in text.split("*"):
        result *= int(factor)
    return result


def core_value(folder, name):
    """The value of a constant of core, and its header. There must be exactly one."""
    found = []
    for path in sorted(glob.glob(os.path.join(folder, "*.h"))):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for match in re.finditer(CORE_NUMBER.format(name), text, re.MULTILINE):
            if not PRODUCT.match(match.group(1).strip()):
                raise InterfaceError(f"{path}: the value of {name} is more than numbers with * between them")
            found.append((product(match.group(1)), path))
        for match in re.finditer(CORE_TEXT.format(name), text, re.MULTILINE):
            found.append((match.group(1), path))
    if len(found) != 1:
        raise InterfaceError(f"{folder}/*.h: {name} is defined {len(found)} times, instead of once")
    return found[0]


class Interface:
    """`entries` by name; `common`: the arguments that every script gets first."""

    def __init__(self, path, core):
        self.path = path
        self.core = core
        self.entries = {}
        self.keys = {}
        self.common = []
        if os.path.isfile(path):
            with open(path, encoding="utf-8") as file:
                for number, line in enumerate(file, 1):
                    self.read(line.rstrip(), f"{path}:{number}")

    def read(self, line, where):
        if not line or line.startswith("#"):
            return
        if line.startswith("common "):
            self.common = line.split()[1:]
            return
        match = ENTRY.match(line)
        if not match or not NAME.match(match.group(2)):
            raise InterfaceError(f"{where}: this is no entry: {line}")
        kind, name, rest = match.groups()
        entry = self.entry(kind, name, rest, where)
        if not entry.meaning:
            raise InterfaceError(f"{where}: {name} has no explanation")
        table = self.keys if kind == "key" else self.entries
        if name in table:
            raise InterfaceError(f"{where}: {name} is there twice")
        table[name] = entry

    def entry(self, kind, name, rest, where):
        if kind == "core":
            value, header = core_value(self.core, name)
            entry = Entry(kind, name, value, rest)
            entry.header = os.path.basename(header)
            return entry
        if kind == "number":
            word, _, meaning = rest.partition(" ")
            return Entry(kind, name, self.number(word, where), meaning.strip())
        match = QUOTED.match(rest)
        if not match:
            raise InterfaceError(f"{where}: {name} needs a text in single quotes")
        return Entry(kind, name, PART.sub(lambda part: self.text(part.group(1), where), match.group(1)),
                     match.group(2))

    def number(self, word, where):
        """A number; or NAME-N of a number above."""
        name, _, less = word.partition("-")
        if word.isdigit():
            return int(word)
        if name in self.entries and less.isdigit():
            self.entries[name].is_used = True
            return self.entries[name].value - int(less)
        raise InterfaceError(f"{where}: {word} is no number")

    def text(self, name, where):
        if name not in self.entries:
            raise InterfaceError(f"{where}: {name} is not known above this line")
        self.entries[name].is_used = True
        return str(self.entries[name].value)

    def find(self, table, name, where):
        entry = (self.keys if table == "KEY" else self.entries).get(name)
        if not entry:
            raise InterfaceError(f"{where}: {table}.{name} is not in {self.path}")
        entry.is_used = True
        return entry

    def unused(self):
        return [entry.name for entry in [*self.entries.values(), *self.keys.values()] if not entry.is_used]

    def headers(self):
        return sorted({entry.header for entry in self.entries.values() if entry.header})
