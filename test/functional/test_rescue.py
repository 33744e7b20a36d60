"""A live call survives its pod: the pod's side of a stream breaks, the caller stays, and another pod goes on."""

import json
import struct
import time

import pytest
import streams
from conftest import wait_until
from dialects import DIALECTS
from streams import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, Closed

SECRET = "a-secret-of-the-rescues-0123456789"
HELD = "caller is held: the call waits for a pod"
ENV = {"GATEWAY_SECRET": SECRET, "GATEWAY_RELEASE_GRACE": "1h", "CLEANUP_INTERVAL": "100ms"}


@pytest.fixture
def world_of(start_router, tmp_path):
    worlds = []

    def make(agents=2, **more):
        world = streams.World(start_router, tmp_path / f"world-{len(worlds)}", "router")
        worlds.append(world)
        more["env"] = {**ENV, **more.get("env", {})}
        world.start(agents=agents, is_manual=True, **more)
        return world

    yield make
    for world in worlds:
        world.close()


def close_payload(code, reason=b""):
    return struct.pack("!H", code) + reason if code else b""


class Call:
    """A call with an open stream: the caller's end, and the ends at pods, one after the other."""

    def __init__(self, world, call_sid="CA1", dialect="twilio", **connect):
        self.world, self.call_sid = world, call_sid
        self.dialect = DIALECTS[dialect]
        self.stream_id = f"MZ{call_sid}"
        self.pod, self.path = world.place(call_sid, provider=dialect)
        self.caller = world.open(self.path, **connect)
        self.agent = world.agents[self.pod].accept()
        self.agents = [self.agent]
        self.first = self.dialect.first_messages(call_sid, self.stream_id)
        self.audio = []  # what the caller has heard

    def say_first(self):
        for text in self.first:
            self.caller.send(TEXT, text.encode())
        for text in self.first:
            assert self.agent.receive() == (True, TEXT, text.encode())
        return self

    def next_agent(self):
        """The pod that the call has now, which must be another one."""
        wait_until(lambda: (self.world.call(self.call_sid) or {}).get("pod_name"), "the call has a pod")
        wait_until(lambda: self.world.call(self.call_sid)["pod_name"] != self.pod, "the call has moved")
        self.pod = self.world.call(self.call_sid)["pod_name"]
        self.agent = self.world.agents[self.pod].accept()
        self.agents.append(self.agent)
        return self.agent

    def hear(self):
        """The next frame that is no sound of the router's own."""
        while True:
            frame = self.caller.receive()
            if frame[1] == TEXT and self.is_ours(frame[2]):
                continue
            return frame

    def is_ours(self, text):
        try:
            kind, what = self.dialect.heard(text.decode())
        except (ValueError, KeyError, TypeError):
            return False
        if kind == "audio":
            self.audio.append(what)
        if kind == "mark" and what.startswith("sr-hold-"):
            self.caller.send(TEXT, self.dialect.mark_back(self.stream_id, what).encode())
        self.audio += [kind] if kind != "audio" else []
        return kind in ("audio", "clear") or (kind == "mark" and what.startswith("sr-hold-"))

    def talk(self, text=b"hello"):
        """One message each way, through the pod that it has now."""
        self.caller.send(TEXT, text)
        assert self.agent.receive() == (True, TEXT, text)
        self.agent.send(BINARY, b"answer to " + text)
        assert self.hear() == (True, BINARY, b"answer to " + text)

    def expect_first(self):
        """The pod gets what the caller said at first, word for word."""
        for text in self.first:
            assert self.agent.receive() == (True, TEXT, text.encode())
        return self

    def close(self):
        for end in (self.caller, *self.agents):
            end.close()


