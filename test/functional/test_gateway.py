"""The WebSocket gateway as a carrier of bytes: what arrives at the pod, and what comes back.

All of it three times: straight into the router, through nginx in front of the router, and through nginx that finds the pods
by their DNS names. The last two use the configuration that is shipped in deploy/nginx.
"""

import asyncio
import hashlib
import os
import random
import threading

import pytest
import websockets
from conftest import wait_until
from streams import BEHIND_A_BALANCER, BINARY, CLOSE, CONTINUATION, HOST, PING, PONG, TEXT, Closed, accept_of, frame

FRONTS = ("router", "tls", "nginx", "nginx-dns")


@pytest.fixture(params=FRONTS)
def front(request):
    return request.param


@pytest.fixture
def pair(start_world, front):
    """A stream with both of its ends: the provider's and the agent's."""
    world = start_world(front, agents=1, is_manual=True)
    pod, path = world.place("CA1")
    with world.open(path) as provider, world.agents[pod].accept() as agent:
        yield provider, agent


def client(world, path, **kwargs):
    """A client of the websockets library, which checks all that a provider's would."""
    return websockets.connect(
        *(f"{'wss' if world.tls else 'ws'}://{HOST}{path}",),
        **{"host": "127.0.0.1", "port": world.port, "ssl": world.tls},
        **{"max_size": None, "open_timeout": 60, "ping_interval": None, **kwargs},
    )


# ----- The handshake -----


def test_the_pod_sees_the_path_without_its_prefix_and_the_headers_of_the_client(start_world, front):
    world = start_world(front, agents=1)
    pod, path = world.place("CA1", template="a b/c", flow="v2")
    headers = [("User-Agent", "TwilioProxy/1.1"), ("X-Twilio-Signature", "abc="), ("Cookie", "a=1; b=2")]
    headers += [("X-Twice", "1"), ("X-Twice", "2")]
    headers += [("Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits"), ("Origin", "https://example.com")]
    with world.open(path, headers=headers) as stream:
        assert stream.echoes()
        head = world.agents[pod].heads[-1]
        assert head.first == "GET /agent/voice/breeze-buddy/twilio/callback/a%20b%2Fc/v2 HTTP/1.1"
        assert head.get("upgrade") == "websocket"
        assert head.get("connection").lower() == "upgrade"
        assert head.get("sec-websocket-key") == stream.key
        assert head.get("sec-websocket-version") == "13"
        assert head.get("host") == HOST
        for name, value in headers[:3] + headers[5:]:
            assert head.get(name) == value
        assert [value for name, value in head.pairs if name == "x-twice"] == ["1", "2"]


def test_the_pod_learns_who_called_and_how(start_world, front):
    nginx = {"more": BEHIND_A_BALANCER}
    world = start_world(front, agents=1, env={"TRUSTED_PROXIES": "127.0.0.0/8,::1"}, nginx=nginx)
    pod, path = world.place("CA1")
    with world.open(path, headers=[("X-Forwarded-For", "203.0.113.9")]) as stream:
        assert stream.echoes()
        head = world.agents[pod].heads[-1]
        seen = [part.strip() for part in head.get("x-forwarded-for").split(",")]
        assert seen == (["203.0.113.9"] if front == "nginx-dns" else ["203.0.113.9", "127.0.0.1"])
        assert head.get("x-forwarded-proto") == ("https" if world.tls else "http")
        assert head.get("x-forwarded-host") == HOST


def test_the_pod_hears_nothing_from_a_proxy_that_nobody_trusts(start_world):
    world = start_world(agents=1, env={"TRUSTED_PROXIES": "203.0.113.0/24"})
    pod, path = world.place("CA1")
    said = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil.example.com"}
    with world.open(path, headers=list(said.items())) as stream:
        assert stream.echoes()
        head = world.agents[pod].heads[-1]
        assert head.get("x-forwarded-for") == "127.0.0.1"
        assert head.get("x-forwarded-proto") == "http"
        assert head.get("x-forwarded-host") == HOST


def test_the_client_sees_the_answer_of_the_pod(start_world, front):
    world = start_world(front, agents=1)
    pod, path = world.place("CA1")
    world.agents[pod].subprotocol = "audio.v2"
    with world.open(path, headers=[("Sec-WebSocket-Protocol", "audio.v1, audio.v2")]) as stream:
        assert stream.head.first == "HTTP/1.1 101 Switching Protocols"
        assert stream.head.get("sec-websocket-accept") == accept_of(stream.key)
        assert stream.head.get("sec-websocket-protocol") == "audio.v2"
        assert stream.head.get("x-agent") == "sim"
        assert stream.head.get("upgrade") == "websocket"
        assert stream.head.get("connection").lower() == "upgrade"
        assert world.agents[pod].heads[-1].get("sec-websocket-protocol") == "audio.v1, audio.v2"


