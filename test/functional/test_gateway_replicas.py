"""Several routers on one Redis carry the streams of the same calls: each call is released once, after the last of them."""

import contextlib
import socket
import threading
import time

import pytest
from conftest import wait_until
from streams import Agent, Stream
from tcp_faults import FaultProxy

SECRET = "the-first-secret-is-long-enough"
CARRIER_TTL_S = 30


class Replicas:
    """Two routers, one agent with one place."""

    def __init__(self, start_router, redis_server, **env):
        self.agent = Agent()
        self.redis = redis_server.client()
        env = {
            "STATIC_PODS": f"agent-0=127.0.0.1:{self.agent.port}",
            "TIER_CONFIG": '{"standard":{"type":"exclusive","target":1}}',
            "GATEWAY_SECRET": SECRET,
            "GATEWAY_RELEASE_GRACE": "300ms",
            "CLEANUP_INTERVAL": "100ms",
            "LEADER_ELECTION_ENABLED": "false",
            **env,
        }
        self.proxy = FaultProxy(redis_server)  # between the first router and Redis
        self.a, self.b = (start_router({**env, "REDIS_URL": url}) for url in (self.proxy.url, redis_server.url))

    def place(self, call_sid):
        url = self.a.allocate(call_sid)["ws_url"]
        return url[url.index("/", url.index("://") + 3) :]

    def open(self, router, path):
        stream = Stream(router.port, path)
        assert stream.status == 101, stream.head.data
        assert stream.echoes()
        return stream

    def has(self, call_sid):
        return self.b.get(f"/api/v1/call/{call_sid}").status_code == 200

    def carriers(self, call_sid):
        return len((self.redis.hget(f"voice:call:{call_sid}", "carriers") or "").split(",")) if self.has(call_sid) else 0


@pytest.fixture
def replicas(redis_server, start_router):
    with contextlib.ExitStack() as stack:

        def start(**env):
            world = Replicas(start_router, redis_server, **env)
            stack.callback(world.agent.close)
            stack.callback(world.proxy.close)
            return world

        yield start


@pytest.mark.parametrize("first", ("a", "b"))
def test_a_call_with_streams_at_two_routers_ends_with_the_last_of_them(replicas, first):
    world = replicas()
    path = world.place("CA1")
    streams = {"a": world.open(world.a, path), "b": world.open(world.b, path)}
    wait_until(lambda: world.carriers("CA1") == 2, "both carry it")
    streams.pop(first).close()
    wait_until(lambda: world.carriers("CA1") == 1, "one has left")
    (last,) = streams.values()
    time.sleep(1)
    assert last.echoes() and world.has("CA1")
    last.close()
    wait_until(lambda: not world.has("CA1"), "the call is released")
    assert world.a.get("/api/v1/status").json()["tiers"]["standard"]["available"] == 1


def test_a_client_that_vanishes_and_comes_back_elsewhere_keeps_its_call(replicas):
    world = replicas(GATEWAY_IDLE_TIMEOUT="5s")
    path = world.place("CA1")
    world.open(world.a, path)  # and never a word again
    back = world.open(world.b, path)
    wait_until(lambda: back.echoes() and world.carriers("CA1") == 2, "both carry it")
    wait_until(lambda: back.echoes() and world.carriers("CA1") == 1, "the first is cut off")
    for _ in range(10):
        assert back.echoes() and world.has("CA1")
        time.sleep(0.1)
    back.close()
    wait_until(lambda: not world.has("CA1"), "the call is released")


def test_a_router_that_died_does_not_keep_the_call_of_another(replicas):
    world = replicas()
    path = world.place("CA1")
    world.open(world.a, path)
    wait_until(lambda: world.carriers("CA1") == 1, "the first carries it")
    world.a.kill()
    back = world.open(world.b, path)
    wait_until(lambda: world.carriers("CA1") == 2, "the second carries it, too")
    back.close()
    wait_until(lambda: world.carriers("CA1") == 1, "the second has left, and believes in the first")
    for key in world.redis.scan_iter("voice:carrier:*"):  # what CARRIER_TTL_S do as well
        world.redis.delete(key)
    wait_until(lambda: not world.has("CA1"), "the call is released")


