"""What every helper needs: a free port, a wait for a condition, processes, a skip that CI counts as a failure."""

import contextlib
import os
import pathlib
import random
import re
import socket
import time

import pytest

PORTS = range(20000, 32000)  # below those that the kernel gives to outgoing connections


def skip(reason):
    """Skips the test. With CI=true it fails: the means are at hand there."""
    if os.environ.get("CI") in ("true", "1"):
        pytest.fail(reason)
    pytest.skip(reason)


def free_port(address="127.0.0.1"):
    """A port that is free at this address. A server that is started again finds it free too."""
    while True:
        port = random.choice(PORTS)
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.bind((address, port))
            return port


def wait_until(condition, what, seconds, pause=0.01):
    """Returns the first true value of condition(); fails if there is none for so many seconds.

    `what` it was is a text, or makes one at the end.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(pause)
    pytest.fail(f"waited in vain: {what() if callable(what) else what}")


def children_of(pid):
    """{pid: name} of the processes that this one has started."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            name, rest = re.match(r"\d+ \((.*)\) (.*)", (folder / "stat").read_text(), re.DOTALL).groups()
        except OSError:
            continue
        if rest.split()[1] == str(pid):
            found[int(folder.name)] = name
    return found


def is_alive(pid):
    """A process that has ended and waits for its parent is not."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
