"""API_KEY: what is closed without a key, what stays open, and that no spelling gets around it."""

import socket

import httpx
import pytest
import routes
from conftest import DEADLINE_S

KEY = "the-first-key-of-this-test"
OTHER = "another-key-for-rotation"
CHALLENGE = 'Bearer realm="smart-router"'

# What the specification leaves open under /api/v1: health, and the webhooks, which providers sign. Outside of it all is
# open but /metrics: health again, /openapi.json and the files of the dashboard, which hold no secret.
OPEN = {"/api/v1/health", "/api/v1/ready"} | {
    f"/api/v1/{provider}/{hook}" for provider in ("twilio", "plivo", "exotel") for hook in ("allocate", "after", "status")
}
UNKNOWN = [
    "/api/v1",
    "/api/v1/",
    "/api/v1/nothing",
    "/api/v1/health/x",
    "/api/v1/health//",
    "/api/v1//health",
    "/api/v1/healthy",
    "/api/v1/twilio",
    "/api/v1/twilio/allocate/x",
    "/api/v1/twilio/release",
    "/api/v1/vonage/allocate",
]


@pytest.fixture
def closed(start_router):
    return start_router({"API_KEY": f"{KEY},{OTHER}"})


@pytest.fixture
def anonymous(closed):
    with httpx.Client(base_url=closed.url, timeout=DEADLINE_S, trust_env=False) as client:
        yield client


def is_refused(answer, method="GET"):
    if answer.status_code != 401:
        return False
    assert answer.headers["WWW-Authenticate"] == CHALLENGE
    if method != "HEAD":
        assert answer.json()["code"] == "unauthorized" and answer.json()["success"] is False
    return True


def test_the_list_of_routes_is_complete():
    known = {"api/api.c": 2, "gateway/gateway.c": 1}
    assert routes.calls_of_http_server_route() == known, "somebody else adds routes: teach routes.py to read them"
    found = routes.all_routes()
    assert ("POST", "/api/v1/allocate") in found and ("GET", "/ws/pod/{pod}/{rest...}") in found
    assert len(routes.rows_of("gateway/gateway.c")) == 4
    text = (routes.SRC / "api" / "routes.c").read_text()
    made = text.count(' PROBE("/') + 2 * text.count(' WEBHOOK("/')
    assert len(routes.rows_of("api/routes.c")) + made == len(routes.table())