def ended(world, call_sid="CA1"):
    return lambda: world.call(call_sid) is None


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("how", ["reset", "close"])
def test_a_pod_that_breaks_is_replaced_and_the_caller_stays(world_of, dialect, how):
    world = world_of()
    call = Call(world, dialect=dialect).say_first()
    call.talk()
    getattr(call.agent, how)()
    agent = call.next_agent()
    assert agent.head.get("x-call-resumed") == "1" and agent.head.get("x-call-sid") == "CA1"
    assert agent.head.path == call.agents[0].head.path
    call.expect_first().talk(b"are you there?")
    assert call.audio[0] not in ("clear", "mark"), "something was heard meanwhile"
    assert call.audio.count("clear") == 1
    call.close()


def test_every_rescue_is_counted_in_its_header(world_of):
    world = world_of(agents=4)
    call = Call(world).say_first()
    for number in range(1, 4):
        call.agent.reset()
        assert call.next_agent().head.get("x-call-resumed") == str(number)
        call.expect_first().talk(b"%d" % number)
    assert "smart_router_gateway_rescues_total{result=\"moved\"} 3" in world.router.get("/metrics").text
    call.close()


def test_what_was_in_the_middle_of_a_frame_is_not_heard(world_of):
    world = world_of()
    call = Call(world).say_first()
    whole = streams.frame(TEXT, b'{"event":"whole"}')
    call.agent.send_bytes(whole + streams.frame(TEXT, b"x" * 5000)[:2500])
    assert call.hear() == (True, TEXT, b'{"event":"whole"}')
    call.agent.reset()
    call.next_agent()
    call.expect_first().talk()
    call.close()


def test_a_message_in_fragments_is_heard_whole_or_not_at_all(world_of):
    world = world_of()
    call = Call(world).say_first()
    call.agent.send(TEXT, b"one ", fin=False)
    call.agent.send(PING, b"still here")
    call.agent.send(CONTINUATION, b"two", fin=True)
    assert [call.hear() for _ in range(3)] == [(False, TEXT, b"one "), (True, PING, b"still here"), (True, CONTINUATION, b"two")]
    call.agent.send(TEXT, b"never ", fin=False)
    call.agent.send(CONTINUATION, b"heard", fin=False)
    time.sleep(0.1)
    call.agent.reset()
    call.next_agent()
    call.expect_first().talk()
    call.close()


def test_the_rest_of_a_message_of_the_caller_for_a_broken_pod_is_dropped(world_of):
    world = world_of()
    call = Call(world).say_first()
    frame = streams.frame(TEXT, b"y" * 200_000, mask=b"abcd")
    call.caller.send_bytes(frame[:100_000])
    time.sleep(0.1)
    call.agent.reset()
    call.next_agent()
    call.expect_first()
    call.caller.send_bytes(frame[100_000:])
    call.talk(b"and on")
    call.close()


def test_a_large_message_of_a_pod_is_passed_on_as_it_comes_and_a_break_in_it_ends_the_stream(world_of):
    world = world_of(env={"GATEWAY_RELEASE_GRACE": "100ms"})
    call = Call(world).say_first()
    frame = streams.frame(BINARY, b"z" * 300_000)
    call.agent.send_bytes(frame[:200_000])
    assert len(call.caller.exactly(150_000)) == 150_000
    call.agent.reset()
    call.caller.rest()
    wait_until(ended(world), "it ends as after every break")
    call.close()


@pytest.mark.parametrize("how", ["reset", "close"])
def test_a_caller_that_stays_where_no_rescue_is_possible_is_not_waited_for(world_of, how):
    world = world_of(env={"GATEWAY_RELEASE_GRACE": "100ms", "GATEWAY_IDLE_TIMEOUT": "1h"})
    call = Call(world).say_first()
    call.agent.send_bytes(streams.frame(BINARY, b"z" * 300_000)[:200_000])
    call.caller.exactly(150_000)
    getattr(call.agent, how)()
    wait_until(ended(world), "it ends as after every break")
    call.close()


