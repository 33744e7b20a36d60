"""Callers who are held at the gateway: what they may send, what they hear, and what can happen at the same moment."""

import contextlib
import json
import queue
import struct
import threading
import time
import urllib.parse
import xml.etree.ElementTree as ElementTree

import pytest
import streams
from conftest import DEADLINE_S, wait_until
from dialects import DIALECTS
from streams import CLOSE, PING, PONG, TEXT

BASE = "https://voice.example.com"
ENV = {
    "GATEWAY_SECRET": "a-secret-of-the-held-0123456789",
    "PUBLIC_BASE_URL": BASE,
    "HOLD_MAX_WAIT": "5m",
    "GATEWAY_RELEASE_GRACE": "1h",
    "CLEANUP_INTERVAL": "100ms",
    "REDIS_TIMEOUT": "500ms",
}
SID_FIELD = {"twilio": "CallSid", "plivo": "CallUUID", "exotel": "CallSid"}


@pytest.fixture
def world_of(start_router, tmp_path):
    worlds = []

    def make(agents=1, **env):
        world = streams.World(start_router, tmp_path / f"world-{len(worlds)}", "router")
        worlds.append(world)
        world.start(agents=agents, env={**ENV, **env}, is_manual=True)
        return world

    yield make
    for world in worlds:
        world.close()


def path_of(answer):
    if answer.headers["content-type"].startswith("application/json"):
        return urllib.parse.urlsplit(answer.json()["url"]).path
    stream = ElementTree.fromstring(answer.content).find(".//Stream")
    return urllib.parse.urlsplit(stream.get("url") or stream.text).path


def waiting(world):
    return [call["call_sid"] for call in world.router.get("/api/v1/waiting").json()["waiting"]]


class Caller:
    """A provider's end: it asks, is held, and says its first messages."""

    def __init__(self, world, call_sid="CA1", dialect="twilio", is_held=True, path=None, **connect):
        self.world, self.call_sid, self.dialect = world, call_sid, DIALECTS[dialect]
        self.stream_id = f"MZ{call_sid}"
        self.first = self.dialect.first_messages(call_sid, self.stream_id)
        self.audio = b""
        self.seen = []  # events that the router has made
        if not path:
            answer = world.router.post(f"/api/v1/{dialect}/allocate", data={SID_FIELD[dialect]: call_sid})
            assert answer.status_code == 200, answer.text
        self.path = path or path_of(answer)
        assert is_held == ("/ws/hold/" in self.path), self.path
        self.stream = world.open(self.path, **connect)

    def again(self, world=None, path=None):
        """The same URL once more, or another one, maybe at another router."""
        path = path or self.path
        return Caller(world or self.world, self.call_sid, self.dialect.name, is_held="/ws/hold/" in path, path=path)

    def say_first(self):
        for text in self.first:
            self.stream.send(TEXT, text.encode())
        return self

    def media(self, number=1):
        self.stream.send(TEXT, self.dialect.media(self.stream_id, bytes(160), number).encode())

    def hear(self):
        """The next frame that is no sound of the router's own; its marks are sent back."""
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            fin, opcode, payload = self.stream.receive()
            kind, what = "other", None
            if opcode == TEXT:
                try:
                    kind, what = self.dialect.heard(payload.decode())
                except (ValueError, KeyError, TypeError):
                    kind = "other"
            if kind == "audio":
                self.audio += what
            elif kind == "mark" and what.startswith("sr-hold-"):
                self.stream.send(TEXT, self.dialect.mark_back(self.stream_id, what).encode())
            elif kind != "clear":
                return fin, opcode, payload
            self.seen.append(kind)
        raise AssertionError(f"nothing but the router's own was heard: {self.seen}")

    def expect_close(self, code):
        fin, opcode, payload = self.hear()
        assert (fin, opcode) == (True, CLOSE) and payload[:2] == struct.pack("!H", code), (opcode, payload)

    def close(self):
        self.stream.close()


def expect_first(agent, caller):
    for text in caller.first:
        assert agent.receive() == (True, TEXT, text.encode())