def test_without_a_key_nothing_answers_but_what_is_open(closed, anonymous):
    before = closed.state()
    patterns = {pattern for _, pattern in routes.all_routes()}
    assert OPEN <= patterns
    asked = 0
    for path in sorted(routes.fill(pattern) for pattern in patterns) + UNKNOWN:
        is_closed = (path == "/api/v1" or path.startswith("/api/v1/")) and path not in OPEN or path == "/metrics"
        for method in routes.METHODS:
            for slash in ("", "/"):
                answer = anonymous.request(method, path + slash, json={"call_sid": "CA-walk", "pod_name": "x"})
                assert is_refused(answer, method) == is_closed, (method, path + slash, answer.status_code)
                asked += 1
    assert asked > 500
    after = closed.state()
    for state in (before, after):  # the webhooks are open: they may have taken a pod
        state.pop("calls")
        state.pop("pods")
        state.pop("status")
    assert after == before


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/metrics", 401),
        ("/metrics/", 401),
        ("/api/v1/pods", 401),
        ("/api/v1/pod/x", 401),
        ("/api/v1/nothing", 401),
        ("/api/v1/health", 405),
        ("/api/v1/twilio/allocate/", 405),
        ("/health", 405),
        ("/ws/pod/x", 405),
        ("/nothing", 405),
    ],
)
def test_connect_needs_a_key_where_other_methods_do(closed, path, status):
    with socket.create_connection(("127.0.0.1", closed.port), timeout=DEADLINE_S) as client:
        client.sendall(f"CONNECT {path} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
        assert client.recv(4096).startswith(f"HTTP/1.1 {status} ".encode())


def test_with_a_key_nothing_is_refused_for_want_of_one(closed):
    for method, pattern in sorted(routes.all_routes()):
        if pattern == "/api/v1/events":
            with closed.client.stream(method, pattern) as answer:
                assert answer.status_code == 200
            continue
        assert closed.request(method, routes.fill(pattern)).status_code != 401, (method, pattern)
    assert closed.get("/api/v1/nothing").status_code == 404
    assert closed.request("PATCH", "/api/v1/pods").status_code == 405


def test_health_webhooks_and_the_metrics_port_need_no_key(closed, anonymous):
    for path in ("/health", "/ready", "/api/v1/health", "/api/v1/ready", "/openapi.json"):
        assert anonymous.get(path).status_code == 200
    assert is_refused(anonymous.get("/metrics")) and closed.get("/metrics").status_code == 200
    assert httpx.get(closed.metrics_url + "/metrics", trust_env=False).status_code == 200
    answer = anonymous.post("/api/v1/twilio/allocate", data={"CallSid": "CA1"})
    assert answer.status_code == 200 and "<Stream" in answer.text
    assert closed.get("/api/v1/call/CA1").status_code == 200


@pytest.mark.parametrize(
    "target",
    [
        "//api/v1/pods",
        "/api//v1/pods",
        "/api/v1//pods",
        "/./api/v1/pods",
        "/x/../api/v1/pods",
        "/health/../api/v1/pods",
        "/api/v1/health/../pods",
        "/api/v1/health%2f..%2fpods",
        "/api/v1/twilio/allocate/../../pods",
        "/%61pi/v1/pods",
        "/api%2Fv1/pods",
        "/api/v1%2Fpods",
        "/api/%761/pods",
        "/API/V1/pods",
        "/api/v1;/pods",
        "/api/v1\\pods",
        "/api/v1/pods?x=/api/v1/health",
        "/api/v1/pods/",
        "/api/v1/pods%00",
        "http://example.test/api/v1/pods",
        "http://example.test//api/v1/pods",
        "http://x@y/api/v1/pods",
    ],
)
def test_no_spelling_gets_around_the_key(closed, target):
    answer = closed.raw(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    assert answer.split(b" ")[1] in (b"400", b"401", b"404"), answer
    assert b"voice-agent" not in answer
    if target in ("/api/v1/pods/", "http://example.test/api/v1/pods"):
        assert b" 401 " in answer


@pytest.mark.parametrize(
    "value",
    [
        f"Bearer {KEY}",
        f"bearer {OTHER}",
        f"BEARER   {KEY}",
    ],
)
def test_each_key_is_good_whatever_the_case_of_the_scheme(anonymous, value):
    assert anonymous.get("/api/v1/pods", headers={"Authorization": value}).status_code == 200


@pytest.mark.parametrize(
    "value",
    [
        "",
        "Bearer",
        f"Bearer {KEY[:-1]}",
        f"Bearer {KEY}x",
        f"Bearer x{KEY}",
        f"Bearer {KEY.upper()}",
        f"Bearer {KEY[:-1]}T",
        f"Bearer {KEY},{OTHER}",
        f"Bearer {KEY},",
        f"Bearer {KEY} {KEY}",
        f'Bearer "{KEY}"',
        f"Bearer\t{KEY}",
        f"Bearer{KEY}",
        f"Bearerx {KEY}",
        f"Basic {KEY}",
        "Basic dGhlLWZpcnN0LWtleS1vZi10aGlzLXRlc3Q6",
        f"Digest {KEY}",
        f"Token {KEY}",
        KEY,
    ],
)
def test_what_is_not_a_key_is_refused(anonymous, value):
    assert is_refused(anonymous.get("/api/v1/pods", headers={"Authorization": value}))


@pytest.mark.parametrize("values", [(f"Bearer {KEY}", "Bearer wrong"), ("Bearer wrong", f"Bearer {KEY}"), (f"Bearer {KEY}",) * 2])
def test_of_two_keys_in_one_request_none_counts(anonymous, values):
    headers = [("Authorization", value) for value in values]
    assert is_refused(anonymous.get("/api/v1/pods", headers=headers))


@pytest.mark.parametrize("name", ["X-Api-Key", "Proxy-Authorization", "Authorizatio", "Cookie"])
def test_a_key_elsewhere_does_not_count(anonymous, name):
    assert is_refused(anonymous.get(f"/api/v1/pods?api_key={KEY}&access_token={KEY}", headers={name: f"Bearer {KEY}"}))


def read_answer(conn):
    received = b""
    while chunk := conn.recv(65536):
        received += chunk
    return received


def test_who_is_refused_is_not_asked_for_a_body(closed):
    head = "POST /api/v1/allocate HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\nExpect: 100-continue\r\n"
    with socket.create_connection(("127.0.0.1", closed.port), timeout=DEADLINE_S) as conn:
        conn.sendall((head + "\r\n").encode())
        answer = read_answer(conn)  # until the router closes, though nothing of the body was sent
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"Connection: close" in answer
    with socket.create_connection(("127.0.0.1", closed.port), timeout=DEADLINE_S) as conn:
        conn.sendall((head + f"Authorization: Bearer {KEY}\r\n\r\n").encode())
        assert conn.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"


def test_a_refused_request_leaves_the_connection_to_the_next_one(closed):
    refused = 'POST /api/v1/release HTTP/1.1\r\nHost: x\r\nContent-Length: 18\r\n\r\n{"call_sid":"CA1"}'
    good = f"GET /api/v1/pods?limit=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nConnection: close\r\n\r\n"
    answer = closed.raw((refused * 2 + good).encode())
    assert answer.count(b"HTTP/1.1 401 ") == 2
    assert answer.count(b"HTTP/1.1 200 ") == 1


def test_refusals_are_counted_and_logged_without_what_was_sent(closed, anonymous):
    guess = "a-guess-that-nobody-shall-read"
    anonymous.get("/api/v1/pods", headers={"Authorization": f"Bearer {guess}", "X-Request-Id": "req-1"})
    anonymous.post("/api/v1/drain", json={"pod_name": "voice-agent-0"})
    metrics = closed.get("/metrics").text
    assert 'smart_router_unauthorized_total{credential="api_key"} 2' in metrics
    lines = [line for line in closed.log_lines("request refused") if line["status"] == 401]
    assert [(line["method"], line["path"]) for line in lines] == [("GET", "/api/v1/pods"), ("POST", "/api/v1/drain")]
    assert lines[0]["request_id"] == "req-1" and lines[0]["peer"] == "127.0.0.1"
    assert guess not in closed.log()


@pytest.mark.parametrize("value", ["{key},", ",{key}", "{key},,{key}", "{key} x", "{key},ü", ",".join(["{key}"] * 17), "{key}" * 60])
def test_a_list_of_keys_that_cannot_be_is_refused_at_the_start(run_router, value):
    done = run_router({"API_KEY": value.format(key=KEY)})
    assert done.returncode == 2
    assert done.output.startswith("API_KEY")
    assert KEY not in done.output


def test_short_and_missing_secrets_are_warned_about_by_name(start_router):
    router = start_router({"API_KEY": f"{KEY},short", "GATEWAY_SECRET": "fifteen-letters"})
    (line,) = router.log_lines("secrets that are so short can be guessed")
    assert line["names"] == "API_KEY GATEWAY_SECRET" and line["level"] == "warn"
    assert "API_KEY is not set" not in router.log()
    quiet = {name: "sixteen-letters!" for name in ("API_KEY", "GATEWAY_SECRET", "TWILIO_AUTH_TOKEN")}
    quiet["PUBLIC_BASE_URL"] = "https://voice.example.com"
    router = start_router({**quiet, "PLIVO_AUTH_TOKEN": KEY, "EXOTEL_TOKEN": KEY, "MAX_CONNECTIONS": 99, "GATEWAY_MAX": 99})
    assert [line for line in router.log_lines() if line["level"] == "warn"] == []