@pytest.mark.parametrize("rescue", ["true", "false"])
def test_the_calls_of_a_router_that_died_have_a_minute_to_come_back_if_they_may(replicas, rescue):
    world = replicas(RESCUE=rescue)
    path = world.place("CA1")
    world.open(world.a, path)
    wait_until(lambda: world.carriers("CA1") == 1, "the first carries it")
    world.a.kill()
    for key in world.redis.scan_iter("voice:carrier:*"):  # what CARRIER_TTL_S do as well
        world.redis.delete(key)
    wait_until(lambda: not list(world.redis.scan_iter("voice:carried*")), "the sweep has looked at the calls of the dead router")
    left_s = world.redis.zscore("voice:calls:active", "CA1") / 1000 - world.redis.time()[0]
    assert left_s < 62 if rescue == "true" else left_s > 120, "LEASE_TTL is 15 minutes"


def test_a_router_whose_hold_was_not_answered_does_not_keep_the_call_of_another(replicas):
    world = replicas()
    world.open(world.a, world.place("CA0")).close()  # from now on Redis knows the scripts
    wait_until(lambda: not world.has("CA0"), "the first call is released")
    path = world.place("CA1")
    world.proxy.hold()
    refused = []
    opening = threading.Thread(target=lambda: refused.append(Stream(world.a.port, path).status))
    opening.start()
    wait_until(lambda: world.proxy.waiting(b"CA1"), "it is on its way")
    world.proxy.cut()
    opening.join()
    world.proxy.release()
    assert refused == [503]
    back = world.open(world.b, path)
    back.close()
    wait_until(lambda: not world.has("CA1"), "the call is released")
    assert world.b.log_lines("call released")


def test_a_router_says_every_now_and_then_that_it_is_there_whether_or_not_it_carries_anything(replicas):
    world = replicas()
    here = lambda: sorted(world.redis.scan_iter("voice:carrier:*"))
    wait_until(lambda: len(here()) == 2, "both are there")
    first = here()
    assert all(0 < world.redis.pttl(key) <= CARRIER_TTL_S * 1000 for key in first)
    assert [f"voice:carrier:{name}" for name in sorted(world.redis.zrange("voice:routers", 0, -1))] == first
    world.redis.delete(*first, "voice:routers")
    wait_until(lambda: here() == first, "both are still there")
    assert world.redis.zcard("voice:routers") == 2
    assert world.a.stop() == 0
    assert len(here()) == 1 and world.redis.zcard("voice:routers") == 1


@pytest.mark.parametrize("first", ("open", "closed"))
def test_a_call_that_begins_anew_right_after_its_end_keeps_its_new_stream(replicas, first):
    world = replicas(GATEWAY_RELEASE_GRACE="60s")
    for number in range(5):
        call_sid = f"CA{number}"
        old = world.open(world.a, world.place(call_sid))
        if first == "closed":
            old.close()
        assert world.a.release(call_sid)
        new = world.open(world.a, world.place(call_sid))
        time.sleep(0.6)  # more than it takes to hear of the release
        assert new.echoes() and world.has(call_sid)
        assert world.a.release(call_sid)
        assert new.is_closed_by_other()
        old.close()


RENEWED_AT_ONCE = 100  # REDIS_RENEW_BATCH


