"""Held streams of one call at two routers on one Redis; a Redis that loses what it knew of them, and answers that are lost."""

import contextlib
import re
import struct

import pytest
from conftest import wait_until
from streams import CLOSE, Agent, Stream
from tcp_faults import FaultProxy
from test_held import ENV, Caller, Slow, expect_first, path_of, pinged, talk, waiting

SHORT = {**ENV, "GATEWAY_RELEASE_GRACE": "300ms", "GATEWAY_DRAIN_TIMEOUT": "100ms"}


class Site:
    """A router, as the world of a Caller."""

    def __init__(self, router):
        self.router = router

    def open(self, path):
        stream = Stream(self.router.port, path)
        assert stream.status == 101, stream.head.data
        return stream

    def call(self, call_sid):
        answer = self.router.get(f"/api/v1/call/{call_sid}")
        assert answer.status_code in (200, 404), answer.text
        return answer.json() if answer.status_code == 200 else None


class Pair:
    """Two routers, and one agent with one place. Between the first of them and Redis is a proxy."""

    def __init__(self, start_router, redis_server, **env):
        self.agent = Agent(is_manual=True)
        self.redis = redis_server.client()
        self.proxy = FaultProxy(redis_server)
        env = {
            "STATIC_PODS": f"agent-0=127.0.0.1:{self.agent.port}",
            "TIER_CONFIG": '{"standard":1}',
            "LEADER_ELECTION_ENABLED": "false",
            "RECONCILE_INTERVAL": "500ms",
            "REDIS_TIMEOUT": "20s",
            **SHORT,
            **env,
        }
        self.a, self.b = (Site(start_router({**env, "REDIS_URL": url})) for url in (self.proxy.url, redis_server.url))

    def holder(self):
        line = self.b.router.get("/api/v1/waiting").json()["waiting"]
        return line[0]["held_by"] if line else None

    def grant_while_the_first_is_deaf(self):
        """CA1, which the first router holds, gets the pod, and that router does not hear so."""
        self.proxy.hold()
        self.b.router.release("CA0")
        self.await_grant()

    def await_grant(self):
        wait_until(lambda: self.redis.hget("voice:call:CA1", "granted"), "it is granted")

    def close(self):
        self.proxy.close()
        self.agent.close()


@pytest.fixture
def pair(redis_server, start_router):
    with contextlib.ExitStack() as stack:

        def start(**env):
            pair = Pair(start_router, redis_server, **env)
            stack.callback(pair.close)
            return pair

        yield start


@pytest.fixture
def agent():
    agent = Agent(is_manual=True)
    yield agent
    agent.close()


def held_at_a(world):
    """CA0 has the pod, and CA1 is held at the first router."""
    world.b.router.allocate("CA0")
    caller = Caller(world.a).say_first()
    assert pinged(caller, b"held")
    wait_until(world.holder, "its router has said that it holds it")
    return caller


def carried_by(agent, site):
    caller = Caller(site, is_held=False).say_first()
    peer = agent.accept()
    expect_first(peer, caller)
    talk(caller, peer)
    return caller, peer


# The newer stream wins, wherever it is.


def test_the_newer_of_two_held_streams_at_two_routers_wins(pair):
    world = pair()
    older = held_at_a(world)
    first = world.holder()
    newer = older.again(world.b).say_first()
    older.expect_close(1000)
    assert pinged(newer, b"held")
    assert world.holder() not in (None, first)
    older.close()
    newest = older.again(world.a).say_first()
    newer.expect_close(1000)
    assert pinged(newest, b"held")
    newer.close()
    world.b.router.release("CA0")
    agent = world.agent.accept()
    expect_first(agent, newest)
    talk(newest, agent)
    assert world.agent.peers.empty()
    newest.close()


@pytest.mark.parametrize("how", ("the same URL", "the end of the stream"))
def test_a_stream_that_comes_after_the_grant_gets_the_pod_that_an_older_one_was_granted(pair, how):
    world = pair()
    older = held_at_a(world)
    world.grant_while_the_first_is_deaf()
    path = older.path
    if how == "the end of the stream":
        answer = world.b.router.post("/api/v1/twilio/after", data={"CallSid": "CA1"})
        path = path_of(answer)
        assert "/ws/pod/" in path
    newer = older.again(world.b, path).say_first()
    agent = world.agent.accept()
    expect_first(agent, newer)
    world.proxy.release()
    older.expect_close(1000)
    talk(newer, agent)
    assert world.agent.peers.empty(), "the older one has no stream to the pod"
    older.close()
    newer.close()


