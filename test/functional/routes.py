"""Every route of the router, read from its sources, so that no test forgets a new one."""

import pathlib
import re

SRC = pathlib.Path(__file__).resolve().parents[2] / "src"
TABLE_ROW = re.compile(r'\{"([A-Z]+)",\s*"(/[^"]*)",\s*api_\w+')
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


def all_routes():
    """{(method, pattern)}: the rows of the tables in src/api/api.c, and the calls with literals elsewhere."""
    routes = set(TABLE_ROW.findall((SRC / "api" / "api.c").read_text()))
    for _, arguments in calls_of_http_server_route():
        match = LITERAL_CALL.match(arguments)
        if match:
            routes.add(match.groups())
    return routes


def fill(pattern):
    return re.sub(r"\{[^}]*\}", "voice-agent-0", pattern)
