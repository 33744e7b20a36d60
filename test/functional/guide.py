"""The commands of docs/MIGRATION.md, as an operator would type them."""

import os
import pathlib
import re
import shlex
import stat
import subprocess
import tempfile
import textwrap

TEXT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "MIGRATION.md"


def commands(heading=None):
    """The indented blocks below a heading, or all of them, each as one text."""
    text = TEXT.read_text(encoding="utf-8")
    if heading:
        found = [part for part in re.split(r"^#+ ", text, flags=re.MULTILINE) if part.startswith(heading + "\n")]
        assert len(found) == 1, f"docs/MIGRATION.md has no heading {heading!r}"
        text = found[0]
    return [textwrap.dedent(block) for block in re.findall(r"(?:^    .*\n)+", text, flags=re.MULTILINE)]


def run(script, server, router=None):
    """In a shell, with a redis-cli that talks to this server; localhost:8080 is the router."""
    if router:
        script = script.replace("localhost:8080", router.url.removeprefix("http://"))
    where = ["-p", str(server.port)] if server.has_port else ["-s", server.socket_path]
    with tempfile.TemporaryDirectory(prefix="sr-guide-") as directory:
        cli = pathlib.Path(directory, "redis-cli")
        real = subprocess.run(["which", "redis-cli"], capture_output=True, text=True, check=True).stdout.strip()
        cli.write_text(f'#!/bin/sh\nexec {real} {shlex.join(where)} "$@"\n', encoding="ascii")
        cli.chmod(cli.stat().st_mode | stat.S_IXUSR)
        env = {**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=directory,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
    return done.stdout