@pytest.mark.parametrize("code", [1001, 1002, 1003, 1008, 1009, 1011, 1012, 1013])
def test_a_close_frame_that_tells_of_trouble_is_a_break(world_of, code):
    world = world_of()
    call = Call(world).say_first()
    call.agent.send(CLOSE, close_payload(code, b"trouble"))
    fin, opcode, payload = call.agent.receive()
    assert (opcode, payload[:2]) == (CLOSE, close_payload(code)), "it is answered"
    first = call.pod
    call.next_agent()
    call.expect_first().talk()
    assert world.pod(first)["is_draining"] == (code in (1001, 1012)), "only who goes away is put aside"
    call.close()


@pytest.mark.parametrize("code", [0, 1000, 3000, 3999, 4000, 4999])
def test_a_close_frame_of_the_pod_that_is_meant_ends_the_call_at_once(world_of, code):
    """The grace is an hour."""
    world = world_of()
    call = Call(world).say_first()
    call.agent.send(CLOSE, close_payload(code))
    assert call.hear() == (True, CLOSE, close_payload(code))
    call.caller.send(CLOSE, close_payload(code))
    assert call.agent.receive() == (True, CLOSE, close_payload(code))
    wait_until(ended(world), "the call has ended")
    wait_until(lambda: not world.pod(call.pod)["calls"], "its pod is free")
    call.close()


@pytest.mark.parametrize("dialect", [name for name, dialect in DIALECTS.items() if dialect.stop("", "")])
def test_a_stop_of_the_provider_ends_the_call_at_once(world_of, dialect):
    world = world_of()
    call = Call(world, dialect=dialect).say_first()
    stop = call.dialect.stop("CA1", call.stream_id).encode()
    call.caller.send(TEXT, stop)
    assert call.agent.receive() == (True, TEXT, stop)
    wait_until(ended(world), "the call has ended")
    call.close()


def test_a_close_frame_of_the_provider_ends_the_call_at_once_and_reaches_the_pod(world_of):
    world = world_of()
    call = Call(world).say_first()
    call.caller.send(CLOSE, close_payload(1000, b"bye"))
    assert call.agent.receive() == (True, CLOSE, close_payload(1000, b"bye"))
    call.agent.send(CLOSE, close_payload(1000))
    assert call.hear() == (True, CLOSE, close_payload(1000))
    wait_until(ended(world), "the call has ended")
    assert world.refusal(call.path) == 409
    call.close()


def test_an_agent_that_releases_when_its_socket_ends_does_not_end_a_rescued_call(world_of):
    world = world_of()
    call = Call(world).say_first()
    first = call.pod
    call.agent.reset()
    call.next_agent()
    call.expect_first()
    assert world.router.post("/api/v1/release", json={"call_sid": "CA1", "pod_name": first}).status_code == 404
    world.router.post("/api/v1/release", json={"call_sid": "CA1"})
    call.talk()
    assert world.call("CA1")["pod_name"] == call.pod
    call.close()


def test_a_pod_that_breaks_before_the_provider_has_begun_is_replaced(world_of):
    world = world_of()
    call = Call(world)
    call.caller.send(TEXT, call.first[0].encode())
    assert call.agent.receive() == (True, TEXT, call.first[0].encode())
    half = streams.frame(TEXT, call.first[1].encode(), mask=b"1234")
    call.caller.send_bytes(half[:30])
    time.sleep(0.05)
    call.agent.reset()
    agent = call.next_agent()
    assert agent.receive() == (True, TEXT, call.first[0].encode())
    call.caller.send_bytes(half[30:])
    assert agent.receive() == (True, TEXT, call.first[1].encode())
    call.talk()
    assert call.audio == []
    call.close()


def test_a_stream_that_is_no_providers_is_rescued_in_silence(world_of):
    world = world_of()
    call = Call(world)
    call.talk(b"\x00 no json")
    call.agent.reset()
    call.next_agent()
    call.talk(b"more of it")
    assert call.audio == []
    call.close()


def test_pings_of_the_caller_are_answered_while_there_is_no_pod(world_of):
    world = world_of(agents=1, env={"HOLD_MAX_WAIT": "1m"})
    call = Call(world).say_first()
    call.agent.reset()
    wait_until(lambda: world.router.log_lines(HELD), "it is held")
    call.caller.send(PING, b"hello?")
    assert call.hear() == (True, PONG, b"hello?")
    call.close()


