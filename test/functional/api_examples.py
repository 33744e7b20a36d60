"""The examples of docs/API.md: requests that are sent to a router, one after the other, and what it answers.

`make docs` writes them into the document; test_openapi.py sends them again and compares. Values that differ from run to
run (times, ids, the version) are replaced by fixed ones. A route without an example fails both.
"""

import json
import re
import shlex
import urllib.parse

import basics

DEADLINE_S = 60
ENV = {"POD_NAME": "router-0", "LEADER_ELECTION_ENABLED": "false"}
BASE = "localhost:8080"
LONG = 20  # lines; of more only the first ones are shown
LINES_SHOWN = 4
COLUMNS = 96  # of a code block, which is indented

# In their order: each finds what the ones before it have left. (method, pattern, what fills it, query, body, status)
SCRIPT = [
    ("GET", "/health", {}, "", None, 200),
    ("GET", "/api/v1/health", {}, "", None, 200),
    ("GET", "/ready", {}, "", None, 200),
    ("GET", "/api/v1/ready", {}, "", None, 200),
    ("GET", "/openapi.json", {}, "", None, 200),
    ("GET", "/", {}, "", None, 200),
    ("GET", "/ui/{file}", {"file": "style.css"}, "", None, 200),
    ("GET", "/api/v1/whoami", {}, "", None, 200),
    ("PUT", "/api/v1/merchants/{id}", {"id": "9shines"}, "", {"tier": "standard"}, 200),
    ("GET", "/api/v1/merchants/{id}", {"id": "9shines"}, "", None, 200),
    ("GET", "/api/v1/merchants", {}, "limit=10", None, 200),
    ("POST", "/api/v1/allocate", {}, "", {"call_sid": "CA1", "merchant_id": "9shines"}, 200),
    ("POST", "/api/v1/renew", {}, "", {"call_sids": ["CA1", "CA2"]}, 200),
    ("GET", "/api/v1/calls", {}, "merchant=9shines&state=active", None, 200),
    ("GET", "/api/v1/call/{sid}", {"sid": "CA1"}, "", None, 200),
    ("GET", "/api/v1/events", {}, "", None, 200),
    ("GET", "/metrics", {}, "", None, 200),
    ("PUT", "/api/v1/merchants/{id}", {"id": "acme"}, "", {"fallback": "gold"}, 400),
    ("PUT", "/api/v1/merchants/{id}", {"id": "acme"}, "", {"pool": "acme", "fallback": ["none"]}, 200),
    ("POST", "/api/v1/allocate", {}, "", {"call_sid": "CA3", "merchant_id": "acme"}, 503),
    ("GET", "/api/v1/call/{sid}", {"sid": "CA3"}, "", None, 404),
    ("DELETE", "/api/v1/merchants/{id}", {"id": "acme"}, "", None, 200),
    ("GET", "/api/v1/merchants/{id}/history", {"id": "acme"}, "", None, 200),
    ("POST", "/api/v1/merchants/{id}/rollback", {"id": "acme"}, "", {"version": 1}, 200),
    (
        "POST",
        "/api/v1/pods",
        {},
        "",
        {"pod_name": "agent-7", "address": "127.0.0.1:9007", "tier": "basic", "incarnation": "2026-02-08T09:00:00Z"},
        200,
    ),
    ("POST", "/api/v1/pod/{name}/heartbeat", {"name": "agent-7"}, "", {"call_sids": ["CA7"]}, 200),
    ("GET", "/api/v1/pod/{name}", {"name": "agent-7"}, "", None, 200),
    ("GET", "/api/v1/pods", {}, "tier=basic&state=available", None, 200),
    ("POST", "/api/v1/drain", {}, "", {"pod_name": "agent-7", "ttl_seconds": 600}, 200),
    ("POST", "/api/v1/drain", {}, "", {"pod_name": "agent-7", "ttl_seconds": 0}, 200),
    ("GET", "/api/v1/pod/{name}", {"name": "agent-7"}, "", None, 200),
    ("GET", "/api/v1/pod/{name}/drained", {"name": "agent-7"}, "timeout_seconds=0", None, 202),
    ("POST", "/api/v1/release", {}, "", {"call_sid": "CA7", "pod_name": "agent-7"}, 200),
    ("GET", "/api/v1/pod/{name}/drained", {"name": "agent-7"}, "timeout_seconds=60", None, 200),
    ("POST", "/api/v1/undrain", {}, "", {"pod_name": "agent-7"}, 200),
    ("GET", "/api/v1/status", {}, "", None, 200),
    ("GET", "/api/v1/diagnosis", {}, "", None, 200),
    ("GET", "/api/v1/history/pools", {}, "", None, 200),
    ("GET", "/api/v1/autoscale", {}, "", None, 200),
    ("GET", "/api/v1/autoscale/{tier}", {"tier": "basic"}, "", None, 200),
    ("DELETE", "/api/v1/pod/{name}", {"name": "agent-7"}, "", None, 200),
    ("POST", "/api/v1/release", {}, "", {"call_sid": "CA1", "reason": "hangup"}, 200),
    ("GET", "/api/v1/call/{sid}/story", {"sid": "CA1"}, "", None, 200),
    ("POST", "/api/v1/release", {}, "", {"call_sid": "CA1"}, 404),
    ("PUT", "/api/v1/merchants/{id}", {"id": "globex"}, "", {"fallback": ["gold"], "hold_seconds": 60}, 200),
    ("POST", "/api/v1/allocate", {}, "", {"call_sid": "CA8", "merchant_id": "globex"}, 200),
    ("POST", "/api/v1/allocate", {}, "", {"call_sid": "CA9", "merchant_id": "globex", "wait_ms": 100}, 202),
    ("GET", "/api/v1/waiting", {}, "limit=10", None, 200),
    ("GET", "/api/v1/call/{sid}", {"sid": "CA9"}, "", None, 200),
    ("POST", "/api/v1/release", {}, "", {"call_sid": "CA9"}, 200),
    ("POST", "/api/v1/release", {}, "", {"call_sid": "CA8"}, 200),
    ("GET", "/api/v1/tiers", {}, "", None, 200),
    ("PUT", "/api/v1/tiers", {}, "", {"gold": {"targt": 2}}, 400),
    ("PUT", "/api/v1/tiers", {}, "dry_run=true", {"gold": 2}, 200),
    (
        "PUT",
        "/api/v1/tiers",
        {},
        "",
        {"gold": {"target": 1}, "standard": {"target": 2}, "basic": {"type": "shared", "target": 2, "max_concurrent": 3}},
        200,
    ),
    ("GET", "/api/v1/tiers/history", {}, "", None, 200),
    ("POST", "/api/v1/tiers/rollback", {}, "", None, 200),
    ("POST", "/api/v1/twilio/allocate", {}, "merchant_id=9shines", "CallSid=CA11", 200),
    ("GET", "/api/v1/twilio/allocate", {}, "CallSid=CA11&merchant_id=9shines", None, 200),
    ("POST", "/api/v1/twilio/after", {}, "merchant_id=9shines&flow=v2&template=survey&pod=agent-7", "CallSid=CA11&CallStatus=completed", 200),
    ("GET", "/api/v1/twilio/after", {}, "flow=v2&template=survey&CallSid=CA11&CallStatus=in-progress", None, 200),
    ("POST", "/api/v1/twilio/status", {}, "", "CallSid=CA11&CallStatus=completed", 200),
    ("GET", "/api/v1/twilio/status", {}, "CallSid=CA11&CallStatus=completed", None, 200),
    ("POST", "/api/v1/plivo/allocate", {}, "", "CallUUID=CA12", 200),
    ("GET", "/api/v1/plivo/allocate", {}, "CallUUID=CA12", None, 200),
    ("POST", "/api/v1/plivo/after", {}, "flow=v2&template=survey&pod=agent-7", "CallUUID=CA12&Event=Redirect&CallStatus=completed", 200),
    ("GET", "/api/v1/plivo/after", {}, "flow=v2&template=survey&CallUUID=CA12&CallStatus=in-progress", None, 200),
    ("POST", "/api/v1/plivo/status", {}, "", "CallUUID=CA12&Event=Hangup", 200),
    ("GET", "/api/v1/plivo/status", {}, "CallUUID=CA12&Event=Hangup", None, 200),
    ("POST", "/api/v1/exotel/allocate", {}, "", {"CallSid": "CA13"}, 200),
    ("GET", "/api/v1/exotel/allocate", {}, "CallSid=CA13", None, 200),
    ("POST", "/api/v1/exotel/after", {}, "", "CallSid=CA13&Status=completed", 200),
    ("GET", "/api/v1/exotel/after", {}, "CallSid=CA13", None, 200),
    ("POST", "/api/v1/exotel/status", {}, "", "CallSid=CA13&EventType=terminal", 200),
    ("GET", "/api/v1/exotel/status", {}, "CallSid=CA13&EventType=terminal", None, 200),
]

