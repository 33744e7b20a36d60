"""What the simulators know about waiting: provider-sim with a scripted router that holds, resumes and hangs up;
agent-sim that breaks and comes back."""

import asyncio
import base64
import contextlib
import hashlib
import http.server
import json
import signal
import subprocess
import threading
import urllib.parse

import pytest
import websockets
from conftest import DEADLINE_S, SANITIZER_REPORTS, wait_until
from simulators import PAYLOAD, STARTS, TOOLS, provide

CLIP = bytes(range(256)) * 20  # 640 ms of mu-law, 320 ms of PCM

WORDS = {
    "twilio": {
        "play": lambda clip: {"event": "media", "streamSid": "S", "media": {"payload": clip}},
        "mark": lambda name: {"event": "mark", "streamSid": "S", "mark": {"name": name}},
        "clear": {"event": "clear", "streamSid": "S"},
        "name": lambda message: message["mark"]["name"],
        "played": "mark",
    },
    "plivo": {
        "play": lambda clip: {
            "event": "playAudio",
            "media": {"contentType": "audio/x-mulaw", "sampleRate": 8000, "payload": clip},
        },
        "mark": lambda name: {"event": "checkpoint", "streamId": "S", "name": name},
        "clear": {"event": "clearAudio", "streamId": "S"},
        "name": lambda message: message["name"],
        "played": "playedStream",
    },
    "exotel": {
        "play": lambda clip: {"event": "media", "stream_sid": "S", "media": {"payload": clip}},
        "mark": lambda name: {"event": "mark", "stream_sid": "S", "mark": {"name": name}},
        "clear": {"event": "clear", "stream_sid": "S"},
        "name": lambda message: message["mark"]["name"],
        "played": "mark",
    },
}


class Stream:
    """The router's end of one stream, as a script reads and writes it."""

    def __init__(self, socket, provider):
        self.socket = socket
        self.words = WORDS[provider]

    async def say(self, message):
        await self.socket.send(json.dumps(message))

    async def play(self, name):
        await self.say(self.words["play"](base64.b64encode(CLIP).decode()))
        await self.say(self.words["mark"](name))

    async def hear(self, event):
        """The next message of that kind; others are passed over."""
        async for text in self.socket:
            message = json.loads(text)
            if message["event"] == event:
                return message
        raise EOFError

    async def heard_mark(self):
        return self.words["name"](await self.hear(self.words["played"]))

    async def echo(self):
        """Repeats all audio until the caller hangs up."""
        with contextlib.suppress(websockets.ConnectionClosed):
            async for text in self.socket:
                message = json.loads(text)
                if message["event"] == "media":
                    await self.say(self.words["play"](message["media"]["payload"]))


@contextlib.asynccontextmanager
async def serve(script, provider):
    """A WebSocket server that follows the script; yields its port. Its faults are the test's."""
    faults = []

    async def run(socket, path):
        try:
            await script(Stream(socket, provider), path)
        except Exception as fault:  # pylint: disable=broad-except
            faults.append(fault)
            raise

    async with websockets.serve(run, "127.0.0.1", 0, compression=None, max_size=None) as server:
        yield server.sockets[0].getsockname()[1]
    assert not faults, faults


class Webhooks:
    """An HTTP server whose answers a test writes; remembers what it was asked."""

    def __init__(self, answer):
        asked = self.asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()
                form = json.loads(body) if body.startswith("{") else dict(urllib.parse.parse_qsl(body))
                asked.append((self.path, form, dict(self.headers)))
                status, text = answer(self.path, form)
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def paths(self):
        return [path for path, _, _ in self.asked]


@pytest.fixture
def webhooks():
    started = []

    def start(answer):
        started.append(Webhooks(answer))
        return started[-1]

    yield start
    for each in started:
        each.server.shutdown()
        each.server.server_close()


