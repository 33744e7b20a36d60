"""Every route of the router: what its own table says (`smart-router routes`), and what other modules add in the sources."""

import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
_BUILD_DIR = pathlib.Path(os.environ.get("BUILD_DIR", "build"))
BINARY = (_BUILD_DIR if _BUILD_DIR.is_absolute() else ROOT / _BUILD_DIR) / "smart-router"
CALL = re.compile(r"\bhttp_server_route\w*\((.*?)\)\s*;", re.DOTALL)
LITERAL_CALL = re.compile(r'^\s*\w+,\s*"([A-Z]+)",\s*"(/[^"]*)",', re.DOTALL)
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND")


def calls_of_http_server_route():
    """(file, arguments) of each call in the sources."""
    found = []
    for path in sorted(SRC.rglob("*.c")):
        if path.parent.name != "http":
            found += [(str(path.relative_to(SRC)), arguments) for arguments in CALL.findall(path.read_text())]
    return found


def table():
    """{(method, pattern): who may use it, as a set of words}: the routing table of the API."""
    done = subprocess.run([str(BINARY), "routes"], env={}, capture_output=True, text=True, timeout=60, check=True)
    rows = [line.split() for line in done.stdout.splitlines()]
    found = {(row[0], row[1]): set(row[2:]) for row in rows}
    assert len(found) == len(rows) and all(found.values())
    return found


def all_routes():
    """{(method, pattern)}: the routing table of the API, and the calls with literals elsewhere."""
    routes = set(table())
    for _, arguments in calls_of_http_server_route():
        match = LITERAL_CALL.match(arguments)
        if match:
            routes.add(match.groups())
    return routes


def fill(pattern, name="voice-agent-0"):
    return re.sub(r"\{[^}]*\}", name, pattern)
