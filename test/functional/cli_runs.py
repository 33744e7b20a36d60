"""Runs commands of the binary that talk to a running router, in a pipe and in a terminal."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time

from conftest import BINARY, DEADLINE_S, SANITIZER_REPORTS, clean_environment


def environment(tmp_path, url, env):
    return clean_environment({"SMART_ROUTER_URL": url, "HTTP_PORT": None, "STATIC_PODS": None, **(env or {})}, tmp_path)


def run(tmp_path, *args, url=None, env=None, stdin=None):
    """(exit status, standard output, standard error)"""
    done = subprocess.run(
        [BINARY, *map(str, args)],
        env=environment(tmp_path, url, env),
        input=stdin if stdin is not None else "",
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=DEADLINE_S,
        check=False,
    )
    assert not any(report in done.stderr for report in SANITIZER_REPORTS), done.stderr
    return done.returncode, done.stdout, done.stderr


class InTerminal:
    """A command in a terminal of so many columns. `text` is what it has printed."""

    def __init__(self, tmp_path, *args, columns=80, url=None, env=None):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        env = {"TERM": "xterm", **(env or {})}
        self.proc = subprocess.Popen(
            [BINARY, *map(str, args)], env=environment(tmp_path, url, env), stdin=slave, stdout=slave, stderr=slave
        )
        os.close(slave)
        self.text = ""

    def read(self, until=None):
        """Reads until the text has `until`, or to the end."""
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end and (until is None or until not in self.text):
            if not select.select([self.master], [], [], 1)[0]:
                continue
            try:
                piece = os.read(self.master, 65536)
            except OSError:  # the other end is closed
                break
            self.text += piece.decode(errors="surrogateescape")
        return self.text

    def end(self):
        """The exit status."""
        try:
            return self.proc.wait(DEADLINE_S)
        finally:
            self.proc.kill()
            self.proc.wait()
            os.close(self.master)
