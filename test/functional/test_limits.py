"""Clients that ask too much: too often, on too many connections, too slowly, or for too long."""

import json
import re
import socket
import threading

import httpx
import pytest
import webhooks
from conftest import DEADLINE_S, wait_until

WEBHOOKS = {
    "allocate": ("/api/v1/allocate", {"json": {"call_sid": "{sid}"}}),
    "twilio": ("/api/v1/twilio/allocate", {"data": {"CallSid": "{sid}"}}),
    "plivo": ("/api/v1/plivo/allocate", {"data": {"CallUUID": "{sid}"}}),
    "exotel": ("/api/v1/exotel/allocate", {"json": {"CallSid": "{sid}"}}),
}


def ask(router, kind, sid, client=None):
    path, body = WEBHOOKS[kind]
    how, fields = next(iter(body.items()))
    fields = {name: sid for name in fields}
    headers = {"X-Forwarded-For": client} if client else {}
    return router.request("POST", path, headers=headers, **{how: fields})


def limited(router):
    match = re.search(r"^smart_router_rate_limited_total (\d+)$", router.get("/metrics").text, re.M)
    return int(match.group(1))


# RATE_LIMIT


@pytest.mark.parametrize("kind", WEBHOOKS)
def test_one_address_gets_so_many_calls_and_no_more(start_router, kind):
    router = start_router({"RATE_LIMIT": "2/h"})
    for sid in ("CA1", "CA2"):
        assert ask(router, kind, sid).status_code == 200
    for _ in range(20):
        answer = ask(router, kind, "CA3")
        assert answer.status_code == 429
        assert answer.json() == {"success": False, "error": "too many calls from this address", "code": "rate_limited"}
        assert 1700 <= int(answer.headers["retry-after"]) <= 1800
    assert router.get("/api/v1/call/CA3").status_code == 404
    assert router.get("/api/v1/status").json()["active_calls"] == 2
    assert limited(router) == 20
    assert router.post("/api/v1/release", {"call_sid": "CA1"}).status_code == 200
    lines = router.log_lines("requests for pods refused: RATE_LIMIT")
    assert [(line["client"], line["refused"]) for line in lines] == [("127.0.0.1", 1)]


def test_without_a_limit_there_is_none(start_router):
    router = start_router()
    for i in range(100):
        router.allocate("CA1")
    assert limited(router) == 0


def test_all_ways_to_a_pod_share_one_limit(start_router):
    router = start_router({"RATE_LIMIT": "2/h"})
    assert ask(router, "twilio", "CA1").status_code == 200
    assert router.get("/api/v1/plivo/allocate?CallUUID=CA2").status_code == 200
    for kind in WEBHOOKS:
        assert ask(router, kind, "CA1").status_code == 429
    assert router.request("HEAD", "/api/v1/twilio/allocate?CallSid=CA1").status_code == 405


def test_forged_webhooks_do_not_use_up_the_provider_s_share(start_router):
    token = "twilio-token-0123456789"
    router = start_router({"RATE_LIMIT": "1/h", "TWILIO_AUTH_TOKEN": token, "PUBLIC_BASE_URL": "https://v.example"})
    for _ in range(3):
        assert ask(router, "twilio", "CA1").status_code == 403
    url = "https://v.example/api/v1/twilio/allocate"
    headers = {"X-Twilio-Signature": webhooks.sign_twilio(token, url, {"CallSid": "CA1"})}
    for status in (200, 429):
        answer = router.post("/api/v1/twilio/allocate", data={"CallSid": "CA1"}, headers=headers)
        assert answer.status_code == status


def test_who_waits_is_served_again(start_router):
    router = start_router({"RATE_LIMIT": "5/s"})
    wait_until(lambda: ask(router, "allocate", "CA1").status_code == 429, "the limit is reached")
    wait_until(lambda: ask(router, "allocate", "CA1").status_code == 200, "the next turn comes")


