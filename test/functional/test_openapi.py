"""/openapi.json and docs/API.md say what the server does.

There is a test for each status that the document knows. It gets that status from the server for every operation that
has it, and compares the answer with its schema. A new route needs an example in api_examples.py, which is its 200, and
perhaps a way to its 404 and 409 here: the failure names what is missing.
"""

import itertools
import json
import re
import socket
import subprocess
import sys
import threading

import api_examples
import httpx
import pytest
import routes
from conftest import BUILD_DIR, DEADLINE_S, ROOT, wait_until
from openapi_document import Document

METHODS = {"get", "put", "post", "delete"}
UNKNOWN = {"sid": "CA-unknown", "name": "unknown", "id": "unknown", "tier": "unknown", "file": "unknown"}
# What a request about something that does not exist has in its body.
UNKNOWN_BODIES = {
    "/api/v1/release": {"call_sid": "CA-unknown"},
    "/api/v1/renew": {"call_sid": "CA-unknown"},
    "/api/v1/drain": {"pod_name": "unknown"},
    "/api/v1/undrain": {"pod_name": "unknown"},
    "/api/v1/pod/{name}/heartbeat": {"call_sids": []},
}
TOKENS = {"TWILIO_AUTH_TOKEN": "token-0123456789", "PLIVO_AUTH_TOKEN": "token-0123456789", "EXOTEL_TOKEN": "token-0123456789"}
KEYS = "\n".join(f"{role}-1 {role} secret-of-{role}-1" for role in ("admin", "call", "agent", "metrics", "read"))


@pytest.fixture(scope="module")
def document():
    return Document()


class Wire:
    """An answer that was read from a socket, as httpx shows one."""

    def __init__(self, data):
        head, _, body = data.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        self.status_code = int(lines[0].split()[1])
        self.headers = httpx.Headers([line.split(": ", 1) for line in lines[1:]])
        self.text = body.decode()


def connect(router):
    return socket.create_connection(("127.0.0.1", router.port), timeout=DEADLINE_S)


def read_all(sock):
    data = b""
    try:
        while chunk := sock.recv(65536):
            data += chunk
    except ConnectionResetError:
        pass  # the router has closed on a request that was not read to its end
    return Wire(data)


def path_of(operation, values=UNKNOWN):
    return api_examples.path_of(operation.path, values)


def sent(router, operation, headers, tail=b""):
    """The answer to a request that is written as it is."""
    head = f"{operation.method} {path_of(operation)} HTTP/1.1\r\n{headers}\r\n".encode()
    with connect(router) as sock:
        try:
            sock.sendall(head + tail)
        except (BrokenPipeError, ConnectionResetError):
            pass
        return read_all(sock)


def expect(operation, status, answer):
    assert answer.status_code == status, (operation, answer.status_code, answer.text)
    operation.fits(answer)


def ask(router, operation, body=None, values=UNKNOWN, query="", **kwargs):
    content = json.dumps(body) if isinstance(body, (dict, list)) else body
    return router.request(operation.method, api_examples.path_of(operation.path, values, query), content=content, **kwargs)


# The document and the table


def test_the_document_has_every_route_of_the_table_with_its_roles(document):
    table = routes.table()
    assert set(document.operations) == set(table)
    for key, operation in document.operations.items():
        who = table[key]
        assert operation.roles == (who if not who & {"anybody", "provider"} else set()), key
        assert (operation.value["security"] == []) == (who == {"anybody"}), key
    names = [operation.value["operationId"] for operation in document.operations.values()]
    assert len(names) == len(set(names))


def test_the_server_serves_the_document_that_the_binary_prints(router, document):
    answer = router.get("/openapi.json")
    assert answer.headers["Content-Type"] == "application/json" and answer.json() == document.value
    assert answer.json()["openapi"].startswith("3.1.")


