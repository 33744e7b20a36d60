"""GET /api/v1/pod/{name}/drained: the wait until a drained pod has no call."""

import concurrent.futures
import signal
import socket
import time

import httpx
import pytest
from conftest import DEADLINE_S, wait_until

NEVER_S = 60  # the longest wait that can be asked for: whoever is answered earlier was told for a reason


@pytest.fixture
def pool():
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        yield pool


def drained(router, pod="voice-agent-0", seconds=0):
    answer = httpx.get(
        f"{router.url}/api/v1/pod/{pod}/drained?timeout_seconds={seconds}", timeout=NEVER_S + DEADLINE_S, trust_env=False
    )
    return answer.status_code, answer.json()


def asked(router):
    """How often the store was asked for a pod: a router that waits asks again and again."""
    lines = [line for line in router.get("/metrics").text.splitlines() if line.startswith("smart_router_store_")]
    return sum(float(line.split()[-1]) for line in lines if "_count{" in line and '"pod"' in line)


def wait_for_waiting(router, more):
    before = asked(router)
    wait_until(lambda: asked(router) > before + more, "the store is asked again and again")


def test_it_says_at_once_what_is_true_when_no_time_is_given(router):
    assert drained(router, "nobody")[0] == 404
    not_draining = {"success": True, "pod_name": "voice-agent-0", "is_drained": False, "is_draining": False, "calls": []}
    assert drained(router) == (202, not_draining)
    assert router.get("/api/v1/pod/voice-agent-0/drained").json() == not_draining
    pod = router.allocate("CA1")["pod_name"]
    router.post("/api/v1/drain", {"pod_name": pod})
    busy = {"success": True, "pod_name": pod, "is_drained": False, "is_draining": True, "calls": ["CA1"]}
    assert drained(router, pod) == (202, busy)
    router.release("CA1")
    done = {"success": True, "pod_name": pod, "is_drained": True, "is_draining": True, "calls": []}
    assert drained(router, pod) == (200, done)
    assert drained(router, pod, NEVER_S) == (200, done)


@pytest.mark.parametrize("text", ["61", "-1", "x", "1.5", ""])
def test_a_time_that_cannot_be_waited_is_refused(router, text):
    answer = router.get(f"/api/v1/pod/voice-agent-0/drained?timeout_seconds={text}")
    assert answer.status_code == 400 and "timeout_seconds" in answer.json()["error"]


@pytest.mark.parametrize("has_redis", [False, True], ids=["embedded", "redis"])
def test_it_is_answered_when_the_last_call_ends(start_router, redis_server, pool, has_redis):
    router = start_router({"REDIS_URL": redis_server.url} if has_redis else None)
    pod = router.allocate("CA1")["pod_name"]
    router.post("/api/v1/drain", {"pod_name": pod})
    answer = pool.submit(drained, router, pod, NEVER_S)
    wait_for_waiting(router, 2)
    assert not answer.done()
    router.release("CA1")
    status, body = answer.result()
    assert (status, body["is_drained"], body["calls"]) == (200, True, [])


def test_it_is_answered_when_the_time_is_over_or_the_pod_is_gone(start_router, pool):
    router = start_router({"STATIC_PODS": None, "POD_SOURCE": "api"})
    router.post("/api/v1/pods", {"pod_name": "agent-1", "address": "127.0.0.1:9"})
    began = time.monotonic()
    status, body = drained(router, "agent-1", 1)
    assert (status, body["is_draining"]) == (202, False) and time.monotonic() - began >= 1
    answer = pool.submit(drained, router, "agent-1", NEVER_S)
    wait_for_waiting(router, 1)
    router.delete("/api/v1/pod/agent-1")
    assert answer.result()[0] == 404


def test_a_router_that_stops_answers_those_who_wait(router, pool):
    answer = pool.submit(drained, router, "voice-agent-0", NEVER_S)
    wait_for_waiting(router, 1)
    router.proc.send_signal(signal.SIGTERM)
    assert answer.result()[0] == 202
    assert router.proc.wait(DEADLINE_S) == 0  # before another signal


def test_those_who_wait_take_a_quarter_of_the_connections(start_router, pool):
    router = start_router({"MAX_CONNECTIONS": "8"})
    answers = [pool.submit(drained, router, "voice-agent-0", NEVER_S) for _ in range(2)]
    wait_for_waiting(router, 4)
    assert drained(router, "voice-agent-0", NEVER_S)[0] == 503
    assert drained(router, "voice-agent-0", 0)[0] == 202, "who does not wait takes no place"
    assert not any(answer.done() for answer in answers)
    router.post("/api/v1/drain", {"pod_name": "voice-agent-0"})
    assert [answer.result()[0] for answer in answers] == [200, 200]
    assert drained(router, "voice-agent-0", NEVER_S)[0] == 200


def test_many_who_wait_are_looked_at_in_turn(router):
    """Two hundred and fifty would ask the store a thousand times a second; it is asked for a hundred every 250 ms."""
    pod = router.allocate("CA1")["pod_name"]
    router.post("/api/v1/drain", {"pod_name": pod})
    waiting = [socket.create_connection(("127.0.0.1", router.port)) for _ in range(250)]
    try:
        for number, one in enumerate(waiting):
            seconds = 1 if number == 249 else NEVER_S
            one.sendall(f"GET /api/v1/pod/{pod}/drained?timeout_seconds={seconds} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        wait_until(lambda: asked(router) >= 250, "all are there")
        began, before = time.monotonic(), asked(router)
        waiting[-1].settimeout(DEADLINE_S)
        assert waiting[-1].recv(100).startswith(b"HTTP/1.1 202 "), "whose time is over does not wait for the others"
        wait_until(lambda: asked(router) >= before + 300, "each has had its turn")
        more = asked(router) - before
        rounds = (time.monotonic() - began) / 0.25 + 1
        assert more <= rounds * 100 + 1, "and no more than a hundred at a time"
        router.release("CA1")
        for one in waiting[:-1]:
            one.settimeout(DEADLINE_S)
            assert one.recv(100).startswith(b"HTTP/1.1 200 ")
    finally:
        for one in waiting:
            one.close()