def test_clients_behind_a_trusted_proxy_are_told_apart(start_router):
    router = start_router({"RATE_LIMIT": "1/h", "TRUSTED_PROXIES": "127.0.0.0/8, 10.0.0.0/8"})
    assert ask(router, "allocate", "CA1", "192.0.2.1").status_code == 200
    assert ask(router, "allocate", "CA1", "192.0.2.1").status_code == 429
    assert ask(router, "allocate", "CA1", "198.51.100.7, 192.0.2.1, 10.0.0.3").status_code == 429
    assert ask(router, "allocate", "CA1", "192.0.2.2").status_code == 200
    assert ask(router, "allocate", "CA1", "2001:db8::1").status_code == 200
    assert ask(router, "allocate", "CA1", "2001:db8::2").status_code == 429  # the same /64
    assert router.log_lines("requests for pods refused: RATE_LIMIT")[0]["client"] == "192.0.2.1"


def test_who_is_not_trusted_cannot_choose_its_address(start_router):
    router = start_router({"RATE_LIMIT": "1/h", "TRUSTED_PROXIES": "10.0.0.0/8"})
    assert ask(router, "allocate", "CA1", "192.0.2.1").status_code == 200
    assert ask(router, "allocate", "CA1", "192.0.2.2").status_code == 429


@pytest.mark.parametrize(
    "variable,value,error",
    [
        ("RATE_LIMIT", "ten", '"ten" is not a rate such as 10/s'),
        ("RATE_LIMIT", "0/s", '"0/s" is not a rate such as 10/s'),
        ("TRUSTED_PROXIES", "proxy.example", '"proxy.example" is neither an address nor a block'),
        ("TRUSTED_PROXIES", "10.0.0.0/8,10.0.0.0/33", '"10.0.0.0/33" is neither an address nor a block'),
    ],
)
def test_a_limit_that_cannot_be_read_stops_the_start(run_router, variable, value, error):
    done = run_router({variable: value})
    assert done.returncode == 2
    assert done.output.startswith(variable)
    assert error in done.output


# MAX_CONNECTIONS


def open_silent(router, count):
    return [socket.create_connection(("127.0.0.1", router.port), timeout=DEADLINE_S) for _ in range(count)]


def open_stream(router):
    """Nothing can make a stream go, so its place is taken for good. None: there is no room for it yet."""
    sock = socket.create_connection(("127.0.0.1", router.port), timeout=DEADLINE_S)
    sock.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: x\r\n\r\n")
    if sock.recv(65536).startswith(b"HTTP/1.1 200 "):
        return sock
    sock.close()
    return None


def test_health_is_answered_when_all_connections_are_taken(start_router):
    """The only one is busy, and more knock without a word."""
    router = start_router({"MAX_CONNECTIONS": "1", "HTTP_IDLE_TIMEOUT": "10m", "HTTP_WRITE_TIMEOUT": "10m"})
    router.client.close()
    stream = wait_until(lambda: open_stream(router), "there is room for a stream")
    silent = open_silent(router, 500)
    for path in ("/health", "/ready", "/api/v1/health", "/api/v1/ready", "/health/"):
        answer = httpx.get(router.url + path, timeout=DEADLINE_S, trust_env=False)
        assert (answer.status_code, answer.headers["connection"]) == (200, "close")
    for method, path in (("GET", "/api/v1/status"), ("POST", "/api/v1/allocate"), ("GET", "/metrics"), ("GET", "/nowhere")):
        answer = httpx.request(method, router.url + path, timeout=DEADLINE_S, trust_env=False)
        assert (answer.status_code, answer.json()["error"]) == (503, "too many connections")
        assert answer.headers["retry-after"] == "1"
    metrics = httpx.get(router.metrics_url + "/metrics", timeout=DEADLINE_S, trust_env=False).text
    assert 'smart_router_http_connections{listener="http"} 1\n' in metrics
    assert len(router.log_lines("too many connections, and none is idle: more are refused")) == 1
    assert router.log_lines("request failed") == []
    for sock in [stream, *silent]:
        sock.close()
    wait_until(lambda: httpx.get(router.url + "/api/v1/status", trust_env=False).status_code == 200, "there is room")


# Slow clients, against the router as it is shipped but for its times


