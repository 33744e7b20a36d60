"""lua.py - words of Lua text, and the names that a text defines and uses.

Reads the part of Lua that the scripts use. It refuses long brackets, because they can hold lines
that look like code or comments.
"""
import re

TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<comment>--.*)
    |(?P<string>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")
    |(?P<name>[A-Za-z_]\w*)
    |(?P<number>0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][+-]?\d+)?)
    |(?P<op>\.\.\.|\.\.|[=~<>]=|[-+*/%^\#<>=(){}\[\];:,.])""",
    re.VERBOSE,
)
LONG_BRACKET = re.compile(r"\[=*\[")
KEYWORDS = set("""and break do else elseif end false for function if in local nil not or repeat return
    then true until while""".split())
# What Lua 5.1 and Redis give to every script, as far as the scripts use it.
GLOBALS = set("""ARGV KEYS redis cjson string table math tonumber tostring type ipairs pairs next
    pcall error unpack select""".split())


class LuaError(Exception):
    pass


def tokens_of(line, where):
    """(kind, text) of each word of one line; spaces are words, too."""
    at = 0
    while at < len(line):
        match = TOKEN.match(line, at)
        if not match or (match.lastgroup == "op" and LONG_BRACKET.match(line, at)):
            raise LuaError(f"{where}: cannot read this part of the line: {line[at:]}")
        yield match.lastgroup, match.group()
        at = match.end()


class Names:
    """The names of a text. `left`: its top-level locals, with 'function' or 'variable'. `free`: the
    names that it uses and does not define, with the place of the first use."""

    def __init__(self, lines):
        """`lines`: (text, place) of each line."""
        self.left = {}
        self.free = {}
        self.words = [
            (kind, text, place)
            for line, place in lines
            for kind, text in tokens_of(line, place)
            if kind not in ("space", "comment")
        ]
        self.scopes = [set()]
        self.brackets = []
        self.loop = []
        self.read()

    def word(self, at):
        return self.words[at][1] if at < len(self.words) else ""

    def define(self, name, kind):
        self.scopes[-1].add(name)
        if len(self.scopes) == 1:
            self.left[name] = kind

    def list_of_names(self, at, end):
        """The names from here on with commas between them; where they end."""
        names = []
        while self.word(at) not in end:
            if self.words[at][0] == "name":
                names.append(self.word(at))
            at += 1
        return names, at

    def use(self, at):
        _, name, place = self.words[at]
        before = self.word(at - 1) if at else ""
        is_member = before in (".", ":")
        is_key = self.word(at + 1) == "=" and self.brackets and self.brackets[-1] == "{"
        if not is_member and not is_key and not any(name in scope for scope in self.scopes):
            self.free.setdefault(name, place)

    def local(self, at):
        """A local statement; a function's body is read as any other. Where to go on."""
        if self.word(at + 1) == "function":
            self.define(self.word(at + 2), "function")
            return self.function(at + 3)
        at += 1
        while self.words[at][0] == "name":
            self.define(self.word(at), "variable")
            if self.word(at + 1) != ",":
                return at + 1
            at += 2
        return at

    def function(self, at):
        """From its first bracket on."""
        names, at = self.list_of_names(at, ")")
        self.scopes.append(set(names))
        self.brackets.append("function")
        return at + 1

    def block(self, names=()):
        self.scopes.append(set(names))
        self.brackets.append("block")

    def end(self, place):
        if len(self.scopes) == 1:
            raise LuaError(f"{place}: a block ends that did not begin")
        self.scopes.pop()
        while self.brackets.pop() not in ("block", "function"):
            pass

    def keyword(self, at):
        word, place = self.words[at][1:]
        if word == "local":
            return self.local(at)
        if word == "function":
            return self.function(at + 1)
        if word == "for":
            names, at = self.list_of_names(at + 1, ("=", "in"))
            self.loop.append(names)
        elif word == "do":
            self.block(self.loop.pop() if self.loop else ())
        elif word in ("then", "repeat"):
            self.block()
        elif word == "else":
            self.end(place)
            self.block()
        elif word in ("elseif", "until", "end"):
            self.end(place)
        return at + 1

    def read(self):
        at = 0
        while at < len(self.words):
            kind, text, _ = self.words[at]
            if text in ("(", "{", "["):
                self.brackets.append(text)
            elif text in (")", "}", "]") and self.brackets:
                self.brackets.pop()
            if kind == "name" and text in KEYWORDS:
                at = self.keyword(at)
                continue
            if kind == "name":
                self.use(at)
            at += 1
        if len(self.scopes) > 1:
            raise LuaError(f"{self.words[-1][2]}: a block does not end")