def test_query_and_escapes_reach_the_pod_as_they_were_sent(start_world, front):
    world = start_world(front, agents=1)
    pod, _ = world.place("CA1")
    rest = "/a%2Fb/%E2%82%AC//c;d=1?x=1&y=%20&z"
    with world.open(f"/ws/pod/{pod}{rest}") as stream:
        assert stream.echoes()
        assert world.agents[pod].heads[-1].path == rest


def test_what_is_sent_together_with_the_handshake_is_not_lost(start_world, front):
    world = start_world(front, agents=1)
    pod, path = world.place("CA1")
    world.agents[pod].greeting = frame(TEXT, b"hello from the pod")
    with world.open(path, early=frame(TEXT, b"early", mask=b"abcd")) as stream:
        assert stream.receive() == (True, TEXT, b"hello from the pod")
        assert stream.receive() == (True, TEXT, b"early")
        assert stream.echoes()


@pytest.mark.parametrize("status", ("403 Forbidden", "404 Not Found", "500 Internal Server Error", "503 Service Unavailable"))
def test_what_the_pod_refuses_is_refused_with_its_words(start_world, front, status):
    world = start_world(front, agents=1)
    pod, path = world.place("CA1")
    body = b'{"why":"I do not like this call"}'
    lines = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nX-Agent: sim\r\nContent-Length: {len(body)}\r\n\r\n"
    world.agents[pod].refusal = lines.encode() + body
    with world.connect(path) as stream:
        assert stream.head.first == f"HTTP/1.1 {status}"
        assert stream.head.get("x-agent") == "sim"
        assert stream.body() == body
    assert world.call("CA1")["pod_name"] == pod


# ----- Bytes -----


def test_bytes_pass_as_they_are_in_both_directions_at_once(pair):
    there, back = os.urandom(6_000_000), os.urandom(6_000_000)
    senders = [
        threading.Thread(target=pair[0].send_bytes, args=(there,), daemon=True),
        threading.Thread(target=pair[1].send_bytes, args=(back,), daemon=True),
    ]
    got = []
    reader = threading.Thread(target=lambda: got.append(pair[1].exactly(len(there))), daemon=True)
    for thread in (*senders, reader):
        thread.start()
    came_back = pair[0].exactly(len(back))
    reader.join(60)
    assert hashlib.sha256(came_back).digest() == hashlib.sha256(back).digest()
    assert hashlib.sha256(got[0]).digest() == hashlib.sha256(there).digest()


def test_single_bytes_pass_at_once_without_waiting_for_more(pair):
    for number in range(256):
        pair[0].send_bytes(bytes([number]))
        assert pair[1].exactly(1) == bytes([number])
        pair[1].send_bytes(bytes([255 - number]))
        assert pair[0].exactly(1) == bytes([255 - number])


def test_nothing_is_made_of_bytes_that_are_no_frames(pair):
    nonsense = b"GET /health HTTP/1.1\r\n\r\n\xff\xff\xff\xff\x00PRI * HTTP/2.0\r\n\r\n"
    pair[0].send_bytes(nonsense)
    assert pair[1].exactly(len(nonsense)) == nonsense
    pair[1].send_bytes(nonsense)
    assert pair[0].exactly(len(nonsense)) == nonsense


def test_pings_and_pongs_reach_the_other_end_and_nobody_answers_for_it(pair):
    provider, agent = pair
    provider.send(PING, b"are you there")
    assert agent.receive() == (True, PING, b"are you there")
    agent.send(PING, b"and you?")
    assert provider.receive() == (True, PING, b"and you?")
    provider.send(PONG, b"unasked")
    provider.send(TEXT, b"after")
    assert agent.receive() == (True, PONG, b"unasked")
    assert agent.receive() == (True, TEXT, b"after")
    agent.send(PONG, b"are you there")
    assert provider.receive() == (True, PONG, b"are you there")


def test_fragments_stay_fragments_with_a_ping_between_them(pair):
    provider, agent = pair
    frames = [(False, TEXT, b"one "), (True, PING, b"!"), (False, CONTINUATION, b"")]
    frames += [(False, CONTINUATION, b"two "), (True, CONTINUATION, b"three")]
    for fin, opcode, payload in frames:
        provider.send(opcode, payload, fin)
    assert [agent.receive() for _ in frames] == frames
    for fin, opcode, payload in frames:
        agent.send(opcode, payload, fin)
    assert [provider.receive() for _ in frames] == frames


@pytest.mark.parametrize("size", (0, 1, 125, 126, 127, 65535, 65536, 1 << 20, (8 << 20) + 3))
def test_frames_of_any_size_pass(pair, size):
    payload = random.Random(size).randbytes(size)
    provider, agent = pair
    sender = threading.Thread(target=provider.send, args=(BINARY, payload), daemon=True)
    sender.start()
    assert agent.receive() == (True, BINARY, payload)
    sender.join(60)
    sender = threading.Thread(target=agent.send, args=(TEXT, payload), daemon=True)
    sender.start()
    assert provider.receive() == (True, TEXT, payload)
    sender.join(60)


