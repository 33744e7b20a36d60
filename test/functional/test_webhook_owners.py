"""Whose a call is: a webhook speaks for the calls of its own provider only."""

import socket

import pytest
import redis_servers
from conftest import wait_until
from test_webhooks import BASE, OVER, PROVIDERS, SID_FIELD, TOKENS, assert_accepted, calls, good_headers, metric, post

REFUSED = "smart_router_webhooks_refused_total"


@pytest.fixture(params=["embedded", "redis"])
def start(request, start_router):
    """Starts a router on either store."""
    if request.param == "embedded":
        return start_router
    server = request.getfixturevalue("redis_server")
    start_on = request.getfixturevalue("start_on")
    return lambda env: start_on(server, env)


def ask(router, provider, sid, signed=False):
    params = {SID_FIELD[provider]: sid}
    headers = good_headers(provider, params, "allocate") if signed else None
    return post(router, provider, params, "allocate", headers=headers)


def end(router, provider, sid, signed=False):
    params = {SID_FIELD[provider]: sid, **OVER[provider][0]}
    headers = good_headers(provider, params, "status") if signed else None
    answer = post(router, provider, params, headers=headers)
    assert_accepted(provider, answer)


def test_an_unsigned_webhook_does_not_get_the_url_of_a_signed_call(start):
    env = {"TWILIO_AUTH_TOKEN": TOKENS["TWILIO_AUTH_TOKEN"], "PUBLIC_BASE_URL": BASE, "GATEWAY_SECRET": "0123456789abcdef0"}
    router = start(env)
    url = ask(router, "twilio", "CA1", signed=True)
    assert url.status_code == 200 and "/ws/pod/" in url.text
    for provider in ("plivo", "exotel"):
        answer = ask(router, provider, "CA1")
        assert answer.status_code == 403 and "/ws/pod/" not in answer.text
        assert metric(router, REFUSED, provider=provider, reason="not_its_call") == 1
    (line, _) = router.log_lines("webhook refused")
    assert (line["provider"], line["call_sid"], line["error"]) == ("plivo", "CA1", "the call is not this provider's")
    again = ask(router, "twilio", "CA1", signed=True)
    assert again.status_code == 200 and calls(router) == {"CA1"}


@pytest.mark.parametrize("owner", PROVIDERS)
def test_with_all_tokens_set_a_provider_speaks_for_its_own_calls_only(start, owner):
    router = start({**TOKENS, "PUBLIC_BASE_URL": BASE})
    assert ask(router, owner, "CA1", signed=True).status_code == 200
    for other in set(PROVIDERS) - {owner}:
        assert ask(router, other, "CA1", signed=True).status_code == 403
        end(router, other, "CA1", signed=True)
        assert metric(router, REFUSED, provider=other, reason="not_its_call") == 2
    assert calls(router) == {"CA1"}
    end(router, owner, "CA1", signed=True)
    assert calls(router) == set()


def test_status_callbacks_end_no_call_of_the_api_or_of_nobody(start):
    router = start({"POD_SOURCE": "api", "STATIC_PODS": "", "TIER_CONFIG": '{"standard":3}'})
    for i in range(3):
        pod = {"pod_name": f"box-{i}", "address": "10.0.0.1:8000"}
        assert router.post("/api/v1/pods", json=pod).status_code == 200
    adopting = router.allocate("CA1")["pod_name"]  # names no provider
    router.allocate("CA2", provider="plivo")
    free = ({"box-0", "box-1", "box-2"} - {call["pod_name"] for call in router.get("/api/v1/calls").json()["calls"]}).pop()
    assert adopting != free
    heartbeat = router.post(f"/api/v1/pod/{free}/heartbeat", json={"call_sids": ["CA3"]}).json()
    assert heartbeat["adopted"] == ["CA3"]
    for sid in ("CA1", "CA2", "CA3"):
        end(router, "twilio", sid)
        end(router, "exotel", sid)
    assert calls(router) == {"CA1", "CA2", "CA3"}
    assert len(router.log_lines("status callback ignored")) == 6
    end(router, "plivo", "CA2")  # the outbound call that was placed for it
    assert calls(router) == {"CA1", "CA3"}
    assert ask(router, "twilio", "CA1").status_code == 403
    # A key, or no key where none is set, is for everything.
    for sid in ("CA1", "CA3"):
        assert router.post("/api/v1/release", json={"call_sid": sid}).status_code == 200


