"""Many voice agents and many providers in one thread, and the truth about which call talks on which pod.

Each pod is a WebSocket server on a port of its own. It can take its time for the handshake, refuse it, or never answer.
Providers send a frame every now and then, and the agents send it back. A call *talks* on a pod from the 101 that the agent has
sent until the agent has read the end of the connection. The call is named by the path: /talk/{call_sid}.

Two different calls that talk on one pod, and both send frames after more than a short tolerance, are a violation. It is
told with its story: which calls, since when, through which routers, and what happened on that pod and to the store before.
"""

import asyncio
import collections
import json
import os
import threading
import time
from urllib.parse import unquote

from streams import BINARY, CLOSE, PING, PONG, accept_of, frame, unmask

PATIENCE_S = 30
TEMPLATE = "{base}/ws/pod/{pod}/talk/{call_sid}"
SECRET = "a-secret-of-these-tests-that-is-long-enough"  # without tickets a late stream may be taken for the pod's next call
NO_MASK = b"\0\0\0\0"
STORY_EVENTS = 30
REFUSAL = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def frames_of(data):
    """([(opcode, payload)], what is left of the data)."""
    found, at = [], 0
    while len(data) - at >= 2:
        size, head = data[at + 1] & 0x7F, 2
        if size == 126:
            size, head = int.from_bytes(data[at + 2 : at + 4], "big"), 4
        elif size == 127:
            size, head = int.from_bytes(data[at + 2 : at + 10], "big"), 10
        is_masked = data[at + 1] & 0x80
        end = at + head + (4 if is_masked else 0) + size
        if len(data) < end:
            break
        payload = data[end - size : end]
        if is_masked:
            mask = data[at + head : at + head + 4]
            payload = payload if mask == NO_MASK else unmask(payload, mask)
        found.append((data[at] & 15, payload))
        at = end
    return found, data[at:]


class Pod:
    """A voice agent. `handshake_s`: how long it takes to answer, or a function that says so; None: for ever."""

    def __init__(self, name):
        self.name = name
        self.port = None
        self.handshake_s = 0
        self.refusal = None  # the whole answer to each handshake, instead of 101
        self.talks = set()
        self.handshakes = 0  # how many it was asked for


class AgentEnd(asyncio.Protocol):
    """One connection of a pod."""

    def __init__(self, talkers, pod):
        self.talkers, self.pod = talkers, pod
        self.transport = self.timer = None
        self.data = b""
        self.call_sid = self.via = self.key = ""
        self.is_accepted = False
        self.since = self.heard_at = 0

    def connection_made(self, transport):
        self.transport = transport
        self.talkers.transports.add(transport)

    def data_received(self, data):
        self.data += data
        if not self.is_accepted:
            if not self.key and b"\r\n\r\n" in self.data:
                self.read_head()
            return
        found, self.data = frames_of(self.data)
        for opcode, payload in found:
            self.take(opcode, payload)

    def read_head(self):
        head, _, self.data = self.data.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        path, _, self.via = lines[0].split(" ")[1].partition("?via=")
        self.call_sid = unquote(path.rpartition("/talk/")[2])
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        self.key = headers.get("sec-websocket-key", "none")
        self.pod.handshakes += 1
        delay = self.pod.handshake_s() if callable(self.pod.handshake_s) else self.pod.handshake_s
        if delay is not None:
            self.timer = self.talkers.loop.call_later(delay, self.answer)

    def answer(self):
        if self.transport.is_closing():
            return
        if self.pod.refusal:
            self.transport.write(self.pod.refusal)
            self.transport.close()
            return
        lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"]
        lines.append(f"Sec-WebSocket-Accept: {accept_of(self.key)}")
        self.transport.write("\r\n".join(lines + ["", ""]).encode())
        self.is_accepted = True
        self.since = time.monotonic()
        self.pod.talks.add(self)
        self.talkers.note(f"{self.call_sid} begins to talk", self.pod.name, self.via)
        self.data_received(b"")

    def take(self, opcode, payload):
        if opcode == CLOSE:
            self.transport.write(frame(CLOSE, payload))
            self.transport.close()
            self.end("a close frame")
        elif opcode == PING:
            self.transport.write(frame(PONG, payload))
        elif opcode == BINARY:
            self.heard_at = time.monotonic()
            self.transport.write(frame(BINARY, payload))
            if len(self.pod.talks) > 1 and self in self.pod.talks:
                self.talkers.look_at(self)

    def end(self, how):
        if self in self.pod.talks:
            self.pod.talks.remove(self)
            self.talkers.note(f"{self.call_sid} ends with {how}", self.pod.name, self.via)

    def eof_received(self):
        self.end("its end")

    def connection_lost(self, error):
        self.talkers.transports.discard(self.transport)
        if self.timer:
            self.timer.cancel()
        self.end("a reset" if error else "its end")


