"""doc_commands.py BUILD_DIR DOCUMENT... - runs the commands that documents mark, and compares what they show.

A mark is a line before an indented block:

    <!-- start -->   the block runs a router in the background: "make run", with settings before it
    <!-- run -->     the block runs in the shell of the document

In a block with lines "$ COMMAND", the lines after a command are what it prints. They are compared without blanks and
line ends, … stands for anything, and a time for any time. In a block without them each line is a command. Every
command must end with 0. The documents say localhost:8080, and port 8000 for an agent; here both are free ports. Each
document has a shell, a router and an empty directory of its own, in which build, examples and scripts are those of
the tree.
"""
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
import simulated  # noqa: E402 (its folder is not known before)

MARK = re.compile(r"^<!-- (run|start) -->$")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
ROUTER_PORT, AGENT_PORT = "8080", "8000"  # of the documents
COMMAND_S = 60
DONE = "doc-commands-done"


class Wrong(Exception):
    """A command failed, or does not print what the document shows."""


def blocks_of(text):
    """(mark, number of its first line, lines) of every marked block."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if not (mark := MARK.match(line)):
            continue
        begin = number + 1
        while begin < len(lines) and not lines[begin].strip():
            begin += 1
        end = begin
        while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
            end += 1
        block = [line[4:] for line in lines[begin:end]]
        if not any(block):
            raise Wrong(f"line {number + 1}: no indented block follows the mark")
        yield mark.group(1), begin + 1, block


def steps_of(block):
    """(command, what it shows or None) of a block."""
    has_prompts = any(line.startswith("$ ") for line in block)
    steps = []
    for line in block:
        if line.startswith("$ "):
            steps.append([line[2:], ""])
        elif steps and (has_prompts or steps[-1][0].endswith("\\")):
            if steps[-1][0].endswith("\\"):
                steps[-1][0] += "\n" + line
            else:
                steps[-1][1] += line + "\n"
        elif line.strip():
            steps.append([line, None])
    return [(command, shown if shown and shown.strip() else None) for command, shown in steps]


def is_shown(shown, printed, anywhere=False):
    """Does the program print what the document shows?"""
    parts = ["".join(part.split()) for part in shown.split("…")]
    pattern = ".*".join(TIME.pattern.join(map(re.escape, TIME.split(part))) for part in parts)
    text = "".join(printed.split())
    return re.search(pattern, text, re.DOTALL) if anywhere else re.fullmatch(pattern, text, re.DOTALL)


class World:
    """The shell and the router of one document."""

    def __init__(self, build, folder):
        self.folder, self.router = folder, None
        self.ports = {ROUTER_PORT: str(simulated.free_port()), AGENT_PORT: str(simulated.free_port())}
        for name, target in {"build": build, "examples": ROOT / "examples", "scripts": ROOT / "scripts"}.items():
            (folder / name).symlink_to(target)
        self.env = {**os.environ, "BUILD_DIR": str(folder / "build"), "HTTP_PORT": self.ports[ROUTER_PORT]}
        self.env |= {"METRICS_PORT": "0", "DATA_DIR": f"{folder}/./data", "PYTHONUNBUFFERED": "1"}
        options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        self.shell = simulated.start(["bash"], cwd=folder, env=self.env, **options)

    def to_us(self, command):
        for written, port in self.ports.items():
            command = re.sub(rf"\b{written}\b", port, command)
        return command.replace("make run", str(ROOT / "scripts/run-local"))

    def to_document(self, text):
        text = text.replace(f"{self.folder}/", "")
        for written, port in self.ports.items():
            text = re.sub(rf"\b{port}\b", written, text)
        return text

    def start(self, command, shown):
        log = self.folder / "router.log"
        with open(log, "w", encoding="utf-8") as file:
            options = {"cwd": self.folder, "env": self.env, "stdout": file, "stderr": file}
            self.router = simulated.start(["bash", "-c", "exec env " + self.to_us(command)], **options)
        while "Ctrl-C" not in (printed := log.read_text()):
            if self.router.poll() is not None:
                raise Wrong(f"{command}: it has ended:\n{printed}")
            threading.Event().wait(0.05)
        if shown and not is_shown(shown, self.to_document(printed), anywhere=True):
            raise Wrong(f"{command} does not print\n{shown}\nbut\n{self.to_document(printed)}")

    def run(self, command, shown):
        timer = threading.Timer(COMMAND_S, self.shell.kill)
        timer.start()
        self.shell.stdin.write(f"{self.to_us(command)}\nstatus=$?; echo; echo {DONE} $status\n")
        self.shell.stdin.flush()
        printed = ""
        for line in self.shell.stdout:
            if line.startswith(DONE):
                break
            printed += line
        timer.cancel()
        printed = self.to_document(printed)
        if self.shell.poll() is not None or line != f"{DONE} 0\n":
            raise Wrong(f"{command}: it failed or took too long:\n{printed}")
        if shown and not is_shown(shown, printed):
            raise Wrong(f"{command} does not print\n{shown}\nbut\n{printed}")

    def close(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.shell.pid, signal.SIGKILL)
        self.shell.wait()
        if self.router:
            simulated.stop([self.router])


def check(build, document):
    """Returns how many commands the document has."""
    count = 0
    with tempfile.TemporaryDirectory(prefix="doc-commands-") as folder:
        world = World(build, pathlib.Path(folder))
        try:
            for mark, number, block in blocks_of(document.read_text()):
                for command, shown in steps_of(block):
                    try:
                        (world.start if mark == "start" else world.run)(command, shown)
                    except Wrong as wrong:
                        raise Wrong(f"{document}:{number}: {wrong}") from None
                    count += 1
        finally:
            world.close()
    return count


def main():
    build, *documents = [pathlib.Path(argument).resolve() for argument in sys.argv[1:]]
    for document in documents:
        try:
            count = check(build, document)
        except Wrong as wrong:
            print(wrong, file=sys.stderr)
            return 1
        if count == 0:
            print(f"{document}: no block is marked with <!-- run -->", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
