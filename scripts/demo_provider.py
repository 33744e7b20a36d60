"""demo_provider.py - Twilio's side of a call, for the callers of the demo: webhooks, media streams, and what is played.

A webhook's answer says where the stream of the call is, and what to ask when that stream has ended. Audio that comes is
"played": a mark behind it is sent back when its time is over, or at once when the audio is cleared.
"""
import asyncio
import base64
import json
import os
import re
import struct
import time
import urllib.parse

ANSWER_S = 10
BYTES_PER_S = 8000
TEXT, CLOSE, PING, PONG = 1, 8, 9, 10


class Refused(Exception):
    """The router has answered, but with an error."""

    def __init__(self, status, body):
        super().__init__(f"status {status}")
        self.status, self.body = status, body


class Busy(Exception):
    """The caller hears the busy message, and the call is over."""


class Client:
    """Requests to the router, each on a connection of its own."""

    def __init__(self, port, key):
        self.port, self.key = port, key

    async def ask(self, method, path, body=None, seconds=ANSWER_S):
        """The answer to a JSON request. OSError: the router is away. Refused: it said no."""
        data = json.dumps(body).encode() if body is not None else b""
        status, answer = await self._send(method, path, data, f"Authorization: Bearer {self.key}\r\n", seconds)
        try:
            answer = json.loads(answer)
        except ValueError as error:
            raise OSError("no answer") from error
        if status >= 400:
            raise Refused(status, answer)
        return status, answer

    async def webhook(self, path, seconds=ANSWER_S, **fields):
        """The text of the answer to a form."""
        data = urllib.parse.urlencode(fields).encode()
        kind = "Content-Type: application/x-www-form-urlencoded\r\n"
        status, answer = await self._send("POST", path, data, kind, seconds)
        if status != 200:
            raise Refused(status, answer)
        return answer.decode()

    async def _send(self, method, path, data, headers, seconds):
        try:
            return await asyncio.wait_for(self._exchange(method, path, data, headers), seconds)
        except (asyncio.TimeoutError, asyncio.IncompleteReadError, ValueError, IndexError) as error:
            raise OSError("no answer") from error

    async def _exchange(self, method, path, data, headers):
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {len(data)}\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(f"{head}{headers}\r\n".encode() + data)
            status = int((await reader.readuntil(b"\r\n\r\n")).split()[1])
            return status, await reader.read()
        finally:
            writer.close()


class Answer:
    """What a webhook's answer says."""

    def __init__(self, twiml):
        unescaped = twiml.replace("&amp;", "&")
        find = lambda pattern: (found := re.search(pattern, unescaped)) and found[1]
        self.stream = find(r'<Stream[^>]* url="([^"]+)"')
        self.after = self.path_of(find(r'<Connect action="([^"]+)"'))
        self.redirect = self.path_of(find(r"<Redirect[^>]*>([^<]+)<"))
        self.pause_s = float(find(r'<Pause length="(\d+)"') or 0)

    @staticmethod
    def path_of(url):
        parts = urllib.parse.urlsplit(url or "")
        return f"{parts.path}?{parts.query}" if parts.path else None


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
        """The next text; None: the other side has closed."""
        while True:
            first, size = await self.reader.readexactly(2)
            if size >= 126:
                size = int.from_bytes(await self.reader.readexactly(2 if size == 126 else 8), "big")
            payload = await self.reader.readexactly(size)
            if first & 15 == PING:
                self.send(PONG, payload)
            elif first & 15 == CLOSE:
                return None
            elif first & 15 == TEXT:
                return payload

    def close(self):
        self.writer.close()


class Media:
    """Twilio's messages on a stream, for one call. `on_audio` gets every piece of audio that is to be played."""

    def __init__(self, stream, call_sid, on_audio):
        self.stream, self.call_sid, self.on_audio = stream, call_sid, on_audio
        self.stream_sid = f"MZ{call_sid}"
        self.number = 0
        self.played_at = 0.0  # when all that came will have been played
        self.marks = {}  # name: its timer

    def _say(self, event, **members):
        self.number += 1
        message = {"event": event, "sequenceNumber": str(self.number), "streamSid": self.stream_sid, **members}
        self.stream.send(TEXT, json.dumps(message).encode())

    def begin(self):
        self.stream.send(TEXT, b'{"event":"connected","protocol":"Call","version":"1.0.0"}')
        kind = {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1}
        self._say("start", start={"streamSid": self.stream_sid, "callSid": self.call_sid, "accountSid": "AC1", "tracks": ["inbound"],
                                  "customParameters": {}, "mediaFormat": kind})  # fmt: skip

    def speak(self, chunk, audio):
        payload = base64.b64encode(audio).decode()
        self._say("media", media={"track": "inbound", "chunk": str(chunk), "timestamp": str(20 * chunk), "payload": payload})

    def end(self):
        self._clear()
        self._say("stop", stop={"accountSid": "AC1", "callSid": self.call_sid})
        self.stream.send(CLOSE, struct.pack("!H", 1000))

    async def listen(self):
        """Until the other side closes, or breaks off."""
        try:
            while (text := await self.stream.receive()) is not None:
                message = json.loads(text)
                if message.get("event") == "media":
                    self._play(base64.b64decode(message["media"]["payload"]))
                elif message.get("event") == "mark":
                    self._mark(message["mark"]["name"])
                elif message.get("event") == "clear":
                    self._clear()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            for timer in self.marks.values():
                timer.cancel()

    def _play(self, audio):
        self.played_at = max(self.played_at, time.monotonic()) + len(audio) / BYTES_PER_S
        self.on_audio(audio)

    def _mark(self, name):
        delay = max(0, self.played_at - time.monotonic())
        self.marks[name] = asyncio.get_running_loop().call_later(delay, self._send_mark, name)

    def _send_mark(self, name):
        self.marks.pop(name).cancel()
        self._say("mark", mark={"name": name})

    def _clear(self):
        self.played_at = 0.0
        for name in list(self.marks):
            self._send_mark(name)