FIXED = (
    (re.compile(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), lambda m: "2026-02-08T10:00:00" + (".123Z" if m[1] else "Z")),
    (re.compile(r"router-0_\d+_[0-9a-f]+"), "router-0_1_5f0c2a9e"),
    (re.compile(r"5f0c2a9e:\d+"), "5f0c2a9e:17"),
    (re.compile(r'"version":"[^"]*"'), '"version":"0.1.0"'),
    (re.compile(r'"uptime_seconds":\d+'), '"uptime_seconds":3600'),
    (re.compile(r"ended (less than a|\d+) seconds? ago"), "ended 2 seconds ago"),
    (re.compile(r'"waited_seconds":\d+'), '"waited_seconds":4'),
    (re.compile(r'"last_sync_seconds":\d+'), '"last_sync_seconds":12'),
)


def normalise(text):
    for pattern, fixed in FIXED:
        text = pattern.sub(fixed, text)
    return text


def pieces(text):
    """A JSON text in pieces, after which a line may end: behind a comma, or inside of a very long string."""
    for piece in re.findall(r'(?:"(?:[^"\\]|\\.)*"|[^",])*(?:,|$)', text):
        if len(piece) > COLUMNS:
            yield from re.findall(r"[^ ]+ ?", piece)
        elif piece:
            yield piece