class Stream(asyncio.Protocol):
    """The provider's end."""

    def __init__(self, talkers, call_sid, path, via):
        self.talkers, self.call_sid, self.path, self.via = talkers, call_sid, path, via
        self.transport = None
        self.data = b""
        self.status = None  # of the handshake's answer; 0: there was none
        self.body, self.size = b"", -1
        self.echoes = 0
        self.ended_by_us = False
        self.close_code = None
        self.answered, self.closed = threading.Event(), threading.Event()

    # In the loop.

    def connection_made(self, transport):
        self.transport = transport
        self.talkers.transports.add(transport)
        key = "dGhlIHNhbXBsZSBub25jZQ=="
        lines = [f"GET {self.path}?via={self.via} HTTP/1.1", "Host: voice.example.com", "Upgrade: websocket"]
        lines += ["Connection: Upgrade", f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13"]
        transport.write("\r\n".join(lines + ["", ""]).encode())

    def data_received(self, data):
        self.data += data
        if self.status is None:
            if b"\r\n\r\n" not in self.data:
                return
            head, _, self.data = self.data.partition(b"\r\n\r\n")
            self.status = int(head.split(b" ", 2)[1])
            self.size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or -1)
            if self.status == 101:
                self.talkers.streams.append(self)
                self.answered.set()
        if self.status != 101:
            self.body += self.data
            self.data = b""
            if len(self.body) == self.size:
                self.transport.close()
            return
        found, self.data = frames_of(self.data)
        for opcode, payload in found:
            if opcode == BINARY:
                self.echoes += 1
            elif opcode == CLOSE:
                self.close_code = int.from_bytes(payload[:2], "big") if len(payload) >= 2 else 1005
                self.transport.write(frame(CLOSE, payload, mask=NO_MASK))
                self.transport.close()

    def connection_lost(self, _):
        self.talkers.transports.discard(self.transport)
        if self.status is None:
            self.status = 0
        if self.status == 101:
            self.talkers.streams.remove(self)
            if not self.ended_by_us and not self.talkers.is_closing:
                self.talkers.note(f"the provider of {self.call_sid} is cut off", via=self.via)
                self.talkers.cut_off.append(self)
        self.closed.set()
        self.answered.set()

    def say(self):
        if not self.transport.is_closing():
            self.transport.write(frame(BINARY, b"hello", mask=NO_MASK))

    def hang_up(self, how):
        self.ended_by_us = True
        if how == "frame":
            self.transport.write(frame(CLOSE, b"\x03\xe8", mask=NO_MASK))  # the other side ends the connection
        elif how == "reset":
            self.transport.abort()
        else:
            self.transport.close()

    # In any thread.

    @property
    def is_open(self):
        return self.status == 101 and not self.closed.is_set()

    def wait_open(self):
        assert self.answered.wait(PATIENCE_S), f"no answer to the handshake of {self.call_sid}"
        assert self.status == 101, f"{self.call_sid}: {self.status} {self.body!r}"
        self.wait_echo()
        return self

    def wait_answer(self):
        assert self.answered.wait(PATIENCE_S), f"no answer to the handshake of {self.call_sid}"
        return self.status

    def wait_echo(self, count=1):
        """So many more frames there and back; False if the stream is closed first."""
        wanted, end = self.echoes + count, time.monotonic() + PATIENCE_S
        while self.echoes < wanted:
            if not self.is_open:
                return False
            assert time.monotonic() < end, f"{self.call_sid} is open and nobody answers"
            time.sleep(0.01)
        return True

    def close(self, how="end"):
        """how: "end", without a close frame; "frame", with one; "reset"."""
        self.talkers.do(self.hang_up, how)
        assert self.closed.wait(PATIENCE_S), f"{self.call_sid} is not closed"