def test_a_client_that_trickles_its_body_does_not_delay_others(start_router):
    router = start_router({"HTTP_READ_TIMEOUT": "500ms"})
    stop = threading.Event()
    answers = []

    def trickle():
        with socket.create_connection(("127.0.0.1", router.port), timeout=DEADLINE_S) as sock:
            sock.sendall(b"POST /api/v1/allocate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            try:
                while not stop.wait(0.01):
                    sock.sendall(b"1\r\n \r\n")
            except OSError:
                pass
            try:
                answers.append(sock.recv(65536))
            except OSError:
                answers.append(b"")

    threads = [threading.Thread(target=trickle) for _ in range(20)]
    for thread in threads:
        thread.start()
    for i in range(50):
        router.allocate("CA1")
        router.release("CA1")
    for thread in threads:
        thread.join(DEADLINE_S)
    stop.set()
    assert len(answers) == 20
    assert any(b" 408 " in answer for answer in answers)


# Large, deep and repetitive JSON. Whatever its shape is, 64 KiB of it have a defined answer.

DEEP = 30000


def fields(count):
    return ",".join(f'"k{i}":{i}' for i in range(count))


SHAPES = {
    "deep arrays": ("[" * DEEP + "]" * DEEP, 400),
    "a deep member": ('{"call_sid":"CA1","x":' + "[" * DEEP + "]" * DEEP + "}", 400),
    "deep objects": ('{"a":' * 10000 + "1" + "}" * 10000, 400),
    "64 deep": ('{"call_sid":"CA1","x":' + "[" * 63 + "]" * 63 + "}", 200),
    "65 deep": ('{"call_sid":"CA1","x":' + "[" * 64 + "]" * 64 + "}", 400),
    "thousands of members": ("{" + fields(4800) + ',"call_sid":"CA1"}', 200),
    "thousands of the same member": ("{" + ",".join(['"call_sid":"CA1"'] * 3800) + "}", 200),
    "thousands of empty members": ("{" + ",".join(['"":0'] * 10000) + ',"call_sid":"CA1"}', 200),
    "thousands of empty arrays": ('{"x":[' + ",".join(["[]"] * 20000) + '],"call_sid":"CA1"}', 200),
    "a long number": ('{"x":' + "9" * 60000 + ',"call_sid":"CA1"}', 200),
    "a long text": ('{"x":"' + "\\u0041" * 10000 + '","call_sid":"CA1"}', 200),
    "a long name": ('{"' + "x" * 60000 + '":1,"call_sid":"CA1"}', 200),
    "a long call_sid": ('{"call_sid":"' + "x" * 60000 + '"}', 400),
}


@pytest.mark.parametrize("text,status", SHAPES.values(), ids=SHAPES.keys())
def test_json_of_any_shape_is_answered(router, text, status):
    assert len(text) <= 65536
    answer = router.request("POST", "/api/v1/allocate", content=text)
    assert answer.status_code == status, answer.text[:300]
    assert json.loads(answer.text)["success"] == (status == 200)
    assert router.get("/health").status_code == 200


def test_the_first_of_equal_members_counts(router):
    router.request("POST", "/api/v1/allocate", content='{"call_sid":"CA1","call_sid":"CA2"}')
    assert [call["call_sid"] for call in router.get("/api/v1/calls").json()["calls"]] == ["CA1"]


def test_lists_of_calls_are_bounded_and_may_repeat(router):
    router.allocate("CA1")
    sids = ["CA1"] * 1000
    assert router.post("/api/v1/renew", {"call_sids": sids}).status_code == 200
    assert router.post("/api/v1/renew", {"call_sids": sids + ["CA1"]}).status_code == 400
    pod = router.get("/api/v1/call/CA1").json()["pod_name"]
    assert router.post(f"/api/v1/pod/{pod}/heartbeat", {"call_sids": sids}).status_code == 200


def test_tiers_by_the_thousand_are_refused(router):
    before = router.get("/api/v1/tiers").text
    many = json.dumps({f"t{i}": 0 for i in range(1025)})
    twice = "{" + ",".join(['"t":0'] * 1000) + "}"
    for text, error in ((many, "1025 tiers are more than 1024"), (twice, 'tier "t" is there twice')):
        answer = router.request("PUT", "/api/v1/tiers", content=text)
        assert (answer.status_code, error in answer.json()["error"]) == (400, True)
    assert router.get("/api/v1/tiers").text == before