def test_every_status_of_the_document_has_a_test_here(document):
    statuses = {status for operation in document.operations.values() for status in operation.statuses}
    tests = {int(name[len("test_") : len("test_") + 3]) for name in globals() if re.match(r"test_\d{3}_", name)}
    assert statuses - tests == set(), "statuses without a test"


def test_what_the_document_has_no_method_for_gets_405(router, document):
    for path in document.value["paths"]:
        known = {method for method, other in document.operations if other == path}
        for method in {"GET", "POST", "PUT", "DELETE", "PATCH"} - known:
            answer = router.request(method, api_examples.path_of(path, UNKNOWN))
            assert answer.status_code == 405 and answer.json()["code"] == "method_not_allowed", (method, path)
            assert set(answer.headers["Allow"].split(", ")) == known | ({"HEAD"} if "GET" in known else set()), (method, path)


# Statuses


def test_200_the_examples_cover_every_route_and_stand_in_the_docs_as_they_are_answered(start_router, document):
    answered = set()

    def seen(method, pattern, body, answer, text):
        operation = document.operations[method, pattern]
        operation.fits(answer, text)
        answered.add((method, pattern, answer.status_code))
        content = operation.content()
        if answer.status_code == 200 and body and body.startswith("{") and "application/json" in content:
            document.check(content["application/json"], json.loads(body), f"the request of {operation}")

    api_examples.run(start_router(api_examples.ENV), seen)
    missing = [operation for operation in document.with_status(200) if (*operation.key, 200) not in answered]
    assert missing == [], "no example in api_examples.py"


def start_busy(start_router):
    """The only pod has a call, and others may wait for it."""
    router = start_router({"TIER_CONFIG": '{"gold":1}', "STATIC_PODS": "voice-agent-0", "HOLD_MAX_WAIT": "2m"})
    router.allocate("CA1")
    return router


def test_202_comes_while_a_pod_is_not_drained_and_while_a_call_waits(start_router, document):
    router = start_busy(start_router)
    for operation in document.with_status(202):
        expect(operation, 202, ask(router, operation, {"call_sid": "CA2", "wait": True}, values={"name": "voice-agent-0"}))


def test_302_comes_while_a_call_of_exotel_goes_on(start_router, document):
    router = start_router({"GATEWAY_SECRET": "secret-of-the-gateway", "PUBLIC_BASE_URL": "https://voice.example.com"})
    router.post("/api/v1/exotel/allocate", {"CallSid": "CA1"})
    for operation in document.with_status(302):
        expect(operation, 302, ask(router, operation, query="CallSid=CA1"))


def test_304_comes_for_a_file_that_the_client_has(router, document):
    for operation in document.with_status(304):
        files = {"file": "style.css"}
        etag = ask(router, operation, values=files).headers["ETag"]
        expect(operation, 304, ask(router, operation, values=files, headers={"If-None-Match": etag}))


def test_the_examples_of_the_docs_are_those_of_a_running_router():
    """All of docs/API.md, written anew."""
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "api-docs", BUILD_DIR, "--print"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == (ROOT / "docs" / "API.md").read_text(), "run 'make docs'"


def test_400_comes_for_requests_that_cannot_be(router, document):
    before = router.state()
    bad = 0
    for operation in document.with_status(400):
        expect(operation, 400, sent(router, operation, "Host: x\r\nHost: y\r\n"))
        if operation.takes_json():
            expect(operation, 400, ask(router, operation, []))
            expect(operation, 400, ask(router, operation, "{"))
            bad += 1
        if "{" in operation.path:
            expect(operation, 400, ask(router, operation, {"call_sids": []}, values=dict.fromkeys(UNKNOWN, "not a name")))
            bad += 1
        for name in operation.strict_in_query():
            expect(operation, 400, ask(router, operation, query=f"{name}=x"))
            bad += 1
    assert bad > 15
    assert router.state() == before


def test_401_comes_without_a_key(start_router, document):
    router = start_router({"API_KEYS": KEYS})
    router.client.headers.pop("Authorization")
    for operation in document.with_status(401):
        expect(operation, 401, ask(router, operation))
    for operation in document.operations.values():
        assert (operation.roles != set()) == (401 in operation.statuses), operation