class Talkers:
    """All of it. `violations` are the stories of what must not be; `cut_off` the streams that providers did not end."""

    def __init__(self, pods=1, interval_s=0.1, tolerance_s=1.0, first=0):
        self.pods = {f"agent-{i}": Pod(f"agent-{i}") for i in range(first, first + pods)}
        self.interval_s, self.tolerance_s = interval_s, tolerance_s
        self.servers, self.transports = [], set()
        self.is_closing = False
        self.streams = []
        self.cut_off = []
        self.violations = []
        self.pairs = set()  # that were told
        self.events = collections.deque(maxlen=100000)
        self.began = time.monotonic()
        self.turn = 0
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.do(self.start)

    @property
    def env(self):
        """What a router needs to know of the pods."""
        return {
            "STATIC_PODS": ",".join(f"{pod.name}=127.0.0.1:{pod.port}" for pod in self.pods.values()),
            "TIER_CONFIG": json.dumps({"gold": {"type": "exclusive", "target": len(self.pods)}}),
            "WS_URL_TEMPLATE": TEMPLATE,
            "GATEWAY_SECRET": SECRET,
        }

    def do(self, function, *args):
        """Runs it in the loop; returns what it returns."""

        async def run():
            found = function(*args)
            return await found if asyncio.iscoroutine(found) else found

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(PATIENCE_S + 60)

    async def start(self):
        for pod in self.pods.values():
            server = await self.loop.create_server(lambda pod=pod: AgentEnd(self, pod), "127.0.0.1", 0, backlog=256)
            self.servers.append(server)
            pod.port = server.sockets[0].getsockname()[1]
        self.loop.call_later(self.interval_s / 5, self.tick)

    def tick(self):
        """A fifth of the providers says something."""
        self.turn = (self.turn + 1) % 5
        for stream in self.streams[self.turn :: 5]:
            stream.say()
        self.loop.call_later(self.interval_s / 5, self.tick)

    def note(self, text, pod="", via=""):
        """For the stories."""
        self.events.append((time.monotonic() - self.began, pod, f"{text}, via {via}" if via else text))

    def look_at(self, talk):
        for other in talk.pod.talks:
            begin = max(talk.since, other.since) + self.tolerance_s
            pair = (*sorted((talk.call_sid, other.call_sid)), talk.pod.name)
            if other.call_sid != talk.call_sid and min(talk.heard_at, other.heard_at) > begin and pair not in self.pairs:
                self.pairs.add(pair)
                self.violations.append(self.story(talk, other))

    def story(self, *talks):
        pod = talks[0].pod.name
        who = " and ".join(f"{t.call_sid} (via {t.via}, since {t.since - self.began:.2f} s)" for t in talks)
        told = [f"  {at:8.2f} s  {text}" for at, where, text in self.events if where in (pod, "")]
        now = time.monotonic() - self.began
        return "\n".join([f"{who} talk on {pod} at {now:.2f} s", *told[-STORY_EVENTS:]])

    def talking(self, pod):
        """The calls that talk on it now."""
        return self.do(lambda: {talk.call_sid for talk in self.pods[pod].talks})

    def all_talking(self):
        """pod -> the calls that talk on it now"""
        return self.do(lambda: {pod.name: {talk.call_sid for talk in pod.talks} for pod in self.pods.values()})

    def open(self, router, answer, wait=True):
        """The provider's stream for an allocation's answer, or a path. With wait=False the handshake may go on."""
        url = answer if isinstance(answer, str) else answer["ws_url"]
        path = url[url.index("/", url.index("://") + 3) :] if "://" in url else url
        return self.connect(router.port, path, router.log_path.name.replace("log-", "router-"), wait)

    def open_direct(self, call_sid, pod, wait=True):
        """A provider that a proxy brings straight to the pod; no router sees it."""
        return self.connect(self.pods[pod].port, f"/talk/{call_sid}", "nobody", wait)

    def connect(self, port, path, via, wait=True):
        stream = Stream(self, unquote(path.rpartition("/")[2]), path, via)
        self.do(self.loop.create_connection, lambda: stream, "127.0.0.1", port)
        return stream.wait_open() if wait else stream

    def ask_all(self, requests, reads=True):
        """All at once, each on a connection of its own: (port, method, path, body) -> [(status, JSON)], (None, None) without an
        answer. With reads=False the clients are gone as soon as they have asked."""

        async def ask(port, method, path, body):
            data = json.dumps(body).encode() if body is not None else b""
            head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n"
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(head.encode() + data)
                await writer.drain()
                text = await asyncio.wait_for(reader.read(), PATIENCE_S) if reads else b""
                writer.close()
                if not reads:
                    return (None, None)
                first, _, answer = text.partition(b"\r\n\r\n")
                return int(first.split(b" ", 2)[1]), json.loads(answer)
            except (OSError, ValueError, IndexError, asyncio.TimeoutError):
                return (None, None)

        async def ask_each():
            return await asyncio.gather(*(ask(*request) for request in requests))

        return self.do(ask_each)

    def expect_no_violation(self):
        assert self.violations == [], "\n\n".join(self.violations)

    async def finish(self):
        self.is_closing = True
        for one in [*self.servers, *self.transports]:
            one.close()
        await asyncio.sleep(0.05)  # for the ends of connections

    def close(self):
        self.do(self.finish)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive()
        self.loop.close()


def setting(name, short):
    """A number from the environment, for campaigns; `make test` takes the short one."""
    return float(os.environ.get(name) or short)
