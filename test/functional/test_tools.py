"""The simulators themselves: agent-sim against another WebSocket client, provider-sim against agents that lose
things, and both with a real router."""

import asyncio
import contextlib
import json
import subprocess

import pytest
import websockets
from conftest import DEADLINE_S, wait_until
from simulators import PAYLOAD, STARTS, TOOLS, connect, provide

AUDIO = {
    "twilio": {"event": "media", "streamSid": "S1", "media": {"payload": PAYLOAD}},
    "plivo": {
        "event": "playAudio",
        "media": {"contentType": "audio/x-mulaw", "sampleRate": 8000, "payload": PAYLOAD},
    },
    "exotel": {"event": "media", "stream_sid": "S1", "media": {"payload": PAYLOAD}},
}


def test_an_agent_echoes_whatever_comes(start_agents):
    agents = start_agents()

    async def talk():
        async with connect(agents.ws_url) as stream:
            for message in ("hello", b"\x00\xff", "", b"", "x" * 126, b"y" * 70000, "ü" * 400000, '{"a":1}'):
                await stream.send(message)
                assert await stream.recv() == message
            await stream.send(["in ", "three ", "parts"])
            assert await stream.recv() == "in three parts"
            await asyncio.wait_for(await stream.ping(b"are you there"), DEADLINE_S)
        assert stream.close_code == 1000

    asyncio.run(talk())


@pytest.mark.parametrize("provider", STARTS)
def test_an_agent_answers_each_provider_in_its_own_words(start_agents, provider):
    agents = start_agents()

    async def talk():
        async with connect(agents.ws_url) as stream:
            media = json.dumps({"event": "media", "media": {"payload": PAYLOAD}})
            await stream.send(media)
            assert await stream.recv() == media  # nobody has said yet whose stream it is
            await stream.send(json.dumps({"event": "connected"}))
            await stream.send(json.dumps(STARTS[provider]))
            await stream.send(media)
            assert json.loads(await stream.recv()) == AUDIO[provider]
            assert agents.show()["agents"][0]["calls"] == ["CA1"]

    asyncio.run(talk())
    wait_until(lambda: agents.show()["agents"][0]["connections"] == 0, "the agent sees the end")


def test_a_frame_that_is_not_masked_ends_the_connection(start_agents):
    agents = start_agents()

    async def talk():
        async with connect(agents.ws_url) as stream:
            stream.transport.write(b"\x81\x02hi")
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await stream.recv()
            assert closed.value.rcvd.code == 1002

    asyncio.run(talk())


def test_agents_can_be_told_to_fail_and_to_recover(start_agents):
    agents = start_agents("--agents", "2")

    async def works():
        async with connect(agents.ws_url) as stream:
            await stream.send("hello")
            return await stream.recv() == "hello"

    async def fails_with(mode, error):
        async with connect(agents.ws_url) as stream:
            assert agents.tell(mode, "voice-agent-0") == 200
            if mode in ("crash", "hangup"):
                with pytest.raises(websockets.ConnectionClosed):
                    await stream.recv()
            elif mode != "hang":
                await stream.send("calls that it has go on")
                await stream.recv()
            if error:
                with pytest.raises(error):
                    await asyncio.wait_for(websockets.connect(agents.ws_url), 0.5)
            assert agents.show()["agents"][1]["mode"] == "normal"
            assert agents.tell("normal") == 200
        assert await works()

    assert asyncio.run(works())
    for mode, error in (
        ("crash", OSError),
        ("refuse", OSError),
        ("reject", websockets.InvalidStatusCode),
        ("hang", asyncio.TimeoutError),
        ("slow?ms=50", None),
        ("hangup", None),
    ):
        asyncio.run(fails_with(mode, error))
    assert agents.tell("dance") == 400
    assert agents.tell("normal", "nobody") == 404


@pytest.mark.parametrize("provider", ["twilio", "plivo", "exotel", "mix"])
def test_calls_to_an_agent_come_back_whole(start_agents, provider):
    agents = start_agents()
    status, summary = provide(
        "--ws-url", agents.ws_url, "--provider", provider, "--calls", 6, "--concurrent", 3, "--seconds", 0.4
    )
    assert status == 0, summary
    assert summary["completed"] == summary["answered"] == summary["calls"] == 6
    assert summary["concurrent_max"] == 3
    assert summary["frames_sent"] == summary["frames_echoed"] == summary["echo_us"]["count"] == 6 * 20
    assert agents.show()["echoed"] == 6 * 20


def lose(messages):
    return messages[:3] + messages[4:]


def swap(messages):
    return messages[:3] + [messages[4], messages[3]] + messages[5:]


def repeat(messages):
    return messages[:3] + messages[2:]


def harm(messages):
    return messages[:3] + [messages[3].replace(messages[3][-20:-10], "AAAAAAAAAA")] + messages[4:]


@contextlib.asynccontextmanager
async def bad_agent(change):
    """Holds all audio of a call back, changes it, and then sends it."""

    async def serve(stream):
        messages = []
        async for message in stream:
            if '"media"' in message:
                messages.append(message)
            if len(messages) == 10:
                for changed in change(messages):
                    await stream.send(changed)
                messages = []

    async with websockets.serve(serve, "127.0.0.1", 0, compression=None) as server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (list, {}),
        (lose, {"frames_lost": 1}),
        (swap, {"frames_lost": 1, "frames_reordered": 1}),
        (repeat, {"frames_reordered": 1}),
        (harm, {"frames_corrupt": 1, "frames_lost": 1}),
    ],
)
def test_provider_sim_sees_what_is_wrong_with_an_echo(change, wrong):
    async def call():
        async with bad_agent(change) as port:
            return await asyncio.to_thread(
                provide, "--ws-url", f"ws://127.0.0.1:{port}/", "--provider", "twilio", "--seconds", 0.2
            )

    status, summary = asyncio.run(call())
    kinds = ("frames_lost", "frames_reordered", "frames_corrupt")
    assert {kind: summary[kind] for kind in kinds if summary[kind]} == wrong, summary
    assert status == (1 if wrong else 0)
    assert summary["fine"] is not bool(wrong)