def test_a_request_for_a_call_does_not_end_its_held_stream(pair):
    world = pair()
    caller = held_at_a(world)
    answer = world.b.router.post("/api/v1/allocate", {"call_sid": "CA1", "wait_ms": 1500})
    assert answer.status_code == 202
    assert pinged(caller, b"still held")
    world.b.router.release("CA0")
    agent = world.agent.accept()
    expect_first(agent, caller)
    talk(caller, agent)
    caller.close()


def test_a_router_that_dies_with_the_newer_stream_leaves_the_call_to_who_comes_next(pair):
    world = pair()
    older = held_at_a(world)
    newer = older.again(world.b).say_first()
    older.expect_close(1000)
    older.close()
    world.b.router.kill()
    newer.close()
    newest = older.again(world.a).say_first()
    assert pinged(newest, b"held")
    world.a.router.release("CA0")
    agent = world.agent.accept()
    expect_first(agent, newest)
    newest.close()


# A Redis that loses what it knew.


def test_a_first_word_that_redis_has_not_heard_is_said_again_after_it_has_lost_everything(redis_server, agent, start_router):
    env = {**SHORT, "STATIC_PODS": f"agent-0=127.0.0.1:{agent.port}", "TIER_CONFIG": '{"standard":1}', "REDIS_TIMEOUT": "500ms"}
    site = Site(start_router({**env, "REDIS_URL": redis_server.url, "RECONCILE_INTERVAL": "500ms"}))
    site.router.allocate("CA0")
    path = path_of(site.router.post("/api/v1/twilio/allocate", data={"CallSid": "CA1"}))
    redis_server.kill()
    wait_until(lambda: site.router.get("/ready").status_code != 200, "Redis is missed")
    caller = Caller(site, path=path).say_first()
    assert pinged(caller, b"held")
    redis_server.start()  # with nothing in it
    peer = agent.accept()
    expect_first(peer, caller)
    talk(caller, peer)
    assert site.call("CA1")["provider"] == "twilio", "its provider may still speak for it"
    caller.close()
    peer.close()


def test_a_rescue_whose_call_is_lost_and_whose_pod_another_call_has_waits_for_a_pod(pair):
    world = pair()
    caller, peer = carried_by(world.agent, world.a)
    world.proxy.hold()
    world.redis.flushall()
    wait_until(lambda: world.b.router.post("/api/v1/allocate", {"call_sid": "CA2"}).status_code == 200, "the pod is another call's")
    peer.send(CLOSE, struct.pack("!H", 1011))
    assert pinged(caller, b"held")
    world.proxy.release()
    wait_until(lambda: waiting(world.b) == ["CA1"], "it waits")
    assert pinged(caller, b"still held")
    world.b.router.release("CA2")
    peer = world.agent.accept()
    expect_first(peer, caller)
    talk(caller, peer)
    caller.close()


def test_a_rescue_whose_call_and_pods_are_lost_waits_for_a_pod(redis_server, agent, start_router):
    site = Site(start_router({**SHORT, "POD_SOURCE": "api", "STATIC_PODS": None, "TIER_CONFIG": '{"standard":1}', "REDIS_URL": redis_server.url}))

    def registers():
        pod = {"pod_name": "agent-0", "address": f"127.0.0.1:{agent.port}"}
        return site.router.post("/api/v1/pods", pod).status_code == 200

    assert registers()
    caller, peer = carried_by(agent, site)
    redis_server.client().flushall()
    peer.send(CLOSE, struct.pack("!H", 1011))
    wait_until(lambda: waiting(site) == ["CA1"], "it waits")
    assert pinged(caller, b"held")
    wait_until(registers, "a pod is there again")
    peer = agent.accept()
    expect_first(peer, caller)
    talk(caller, peer)
    caller.close()
    peer.close()


# A hold whose answer is lost.


@pytest.mark.parametrize("when", ("before the next answer", "while the pod is asked"))
def test_a_caller_who_leaves_after_a_hold_that_was_not_answered_leaves_the_pod(pair, when):
    world = pair(GATEWAY_CONNECT_TIMEOUT="1m")
    caller = held_at_a(world)
    slow = Slow(world.agent)
    world.proxy.hold_from(re.compile(rb"\$3\r\nCA1\r\n\$13\r\n\d{13}\r\n").search)  # the hold: the call and a claim
    world.b.router.release("CA0")
    wait_until(lambda: world.proxy.waiting(b"CA1"), "the hold is on its way")
    world.proxy.cut()
    if when == "before the next answer":
        caller.stream.reset()
    world.proxy.release()
    if when == "while the pod is asked":
        peer = slow.asked()
        caller.stream.reset()
    wait_until(lambda: world.b.call("CA1") is None, "the call is released")
    assert world.b.router.allocate("CA2")["pod_name"] == "agent-0"
    if when == "while the pod is asked":
        peer.close()