def test_with_no_pod_free_the_caller_waits_and_goes_on_with_the_first_that_is(world_of):
    world = world_of(agents=2, env={"HOLD_MAX_WAIT": "1m"})
    other = Call(world, "CA0").say_first()
    call = Call(world).say_first()
    call.agent.reset()
    held = "smart_router_gateway_held_streams 1"
    wait_until(lambda: held in world.router.get("/metrics").text and world.router.log_lines(HELD), "it waits")
    other.caller.send(CLOSE, close_payload(1000))
    call.next_agent()
    assert call.agent.head.get("x-call-resumed") == "1"
    call.expect_first().talk()
    metrics = world.router.get("/metrics").text
    assert "smart_router_gateway_rescues_total{result=\"waited\"} 1" in metrics
    # Its place in line is that of its first pod: that time is not how long the caller waited.
    assert "smart_router_wait_seconds_count{outcome=\"granted\"} 0" in metrics
    call.close()
    other.close()


def test_a_pod_whose_agent_failed_may_have_its_caller_back_if_there_is_no_other(world_of):
    world = world_of(agents=1, env={"HOLD_MAX_WAIT": "1m"})
    call = Call(world).say_first()
    call.agent.send(CLOSE, close_payload(1011))
    call.agent = world.agents[call.pod].accept()
    call.agents.append(call.agent)
    call.expect_first().talk()
    call.close()


def test_with_no_pod_free_and_nobody_waiting_the_stream_ends_as_after_every_break(world_of):
    world = world_of(agents=1, env={"GATEWAY_RELEASE_GRACE": "100ms"})
    call = Call(world).say_first()
    call.agent.send(CLOSE, close_payload(1011))
    assert call.hear()[1:] == (CLOSE, close_payload(1011, b"the agent is gone"))
    call.caller.send(CLOSE, close_payload(1011))
    call.caller.rest()
    wait_until(ended(world), "the grace is over")
    call.close()


def test_a_second_stream_of_a_call_keeps_both_from_being_rescued(world_of):
    world = world_of()
    call = Call(world).say_first()
    second = world.open(call.path)
    world.agents[call.pod].accept()
    call.agent.reset()
    call.caller.rest()
    assert world.call("CA1")["pod_name"] == call.pod
    second.close()
    call.close()


@pytest.mark.parametrize("how", ["close", "stop"])
def test_two_streams_of_a_call_that_both_end_on_purpose_end_it(world_of, how):
    """The grace is an hour."""
    world = world_of()
    call = Call(world)
    both = [(call.caller, call.agent), (world.open(call.path), world.agents[call.pod].accept())]
    said = (CLOSE, close_payload(1000)) if how == "close" else (TEXT, call.dialect.stop("CA1", call.stream_id).encode())
    for caller, _ in both:
        caller.send(*said)
    for _, agent in both:
        assert agent.receive() == (True, *said)
    wait_until(ended(world), "the call has ended")
    both[1][0].close()
    call.close()


@pytest.mark.parametrize("env", [{"RESCUE": "false"}, {"GATEWAY_SECRET": None}])
def test_without_rescue_or_tickets_everything_is_as_it_was(world_of, env):
    world = world_of(env={**env, "GATEWAY_RELEASE_GRACE": "100ms"})
    call = Call(world, headers=[("Sec-WebSocket-Extensions", "permessage-deflate")]).say_first()
    assert call.agent.head.get("sec-websocket-extensions") == "permessage-deflate"
    call.agent.send(CLOSE, close_payload(1011))
    assert call.hear() == (True, CLOSE, close_payload(1011))
    call.agent.reset()
    call.caller.rest()
    wait_until(ended(world), "the grace is over")
    call.close()