def test_a_close_of_either_side_reaches_the_other_with_its_code_and_reason(pair):
    provider, agent = pair
    agent.send(CLOSE, b"\x0f\xa1call over")
    assert provider.receive() == (True, CLOSE, b"\x0f\xa1call over")
    provider.send(CLOSE, b"\x0f\xa1call over")
    assert agent.receive() == (True, CLOSE, b"\x0f\xa1call over")
    agent.close()
    with pytest.raises(Closed):
        provider.receive()


def test_a_reset_of_the_client_reaches_the_pod(pair):
    provider, agent = pair
    provider.send(TEXT, b"last words")
    assert agent.receive() == (True, TEXT, b"last words")
    provider.reset()
    with pytest.raises(Closed):
        agent.receive()


def test_a_reset_of_the_pod_reaches_the_client(pair):
    provider, agent = pair
    agent.reset()
    with pytest.raises(Closed):
        provider.receive()


def test_what_was_sent_before_the_end_arrives_before_the_end(pair):
    """A pod that says much and leaves: a slow client still gets all of it."""
    provider, agent = pair
    data = os.urandom(3_000_000)

    def say_and_leave():
        agent.send_bytes(data)
        agent.close()

    speaker = threading.Thread(target=say_and_leave, daemon=True)
    speaker.start()
    got = provider.exactly(len(data))
    speaker.join(60)
    assert hashlib.sha256(got).digest() == hashlib.sha256(data).digest()
    with pytest.raises(Closed):
        provider.receive()


def test_a_client_that_sends_no_more_still_hears_the_pod(start_world):
    """Half-close, which nginx does not know: it closes both ways. Only the router's own gateway carries it."""
    world = start_world("router", agents=1, is_manual=True)
    pod, path = world.place("CA1")
    with world.open(path) as provider, world.agents[pod].accept() as agent:
        provider.send(TEXT, b"that was all")
        provider.half_close()
        assert agent.receive() == (True, TEXT, b"that was all")
        with pytest.raises(Closed):
            agent.receive()
        data = os.urandom(1_000_000)
        speaker = threading.Thread(target=lambda: (agent.send(BINARY, data), agent.close()), daemon=True)
        speaker.start()
        assert provider.receive() == (True, BINARY, data)
        speaker.join(60)
        with pytest.raises(Closed):
            provider.receive()


def test_a_pod_that_sends_no_more_still_hears_the_client(start_world):
    world = start_world("router", agents=1, is_manual=True)
    pod, path = world.place("CA1")
    with world.open(path) as provider, world.agents[pod].accept() as agent:
        agent.send(TEXT, b"that was all")
        agent.half_close()
        assert provider.receive() == (True, TEXT, b"that was all")
        with pytest.raises(Closed):
            provider.receive()
        provider.send(TEXT, b"thank you")
        assert agent.receive() == (True, TEXT, b"thank you")
        provider.close()
        with pytest.raises(Closed):
            agent.receive()


# ----- A library as the judge -----


def test_a_whole_conversation_as_a_library_sees_it(start_world, front):
    world = start_world(front, agents=1)
    pod, path = world.place("CA1")
    world.agents[pod].subprotocol = "audio"

    async def talk():
        async with client(world, path, subprotocols=["audio", "video"]) as ws:
            assert ws.subprotocol == "audio"
            for message in ("", "text äöü €", b"", b"\x00\xff" * 1000, b"x" * 3_000_000):
                await ws.send(message)
                assert await ws.recv() == message
            await ws.send(part for part in ("frag", "men", "ted"))
            assert await ws.recv() == "fragmented"
            await asyncio.wait_for(await ws.ping(b"payload"), 60)
            await ws.close(4001, "done")
            assert (ws.close_code, ws.close_reason) == (4001, "done")

    asyncio.run(talk())


def test_many_streams_at_once_do_not_mix(start_world, front):
    world = start_world(front, agents=1, tiers={"basic": {"type": "shared", "target": 1, "max_concurrent": 100}})
    paths = [world.place(f"CA{number}")[1] for number in range(60)]

    async def one(number, path):
        async with client(world, path) as ws:
            for step in range(30):
                message = f"{number} {step} " * (1 + step * 7)
                await ws.send(message)
                assert await ws.recv() == message

    async def all_of_them():
        await asyncio.gather(*(one(number, path) for number, path in enumerate(paths)))

    asyncio.run(all_of_them())
    wait_until(lambda: len(world.agents["voice-agent-0"].heads) == 60, "every stream reached the pod")