def journal(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def call(*arguments):
    return await asyncio.to_thread(provide, *arguments)


@pytest.mark.parametrize("provider", WORDS)
def test_a_held_caller_hears_what_is_played_and_then_the_agent(provider, tmp_path):
    marks = []

    async def script(stream, path):
        assert path == "/ws/hold/x"
        await stream.hear("start")
        await stream.play("sr-hold-1")
        await stream.play("sr-hold-2")
        marks.append(await stream.heard_mark())  # after it was played
        await stream.say(stream.words["clear"])
        if provider == "plivo":
            marks.append((await stream.hear("clearedAudio"))["event"])
        else:
            marks.append(await stream.heard_mark())
        await stream.echo()

    async def run():
        async with serve(script, provider) as port:
            ask = ("--ws-url", f"ws://127.0.0.1:{port}/ws/hold/x", "--provider", provider, "--seconds", 0.4)
            return await call(*ask, "--journal", tmp_path / "journal")

    status, summary = asyncio.run(run())
    assert status == 0, summary
    assert marks == ["sr-hold-1", "clearedAudio" if provider == "plivo" else "sr-hold-2"]
    assert (summary["held"], summary["granted"], summary["completed"]) == (1, 1, 1)
    assert (summary["frames_lost"], summary["frames_echoed"]) == (0, 20)  # what it said meanwhile is not missed
    assert summary["frames_skipped"] == summary["frames_sent"] - 20 > 0
    assert (summary["clears"], summary["echoes_behind_hold"]) == (1, 0)
    hold, ended = journal(tmp_path / "journal")
    assert (hold["event"], hold["has_waited"], hold["messages"]) == ("hold_ended", True, 2)
    assert hold["bytes"] == 2 * len(CLIP)
    assert hold["sha256"] == hashlib.sha256(2 * CLIP).hexdigest()
    assert 0 < hold["unplayed_bytes"] <= len(CLIP)  # the second round was cleared
    assert (ended["event"], ended["outcome"]) == ("call", "completed")


def test_an_agent_that_is_heard_behind_the_clip_is_noticed():
    async def script(stream, _):
        await stream.hear("start")
        await stream.play("sr-hold-1")
        await stream.echo()

    async def run():
        async with serve(script, "twilio") as port:
            return await call("--ws-url", f"ws://127.0.0.1:{port}/ws/hold/x", "--provider", "twilio", "--seconds", 0.1)

    status, summary = asyncio.run(run())
    assert (status, summary["echoes_behind_hold"], summary["clears"]) == (0, 1, 0)


def test_a_caller_without_patience_hangs_up():
    heard = []

    async def script(stream, _):
        await stream.play("sr-hold-1")
        heard.append((await stream.hear("stop"))["event"])
        await stream.socket.wait_closed()
        heard.append(stream.socket.close_code)

    async def run():
        async with serve(script, "twilio") as port:
            ask = ("--ws-url", f"ws://127.0.0.1:{port}/ws/hold/x", "--provider", "twilio", "--patience", 0.2)
            return await call(*ask)

    status, summary = asyncio.run(run())
    assert (status, summary["abandoned"], summary["failed"], summary["completed"]) == (0, 1, 0, 0), summary
    assert heard == ["stop", 1000]


def test_a_mute_caller_says_nothing_while_it_is_held():
    async def script(stream, _):
        await stream.play("sr-hold-1")
        assert await stream.heard_mark() == "sr-hold-1"
        await stream.socket.close()

    async def run():
        async with serve(script, "twilio") as port:
            return await call("--ws-url", f"ws://127.0.0.1:{port}/ws/hold/x", "--provider", "twilio", "--mute")

    _, summary = asyncio.run(run())
    assert (summary["held"], summary["frames_sent"]) == (1, 0)


def test_a_caller_is_held_in_the_middle_of_a_call():
    async def script(stream, _):
        for _ in range(10):
            message = await stream.hear("media")
            await stream.say(stream.words["play"](message["media"]["payload"]))
        await stream.play("sr-hold-1")
        for _ in range(10):
            await stream.hear("media")  # to nobody
        await stream.say(stream.words["clear"])
        await stream.echo()

    async def run():
        async with serve(script, "twilio") as port:
            return await call("--ws-url", f"ws://127.0.0.1:{port}/", "--provider", "twilio", "--seconds", 0.5)

    status, summary = asyncio.run(run())
    assert status == 0, summary
    assert (summary["held"], summary["granted"], summary["gaps"]) == (1, 0, 1)
    assert summary["frames_echoed"] == 25 and summary["frames_skipped"] >= 10
    assert summary["silence_us"]["p50"] >= 150_000


def test_frames_that_an_agent_took_with_it_are_lost_unless_gaps_are_allowed():
    async def script(stream, _):
        for number in range(12):
            message = await stream.hear("media")
            if number not in (5, 6):
                await stream.say(stream.words["play"](message["media"]["payload"]))
        await stream.echo()

    async def run(*options):
        async with serve(script, "exotel") as port:
            ask = ("--ws-url", f"ws://127.0.0.1:{port}/", "--provider", "exotel", "--seconds", 0.4)
            return await call(*ask, *options)

    status, summary = asyncio.run(run())
    assert (status, summary["frames_lost"], summary["frames_skipped"]) == (1, 2, 0)
    status, summary = asyncio.run(run("--allow-gaps"))
    assert (status, summary["frames_lost"], summary["frames_skipped"], summary["gaps"]) == (0, 0, 2, 1)


def twiml(stream, action=None):
    action = f' action="{action}" method="POST"' if action else ""
    return f'<Response><Connect{action}><Stream url="{stream}"/></Connect></Response>'


def plivo_xml(stream, redirect=None, keeps="true"):
    redirect = f'<Redirect method="POST">{redirect}</Redirect>' if redirect else ""
    return (
        f'<Response><Stream bidirectional="true" keepCallAlive="{keeps}" contentType="audio/x-mulaw;rate=8000">'
        f"{stream}</Stream>{redirect}</Response>"
    )


@pytest.mark.parametrize("provider", ["twilio", "plivo"])
def test_a_caller_follows_what_comes_after_the_stream(provider, webhooks, tmp_path):
    """Twice: the stream breaks, the router is asked, says to wait a moment, and then has the stream again."""
    (tmp_path / "token").write_text("the-token\n")
    streams = []

    async def script(stream, path):
        start = await stream.hear("start")
        streams.append((path, start["start"].get("streamSid") or start["start"]["streamId"]))
        if len(streams) == 3:
            await stream.echo()
            return
        message = await stream.hear("media")
        await stream.say(stream.words["play"](message["media"]["payload"]))
        if len(streams) == 1:
            await stream.socket.close(1012)
        else:
            stream.socket.transport.abort()

    async def run():
        async with serve(script, provider) as port:

            def answer(path, _):
                stream = f"ws://127.0.0.1:{port}/s"
                after = f"{router.url}/api/v1/{provider}/after?a=1&amp;b=2"
                if path.endswith("/status"):
                    return 200, ""
                if len(router.asked) == 2:
                    pause = '<Pause length="1"/>' if provider == "twilio" else '<Wait length="1"/>'
                    return 200, f'<Response>{pause}<Redirect method="POST">{after}</Redirect></Response>'
                return 200, twiml(stream, after) if provider == "twilio" else plivo_xml(stream, after)

            router = webhooks(answer)
            ask = ("--router", router.url, "--provider", provider, "--seconds", 0.4)
            result = await call(*ask, f"--{provider}-token-file", tmp_path / "token")
            return result, router

    (status, summary), router = asyncio.run(run())
    assert status == 0, summary
    assert (summary["resumes"], summary["gaps"], summary["completed"]) == (2, 2, 1)
    assert summary["frames_echoed"] == 20 and summary["frames_lost"] == 0
    after = f"/api/v1/{provider}/after?a=1&b=2"
    assert router.paths() == [f"/api/v1/{provider}/allocate", after, after, after, f"/api/v1/{provider}/status"]
    assert len({stream_id for _, stream_id in streams}) == 3  # each stream has a name of its own
    for _, form, headers in router.asked[1:4]:
        assert form["CallStatus"] == "in-progress"
        assert provider == "twilio" or form["Event"] == "Redirect"
        assert "X-Twilio-Signature" in headers or "X-Plivo-Signature-V3" in headers


def test_a_stream_without_a_redirect_ends_the_call(webhooks):
    async def script(stream, _):
        await stream.hear("media")
        await stream.socket.close(1011)

    async def run(provider, make):
        async with serve(script, provider) as port:

            def answer(path, _):
                return 200, "" if path.endswith("/status") else make(f"ws://127.0.0.1:{port}/", router.url)

            router = webhooks(answer)
            return (await call("--router", router.url, "--provider", provider)), router.paths()

    cut = {"stream cut in mid-call": 1}
    for provider, make in {
        "twilio": lambda stream, _: twiml(stream),
        "plivo": lambda stream, url: plivo_xml(stream, url + "/after", keeps="false"),
        "exotel": lambda stream, _: json.dumps({"url": stream}),
    }.items():
        (status, summary), paths = asyncio.run(run(provider, make))
        assert (status, summary["failures"]) == (1, cut)
        assert paths == [f"/api/v1/{provider}/allocate", f"/api/v1/{provider}/status"]


def test_a_caller_who_waited_in_vain_is_busy(webhooks):
    async def script(stream, _):
        await stream.hear("start")
        await stream.play("sr-hold-1")
        await stream.heard_mark()
        await stream.socket.close(1000)

    async def run(provider):
        async with serve(script, provider) as port:

            def answer(path, _):
                stream = f"ws://127.0.0.1:{port}/ws/hold/x"
                if path.endswith("/status"):
                    return 200, ""
                if path.endswith("/after"):
                    return 200, "<Response><Say>busy</Say><Hangup/></Response>"
                return 200, json.dumps({"url": stream}) if provider == "exotel" else twiml(stream, router.url + "/after")

            router = webhooks(answer)
            return (await call("--router", router.url, "--provider", provider, "--allow-busy")), router.paths()

    for provider in ("twilio", "exotel"):
        (status, summary), paths = asyncio.run(run(provider))
        assert (status, summary["busy"], summary["failed"], summary["held"]) == (0, 1, 0, 1), summary
        assert paths[-1] == f"/api/v1/{provider}/status"


def test_a_caller_asks_another_router_when_one_is_gone(webhooks):
    async def script(stream, path):
        if path == "/first":
            await stream.hear("media")
            await asyncio.to_thread(first.server.server_close)
            await stream.socket.close(1012)
        else:
            await stream.echo()

    async def run():
        nonlocal first
        async with serve(script, "twilio") as port:

            def answer(path, _):
                # With several routers the host of the URL does not count, so that only the way tells them apart.
                which = "first" if path.endswith("/allocate") else "second"
                return 200, "" if path.endswith("/status") else twiml(f"ws://nowhere/{which}", "http://nowhere/after")

            first, second = webhooks(answer), webhooks(answer)
            ask = ("--router", first.url, "--router", second.url, "--connect-to", f"127.0.0.1:{port}")
            return (await call(*ask, "--provider", "twilio", "--seconds", 0.2)), second.paths()

    first = None
    (status, summary), paths = asyncio.run(run())
    assert status == 0, summary
    assert summary["resumes"] == 1
    assert paths == ["/after", "/api/v1/twilio/status"]


def test_a_provider_can_die():
    seen = []

    async def script(stream, _):
        try:
            await stream.hear("media")
            process.send_signal(signal.SIGUSR1)
            await stream.hear("stop")
        except websockets.ConnectionClosedError:
            seen.append(stream.socket.close_code)

    async def run():
        nonlocal process
        async with serve(script, "twilio") as port:
            command = [TOOLS / "provider-sim", "--json", "--quiet", "--provider", "twilio", "--seconds", "60"]
            process = subprocess.Popen(
                [*command, "--ws-url", f"ws://127.0.0.1:{port}/"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            return await asyncio.to_thread(process.communicate, timeout=DEADLINE_S)

    process = None
    output, errors = asyncio.run(run())
    assert not any(report in errors.decode() for report in SANITIZER_REPORTS), errors
    summary = json.loads(output)
    assert (summary["died"], summary["failed"], summary["status_callbacks"]) == (1, 0, 0)
    assert seen == [1006]


# agent-sim.


def talk(agents, steps, headers=None):
    """Runs `steps(stream)` with a call CA1 at the first agent; returns the close code that came."""

    async def run():
        async with websockets.connect(agents.ws_url, compression=None, extra_headers=headers or {}) as stream:
            await stream.send(json.dumps(STARTS["twilio"]))
            try:
                await steps(stream)
            except websockets.ConnectionClosed:
                return stream.close_code
            return None

    return asyncio.run(run())


async def until_the_end(stream):
    for _ in range(1000):
        await stream.send(json.dumps({"event": "media", "media": {"payload": PAYLOAD}}))
        await stream.recv()


@pytest.mark.parametrize("how, code", [("reset", 1006), ("drop", 1006), ("cut", 1006), ("close", 1013)])
def test_an_agent_fails_after_some_echoes(start_agents, tmp_path, how, code):
    agents = start_agents(
        "--fail-after", "5", "--fail-how", how, "--close-code", "1013", "--journal", str(tmp_path / "journal")
    )
    assert talk(agents, until_the_end) == code
    wait_until(lambda: len(journal(tmp_path / "journal")) == 3, "the agent has seen the end")
    start, first, end = journal(tmp_path / "journal")
    assert (start["event"], first["event"], end["event"]) == ("start", "first_media", "end")
    assert start["at_ns"] <= first["at_ns"] <= end["at_ns"]
    assert (end["call_sid"], end["echoed"], end["agent"], end["code"]) == ("CA1", 4, "voice-agent-0", code)


def test_an_agent_breaks_in_the_middle_of_a_frame(start_agents):
    agents = start_agents("--fail-after", "1", "--fail-how", "cut")

    async def run():
        reader, writer = await asyncio.open_connection(*agents.addresses["voice-agent-0"].split(":"))
        writer.write(
            b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"\x81\x84\0\0\0\0word")
        return await reader.read()

    assert asyncio.run(run()) == b"\x81\x04w"  # half of it


def test_an_agent_that_exits_takes_its_streams_with_it(tmp_path):
    process = subprocess.Popen(
        [TOOLS / "agent-sim", "--base-port", "0", "--fail-after", "3", "--fail-how", "exit"],
        stdout=subprocess.PIPE,
        text=True,
    )
    address = process.stdout.readline().split()[2]

    class Address:
        ws_url = f"ws://{address}/"

    assert talk(Address, until_the_end) == 1006
    assert process.wait(DEADLINE_S) == 1
    process.stdout.close()


def test_streams_can_be_told_to_end(start_agents):
    agents = start_agents()

    def told(order):
        async def steps(stream):
            assert await asyncio.to_thread(agents.tell, order) == 200
            await stream.recv()

        return talk(agents, steps)

    assert [told(order) for order in ("hangup", "close?code=1011", "close?code=4000")] == [1000, 1011, 4000]
    assert [told(order) for order in ("reset", "drop", "cut")] == [1006] * 3
    assert agents.tell("close?code=1006") == 400


def test_an_agent_keeps_a_session_that_broke_and_resumes_it(start_agents):
    agents = start_agents()
    resumed = {"X-Call-Sid": "CA1", "X-Call-Resumed": "1"}
    shown = []

    async def drop(stream):
        assert await asyncio.to_thread(agents.tell, "drop") == 200
        await stream.recv()

    async def look(stream):
        await (await stream.ping())
        shown.append((await asyncio.to_thread(agents.show))["agents"][0]["resumed"])
        await drop(stream)

    async def hang_up(stream):
        assert await asyncio.to_thread(agents.tell, "hangup") == 200
        await stream.recv()

    talk(agents, drop, resumed)  # there is nothing yet to go on with
    assert (agents.show()["resumed"], agents.show()["resumed_anew"]) == (0, 1)
    talk(agents, look, resumed)
    assert shown == [["CA1"]]
    assert (agents.show()["resumed"], agents.show()["resumed_anew"]) == (1, 1)
    talk(agents, hang_up, resumed)
    assert (agents.show()["resumed"], agents.show()["resumed_anew"]) == (2, 1)
    talk(agents, drop, resumed)  # an end on purpose is not kept
    assert (agents.show()["resumed"], agents.show()["resumed_anew"]) == (2, 2)
    assert agents.tell("crash") == 200 and agents.tell("normal") == 200  # and a crash keeps nothing
    talk(agents, drop, resumed)
    assert (agents.show()["resumed"], agents.show()["resumed_anew"]) == (2, 3)


def test_an_agent_comes_back_after_a_crash(start_router, start_agents):
    router = start_router({"POD_SOURCE": "api", "STATIC_PODS": None})
    agents = start_agents("--router", router.url, "--register", "--heartbeat", "0.1")

    wait_until(lambda: agents.show()["heartbeats"] > 0, "it is registered")
    assert not router.log_lines("pod registered again")
    assert agents.tell("crash?ms=300") == 200
    assert agents.show()["agents"][0]["mode"] == "crash"
    wait_until(lambda: agents.show()["agents"][0]["mode"] == "normal", "it is back")
    wait_until(lambda: router.log_lines("pod registered again"), "it has registered anew")

    async def works(stream):
        await stream.send("hello")
        assert await stream.recv() == "hello"

    assert talk(agents, works) is None


@pytest.mark.parametrize("option, named", [("--release", True), ("--release-without-pod", False)])
def test_an_agent_releases_with_its_name(webhooks, start_agents, option, named):
    router = webhooks(lambda path, form: (200, "{}"))
    agents = start_agents("--router", router.url, option)

    async def nothing(stream):
        await stream.ping()

    talk(agents, nothing)
    wait_until(lambda: agents.show()["released"] == 1, "the call is released")
    [(path, body, _)] = router.asked
    assert (path, body["call_sid"]) == ("/api/v1/release", "CA1")
    assert body.get("pod_name") == ("voice-agent-0" if named else None)


def test_our_own_marks_that_reach_an_agent_are_counted(start_agents):
    agents = start_agents()

    async def steps(stream):
        ours = {"event": "mark", "mark": {"name": "sr-hold-1"}}
        theirs = {"event": "mark", "mark": {"name": "greeting"}}
        await stream.send(json.dumps(ours))
        await stream.send(json.dumps({"event": "clearedAudio", "streamId": "S1"}))
        await stream.send(json.dumps(theirs))
        assert json.loads(await stream.recv()) == theirs

    talk(agents, steps)
    assert agents.show()["stray_marks"] == 2


@pytest.mark.parametrize(
    "command",
    [
        ("agent-sim", "--fail-how", "somehow"),
        ("agent-sim", "--close-code", "1006"),
        ("agent-sim", "--journal", "/nowhere/journal"),
        ("provider-sim", "--patience", "some"),
        ("provider-sim", "--public-url", "x"),
        ("provider-sim", "--ws-url", "ws://127.0.0.1:1/", "--journal", "/nowhere/journal"),
    ],
)
def test_bad_options_are_refused(command):
    done = subprocess.run([TOOLS / command[0], *command[1:]], capture_output=True, timeout=DEADLINE_S, check=False)
    assert done.returncode in (1, 2)
    assert done.stderr