def test_a_router_does_not_take_its_own_renewal_for_somebody_elses(redis_server, start_router):
    agent, proxy = Agent(), FaultProxy(redis_server)
    pods = RENEWED_AT_ONCE + 1
    env = {
        "STATIC_PODS": ",".join(f"agent-{i}=127.0.0.1:{agent.port}" for i in range(pods)),
        "TIER_CONFIG": f'{{"standard":{{"type":"exclusive","target":{pods}}}}}',
        "REDIS_URL": proxy.url,
        "REDIS_TIMEOUT": "20s",
        "LEASE_TTL": "6s",  # they are renewed every 2 s
        "GATEWAY_SECRET": SECRET,
        "GATEWAY_RELEASE_GRACE": "300ms",
    }
    with contextlib.closing(agent), contextlib.closing(proxy):
        router = start_router(env)
        wait_until(lambda: router.get("/api/v1/status").json()["tiers"]["standard"]["available"] == pods, "all pods are there")
        urls = [router.allocate(f"CA{i}")["ws_url"] for i in range(pods)]
        streams = [Stream(router.port, url[url.index("/ws/") :]) for url in urls]
        assert all(stream.status == 101 for stream in streams)
        assert router.get("/api/v1/call/CA0").status_code == 200  # from now on Redis knows the script
        proxy.hold()
        wait_until(lambda: proxy.waiting(b"CA0"), "the first part of the renewal is on its way")
        streams[-1].close()
        wait_until(lambda: router.log_lines("connection closed"), "the last stream is closed")
        proxy.release()
        wait_until(lambda: router.get(f"/api/v1/call/CA{pods - 1}").status_code == 404, "the call has ended")
        released = wait_until(lambda: router.log_lines("call released"), "it is logged, which may come after an answer")
        assert [line["call_sid"] for line in released] == [f"CA{pods - 1}"]
        assert all(stream.echoes() for stream in streams[:-1])


class DeafPort:
    """Takes the place of an agent that has stopped: whoever connects hears nothing, not even a refusal."""

    def __init__(self, port):
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", port))
        self.listener.listen(0)
        self.first = [socket.socket() for _ in range(4)]
        for sock in self.first:
            sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                sock.connect(("127.0.0.1", port))

    def close(self):
        for sock in (*self.first, self.listener):
            sock.close()


def test_a_call_that_moves_while_it_is_renewed_may_be_opened(redis_server, start_router):
    first, second, proxy = Agent(is_manual=True), Agent(), FaultProxy(redis_server)
    env = {
        "STATIC_PODS": f"agent-0=127.0.0.1:{first.port},agent-1=127.0.0.1:{second.port},agent-2=127.0.0.1:1",
        "TIER_CONFIG": '{"standard":{"type":"exclusive","target":3}}',
        "REDIS_URL": proxy.url,
        "REDIS_TIMEOUT": "20s",
        "LEASE_TTL": "6s",  # it is renewed every 2 s
        "GATEWAY_SECRET": SECRET,
        "GATEWAY_CONNECT_TIMEOUT": "500ms",
        "GATEWAY_RELEASE_GRACE": "300ms",
    }
    with contextlib.closing(first), contextlib.closing(second), contextlib.closing(proxy):
        router = start_router(env)
        wait_until(lambda: router.get("/api/v1/status").json()["tiers"]["standard"]["available"] == 3, "all pods are there")
        replies = [router.allocate(f"CA{i}") for i in range(3)]
        path = {reply["pod_name"]: reply["ws_url"][reply["ws_url"].index("/ws/") :] for reply in replies}
        call = {reply["pod_name"]: f"CA{i}" for i, reply in enumerate(replies)}
        router.release(call["agent-1"])
        Stream(router.port, path["agent-2"]).close()  # moves to agent-1, and from now on Redis knows the scripts
        wait_until(lambda: router.get(f"/api/v1/call/{call['agent-2']}").status_code == 404, "the first call has ended")

        gone = Stream(router.port, path["agent-0"])
        gone.half_close()  # the client has gone, and the pod does not notice
        first.stop()
        with contextlib.closing(DeafPort(first.port)):
            opened = []
            back = threading.Thread(target=lambda: opened.append(Stream(router.port, path["agent-0"])))
            back.start()
            time.sleep(0.2)  # it is held, and agent-0 is being tried
            proxy.hold()
            wait_until(lambda: proxy.waiting(call["agent-0"].encode()) >= 2, "it is being moved, and renewed")
            proxy.release()
            back.join()
            assert opened[0].status == 101, opened[0].head.data
            assert opened[0].echoes()
            assert not router.log_lines("call is over: its connections are closed")
