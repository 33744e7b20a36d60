"""Every route of the router: what its own table says (`smart-router routes`), and what other modules add in the sources."""

import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
_BUILD_DIR = pathlib.Path(os.environ.get("BUILD_DIR", "build"))
BINARY = (_BUILD_DIR if _BUILD_DIR.is_absolute() else ROOT / _BUILD_DIR) / "smart-router"
CALL = re.compile(r"\bhttp_server_route\(")
ROW = re.compile(r'\{"([A-Z]+)",\s*"(/[^"]*)",\s*\w+,')  # of a struct http_route
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND")


def calls_of_http_server_route():
    """{file: how often it adds routes to a server}"""
    files = {str(path.relative_to(SRC)): len(CALL.findall(path.read_text())) for path in SRC.rglob("*.c")}
    return {name: count for name, count in files.items() if count and not name.startswith("http/")}


def rows_of(name):
    """{(method, pattern)}: the rows that stand in a source file as they are."""
    return set(ROW.findall((SRC / name).read_text()))


def table():
    """{(method, pattern): who may use it, as a set of words}: the routing table of the API."""
    done = subprocess.run([str(BINARY), "routes"], env={}, capture_output=True, text=True, timeout=60, check=True)
    rows = [line.split() for line in done.stdout.splitlines()]
    found = {(row[0], row[1]): set(row[2:]) for row in rows}
    assert len(found) == len(rows) and all(found.values())
    return found


def all_routes():
    """{(method, pattern)}: the routing table of the API, and the rows of the other modules."""
    return set(table()).union(*(rows_of(name) for name in calls_of_http_server_route()))


def fill(pattern, name="voice-agent-0"):
    return re.sub(r"\{[^}]*\}", name, pattern)