def test_calls_of_the_first_implementation_belong_to_every_provider(redis_server, start_on):
    """It does not record whose a call is: its calls must end as before while we take over."""
    router = start_on(redis_server, {})
    client = redis_server.client()
    for sid in ("CA1", "CA2"):
        router.allocate(sid, provider="twilio")
        client.hdel("voice:call:" + sid, "provider", "attempts")
    assert ask(router, "plivo", "CA1").status_code == 200
    end(router, "plivo", "CA1")
    end(router, "exotel", "CA2")
    assert calls(router) == set()


def test_the_operator_s_merchant_wins_over_one_in_a_body(router):
    assert router.put("/api/v1/merchants/mine", json={"tier": "gold"}).status_code == 200
    assert router.put("/api/v1/merchants/theirs", json={"tier": "standard"}).status_code == 200
    answer = router.post("/api/v1/exotel/allocate?reseller_id=mine", json={"CallSid": "CA1", "merchant_id": "theirs"})
    assert answer.status_code == 200
    call = router.get("/api/v1/call/CA1").json()
    assert (call["merchant_id"], call["source_pool"]) == ("mine", "pool:gold")


@pytest.mark.parametrize("value", [".", ".."])
def test_no_value_becomes_a_dot_segment_of_the_url(router, value):
    for name in ("template", "provider", "call_sid", "merchant_id", "reseller_id"):
        answer = router.post("/api/v1/allocate", json={"call_sid": "CA1", name: value})
        assert answer.status_code == 400 and "part of a URL's path" in answer.json()["error"], name
    for name in ("template", "merchant_id"):
        answer = router.post(f"/api/v1/exotel/allocate?{name}={value}", json={"CallSid": "CA1"})
        assert answer.status_code == 400, name
        answer = router.post(f"/api/v1/twilio/allocate?{name}={value}", data={"CallSid": "CA1"})
        assert "<Hangup/>" in answer.text or answer.status_code == 400
    assert calls(router) == set()


def test_the_owner_of_a_call_survives_a_store_that_forgets_everything(redis_server, start_world):
    """The router that carries the stream brings the call back, and knows whose it is."""
    env = {"REDIS_URL": redis_server.url, **redis_servers.QUICK, "LEASE_TTL": "3s", "RECONCILE_INTERVAL": "100ms"}
    world = start_world(agents=1, env=env)
    router = world.router
    _, path = world.place("CA1", provider="twilio")
    with world.open(path):
        redis_server.client().flushall()
        wait_until(lambda: world.call("CA1"), "the call is adopted")
        assert world.call("CA1")["provider"] == "twilio"
        end(router, "plivo", "CA1")
        assert calls(router) == {"CA1"}
        end(router, "twilio", "CA1")
        assert calls(router) == set()


def test_a_callback_about_a_call_of_others_is_not_remembered(start_router):
    """It is no end of a call that the provider gets later."""
    router = start_router({**TOKENS, "PUBLIC_BASE_URL": BASE})
    router.allocate("CA1")
    end(router, "twilio", "CA1", signed=True)
    router.release("CA1")
    assert ask(router, "twilio", "CA1", signed=True).status_code == 200


def test_capitals_make_no_other_provider(router):
    router.allocate("CA1", provider="Twilio")
    assert router.get("/api/v1/call/CA1").json()["provider"] == "twilio"
    end(router, "twilio", "CA1")
    assert calls(router) == set()


def test_one_provider_does_not_make_the_router_forget_the_calls_of_another(start_router):
    """Whose calls are over is remembered for each provider apart: see FINISHED_CALLS_MAX in src/api/finished_calls.h."""
    router = start_router({**TOKENS, "PUBLIC_BASE_URL": BASE})
    assert ask(router, "twilio", "CA1", signed=True).status_code == 200
    end(router, "twilio", "CA1", signed=True)
    headers = good_headers("exotel", {}, "status")
    request = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    with socket.create_connection(("127.0.0.1", router.port), timeout=60) as conn:
        answers = conn.makefile("rb")
        for first in range(0, 33000, 500):
            lines = [f"GET /api/v1/exotel/status?CallSid=E{i}&EventType=terminal HTTP/1.1\r\nHost: x\r\n{request}\r\n" for i in range(first, first + 500)]
            conn.sendall("".join(lines).encode())
            for _ in lines:
                assert b" 200 " in answers.readline()
                while (line := answers.readline()) != b"\r\n":
                    if line.lower().startswith(b"content-length"):
                        length = int(line.split(b":")[1])
                answers.read(length)
    assert ask(router, "twilio", "CA1", signed=True).status_code == 403