def test_provider_sim_says_why_a_call_failed(start_agents):
    agents = start_agents("--mode", "reject")
    wait_until(lambda: agents.show()["agents"][0]["mode"] == "reject", "the agent rejects")
    status, summary = provide("--ws-url", agents.ws_url, "--calls", 2)
    assert (status, summary["failures"], summary["refused_status"]) == (1, {"stream refused": 2}, 503)
    agents.tell("crash")
    status, summary = provide("--ws-url", agents.ws_url)
    assert (status, summary["failures"]) == (1, {"stream not reachable": 1})
    agents.tell("hang")
    status, summary = provide("--ws-url", agents.ws_url, "--timeout", 0.2)
    assert (status, summary["failures"]) == (1, {"timeout": 1})
    status, summary = provide("--router", agents.control)
    assert (status, summary["failures"]) == (1, {"answer not understood": 1})


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_calls_by_webhook_are_answered_and_released(start_router, start_agents, tmp_path, method):
    tokens = {name: f"the-token-of-{name}" for name in ("twilio", "plivo", "exotel")}
    settings = {"twilio": "TWILIO_AUTH_TOKEN", "plivo": "PLIVO_AUTH_TOKEN", "exotel": "EXOTEL_TOKEN"}
    router = start_router({settings[name]: token for name, token in tokens.items()})
    agents = start_agents()
    files = []
    for name, token in tokens.items():
        (tmp_path / name).write_text(token + "\n")
        files += [f"--{name}-token-file", tmp_path / name]
    # The streams are opened at the agent itself: the gateway has tests of its own.
    ask = ("--connect-to", agents.addresses["voice-agent-0"], "--router", router.url, "--merchant", "m-1")
    ask += ("--method", method, "--calls", 6, "--concurrent", 3, "--seconds", 0.2)
    status, summary = provide(*ask, *files)
    assert status == 0, summary
    assert summary["completed"] == summary["status_callbacks"] == 6
    assert router.get("/api/v1/status").json()["active_calls"] == 0
    assert len(router.log_lines("call allocated")) == 6
    assert [line["reason"] for line in router.log_lines("call released")] == 6 * ["status callback"]

    status, summary = provide(*ask)
    assert (status, summary["failures"]) == (1, {"answer not understood": 6})


@pytest.mark.parametrize("provider", ["twilio", "plivo", "exotel"])
def test_a_call_that_gets_no_pod_is_busy(start_router, provider):
    router = start_router({"STATIC_PODS": "lonely", "TIER_CONFIG": '{"gold":1}'})
    router.allocate("CA-first")
    status, summary = provide("--router", router.url, "--provider", provider)
    assert (status, summary["busy"], summary["failed"]) == (1, 1, 0)
    status, summary = provide("--router", router.url, "--provider", provider, "--allow-busy")
    assert (status, summary["busy"]) == (0, 1)


@pytest.mark.parametrize("key", [None, "the-key-of-the-agents"])
def test_agents_register_heartbeat_and_leave(start_router, start_agents, tmp_path, key):
    router = start_router({"POD_SOURCE": "api", "STATIC_PODS": None, "API_KEY": key})
    options = ["--agents", "3", "--router", router.url, "--register", "--heartbeat", "0.1"]
    if key:
        (tmp_path / "key").write_text(key + "\n")
        options += ["--api-key-file", str(tmp_path / "key")]
    agents = start_agents(*options)

    def pods():
        return {pod["pod_name"]: pod for pod in router.get("/api/v1/pods").json()["pods"]}

    wait_until(lambda: len(pods()) == 3, "the agents are registered")
    assert {name: pod["address"] for name, pod in pods().items()} == agents.addresses
    wait_until(lambda: agents.show()["heartbeats"] >= 6, "they heartbeat")

    async def talk():
        async with connect(agents.ws_url) as stream:
            await stream.send(json.dumps(STARTS["twilio"]))
            await asyncio.to_thread(
                wait_until, lambda: pods()["voice-agent-0"]["calls"] == ["CA1"], "the heartbeat names the call"
            )

    asyncio.run(talk())
    assert agents.stop() == 0
    assert pods() == {}


@pytest.mark.parametrize(
    "command",
    [
        ("agent-sim", "--agents", "0"),
        ("agent-sim", "--mode", "dance"),
        ("agent-sim", "--register"),
        ("agent-sim", "--host", "nowhere"),
        ("agent-sim", "--api-key-file", "/nowhere"),
        ("agent-sim", "--api-key-file", "/dev/null"),
        ("provider-sim", "--calls", "many"),
        ("provider-sim", "--provider", "pigeon"),
        ("provider-sim", "--ws-url", "ftp://x"),
        ("provider-sim", "extra"),
    ],
)
def test_bad_options_are_refused(command):
    done = subprocess.run([TOOLS / command[0], *command[1:]], capture_output=True, timeout=DEADLINE_S, check=False)
    assert done.returncode in (1, 2)
    assert done.stderr


@pytest.mark.parametrize("tool", ["agent-sim", "provider-sim", "talk"])
def test_help_names_the_options(tool):
    done = subprocess.run([TOOLS / tool, "--help"], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0
    assert f"usage: {tool}" in done.stdout