def pinged(caller, what):
    """The router has read all that was sent before."""
    caller.stream.send(PING, what)
    return caller.hear() == (True, PONG, what)


def talk(caller, agent, what=b"hello"):
    caller.stream.send(TEXT, what)
    assert agent.receive() == (True, TEXT, what)
    agent.send(TEXT, b"answer to " + what)
    assert caller.hear() == (True, TEXT, b"answer to " + what)


class Slow:
    """An agent whose handshakes wait until the test lets them."""

    def __init__(self, agent):
        self.agent = agent
        agent.stop()
        self.listener = streams.socket.socket()
        self.listener.setsockopt(streams.socket.SOL_SOCKET, streams.socket.SO_REUSEADDR, 1)
        self.listener.bind((agent.address, agent.port))
        self.listener.listen(64)
        self.listener.settimeout(streams.PATIENCE_S)
        agent.listener = self.listener  # closed with it

    def asked(self):
        """The next request, which is not answered yet."""
        sock, _ = self.listener.accept()
        peer = streams.Peer(sock, masks=False)
        peer.read_head()
        return peer

    @staticmethod
    def agree(peer, key=None):
        accept = streams.accept_of(key or peer.head.get("sec-websocket-key"))
        lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Accept: {accept}"]
        peer.send_bytes("\r\n".join([*lines, "", ""]).encode())
        return peer

    @staticmethod
    def disagree(peer):
        return Slow.agree(peer, key="of another one")


def granted_a_slow_pod(world):
    """A caller who was held, and whose pod is dialled now; and that pod, which answers what the test says."""
    world.router.allocate("CA0")
    caller = Caller(world).say_first()
    assert pinged(caller, b"held")
    slow = Slow(world.agents["voice-agent-0"])
    world.router.release("CA0")
    return caller, slow


# The wait ends without a pod.


@pytest.mark.parametrize("how", ["hangs up", "too long"])
def test_every_wait_that_ends_in_vain_is_logged_once(world_of, store, how):
    world = world_of(HOLD_MAX_WAIT="1s" if how == "too long" else "5m", **store)
    world.router.allocate("CA0")
    callers = [Caller(world, call_sid=f"CA{number}").say_first() for number in (1, 2, 3)]
    for caller in callers:
        if how == "hangs up":
            caller.stream.send(CLOSE, struct.pack("!H", 1000))
        caller.expect_close(1000)
        caller.close()
    outcome = "abandoned" if how == "hangs up" else "timed_out"
    ended = lambda: sorted((line["call_sid"], line["outcome"]) for line in world.router.log_lines("wait ended"))
    wait_until(lambda: ended() == [(f"CA{number}", outcome) for number in (1, 2, 3)], lambda: f"they are logged: {ended()}")
    assert f'smart_router_wait_seconds_count{{outcome="{outcome}"}} 3\n' in world.router.get("/metrics").text
    reason = "client_closed" if how == "hangs up" else "timed_out"
    wait_until(lambda: [line["reason"] for line in world.router.log_lines("connection closed")] == [reason] * 3, "with the reason")


def test_a_wait_that_is_over_before_its_stream_comes_is_logged(world_of, store):
    world = world_of(**store, HOLD_MAX_WAIT="1s")
    world.router.allocate("CA0")
    path = path_of(world.router.post("/api/v1/twilio/allocate", data={"CallSid": "CA1"}))
    time.sleep(1)  # it is over, and the leader may not have seen it yet
    assert world.connect(path).status == 409
    wait_until(lambda: [(line["call_sid"], line["outcome"]) for line in world.router.log_lines("wait ended")] == [("CA1", "timed_out")], "it is logged, once")
    assert 'smart_router_wait_seconds_count{outcome="timed_out"} 1\n' in world.router.get("/metrics").text


# A pod is dialled, and the caller goes on.


def test_a_caller_who_hangs_up_while_a_pod_is_asked_is_heard(world_of, store):
    world = world_of(GATEWAY_CONNECT_TIMEOUT="1m", **store)
    caller, slow = granted_a_slow_pod(world)
    peer = slow.asked()
    caller.media()
    assert pinged(caller, b"still there")
    caller.stream.send(CLOSE, struct.pack("!H", 1000))
    caller.expect_close(1000)
    wait_until(lambda: world.call("CA1") is None, "the call has ended")
    assert peer.is_closed_by_other(), "nobody waits for that pod any more"
    caller.close()


