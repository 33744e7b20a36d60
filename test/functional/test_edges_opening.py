"""A stream that is being opened holds its call, however long the agent takes for the handshake.

EDGE_ROUNDS is how often each call of the random tests comes back.
"""

import concurrent.futures
import random
import time

import pytest
from conftest import wait_until
from edges import pod_of, wait_free
from talkers import REFUSAL, setting

GRACE_S = 1.2
CONNECT_S = 1.5
ROUNDS = int(setting("EDGE_ROUNDS", 2))
SEED = int(setting("EDGE_SEED", time.time()))
ENV = {"GATEWAY_RELEASE_GRACE": f"{GRACE_S * 1000:.0f}ms", "LEASE_TTL": "30s", "CLEANUP_INTERVAL": "100ms"}
TOO_LATE = (404, 409)


@pytest.fixture
def start_site(redis_server, start_on, start_router, start_talkers):
    """start_site(store, pods, **env) -> agents, and two routers on one Redis, or one with its own store."""

    def start(store, pods=1, **env):
        talkers = start_talkers(pods=pods)
        env = {**talkers.env, **ENV, **env}
        return talkers, [start_router(env)] if store == "embedded" else [start_on(redis_server, env) for _ in range(2)]

    return start


def expect_alive(router, stream, pod, seconds):
    """The call is in the store, on its pod, for as long as its stream is open."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert pod_of(router, stream.call_sid) == pod, f"{stream.call_sid} has ended although its stream is open"
        time.sleep(0.1)
    assert stream.wait_echo(2), f"the stream of {stream.call_sid} was closed"


@pytest.mark.parametrize("store", ["redis", "embedded"])
def test_a_call_that_comes_back_within_the_grace_is_not_released_while_its_stream_is_being_opened(start_site, store):
    talkers, routers = start_site(store)
    for number in range(5):
        pod = talkers.pods["agent-0"]
        pod.handshake_s = 0
        answer = routers[0].allocate(f"CA{number}")
        first = talkers.open(routers[0], answer)
        pod.handshake_s = 1.5
        first.close()
        time.sleep(GRACE_S * 0.6)
        stream = talkers.open(routers[-1], answer, wait=False)
        if stream.wait_answer() not in TOO_LATE:
            break
        wait_free(routers[0])  # this machine was busy: once more
    stream.wait_open()
    for router in routers:
        expect_alive(router, stream, "agent-0", GRACE_S)
    assert routers[0].post("/api/v1/allocate", {"call_sid": "new"}).status_code == 503
    stream.close()
    wait_free(routers[0])


@pytest.mark.parametrize("store", ["embedded", "redis"])
def test_a_call_that_connects_in_time_is_not_ended_while_its_stream_is_being_opened(start_site, store):
    talkers, routers = start_site(store, CONNECT_TIMEOUT=f"{CONNECT_S * 1000:.0f}ms")
    talkers.pods["agent-0"].handshake_s = 1.5
    for number in range(5):
        answer = routers[0].allocate(f"CA{number}")
        time.sleep(CONNECT_S * 0.6)
        stream = talkers.open(routers[-1], answer, wait=False)
        if stream.wait_answer() not in TOO_LATE:
            break
        wait_free(routers[0])
    stream.wait_open()
    expect_alive(routers[0], stream, "agent-0", CONNECT_S)
    stream.close()
    wait_free(routers[0])


def test_a_call_that_never_connects_is_ended(start_site):
    """The counterpart."""
    _, routers = start_site("redis", CONNECT_TIMEOUT="1s")
    routers[0].allocate("CA1")
    wait_free(routers[1])


class Story:
    """One call after the other on any pod, each of which comes back about when its time is over."""

    def __init__(self, talkers, routers, number, limit_s, opens_first):
        self.talkers, self.routers, self.number = talkers, routers, number
        self.limit_s, self.opens_first = limit_s, opens_first
        self.rng = random.Random(f"{SEED} {number}")
        self.told = []

    def one(self, call_sid):
        rng = self.rng
        answer = rng.choice(self.routers).allocate(call_sid)
        if self.opens_first:
            stream = self.talkers.open(rng.choice(self.routers), answer, wait=False)
            if stream.wait_answer() in TOO_LATE:
                return "never there"
            stream.wait_open().close(rng.choice(["end", "reset"]))
        time.sleep(max(0, self.limit_s + rng.uniform(-0.5, 0.2)))
        stream = self.talkers.open(rng.choice(self.routers), answer, wait=False)
        status = stream.wait_answer()
        if status in TOO_LATE:
            wait_until(lambda: pod_of(self.routers[0], call_sid) is None, f"{call_sid}, which was too late, has ended")
            return "too late"
        assert status == 101, f"{call_sid}: {status} {stream.body!r}"
        expect_alive(rng.choice(self.routers), stream, answer["pod_name"], 1.5 * self.limit_s)
        stream.close()
        wait_until(lambda: pod_of(self.routers[0], call_sid) is None, f"{call_sid} is released")
        return "in time"

    def run(self):
        for i in range(ROUNDS):
            self.told.append(self.one(f"story-{self.number}-{i}"))
        return self.told


@pytest.mark.parametrize("store, limit", [("redis", "grace"), ("embedded", "grace"), ("embedded", "connect")])
def test_calls_that_connect_about_when_their_time_is_over(start_site, tell, store, limit):
    """Whoever gets a 101 keeps its call and its pod; whoever is told that it is too late has none."""
    count = 12
    env = {"CONNECT_TIMEOUT": f"{CONNECT_S * 1000:.0f}ms"} if limit == "connect" else {}
    talkers, routers = start_site(store, pods=count, **env)
    rng = random.Random(SEED)
    for pod in talkers.pods.values():
        pod.handshake_s = lambda: rng.uniform(0, 0.8)
    limit_s = CONNECT_S if env else GRACE_S
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        runs = [pool.submit(Story(talkers, routers, i, limit_s, not env).run) for i in range(count)]
    told = [text for run in runs for text in run.result()]
    tell(f"{store}, {limit}: {told.count('in time')} in time, {told.count('too late')} too late; seed {SEED}")
    assert [stream.call_sid for stream in talkers.cut_off] == []
    assert "in time" in told
    wait_free(routers[0])


@pytest.mark.parametrize("how", ["refuses", "is silent"])
@pytest.mark.parametrize("store", ["redis", "embedded"])
def test_a_call_whose_return_failed_is_released_after_the_grace(start_site, store, how):
    talkers, routers = start_site(store, GATEWAY_CONNECT_TIMEOUT="300ms")
    pod = talkers.pods["agent-0"]
    for number in range(5):
        pod.handshake_s, pod.refusal = 0, None
        call_sid = f"CA{number}"
        answer = routers[0].allocate(call_sid)
        first = talkers.open(routers[0], answer)
        pod.refusal, pod.handshake_s = (REFUSAL, 1) if how == "refuses" else (None, None)
        first.close()
        time.sleep(GRACE_S * 0.6)
        handshakes = pod.handshakes
        stream = talkers.open(routers[-1], answer, wait=False)
        wait_until(lambda: pod.handshakes > handshakes or stream.answered.is_set(), "the agent is asked")
        if pod.handshakes > handshakes:
            break
        wait_free(routers[0])
    while not stream.answered.is_set():
        is_there = pod_of(routers[0], call_sid) == "agent-0"
        assert is_there or stream.answered.is_set(), "released while its stream was being opened"
        time.sleep(0.02)
    assert stream.status not in (101, *TOO_LATE)
    wait_free(routers[0])


def test_a_call_that_could_never_connect_is_not_kept_for_ever(start_site):
    """It may try again until its time is over."""
    talkers, routers = start_site("redis", CONNECT_TIMEOUT="4s", LEASE_TTL="4s")
    pod = talkers.pods["agent-0"]
    pod.refusal = REFUSAL
    answer = routers[0].allocate("CA1")
    assert talkers.open(routers[0], answer, wait=False).wait_answer() not in (101, *TOO_LATE)
    assert pod_of(routers[1], "CA1") == "agent-0"
    pod.refusal = None
    talkers.open(routers[1], answer).close()
    wait_free(routers[0])
    pod.refusal = REFUSAL
    answer = routers[0].allocate("CA2")
    assert talkers.open(routers[0], answer, wait=False).wait_answer() not in (101, *TOO_LATE)
    wait_free(routers[0])