def wrap_json(text):
    """JSON in lines that fit."""
    lines, line = [], ""
    for piece in pieces(text):
        if line and len((line + piece).rstrip()) > COLUMNS:
            lines.append(line.rstrip())
            line = " "
        line += piece
    return [*lines, line]


def wrap_xml(text):
    """A long document gets a line for each of its elements."""
    return [text] if len(text) <= COLUMNS else re.sub(r"(?<=>)(?=<)", "\n", text).splitlines()


def shown(answer, text):
    """What an answer looks like in the document."""
    kind = answer.headers["Content-Type"]
    text = normalise(text)
    if kind.startswith("application/json"):
        lines = wrap_json(text)
    elif kind.startswith("application/xml"):
        lines = wrap_xml(text)
    elif kind.startswith("text/event-stream"):
        lines = [part for line in text.splitlines() for part in (wrap_json(line) if line.startswith("data:") else [line])]
        return [line.rstrip() for line in lines]
    else:
        lines = text.splitlines()
    if len(lines) <= LONG:
        return lines
    return [*lines[:LINES_SHOWN], "…"]


def command(method, path, body):
    """The request as a command for a shell."""
    is_default = method == ("GET" if body is None else "POST")
    head = ["curl", "-s"] + ([] if is_default else ["-X", method])
    url = shlex.quote(BASE + path)
    if body is None:
        return [" ".join([*head[:1], *(["-N"] if path == "/api/v1/events" else head[1:]), url])]
    data = "-d " + shlex.quote(body)
    one = " ".join([*head, url, data])
    return [one] if len(one) + 2 <= COLUMNS else [" ".join([*head, url, "\\"]), "    " + data]


def read_events(router, answer):
    """How a stream of events begins, and its event of a call that begins meanwhile. Events of earlier requests are left out."""
    text = ""
    has_begun = False
    for chunk in answer.iter_text():
        text += chunk
        if not has_begun and "event: listening" in text:
            has_begun = True
            router.allocate("CA2")
        if re.search(r'"call_sid":"CA2".*\n\n', text):
            break
    router.release("CA2")
    return "\n\n".join(block for block in text.strip("\n").split("\n\n") if re.search(r'^retry|listening|"CA2"', block))


def send(router, method, path, body):
    """(the answer, its text)"""
    headers = {}
    if isinstance(body, str) and method == "POST":
        is_json = body.startswith("{")
        headers["Content-Type"] = "application/json" if is_json else "application/x-www-form-urlencoded"
    with router.client.stream(method, path, content=body, headers=headers) as answer:
        if answer.headers["Content-Type"].startswith("text/event-stream"):
            return answer, read_events(router, answer)
        answer.read()
        return answer, answer.text


def path_of(pattern, values, query=""):
    path = re.sub(r"\{(\w+)\}", lambda m: urllib.parse.quote(values[m[1]]), pattern)
    return path + ("?" + query if query else "")


def tiers_are_filled(router):
    """The pods have found their tiers, and the history has its first sample of them: the answers depend on it."""
    tiers = router.get("/api/v1/status").json()["tiers"]
    if not router.get("/api/v1/history/pools").json()["pools"]:
        return False
    return sum(tier["available"] for tier in tiers.values()) == 5 and tiers["gold"]["assigned"] == 1


def run(router, seen=None):
    """{(method, pattern): [(status, the lines of the command, the lines of the answer)]}

    seen(method, pattern, body, answer, text) gets each request and what came back.
    """
    found = {}
    basics.wait_until(lambda: tiers_are_filled(router), "all pods are in their tiers", DEADLINE_S)
    for method, pattern, values, query, body, status in SCRIPT:
        path = path_of(pattern, values, query)
        body = json.dumps(body, separators=(",", ":")) if isinstance(body, dict) else body
        answer, text = send(router, method, path, body)
        assert answer.status_code == status, (method, path, answer.status_code, text)
        if seen:
            seen(method, pattern, body, answer, text)
        found.setdefault((method, pattern), []).append((status, command(method, path, body), shown(answer, text)))
    return found
