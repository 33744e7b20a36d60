"""demo_calls.py - the callers of the demo: each asks the router for an agent, talks to it through the router, and ends.

A caller sends a frame every 20 ms and checks that it comes back. If its stream breaks, it asks again for the same call,
as a client would, and goes on.
"""
import asyncio
import base64
import itertools
import json
import os
import struct
import time
import urllib.parse

FRAME_S = 0.02
FRAME = os.urandom(160)  # 20 ms of audio
ECHO_S = 5  # for the last frames of a call
COME_BACK_S = 20  # for a call whose stream broke
ANSWER_S = 10
CLOSE = 8


class Refused(Exception):
    """The router has answered, but with an error."""

    def __init__(self, status, body):
        super().__init__(f"status {status}")
        self.status, self.body = status, body


class Client:
    """JSON requests to the router, each on a connection of its own."""

    def __init__(self, port, key):
        self.port, self.key = port, key

    async def ask(self, method, path, body=None, seconds=ANSWER_S):
        """The answer. OSError: the router is away. Refused: it said no."""
        try:
            return await asyncio.wait_for(self._ask(method, path, body), seconds)
        except (asyncio.TimeoutError, asyncio.IncompleteReadError, ValueError, IndexError) as error:
            raise OSError("no answer") from error

    async def _ask(self, method, path, body):
        data = json.dumps(body).encode() if body is not None else b""
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {len(data)}\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(f"{head}Authorization: Bearer {self.key}\r\n\r\n".encode() + data)
            status = int((await reader.readuntil(b"\r\n\r\n")).split()[1])
            answer = json.loads(await reader.read())
        finally:
            writer.close()
        if status >= 400:
            raise Refused(status, answer)
        return status, answer