def test_extensions_are_not_offered_to_a_pod_whose_stream_may_go_on_elsewhere(world_of):
    world = world_of()
    call = Call(world, headers=[("Sec-WebSocket-Extensions", "permessage-deflate")]).say_first()
    assert call.agent.head.get("sec-websocket-extensions") is None
    assert call.agent.head.get("x-call-resumed") is None
    call.close()


def test_the_subprotocol_must_be_agreed_to_again(world_of):
    world = world_of(agents=3)
    for agent in world.agents.values():
        agent.subprotocol = "audio.v2"
    call = Call(world, headers=[("Sec-WebSocket-Protocol", "audio.v1, audio.v2")]).say_first()
    assert call.agent.head.get("sec-websocket-protocol") == "audio.v1, audio.v2"
    assert call.caller.head.get("sec-websocket-protocol") == "audio.v2"
    others = sorted(set(world.agents) - {call.pod})
    world.agents[others[0]].subprotocol = None
    world.agents[others[0]].is_manual = False
    call.agent.reset()
    wait_until(lambda: world.call("CA1")["pod_name"] == others[1] or world.pod(others[0])["is_draining"], "one of them was tried")
    wait_until(lambda: world.call("CA1")["pod_name"] == others[1], "the one that agrees has it")
    call.next_agent()
    assert call.agent.head.get("sec-websocket-protocol") == "audio.v2"
    call.expect_first().talk()
    call.close()


def test_a_pod_that_is_removed_loses_its_call_to_another_one(world_of):
    """By somebody else than the gateway: the store moves the call, and the stream follows."""
    world = world_of(agents=1, env={"POD_SOURCE": "api", "STATIC_PODS": None})
    address = f"127.0.0.2:{world.agent_port}"
    extra = streams.Agent("127.0.0.9", world.agent_port, True)
    try:
        world.router.post("/api/v1/pods", json={"pod_name": "voice-agent-0", "address": address})
        call = Call(world).say_first()
        world.agents["voice-agent-9"] = extra
        world.router.post("/api/v1/pods", json={"pod_name": "voice-agent-9", "address": f"127.0.0.9:{world.agent_port}"})
        call.talk()
        assert world.router.delete("/api/v1/pod/voice-agent-0").status_code == 200
        with pytest.raises(Closed):
            while True:
                fin, opcode, payload = call.agents[0].receive()
                assert (opcode, payload) == (CLOSE, close_payload(1001))
        call.next_agent()
        call.expect_first().talk()
        call.close()
    finally:
        extra.close()


def test_a_broken_pod_that_is_dead_is_put_aside_for_a_minute(world_of):
    world = world_of(agents=2)
    call = Call(world).say_first()
    first = call.pod
    world.agents[first].stop()
    call.agent.reset()
    call.next_agent()
    call.expect_first().talk()
    wait_until(lambda: world.router.log_lines("a pod broke its connection and cannot be reached: it is put aside"), "it was probed")
    call.close()


def test_close_codes_are_counted_by_side(world_of):
    world = world_of()
    call = Call(world).say_first()
    call.agent.send(CLOSE, close_payload(1011))
    call.next_agent()
    call.expect_first().talk()
    call.caller.send(CLOSE, close_payload(1001))
    wait_until(ended(world), "the call has ended")
    metrics = world.router.get("/metrics").text
    assert 'smart_router_gateway_close_codes_total{side="pod",code="1011"} 1' in metrics
    assert 'smart_router_gateway_close_codes_total{side="client",code="1001"} 1' in metrics
    call.close()


def test_a_start_that_is_too_large_to_be_kept_is_carried_but_not_rescued(world_of):
    world = world_of(env={"GATEWAY_RELEASE_GRACE": "100ms"})
    call = Call(world)
    start = json.loads(call.first[1])
    start["start"]["customParameters"]["huge"] = "h" * 20_000
    call.first[1] = json.dumps(start)
    call.say_first().talk()
    call.agent.reset()
    call.caller.rest()
    assert not world.router.log_lines("call moved: its pod broke its stream")
    wait_until(ended(world), "it ends as after every break")
    call.close()
