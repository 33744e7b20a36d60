"""The scripted router of the table of behaviours: a transport that answers as told, and a clock that stands still."""

import json

import httpx


class FakeClock:
    """Moves only when somebody sleeps or a test says so. Counts what was slept."""

    def __init__(self):
        self.at = 1000.0
        self.waits_ms = []

    def now(self):
        return self.at

    async def sleep(self, seconds):
        self.waits_ms.append(round(seconds * 1000))
        self.at += seconds


class ScriptedRouter(httpx.AsyncBaseTransport):
    """Answers the next request of the script, and compares the request with what it must be."""

    def __init__(self, clock, stop_waiting):
        self.clock = clock
        self.stop_waiting = stop_waiting
        self.script = []

    async def handle_async_request(self, request):
        content = await request.aread()
        made = f"{request.method} {request.url.raw_path.decode()} {content.decode()}"
        assert self.script, f"a request that must not leave: {made}"
        wanted, answer = self.script.pop(0)
        check_request(wanted, request, content, made)
        self.clock.at += answer.get("after_ms", 0) / 1000
        if answer.get("stops_waiting"):
            assert self.stop_waiting(json.loads(content)["call_sid"])
        if answer.get("fault") == "refused":
            raise httpx.ConnectError("connection refused", request=request)
        if answer.get("fault") == "timeout":
            self.clock.at += request.extensions["timeout"]["read"]
            raise httpx.ReadTimeout("no answer", request=request)
        if answer.get("fault") == "lost":
            raise httpx.ReadError("connection reset", request=request)
        text = answer["text"] if "text" in answer else json.dumps(answer["body"])
        return httpx.Response(answer["status"], headers=answer.get("headers"), content=text.encode(), request=request)


def check_request(wanted, request, content, made):
    assert (request.method, request.url.raw_path.decode()) == (wanted["method"], wanted["path"]), made
    assert "traceparent" in request.headers, made
    body = json.loads(content) if content else {}
    for member, value in wanted.get("body", {}).items():
        assert member in body and body[member] == value, f"{member} of {made}"
    for member in wanted.get("without", []):
        assert member not in body, f"{member} of {made}"
    for name, value in wanted.get("headers", {}).items():
        assert request.headers.get(name) == value, f"{name} of {made}"
