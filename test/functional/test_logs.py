"""What an operator finds in the log: one line for each event, with what is needed to find its cause."""

import pytest
from conftest import wait_until

HEAD = b"Host: x\r\nX-Request-Id: mine\r\n"


def refused(router):
    return router.log_lines("request refused")


def test_a_refusal_says_who_asked_what_and_why(router):
    answer = router.post("/api/v1/allocate", {"call_sid": "a b"}, headers={"X-Request-Id": "mine"})
    assert answer.status_code == 400
    (line,) = wait_until(lambda: refused(router), "it is logged")
    assert (line["level"], line["method"], line["path"], line["status"]) == ("info", "POST", "/api/v1/allocate", 400)
    assert line["error"] == answer.json()["error"]
    assert (line["request_id"], line["peer"]) == ("mine", "127.0.0.1")
    assert line["duration_us"] >= 0


@pytest.mark.parametrize(
    "data,status",
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/3.0\r\n\r\n", 505),
        (b"GET /nothing HTTP/1.1\r\n" + HEAD + b"\r\n", 404),
        (b"PATCH /api/v1/allocate HTTP/1.1\r\n" + HEAD + b"\r\n", 405),
        (b"GET /api/v1/pod/a%00b HTTP/1.1\r\n" + HEAD + b"\r\n", 400),
        (b"POST /api/v1/allocate HTTP/1.1\r\n" + HEAD + b"Content-Length: 99999\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\n" + HEAD + b"X: " + b"x" * 9000 + b"\r\n\r\n", 431),
    ],
    ids=["malformed", "version", "path", "method", "nul", "body", "header"],
)
def test_what_the_server_itself_refuses_is_logged(router, data, status):
    assert f" {status} ".encode() in router.raw(data, half_close=True).split(b"\r\n")[0]
    (line,) = wait_until(lambda: refused(router), "it is logged")
    assert (line["level"], line["status"]) == ("info", status)


def test_a_client_that_is_too_slow_is_logged(start_router):
    router = start_router({"HTTP_READ_TIMEOUT": "100ms"})
    router.raw(b"GET / HTTP/1.1\r\n")
    (line,) = wait_until(lambda: refused(router), "it is logged")
    assert line["status"] == 408


def test_every_unknown_thing_has_one_line(router):
    for path in ("pod/nobody", "call/nobody", "merchants/nobody"):
        assert router.get(f"/api/v1/{path}").status_code == 404
    assert router.post("/api/v1/renew", {"call_sid": "nobody"}).status_code == 404
    assert router.post("/api/v1/release", {"call_sid": "nobody"}).status_code == 404
    lines = wait_until(lambda: router.log_lines("release of an unknown call") and refused(router), "they are logged")
    assert [line["error"] for line in lines] == ["pod not found", "call not found", "merchant not found", "call not found"]


def test_what_is_polled_is_quiet(router):
    before = len(router.log_lines())
    for path in ("/health", "/ready", "/metrics", "/api/v1/status", "/api/v1/pods", "/api/v1/merchants", "/api/v1/tiers"):
        assert router.get(path).status_code == 200
    assert router.request("POST", "/health").status_code == 405
    assert len(router.log_lines()) == before


def test_at_debug_every_request_has_a_line(start_router):
    router = start_router({"LOG_LEVEL": "debug"})
    router.get("/api/v1/tiers")
    router.allocate("CA1")
    lines = wait_until(lambda: router.log_lines("call allocated") and router.log_lines("request"), "they are logged")
    assert "/api/v1/tiers" in [line["path"] for line in lines]
    assert "/api/v1/allocate" not in [line["path"] for line in lines]