class Stream:
    """The provider's end of a WebSocket."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    @staticmethod
    async def open(url):
        parts = urllib.parse.urlsplit(url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [f"GET {parts.path} HTTP/1.1", f"Host: {parts.netloc}", "Upgrade: websocket", "Connection: Upgrade"]
        lines += [f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13", "", ""]
        writer.write("\r\n".join(lines).encode())
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), ANSWER_S)
            if head.split()[1] != b"101":
                raise OSError(f"the stream was refused: {head.split()[1].decode()}")
        except (asyncio.TimeoutError, asyncio.IncompleteReadError) as error:
            writer.close()
            raise OSError("the stream was not opened") from error
        return Stream(reader, writer)

    def send(self, opcode, payload):
        mask = os.urandom(4)
        size = len(payload)
        head = bytes([0x80 | opcode, 0x80 | size]) if size < 126 else struct.pack("!BBH", 0x80 | opcode, 0xFE, size)
        masked = int.from_bytes(payload, "big") ^ int.from_bytes((mask * (size // 4 + 1))[:size], "big")
        self.writer.write(head + mask + masked.to_bytes(size, "big"))

    async def receive(self):
        """Opcode and payload."""
        first, size = await self.reader.readexactly(2)
        if size == 126:
            (size,) = struct.unpack("!H", await self.reader.readexactly(2))
        return first & 15, await self.reader.readexactly(size)

    def close(self):
        self.writer.close()


class Call:
    """One call: what the table shows of it."""

    def __init__(self, number):
        self.sid = f"CA{number}"
        self.pod = None
        self.is_talking = False
        self.breaks = 0
        self.length = 0.7 + number % 4 * 0.2  # of the usual length: so that calls end one after the other


class Callers:
    """`wanted` callers at once. While `is_held`, nobody hangs up."""

    def __init__(self, client, slots, seconds, tell):
        self.client, self.slots, self.seconds, self.tell = client, slots, seconds, tell
        self.wanted, self.is_held, self.is_over = 0, False, False
        self.numbers = itertools.count(1)
        self.calls = {}
        self.placed = self.completed = self.recovered = self.lost_calls = 0
        self.sent = self.echoed = self.lost = self.cut = 0

    def talking(self):
        return [call for call in self.calls.values() if call.is_talking]

    async def run(self):
        await asyncio.gather(*(self._caller(slot) for slot in range(self.slots)))

    async def _caller(self, slot):
        while not self.is_over:
            if slot < self.wanted:
                await self._place(Call(next(self.numbers)))
            await asyncio.sleep(self.seconds / 20)

    async def _place(self, call):
        self.placed += 1
        self.calls[call.sid] = call
        try:
            await self._talk_until_over(call)
            self.completed += 1
        except (OSError, Refused) as error:
            self.lost_calls += 1
            self.tell("red", f"{call.sid} is lost: {error}")
        finally:
            del self.calls[call.sid]
        await self._release(call)

    async def _talk_until_over(self, call):
        while True:
            stream = await self._open(call)
            call.is_talking = True
            try:
                if await self._talk(call, stream):
                    return
            finally:
                call.is_talking = False
                stream.close()
            call.breaks += 1
            self.tell("yellow", f"{call.sid}: its stream to {call.pod} broke; the caller comes back")

    async def _open(self, call):
        """Asks until there is a stream. A call that broke has some time to come back."""
        began, before = time.monotonic(), call.pod
        while True:
            try:
                _, answer = await self.client.ask("POST", "/api/v1/allocate", {"call_sid": call.sid})
                call.pod = answer["pod_name"]
                stream = await Stream.open(answer["ws_url"])
                break
            except (OSError, Refused) as error:
                is_final = isinstance(error, Refused) and (call.breaks == 0 or error.status < 500)
                if is_final or time.monotonic() - began > COME_BACK_S:
                    raise
                await asyncio.sleep(0.1)
        if call.breaks == 0:
            self.tell("plain", f"{call.sid} gets {call.pod} ({answer['source_pool']})")
            return stream
        call.pod = await self._pod_of(call)
        how = "with the same agent" if call.pod == before else f"moved to {call.pod}"
        self.recovered += 1
        self.tell("green", f"{call.sid} goes on, {how}, {1000 * (time.monotonic() - began):.0f} ms after the break")
        return stream

    async def _pod_of(self, call):
        """The gateway may have moved the call while it opened the stream."""
        try:
            return (await self.client.ask("GET", f"/api/v1/call/{call.sid}"))[1]["pod_name"]
        except (OSError, Refused):
            return call.pod

    async def _talk(self, call, stream):
        """True: the call ended as it should. False: the stream broke."""
        counts = {"sent": 0, "echoed": 0}
        listener = asyncio.create_task(self._listen(stream, counts))
        try:
            is_whole = await self._speak(call, stream, counts, listener)
        finally:
            listener.cancel()
            missing = counts["sent"] - counts["echoed"]
        if is_whole:
            self.lost += missing
            stream.send(CLOSE, struct.pack("!H", 1000))
        else:
            self.cut += missing
        return is_whole

    async def _speak(self, call, stream, counts, listener):
        began = due = time.monotonic()
        seconds = self.seconds * call.length
        while self.is_held or (due - began < seconds and not self.is_over) or counts["sent"] == 0:
            if listener.done():
                return False
            stream.send(2, struct.pack("!Q", counts["sent"]) + FRAME)
            counts["sent"] += 1
            self.sent += 1
            due += FRAME_S
            await asyncio.sleep(max(0, due - time.monotonic()))
        call.is_talking = False  # it hangs up, whoever is held from now on
        end = time.monotonic() + ECHO_S
        while counts["echoed"] < counts["sent"] and time.monotonic() < end and not listener.done():
            await asyncio.sleep(FRAME_S)
        return not listener.done()

    async def _listen(self, stream, counts):
        """Ends when the stream does, or brings something else than what was sent."""
        try:
            while True:
                _, payload = await stream.receive()
                if payload != struct.pack("!Q", counts["echoed"]) + FRAME:
                    return
                counts["echoed"] += 1
                self.echoed += 1
        except (OSError, asyncio.IncompleteReadError):
            return

    async def _release(self, call):
        for _ in range(int(COME_BACK_S / 0.1)):
            try:
                await self.client.ask("POST", "/api/v1/release", {"call_sid": call.sid})
                break
            except Refused:
                break  # it has ended already
            except OSError:
                await asyncio.sleep(0.1)
        self.tell("dim", f"{call.sid} has ended")
