"""Clients of the API that wait for a pod: POST /api/v1/allocate with wait and wait_ms, and GET /api/v1/waiting."""

import collections
import concurrent.futures
import json
import random
import signal
import socket
import time

import httpx
import pytest
from conftest import DEADLINE_S, wait_until

ONE_POD = {"TIER_CONFIG": '{"gold":1}', "STATIC_PODS": "voice-agent-0"}
LONG_MS = 20000  # the longest that can be asked for: whoever is answered earlier was told for a reason


@pytest.fixture
def pool():
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        yield pool


@pytest.fixture
def busy(start_router, store):
    """A router whose only pod has the call CA1, and where calls may wait."""
    router = start_router({**ONE_POD, "HOLD_MAX_WAIT": "2m", **store})
    router.allocate("CA1")
    return router


def ask(router, call_sid, wait=True, **fields):
    """(status, answer)"""
    answer = router.post("/api/v1/allocate", {"call_sid": call_sid, "wait": wait, **fields})
    return answer.status_code, answer.json()


def poll(router, call_sid, wait_ms=LONG_MS, **fields):
    """The same with a connection of its own, which is kept open."""
    answer = httpx.post(
        f"{router.url}/api/v1/allocate",
        json={"call_sid": call_sid, "wait_ms": wait_ms, **fields},
        timeout=DEADLINE_S,
        trust_env=False,
        headers=router._credentials(),
    )
    return answer.status_code, answer.json()


