"""Lines of the log that strangers can cause: limited by kind and in length, and every one is accounted for."""

import socket

import httpx
import pytest
from conftest import DEADLINE_S, wait_until

KEY = "the-key-of-this-test"
FLOOD = 400
LEFT_OUT = "lines about refused strangers were left out of the log: the metrics have counted all of them"
# At most this many lines in 4 s; the floods here take less than that unless the machine is very busy.
BURST = 20
CLOSED = {
    "API_KEY": KEY,
    "TWILIO_AUTH_TOKEN": "the-token-of-this-test",
    "GATEWAY_SECRET": "the-secret-of-this-test-of-tickets",
}


def flood(router, request, count=FLOOD):
    """Sends the same request many times, in one connection; returns the statuses."""
    statuses = []
    with socket.create_connection(("127.0.0.1", router.port), timeout=DEADLINE_S) as conn:
        answers = conn.makefile("rb")
        for _ in range(count):
            conn.sendall(request)
            statuses.append(int(answers.readline().split()[1]))
            length = 0
            while (line := answers.readline()) != b"\r\n":
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            answers.read(length)
    return statuses


def counted(router, kind):
    """What the metrics say was left out."""
    line = f'smart_router_log_lines_left_out_total{{kind="{kind}"}} '
    page = httpx.get(f"{router.metrics_url}/metrics", trust_env=False).text
    return sum(int(found.split()[1]) for found in page.splitlines() if found.startswith(line))


KINDS = {
    "unauthorized": (b"GET /api/v1/pods HTTP/1.1\r\nHost: x\r\n\r\n", 401, "request refused"),
    "refused": (b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n", 404, "request refused"),
    "webhook": (
        b"POST /api/v1/twilio/allocate HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
        403,
        "webhook refused",
    ),
    "gateway": (
        b"GET /ws/pod/voice-agent-0/AAAA HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        403,
        "connection refused",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_flood_of_strangers_does_not_fill_the_log(start_router, kind):
    router = start_router(CLOSED)
    request, status, msg = KINDS[kind]
    assert set(flood(router, request)) == {status}
    left_out = counted(router, kind)
    assert left_out > 0
    assert router.get("/api/v1/pods").status_code == 200
    assert router.stop() == 0
    written = len(router.log_lines(msg))
    told = [line for line in router.log_lines(LEFT_OUT) if line["kind"] == kind]
    assert BURST <= written < FLOOD
    # Nothing disappears: what was not written is told, at the latest when the router stops, and counted.
    assert written + sum(line["lines"] for line in told) == FLOOD
    assert sum(line["lines"] for line in told) == left_out


def test_one_kind_does_not_use_up_the_lines_of_another(start_router):
    router = start_router(CLOSED)
    flood(router, KINDS["unauthorized"][0])
    flood(router, KINDS["webhook"][0], 1)
    wait_until(lambda: router.log_lines("webhook refused"), "the webhook has its line")


def test_who_has_a_key_is_not_limited(start_router):
    router = start_router(CLOSED)
    key = f"Authorization: Bearer {KEY}\r\n\r\n".encode()
    for path in (b"/api/v1/call/nobody", b"/api/v1/nothing"):
        assert set(flood(router, b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n" + key, 50)) == {404}
    wait_until(lambda: len(router.log_lines("request refused")) == 100, "all have their lines")
    assert counted(router, "refused") == 0


@pytest.mark.parametrize(
    "path",
    ["/nothing/" + "x" * 7000, "/api/v1/" + "%C3%BF" * 1000, "/api/v1/" + "\\" * 7000],
    ids=["letters", "escaped", "backslashes"],
)
def test_a_line_repeats_only_the_beginning_of_a_long_path(start_router, path):
    router = start_router(CLOSED)
    flood(router, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode("latin-1"), 1)
    (line,) = wait_until(lambda: router.log_lines("request refused"), "it is logged")
    assert line["path"].endswith(f"... ({len(path)} bytes)") or line["path"] == f"({len(path)} bytes, not shown: too many escapes)"
    (text,) = [text for text in router.log().splitlines() if '"request refused"' in text]
    assert len(text) < 1500


def test_a_line_repeats_only_the_beginning_of_a_long_url_or_pod(start_router):
    router = start_router(CLOSED)
    host = "x" * 5000
    flood(router, KINDS["webhook"][0].replace(b"Host: x", b"Host: " + host.encode()), 1)
    flood(router, KINDS["gateway"][0].replace(b"voice-agent-0", b"p" * 5000), 1)
    wait_until(lambda: router.log_lines("connection refused") and router.log_lines("webhook refused"), "both are logged")
    lines = [text for text in router.log().splitlines() if "refused" in text]
    assert len(lines) == 2 and max(map(len, lines)) < 1500


def test_strangers_do_not_use_up_the_lines_about_providers(start_router):
    """A provider that asks for the call of another is to be seen, however many forged webhooks come."""
    router = start_router({**CLOSED, "EXOTEL_TOKEN": "a-token-of-exotel-of-this-test"})
    router.request("POST", "/api/v1/allocate", json={"call_sid": "CA1"}, headers={"Authorization": f"Bearer {KEY}"})
    flood(router, *[KINDS["webhook"][0]])
    answer = router.get("/api/v1/exotel/allocate", params={"CallSid": "CA1", "token": "a-token-of-exotel-of-this-test"})
    assert answer.status_code == 403
    wait_until(lambda: [line for line in router.log_lines("webhook refused") if line.get("call_sid") == "CA1"], "the line is written")


def test_a_request_about_many_calls_writes_few_lines(router):
    router.allocate("CA1")
    pod = router.get("/api/v1/call/CA1").json()["pod_name"]
    sids = [f"X{i}" for i in range(500)]
    answer = router.post(f"/api/v1/pod/{pod}/heartbeat", json={"call_sids": sids}).json()
    assert len(answer["conflicts"]) > 490
    # Log lines are written at the end of the turn, after the answer.
    (rest,) = wait_until(lambda: router.log_lines("more calls of the same request are not shown"), "it is logged")
    shown = router.log_lines("pod claims a call that it cannot have")
    assert len(shown) == 5 and rest["calls"] + 5 == len(answer["conflicts"])


def test_tickets_of_urls_that_went_astray_are_not_shown(start_router):
    router = start_router({**CLOSED, "API_KEY": ""})
    url = router.allocate("CA1")["ws_url"]
    ticket = url.split("/ws/pod/")[1].split("/")[1]
    assert ticket.startswith("AgAAAA")
    paths = [f"/ws/pod/{ticket}/x", f"/ws/pod/x-1:{ticket}/x", f"/ws%2Fpod%2Fx-1%2F{ticket}%2Fx", f"/y/{ticket}.", f"/y/{ticket},", f"/t={ticket}"]
    paths.append("/" + "".join(f"%{ord(c):02x}" for c in ticket))
    for path in paths:
        with socket.create_connection(("127.0.0.1", router.port), timeout=DEADLINE_S) as conn:
            conn.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            assert conn.makefile("rb").read()
    wait_until(lambda: len(router.log_lines("request refused")) + len(router.log_lines("connection refused")) >= len(paths), "all are logged")
    assert ticket[:34] not in router.log() and paths[-1][:60] not in router.log()