def test_403_comes_for_a_key_of_another_role_and_for_a_webhook_without_a_signature(start_router, document):
    router = start_router({"API_KEYS": KEYS, **TOKENS})
    for operation in document.with_status(403):
        for role in {"call", "agent", "metrics", "read"} - operation.roles if operation.roles else {"admin"}:
            expect(operation, 403, ask(router, operation, headers={"Authorization": f"Bearer secret-of-{role}-1"}))


def test_404_comes_for_what_does_not_exist(router, document):
    for operation in document.operations.values():
        if operation.key == ("GET", "/api/v1/events"):
            continue  # a stream
        answer = ask(router, operation, UNKNOWN_BODIES.get(operation.path))
        operation.fits(answer)
        assert (answer.status_code == 404) == (404 in operation.statuses), (operation, answer.status_code, answer.text)


def test_408_comes_when_the_request_does_not_end(start_router, document):
    router = start_router({"HTTP_READ_TIMEOUT": "1s"})
    waiting = []
    for operation in document.with_status(408):
        waiting.append((operation, connect(router)))
        waiting[-1][1].sendall(f"{operation.method} {path_of(operation)} HTTP/1.1\r\nHost: x\r\n".encode())
    for operation, sock in waiting:
        with sock:
            expect(operation, 408, read_all(sock))


def renew_with_a_key_for_other_pods(start_router, _):
    router = start_router({"API_KEYS": "ops admin secret-of-the-ops\nbots agent=other-* secret-of-the-bots"})
    router.allocate("CA1")
    return router, {"body": {"call_sid": "CA1"}, "headers": {"Authorization": "Bearer secret-of-the-bots"}}


def ask_for_a_call_that_somebody_releases(start_router, _):
    router = start_busy(start_router)

    def release():
        wait_until(lambda: router.post("/api/v1/release", {"call_sid": "CA2"}).status_code == 200, "it is released")

    threading.Thread(target=release).start()
    return router, {"body": {"call_sid": "CA2", "wait_ms": 20000}}


def register_a_static_pod(start_router, _):
    return start_router(), {"body": {"pod_name": "voice-agent-0", "address": "127.0.0.1:9"}}


def remove_a_static_pod(start_router, _):
    return start_router(), {"values": {"name": "voice-agent-0"}}


def add_a_merchant_to_all_that_fit(start_router, start_redis):
    """It was there once, and its versions are kept."""
    server = start_redis()
    router = start_router({"REDIS_URL": server.url})
    router.put("/api/v1/merchants/unknown", {"tier": "gold"})
    router.delete("/api/v1/merchants/unknown")
    with server.client() as client:
        for start in range(0, 100000, 10000):
            client.hset("voice:merchant:config", mapping={f"m{i}": "{}" for i in range(start, start + 10000)})
    return router, {"body": {"tier": "gold"}}


def bring_a_merchant_back_to_all_that_fit(start_router, start_redis):
    router, _ = add_a_merchant_to_all_that_fit(start_router, start_redis)
    return router, {}


CONFLICTS = {
    ("POST", "/api/v1/allocate"): ask_for_a_call_that_somebody_releases,
    ("POST", "/api/v1/renew"): renew_with_a_key_for_other_pods,
    ("POST", "/api/v1/pods"): register_a_static_pod,
    ("DELETE", "/api/v1/pod/{name}"): remove_a_static_pod,
    ("PUT", "/api/v1/merchants/{id}"): add_a_merchant_to_all_that_fit,
    ("POST", "/api/v1/merchants/{id}/rollback"): bring_a_merchant_back_to_all_that_fit,
}