def open_request(router, operation, **body):
    """A socket to which the request was sent."""
    text = json.dumps(body)
    conn = socket.create_connection(("127.0.0.1", router.port), timeout=DEADLINE_S)
    conn.sendall(f"POST /api/v1/{operation} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
    return conn


def line(router, query=""):
    return router.get(f"/api/v1/waiting{query}").json()


def waiting(router):
    """The calls that wait, in their order."""
    return [call["call_sid"] for call in line(router, "?limit=1000")["waiting"]]


def ended_waits(router):
    """(call, outcome) of the waits that have ended without a pod, as the log says it."""
    return sorted((entry["call_sid"], entry["outcome"]) for entry in router.log_lines("wait ended") if entry["waited_ms"] >= 0 and entry["reason"])


def metric(router, name):
    """The sum of the lines that begin so."""
    return sum(float(text.split()[-1]) for text in router.get("/metrics").text.splitlines() if text.startswith(name))


def test_a_call_that_finds_no_pod_waits_and_gets_the_next_one(busy):
    status, answer = ask(busy, "CA2")
    assert status == 202
    assert answer == {"success": True, "waiting": True, "position": 1, "waited_seconds": answer["waited_seconds"], "retry_after_ms": 1000}
    assert ask(busy, "CA3")[1]["position"] == 2
    assert ask(busy, "CA2")[1]["position"] == 1, "asking again keeps the place"
    assert busy.get("/api/v1/calls").json()["total"] == 1

    busy.release("CA1")
    status, answer = ask(busy, "CA2")
    assert (status, answer["pod_name"], answer["was_existing"]) == (200, "voice-agent-0", False)
    assert ask(busy, "CA2")[1]["was_existing"]
    assert ask(busy, "CA2", wait=False)[1]["was_existing"]
    status, answer = ask(busy, "CA3")
    assert status == 202 and answer["position"] == 1 and answer["estimated_wait_seconds"] > 0
    assert metric(busy, 'smart_router_wait_seconds_count{outcome="granted"}') == 1


def test_a_call_that_does_not_want_to_wait_is_refused_as_ever(busy):
    answer = busy.post("/api/v1/allocate", {"call_sid": "CA2"})
    assert (answer.status_code, answer.text) == (503, '{"success":false,"error":"no pods available","code":"no_pods"}')
    assert answer.headers["Retry-After"] == "5"
    assert ask(busy, "CA2")[0] == 202
    assert ask(busy, "CA2", wait=False)[0] == 503, "that is no sign of life, and no end"
    assert waiting(busy) == ["CA2"]
    busy.release("CA1")
    assert ask(busy, "CA2", wait=False)[0] == 200, "it was granted, and this takes it"


def test_nobody_who_asks_later_overtakes_a_call_that_waits(busy):
    assert ask(busy, "CA2")[0] == 202
    busy.release("CA1")
    assert ask(busy, "CA3")[0] == 202
    assert ask(busy, "CA4", wait=False)[0] == 503
    assert ask(busy, "CA2")[0] == 200


def test_a_request_is_kept_open_until_its_call_has_a_pod(busy, pool):
    answers = [pool.submit(poll, busy, "CA2")]
    wait_until(lambda: waiting(busy) == ["CA2"], "the call waits")
    answers.append(pool.submit(poll, busy, "CA3"))
    wait_until(lambda: waiting(busy) == ["CA2", "CA3"], "the next one, too")
    assert line(busy)["waiting"][0]["held_by"].startswith(busy.get("/api/v1/status").json()["identity"])

    busy.release("CA1")
    assert answers[0].result()[0] == 200
    assert not answers[1].done()
    busy.release("CA2")
    status, answer = answers[1].result()
    assert status == 200 and answer["pod_name"] == "voice-agent-0" and not answer["was_existing"]
    assert waiting(busy) == []


def test_a_request_that_was_kept_open_in_vain_keeps_its_place(busy, pool):
    assert ask(busy, "CA2")[0] == 202
    status, answer = poll(busy, "CA3", wait_ms=50)
    assert status == 202 and answer["position"] == 2
    assert [call["held_by"] for call in line(busy)["waiting"]] == ["", ""], "nobody holds it until it asks again"
    assert poll(busy, "CA3", wait_ms=0)[1]["position"] == 2


def test_a_client_that_goes_away_leaves_the_line(busy):
    body = json.dumps({"call_sid": "CA2", "wait_ms": LONG_MS})
    with socket.create_connection(("127.0.0.1", busy.port), timeout=DEADLINE_S) as conn:
        conn.sendall(f"POST /api/v1/allocate HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        wait_until(lambda: waiting(busy) == ["CA2"], "the call waits")
    wait_until(lambda: waiting(busy) == [], "the call has left the line")
    wait_until(lambda: metric(busy, 'smart_router_wait_seconds_count{outcome="abandoned"}') == 1, "it is counted")
    assert busy.get("/api/v1/call/CA2").status_code == 404
    assert ended_waits(busy) == [("CA2", "abandoned")]


def test_a_client_that_goes_away_while_its_call_is_granted_holds_nothing(busy, tell):
    """In the moment in which the router takes the pod for it: then two questions to the store have asked for the call."""
    rng = random.Random(1)
    outcomes = collections.Counter()
    for i in range(200):
        call_sid = f"CB{i}"
        with open_request(busy, "allocate", call_sid=call_sid, wait_ms=LONG_MS) as conn:
            wait_until(lambda sid=call_sid: waiting(busy) == [sid], "the call waits")
            with open_request(busy, "release", call_sid="CA1") as other:
                time.sleep(rng.random() * 0.002)
                conn.shutdown(socket.SHUT_WR)
                assert b" 200 " in other.recv(4096)
            answer = conn.recv(4096)
        outcomes[answer[9:12]] += 1
        if answer.startswith(b"HTTP/1.1 200"):
            busy.release(call_sid)
        wait_until(lambda sid=call_sid: busy.get(f"/api/v1/call/{sid}").status_code == 404, "it holds nothing")
        busy.allocate("CA1")
    tell(f"clients that went away in the moment of their grant: answers {dict(outcomes)}")


def test_a_client_that_asks_elsewhere_before_it_goes_away_keeps_its_place(busy):
    body = json.dumps({"call_sid": "CA2", "wait_ms": LONG_MS})
    with socket.create_connection(("127.0.0.1", busy.port), timeout=DEADLINE_S) as conn:
        conn.sendall(f"POST /api/v1/allocate HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        wait_until(lambda: waiting(busy) == ["CA2"], "the call waits")
        assert ask(busy, "CA2")[0] == 202
    wait_until(lambda: metric(busy, 'smart_router_allocations_total{pool="none",status="client_gone"') == 1, "it is noticed")
    assert waiting(busy) == ["CA2"]


def test_of_two_requests_for_one_call_the_newer_one_is_kept_open(busy, pool):
    older = pool.submit(poll, busy, "CA2")
    wait_until(lambda: waiting(busy) == ["CA2"], "the call waits")
    newer = pool.submit(poll, busy, "CA2")
    assert older.result()[0] == 202
    busy.release("CA1")
    assert newer.result()[0] == 200


def test_a_release_leaves_the_line(busy, pool):
    answer = pool.submit(poll, busy, "CA2")
    wait_until(lambda: waiting(busy) == ["CA2"], "the call waits")
    refused = busy.post("/api/v1/release", {"call_sid": "CA2", "pod_name": "voice-agent-0"})
    assert refused.status_code == 404, "it is on no pod"
    released = busy.post("/api/v1/release", {"call_sid": "CA2"})
    assert released.json() == {"success": True, "pod_name": "", "released_to_pool": "", "was_draining": False, "was_waiting": True}
    assert waiting(busy) == []
    assert answer.result() == (409, {"success": False, "error": "the call has ended", "code": "conflict"})
    assert waiting(busy) == [], "it has not begun anew"
    assert ended_waits(busy) == [("CA2", "abandoned")]
    assert busy.post("/api/v1/release", {"call_sid": "CA9"}).status_code == 404


def test_merchants_have_their_own_times_places_and_numbers(start_router, store):
    router = start_router({**ONE_POD, **store})
    router.allocate("CA1")
    assert ask(router, "CA2")[0] == 503, "HOLD_MAX_WAIT is 0"
    assert "waiting" not in router.get("/api/v1/status").json()
    for merchant, config in {"slow": {"hold_seconds": 600}, "vip": {"hold_seconds": 600, "priority": 9}, "few": {"hold_seconds": 60, "max_waiting": 1}}.items():
        assert router.put(f"/api/v1/merchants/{merchant}", config).status_code == 200
    assert ask(router, "CA2", merchant_id="slow")[0] == 202
    assert ask(router, "CA3", merchant_id="few")[0] == 202
    assert ask(router, "CA4", merchant_id="few")[0] == 503
    assert metric(router, 'smart_router_wait_seconds_count{outcome="full"}') == 1
    assert ask(router, "CA5", merchant_id="vip")[0] == 202
    calls = {call["call_sid"]: call for call in line(router)["waiting"]}
    assert calls["CA5"]["priority"] == 9 and calls["CA2"]["priority"] == 0
    assert calls["CA2"]["merchant_id"] == "slow" and calls["CA2"]["pools"] == ["pool:gold"]
    assert router.get("/api/v1/status").json()["waiting"] == 3
    assert router.get("/api/v1/status").json()["tiers"]["gold"]["waiting"] == 3


def test_the_line_has_an_end(start_router, store):
    router = start_router({**ONE_POD, "HOLD_MAX_WAIT": "1m", "HOLD_MAX_CALLS": "2", **store})
    router.allocate("CA1")
    assert [ask(router, f"CA{i}")[0] for i in range(2, 5)] == [202, 202, 503]
    assert ask(router, "CA2")[0] == 202, "who waits already may ask again"
    assert metric(router, 'smart_router_wait_seconds_count{outcome="full"}') == 1


def test_a_wait_has_an_end(start_router, store, pool):
    router = start_router({**ONE_POD, "HOLD_MAX_WAIT": "1s", **store})
    router.allocate("CA1")
    assert poll(router, "CA2") == (503, {"success": False, "error": "no pods available", "code": "no_pods"})
    wait_until(lambda: metric(router, 'smart_router_wait_seconds_count{outcome="timed_out"}') == 1, "it is counted, once")
    assert waiting(router) == []
    assert ask(router, "CA2")[0] == 503, "it does not join again"
    assert ask(router, "CA3")[0] == 202
    wait_until(lambda: ask(router, "CA3")[0] == 503, "who asks on and on does not wait for ever either")
    assert metric(router, 'smart_router_wait_seconds_count{outcome="timed_out"}') == 2
    assert ended_waits(router) == [("CA2", "timed_out"), ("CA3", "timed_out")]
    router.release("CA1")
    assert ask(router, "CA2")[0] == 200, "a pod that is free it may have"


def test_the_line_is_read_in_pages(busy):
    for i in range(2, 9):
        assert ask(busy, f"CA{i}")[0] == 202
    seen, cursor = [], ""
    while True:
        page = line(busy, f"?limit=3&cursor={cursor}")
        assert page["total"] == 7
        seen += [(call["call_sid"], call["position"]) for call in page["waiting"]]
        cursor = page["next_cursor"]
        if not cursor:
            break
    assert seen == [(f"CA{i}", i - 1) for i in range(2, 9)]
    for query in ("limit=0", "limit=1001", "limit=x", "cursor=%00", "cursor=" + "x" * 4000, "cursor=..%2F"):
        assert busy.get(f"/api/v1/waiting?{query}").status_code == 400, query


def test_a_call_that_waits_is_shown_everywhere(busy):
    assert ask(busy, "CA2", provider="twilio", merchant_id="acme")[0] == 202
    call = busy.get("/api/v1/call/CA2")
    assert call.status_code == 200
    assert call.json() == line(busy)["waiting"][0]
    assert call.json() | {"call_sid": "CA2", "state": "waiting", "position": 1, "provider": "twilio", "merchant_id": "acme"} == call.json()
    story = busy.get("/api/v1/call/CA2/story").json()
    assert story["state"] == "waiting" and story["summary"].startswith("CA2 has waited for a pod for ")
    assert "Twilio asked for it, for the merchant acme, and no pod was free: it waits at place 1" in story["story"][-1]["sentence"]
    assert busy.get("/api/v1/status").json()["waiting"] == 1
    assert metric(busy, 'smart_router_waiting_calls{tier="gold"}') == 1
    assert busy.get("/api/v1/autoscale").json()["waiting"] == 1
    joined = busy.log_lines("no pod is free: the call waits")
    assert [entry["call_sid"] for entry in joined] == ["CA2"]

    busy.release("CA1")
    assert [call["state"] for call in busy.get("/api/v1/calls?state=granted").json()["calls"]] == ["granted"]
    assert ask(busy, "CA2")[0] == 200
    assert busy.get("/api/v1/call/CA2").json()["state"] == "allocated"
    assert "waited_ms" in busy.log_lines("call allocated after a wait")[-1]


def test_a_webhook_of_another_provider_does_not_see_the_call(busy):
    assert ask(busy, "CA2", provider="plivo")[0] == 202
    assert busy.post("/api/v1/twilio/allocate", data={"CallSid": "CA2"}).status_code == 403
    assert busy.post("/api/v1/twilio/status", data={"CallSid": "CA2", "CallStatus": "completed"}).status_code == 200
    assert waiting(busy) == ["CA2"]
    assert busy.post("/api/v1/plivo/status", data={"CallUUID": "CA2", "CallStatus": "completed"}).status_code == 200
    assert waiting(busy) == []


def test_a_router_that_stops_answers_those_who_wait(busy, pool):
    answer = pool.submit(poll, busy, "CA2")
    wait_until(lambda: waiting(busy) == ["CA2"], "the call waits")
    busy.proc.send_signal(signal.SIGTERM)
    status, body = answer.result()
    assert status == 202 and body["position"] == 1
    assert busy.stop() == 0


def test_beyond_a_quarter_of_the_connections_nobody_is_kept_waiting(start_router, pool):
    router = start_router({**ONE_POD, "HOLD_MAX_WAIT": "2m", "MAX_CONNECTIONS": "16"})
    router.allocate("CA1")
    kept = [pool.submit(poll, router, f"CA{i}") for i in range(2, 6)]
    wait_until(lambda: len(waiting(router)) == 4, "four wait")
    wait_until(lambda: all(call["held_by"] for call in line(router)["waiting"]), "they are kept open")
    assert poll(router, "CA6")[0] == 202, "at once, or this test would take twenty seconds"
    assert not any(answer.done() for answer in kept)
    for call_sid in ["CA1", *waiting(router)][:-1]:
        wait_until(lambda sid=call_sid: router.get(f"/api/v1/call/{sid}").json()["state"] == "allocated", "it has taken its pod")
        router.release(call_sid)
    assert [answer.result()[0] for answer in kept] == [200] * 4


def test_only_those_who_may_call_can_wait_and_only_those_who_may_read_see_the_line(start_router):
    keys = "\n".join(f"{role} {role} {role}-secret-of-some-length" for role in ("admin", "call", "agent", "metrics", "read"))
    router = start_router({**ONE_POD, "HOLD_MAX_WAIT": "2m", "API_KEYS": keys})
    router.allocate("CA1")
    for role, may_wait, may_read in (("call", 202, 403), ("read", 403, 200), ("agent", 403, 403), ("metrics", 403, 403)):
        headers = {"Authorization": f"Bearer {role}-secret-of-some-length"}
        answer = router.post("/api/v1/allocate", {"call_sid": "CA2", "wait": True}, headers=headers)
        assert answer.status_code == may_wait, role
        assert router.get("/api/v1/waiting", headers=headers).status_code == may_read, role
    assert httpx.get(f"{router.url}/api/v1/waiting", trust_env=False).status_code == 401


def test_a_restart_keeps_the_line(start_router, tmp_path):
    data = tmp_path / "kept"
    env = {**ONE_POD, "HOLD_MAX_WAIT": "2m", "LOG_FSYNC": "always"}
    router = start_router(env, data_dir=data)
    router.allocate("CA1")
    assert [ask(router, f"CA{i}")[1]["position"] for i in (2, 3)] == [1, 2]
    router.kill()
    router = start_router(env, data_dir=data)
    assert waiting(router) == ["CA2", "CA3"]
    assert ask(router, "CA3")[1]["position"] == 2
    router.release("CA1")
    assert ask(router, "CA2")[0] == 200


def test_two_routers_have_one_line(start_router, redis_server, pool):
    env = {**ONE_POD, "HOLD_MAX_WAIT": "2m", "REDIS_URL": redis_server.url}
    one, other = start_router(env), start_router(env)
    one.allocate("CA1")
    answer = pool.submit(poll, one, "CA2")
    wait_until(lambda: waiting(other) == ["CA2"], "both see the call")
    assert ask(other, "CA3")[1]["position"] == 2
    other.release("CA1")
    assert answer.result()[0] == 200, "the router that has the request is told"


def test_of_two_requests_at_two_routers_the_newer_one_is_kept_open(start_router, redis_server, pool):
    env = {**ONE_POD, "HOLD_MAX_WAIT": "2m", "REDIS_URL": redis_server.url}
    one, other = start_router(env), start_router(env)
    one.allocate("CA1")
    older = pool.submit(poll, one, "CA2")
    wait_until(lambda: waiting(other) == ["CA2"], "the call waits")
    newer = pool.submit(poll, other, "CA2")
    status, answer = older.result()
    assert (status, answer["waiting"]) == (202, True) and answer["waited_seconds"] < LONG_MS / 1000, answer
    assert not newer.done()
    other.release("CA1")
    assert newer.result()[0] == 200


def test_a_redis_that_is_away_for_a_moment_costs_nobody_its_place(start_router, redis_server, pool):
    router = start_router({**ONE_POD, "HOLD_MAX_WAIT": "2m", "REDIS_URL": redis_server.url, "REDIS_TIMEOUT": "500ms"})
    router.allocate("CA1")
    first = pool.submit(poll, router, "CA2")
    wait_until(lambda: waiting(router) == ["CA2"], "the call waits")
    assert ask(router, "CA3")[0] == 202
    with redis_server.paused():
        status, answer = ask(router, "CA4")
        assert (status, answer["code"]) == (503, "unavailable")
        wait_until(lambda: router.get("/ready").status_code == 503, "Redis is missed")
    wait_until(lambda: router.get("/ready").status_code == 200, "Redis is back")
    wait_until(lambda: "waiting" in line(router), "the line can be read")
    assert waiting(router)[:2] == ["CA2", "CA3"]
    wait_until(lambda: "CA4" not in waiting(router), "what was answered with an error holds nothing")
    router.release_until_answered("CA1")
    assert first.result()[0] == 200