def test_what_a_caller_says_while_a_pod_is_asked_is_not_heard_later(world_of):
    world = world_of(GATEWAY_CONNECT_TIMEOUT="1m")
    caller, slow = granted_a_slow_pod(world)
    peer = slow.asked()
    for number in range(50):
        caller.media(number)
    assert pinged(caller, b"all of it was read")
    slow.agree(peer)
    expect_first(peer, caller)
    talk(caller, peer)
    caller.close()
    peer.close()


def test_a_caller_who_is_back_in_line_is_still_heard(world_of, store):
    """The pod that it was granted is not there."""
    world = world_of(**store)
    world.router.allocate("CA0")
    caller = Caller(world).say_first()
    assert pinged(caller, b"held")
    world.agents["voice-agent-0"].stop()
    world.router.release("CA0")
    wait_until(lambda: world.router.log_lines("call moved") or waiting(world) == ["CA1"] and world.router.log_lines("a pod cannot be reached"), "it was tried")
    wait_until(lambda: waiting(world) == ["CA1"], "it waits again")
    assert pinged(caller, b"still held")
    caller.stream.send(CLOSE, struct.pack("!H", 1000))
    caller.expect_close(1000)
    wait_until(lambda: waiting(world) == [], "it has left the line")
    caller.close()


def test_a_pod_that_is_taken_by_a_new_stream_that_is_never_opened_is_given_back(world_of, store):
    """The call was granted it while its caller, who comes back by an older URL, was away."""
    world = world_of(agents=2, GATEWAY_RELEASE_GRACE="3s", GATEWAY_CONNECT_TIMEOUT="1m", **store)
    caller = Caller(world, is_held=False).say_first()
    first = world.call("CA1")["pod_name"]
    other = world.router.allocate("CA0")["pod_name"]
    agent = world.agents[first].accept()
    expect_first(agent, caller)
    world.agents[first].stop()
    agent.reset()
    wait_until(lambda: waiting(world) == ["CA1"], "it waits")
    slow = Slow(world.agents[other])
    caller.stream.reset()
    wait_until(lambda: world.router.log_lines("connection closed"), "the caller has gone")
    world.router.release("CA0")
    wait_until(lambda: (world.call("CA1") or {}).get("pod_name") == other, "the call has a pod")
    url = f"GET {caller.path} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {'k' * 22}==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    with streams.socket.create_connection(("127.0.0.1", world.port)) as sock:
        sock.sendall(url.encode())
        peer = slow.asked()
    peer.send_bytes(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
    wait_until(lambda: world.call("CA1") is None, "its pod is free again")
    peer.close()


# What agents and callers do that nobody expects.


def refuse_every_caller(agent, code, carried):
    """Each stream ends with that code as soon as the agent has heard of it."""
    with contextlib.suppress(OSError, queue.Empty):
        while peer := agent.peers.get(timeout=DEADLINE_S):
            carried.append(peer)
            peer.send(CLOSE, struct.pack("!H", code))
            peer.close()


def test_a_call_that_makes_every_agent_fail_does_not_go_round_for_ever(world_of):
    world = world_of(agents=2)
    carried = []
    threads = [threading.Thread(target=refuse_every_caller, args=(agent, 1011, carried)) for agent in world.agents.values()]
    for thread in threads:
        thread.start()
    caller = Caller(world, is_held=False).say_first()
    caller.expect_close(1011)
    for agent in world.agents.values():
        agent.peers.put(None)
    for thread in threads:
        thread.join()
    assert 5 < len(carried) < 12, "the caller was kept for some agents, but not for ever"
    assert caller.audio, "and has heard something meanwhile"
    caller.close()


def crash_with_every_caller(agent, carried):
    """It speaks, and is gone as soon as it hears its caller."""
    with contextlib.suppress(OSError, queue.Empty):
        while peer := agent.peers.get(timeout=DEADLINE_S):
            carried.append(peer)
            peer.send(TEXT, b"hello")
            peer.receive()
            peer.reset()


def test_a_call_that_makes_every_agent_crash_does_not_go_round_for_ever(world_of):
    """Rests of up to two seconds lie between its agents."""
    world = world_of(agents=8)
    carried = []
    threads = [threading.Thread(target=crash_with_every_caller, args=(agent, carried)) for agent in world.agents.values()]
    for thread in threads:
        thread.start()
    caller = Caller(world, is_held=False).say_first()
    while True:
        frame = caller.hear()
        if frame[1] == CLOSE:
            break
        assert frame == (True, TEXT, b"hello")
    assert frame[2][:2] == struct.pack("!H", 1011)
    for agent in world.agents.values():
        agent.peers.put(None)
    for thread in threads:
        thread.join()
    assert len(carried) == 21
    caller.close()


def test_a_pod_that_does_not_agree_to_what_the_caller_has_agreed_to_is_not_put_aside(world_of):
    """It may be the caller's fault, and the pod is there for others."""
    world = world_of()
    caller, slow = granted_a_slow_pod(world)
    slow.disagree(slow.asked())
    peer = slow.asked()
    disagrees = "a pod does not agree to what the client has agreed to: it cannot go on with its stream"
    wait_until(lambda: world.router.log_lines(disagrees), "it is logged")
    assert not world.pod("voice-agent-0")["is_draining"]
    expect_first(slow.agree(peer), caller)
    talk(caller, peer)
    caller.close()
    peer.close()


@pytest.mark.parametrize("says", ["101 Switching Protocols", "503 Service Unavailable"])
def test_a_pod_that_never_takes_a_caller_is_not_asked_for_ever(world_of, says):
    """It is the only one that is free, so that the call that it refused waits for it again. The rests are up to two seconds."""
    world = world_of()
    caller, slow = granted_a_slow_pod(world)
    for _ in range(21):
        peer = slow.asked()
        peer.send_bytes(f"HTTP/1.1 {says}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n".encode())
    caller.expect_close(1011)
    caller.close()
    assert not world.pod("voice-agent-0")["is_draining"], "it is there for others"


def test_a_long_mark_of_ours_that_comes_back_late_is_not_heard_by_the_agent(world_of):
    world = world_of()
    world.router.allocate("CA0")
    caller = Caller(world).say_first()
    kind = None
    while kind != "mark":
        kind, name = caller.dialect.heard(caller.stream.receive()[2].decode())
    world.router.release("CA0")
    agent = world.agents["voice-agent-0"].accept()
    expect_first(agent, caller)
    mark = json.dumps({"event": "mark", "sequenceNumber": "12345678", "streamSid": "MZ" + 32 * "0", "mark": {"name": name}})
    assert 128 < len(mark) < 160
    caller.stream.send(TEXT, mark.encode())
    talk(caller, agent)
    caller.close()


def test_agents_that_fail_now_and_then_lose_no_caller(world_of):
    world = world_of(agents=11)
    caller = Caller(world, is_held=False).say_first()
    agent = world.agents[world.call("CA1")["pod_name"]].accept()
    for _ in range(10):
        expect_first(agent, caller)
        talk(caller, agent)
        pod = world.call("CA1")["pod_name"]
        agent.reset()
        wait_until(lambda pod=pod: world.call("CA1")["pod_name"] != pod, "it has another pod")
        agent = world.agents[world.call("CA1")["pod_name"]].accept()
    caller.close()


# One call, several streams.


def test_a_call_has_no_more_streams_by_the_ticket_of_its_wait_than_by_any_other(world_of, store):
    world = world_of(GATEWAY_STREAMS_PER_CALL="2", **store)
    world.router.allocate("CA0")
    caller = Caller(world).say_first()
    assert pinged(caller, b"held")
    world.router.release("CA0")
    agent = world.agents["voice-agent-0"].accept()
    expect_first(agent, caller)
    second = caller.again().say_first()
    agents = [agent, world.agents["voice-agent-0"].accept()]
    expect_first(agents[1], second)
    for _ in range(3):
        other = caller.again()
        other.expect_close(1013)
        other.close()
    talk(caller, agents[0])
    talk(second, agents[1])
    assert world.agents["voice-agent-0"].peers.empty()
    caller.close()
    second.close()


# The store is away.


def test_a_caller_whose_first_word_the_store_cannot_hear_is_held(world_of, redis_server):
    world = world_of(REDIS_URL=redis_server.url)
    world.router.allocate("CA0")
    paths = [path_of(world.router.post("/api/v1/twilio/allocate", data={"CallSid": call_sid})) for call_sid in ("CA1", "CA2")]
    with redis_server.paused():
        first = world.connect(paths[0])
        assert first.status == 101, "its question was not answered"
        wait_until(lambda: world.router.get("/ready").status_code != 200, "the connection is given up")
        second = world.connect(paths[1])
        assert second.status == 101, "nothing could be asked"
    wait_until(lambda: world.router.get("/ready").status_code == 200, "Redis is back")
    wait_until(lambda: {call["call_sid"]: call["held_by"] for call in world.router.get("/api/v1/waiting").json()["waiting"]}.keys() == {"CA1", "CA2"}, "both wait")
    world.router.release("CA0")
    agent = world.agents["voice-agent-0"].accept()
    assert agent.head.get("x-call-sid") in ("CA1", "CA2")
    first.close()
    second.close()


# A pod is dialled, and its call goes elsewhere meanwhile.


@pytest.fixture
def removable(start_router, tmp_path):
    """removable(count, **env) -> a world whose pods can be removed by the API."""
    worlds = []

    def make(count, **env):
        world = streams.World(start_router, tmp_path / f"removable-{len(worlds)}", "router")
        worlds.append(world)
        world.start(agents=count, is_manual=True, env={**ENV, "POD_SOURCE": "api", "STATIC_PODS": None, **env})
        for name, agent in world.agents.items():
            assert world.router.post("/api/v1/pods", json={"pod_name": name, "address": f"{agent.address}:{agent.port}"}).status_code == 200
        return world

    yield make
    for world in worlds:
        world.close()


def broken_for_a_slow_pod(world):
    """A caller whose agent has failed; the other one is asked, and lets the router wait."""
    caller = Caller(world, is_held=False).say_first()
    first = world.call("CA1")["pod_name"]
    agent = world.agents[first].accept()
    expect_first(agent, caller)
    talk(caller, agent)
    second = next(name for name in world.agents if name != first)
    slow = Slow(world.agents[second])
    agent.send(CLOSE, struct.pack("!H", 1011))
    return caller, first, second, slow, slow.asked()


def test_a_pod_that_accepts_after_its_call_was_moved_away_does_not_get_it(removable, store):
    world = removable(2, GATEWAY_CONNECT_TIMEOUT="1m", **store)
    caller, first, second, slow, peer = broken_for_a_slow_pod(world)
    assert world.router.delete(f"/api/v1/pod/{second}").status_code == 200
    wait_until(lambda: world.call("CA1").get("pod_name") == first, "the store has moved it")
    with contextlib.suppress(OSError):
        slow.agree(peer)
    agent = world.agents[first].accept()
    expect_first(agent, caller)
    talk(caller, agent)
    assert peer.is_closed_by_other()
    caller.close()


def test_a_pod_that_accepts_after_its_call_has_lost_it_does_not_keep_it(removable, store):
    world = removable(2, GATEWAY_CONNECT_TIMEOUT="1m", **store)
    caller, first, second, slow, peer = broken_for_a_slow_pod(world)
    assert world.router.post("/api/v1/drain", json={"pod_name": first}).status_code == 200
    assert world.router.delete(f"/api/v1/pod/{second}").status_code == 200
    wait_until(lambda: waiting(world) == ["CA1"], "it is in the line")
    with contextlib.suppress(OSError):
        slow.agree(peer)
    assert peer.is_closed_by_other()
    assert world.router.post("/api/v1/undrain", json={"pod_name": first}).status_code == 200
    agent = world.agents[first].accept()
    expect_first(agent, caller)
    talk(caller, agent)
    caller.close()


# What is no WebSocket of a client.


BROKEN = {
    "an unmasked frame": streams.frame(TEXT, b"{}"),
    "an unmasked ping": streams.frame(PING, b"x"),
    "a reserved bit": bytes([0x80 | 0x40 | TEXT, 0x80]) + b"abcd",
    "a reserved opcode": bytes([0x83, 0x80]) + b"abcd",
    "a reserved control opcode": bytes([0x8B, 0x80]) + b"abcd",
    "a ping in fragments": bytes([PING, 0x80]) + b"abcd",
    "a ping that is too long": bytes([0x80 | PING, 0x80 | 126]) + struct.pack("!H", 126) + b"abcd" + bytes(126),
    "a continuation of nothing": bytes([0x80, 0x80]) + b"abcd",
    "a text in a text": streams.frame(TEXT, b"{", fin=False, mask=b"abcd") + streams.frame(TEXT, b"}", mask=b"abcd"),
    "a length of 2^63": bytes([0x80 | TEXT, 0x80 | 127]) + struct.pack("!Q", 1 << 63) + b"abcd",
}


def test_what_is_no_websocket_is_closed_with_1002_while_it_is_held_and_the_call_waits_on(world_of):
    world = world_of()
    world.router.allocate("CA0")
    for number, (what, broken) in enumerate(BROKEN.items()):
        caller = Caller(world, f"BAD{number}")
        if number % 2:
            caller.say_first()
        caller.stream.send_bytes(broken)
        caller.expect_close(1002)
        caller.stream.send(CLOSE, struct.pack("!H", 1002))
        caller.stream.rest()
        assert f"BAD{number}" in waiting(world), what
        caller.close()


def test_what_is_no_websocket_goes_to_the_pod_as_it_is(world_of):
    world = world_of(agents=len(BROKEN))
    for number, broken in enumerate(BROKEN.values()):
        caller = Caller(world, f"BAD{number}", is_held=False).say_first()
        agent = world.agents[world.call(f"BAD{number}")["pod_name"]].accept()
        expect_first(agent, caller)
        sent = streams.frame(TEXT, b"before", mask=b"abcd") + broken + b"and after"
        caller.stream.send_bytes(sent)
        assert agent.exactly(len(sent)) == sent
        agent.send_bytes(b"\xff\xff\xff no frame")
        assert caller.stream.exactly(12) == b"\xff\xff\xff no frame"
        caller.close()
        agent.close()


def test_odd_frames_that_are_allowed_are_read_while_held(world_of):
    """Lengths in more bytes than needed, empty fragments, pings between them, text that is no UTF-8, and large messages."""
    world = world_of()
    world.router.allocate("CA0")
    caller = Caller(world)
    raw = caller.first[0].encode()
    mask = b"abcd"
    caller.stream.send_bytes(bytes([0x80 | TEXT, 0x80 | 127]) + struct.pack("!Q", len(raw)) + mask + streams.unmask(raw, mask))
    caller.stream.send(TEXT, b"\xff\xfe\x00")
    caller.stream.send(TEXT, b"x" * 300_000)
    start = caller.first[1].encode()
    caller.stream.send(TEXT, start[:1], fin=False)
    for at in range(1, len(start)):
        caller.stream.send(0, start[at : at + 1], fin=False)
        caller.stream.send(0, b"", fin=False)
    assert pinged(caller, b"between fragments")
    caller.stream.send(0, b"", fin=True)
    assert pinged(caller, b"behind them")
    wait_until(lambda: caller.audio or pinged(caller, b"more"), "it hears something")
    world.router.release("CA0")
    agent = world.agents["voice-agent-0"].accept()
    texts, text = [], b""
    while len(texts) < 2:
        fin, opcode, payload = agent.receive()
        if opcode == PING:
            continue  # it came in the middle of what is kept
        text += payload
        if fin:
            texts.append(text.decode())
            text = b""
    assert texts == caller.first
    talk(caller, agent)
    caller.close()


# Marks.


def test_an_agent_may_use_the_names_of_our_marks(world_of):
    world = world_of()
    world.router.allocate("CA0")
    caller = Caller(world).say_first()
    assert pinged(caller, b"held")
    world.router.release("CA0")
    agent = world.agents["voice-agent-0"].accept()
    expect_first(agent, caller)
    talk(caller, agent)
    for name in ("sr-hold-1", "sr-hold-7"):
        back = caller.dialect.mark_back(caller.stream_id, name).encode()
        agent.send(TEXT, json.dumps({"event": "mark", "streamSid": caller.stream_id, "mark": {"name": name}}).encode())
        caller.stream.send(TEXT, back)
        assert agent.receive() == (True, TEXT, back)
    caller.close()


@pytest.mark.parametrize("stream_id", ['MZ"},"x":"', "MZ\\", "MZ\u2028\t", 'a"' * 60])
def test_the_id_of_a_stream_stays_a_text_in_what_is_played(world_of, stream_id):
    world = world_of()
    world.router.allocate("CA0")
    caller = Caller(world)
    caller.first = caller.dialect.first_messages("CA1", stream_id)
    caller.say_first()
    for event in ("media", "mark"):
        fin, opcode, payload = caller.stream.receive()
        message = json.loads(payload)
        assert (fin, opcode, message["event"], message["streamSid"]) == (True, TEXT, event, stream_id)
        assert message.keys() == {"event", "streamSid", event}
    caller.close()


# Ends in the middle of a message.


def test_a_close_frame_between_fragments_reaches_the_other_side(world_of):
    world = world_of(agents=2)
    caller = Caller(world, is_held=False).say_first()
    agent = world.agents[world.call("CA1")["pod_name"]].accept()
    expect_first(agent, caller)
    caller.stream.send(TEXT, b"never comp", fin=False)
    caller.stream.send(CLOSE, struct.pack("!H", 1000))
    assert agent.receive() == (False, TEXT, b"never comp")
    assert agent.receive() == (True, CLOSE, struct.pack("!H", 1000))
    agent.send(TEXT, b"neither", fin=False)
    agent.send(CLOSE, struct.pack("!H", 1000))
    assert caller.hear() == (False, TEXT, b"neither")
    caller.expect_close(1000)
    wait_until(lambda: world.call("CA1") is None, "it has ended")
    caller.close()


def test_a_grant_that_comes_before_the_stream_is_held_is_not_missed(world_of, store):
    """The step that puts the call into the line gives it its pod back: the agent failed, and there is no other."""
    world = world_of(agents=1, **store)
    caller = Caller(world, is_held=False).say_first()
    for _ in range(3):
        agent = world.agents["voice-agent-0"].accept()
        expect_first(agent, caller)
        talk(caller, agent)
        agent.send(CLOSE, struct.pack("!H", 1011))
    agent = world.agents["voice-agent-0"].accept()
    expect_first(agent, caller)
    assert caller.audio and len(caller.audio) <= 4 * 32000, "a round for each break, not one after the other until somebody asks"
    caller.close()


# The newer stream, and a store that forgets.


def test_the_newer_of_two_held_streams_at_one_router_wins(world_of, store):
    world = world_of(**store)
    world.router.allocate("CA0")
    older = Caller(world).say_first()
    assert pinged(older, b"held")
    newer = older.again().say_first()
    older.expect_close(1000)
    assert older.stream.is_closed_by_other()
    assert pinged(newer, b"held")
    world.router.release("CA0")
    agent = world.agents["voice-agent-0"].accept()
    expect_first(agent, newer)
    talk(newer, agent)
    older.close()
    newer.close()


def test_a_store_that_forgets_everything_ends_nobody_who_is_held(world_of, redis_server):
    world = world_of(REDIS_URL=redis_server.url)
    world.router.allocate("CA0")
    callers = [Caller(world, f"CA{number}").say_first() for number in (1, 2)]
    for caller in callers:
        assert pinged(caller, b"held")
    redis_server.client().flushall()
    wait_until(lambda: waiting(world) == ["CA1", "CA2"], "both are at their places again")
    for caller in callers:
        assert pinged(caller, b"still held")
        caller.close()