def test_409_comes_for_what_somebody_else_has(start_router, start_redis, document):
    for operation in document.with_status(409):
        if operation.path == "/api/v1/tiers/rollback":
            continue  # the next test
        assert operation.key in CONFLICTS, f"{operation}: CONFLICTS has no way to its 409"
        router, request = CONFLICTS[operation.key](start_router, start_redis)
        expect(operation, 409, ask(router, operation, **request))


def test_409_comes_for_a_rollback_that_was_overtaken(start_router, start_redis, document):
    router = start_router({"REDIS_URL": start_redis().url})
    operation = document.operations["POST", "/api/v1/tiers/rollback"]
    stop = threading.Event()

    def change():
        with httpx.Client(base_url=router.url, trust_env=False) as client:
            for target in itertools.cycle(range(100)):
                if stop.is_set():
                    return
                client.put("/api/v1/tiers", json={"gold": target})

    def overtaken():
        answer = ask(router, operation)
        operation.fits(answer)
        return answer.status_code == 409

    thread = threading.Thread(target=change)
    thread.start()
    try:
        wait_until(overtaken, "a change comes between the two steps of a rollback")
    finally:
        stop.set()
        thread.join()


def test_413_comes_for_a_body_that_is_too_large(router, document):
    for operation in document.with_status(413):
        expect(operation, 413, sent(router, operation, "Host: x\r\nContent-Length: 65537\r\n"))


def test_429_comes_beyond_the_rate_limit(start_router, document):
    router = start_router({"RATE_LIMIT": "1/h"})
    assert router.post("/api/v1/allocate", {"call_sid": "CA1"}).status_code == 200
    for operation in document.with_status(429):
        expect(operation, 429, ask(router, operation, {"call_sid": "CA1"} if operation.takes_json() else None))


def test_431_comes_for_a_header_that_is_too_large(router, document):
    for operation in document.with_status(431):
        expect(operation, 431, sent(router, operation, f"Host: x\r\nX-Large: {'x' * 8200}\r\n"))


def open_stream(router):
    sock = connect(router)
    sock.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: x\r\n\r\n")
    if sock.recv(65536).startswith(b"HTTP/1.1 200 "):
        return sock
    sock.close()
    return None


def test_503_comes_when_all_connections_are_taken(start_router, document):
    router = start_router({"MAX_CONNECTIONS": "1", "HTTP_IDLE_TIMEOUT": "10m", "HTTP_WRITE_TIMEOUT": "10m"})
    router.client.close()
    stream = wait_until(lambda: open_stream(router), "there is room for a stream")
    for operation in document.with_status(503):
        if "/ready" not in operation.path:
            expect(operation, 503, httpx.request(operation.method, router.url + path_of(operation), trust_env=False))
    stream.close()


def test_503_comes_while_the_store_is_away(start_redis, start_router, document):
    """From every route that asks it. No other status comes but what the document has."""
    server = start_redis()
    router = start_router({"REDIS_URL": server.url})
    bodies = {(method, pattern): (values, body) for method, pattern, values, _, body, status in api_examples.SCRIPT if status == 200}
    server.stop()
    wait_until(lambda: router.get("/ready").status_code == 503, "the router has noticed")
    away = set()
    for key, operation in document.operations.items():
        if key == ("GET", "/api/v1/events"):
            continue
        values, body = bodies[key]
        headers = {} if isinstance(body, dict) else {"Content-Type": "application/x-www-form-urlencoded"}
        query = next(query for method, pattern, _, query, _, _ in api_examples.SCRIPT if (method, pattern) == key)
        answer = ask(router, operation, body, values=values, query=query, headers=headers)
        operation.fits(answer)
        if answer.status_code == 503:
            away.add(key)
    assert {("GET", "/ready"), ("GET", "/api/v1/ready"), ("POST", "/api/v1/exotel/allocate")} <= away
    silent = {operation.key for operation in document.with_status(503) if operation.roles} - away
    own = {("GET", f"/api/v1/{name}") for name in ("diagnosis", "events", "status", "history/pools", "whoami")}  # without the store
    assert silent == own | {("GET", "/metrics")}
