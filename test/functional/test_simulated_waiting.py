"""Many callers of all three providers at once, as the simulators play them: more callers than agents, and agents that break.

Every frame is counted and every byte of what a waiting caller hears is hashed. WAITING_CALLERS and WAITING_AGENTS make it larger,
RESCUES is how often an agent breaks, DEATHS how often the process of one is killed; the times are printed."""

import contextlib
import hashlib
import json
import os
import random
import signal
import struct
import time

import httpx
import pytest
from basics import free_port
from conftest import DEADLINE_S, wait_until
from simulators import Agents, Provider, journal, sessions_of

CALLERS = int(os.environ.get("WAITING_CALLERS", "20"))
AGENTS = int(os.environ.get("WAITING_AGENTS", "4"))
RESCUES = int(os.environ.get("RESCUES", "5"))
DEATHS = int(os.environ.get("DEATHS", "6"))
SECRET = "0123456789abcdef0123456789abcdef"
SOUND = bytes(random.Random(7).randrange(128, 255) for _ in range(8000))  # a second of mu-law
ROUND = 2 * SOUND  # a short sound is repeated within one message


def decode(mulaw):
    """As 16-bit samples, by ITU-T G.711."""
    samples = []
    for byte in mulaw:
        bits = ~byte & 0xFF
        value = (((bits & 0x0F) << 3) + 0x84 << ((bits & 0x70) >> 4)) - 0x84
        samples.append(-value if bits & 0x80 else value)
    return struct.pack(f"<{len(samples)}h", *samples)


def write_wav(path):
    head = struct.pack("<4sIHHIIHH", b"fmt ", 16, 7, 1, 8000, 8000, 1, 8)
    data = struct.pack("<4sI", b"data", len(SOUND)) + SOUND
    path.write_bytes(struct.pack("<4sI4s", b"RIFF", 4 + len(head) + len(data), b"WAVE") + head + data)
    return str(path)


@pytest.fixture(params=["embedded", "redis"])
def holding_router(request, start_router, tmp_path):
    """start(agents, **environment) -> a router that holds callers, with a tier of so many agents, which register with it."""
    store = {"REDIS_URL": request.getfixturevalue("redis_server").url} if request.param == "redis" else {}

    def start(agents, **environment):
        port = free_port()
        return start_router({
            **store,
            "HTTP_PORT": str(port), "POD_SOURCE": "api", "STATIC_PODS": None, "GATEWAY_SECRET": SECRET,
            "PUBLIC_BASE_URL": f"http://127.0.0.1:{port}", "HOLD_MAX_WAIT": "5m", "CLEANUP_INTERVAL": "1s",
            "HOLD_AUDIO": write_wav(tmp_path / "hold.wav"),
            "TIER_CONFIG": json.dumps({"tiers": {"gold": {"type": "exclusive", "target": agents}}}), **environment,
        })  # fmt: skip

    return start


@pytest.fixture
def world(holding_router, start_agents, tmp_path):
    """start(*options) -> a router that holds callers, and agents that have registered with it."""

    def start(*options):
        router = holding_router(AGENTS)
        agents = start_agents("--agents", str(AGENTS), "--router", router.url, "--register", "--heartbeat", "1",
                              "--journal", str(tmp_path / "agents"), *options)  # fmt: skip
        wait_until(lambda: router.get("/api/v1/pods").json()["total"] == AGENTS, "all agents are there")
        return router, agents

    return start


def show(name, times):
    print(f"{name}: median {times['p50'] / 1000:.1f} ms, p99 {times['p99'] / 1000:.1f} ms, {times['count']} of them")


def assert_nothing_is_lost(summary, agents):
    for kind in ("frames_lost", "frames_reordered", "frames_corrupt", "echoes_behind_hold", "failed", "busy"):
        assert summary[kind] == 0, (kind, summary)
    shown = agents.show()
    assert shown["stray_marks"] == 0
    return shown


def test_more_callers_than_agents_all_get_their_turn(world, tmp_path):
    router, agents = world()
    provider = Provider(router, tmp_path / "calls", "--calls", CALLERS, "--concurrent", CALLERS, "--seconds", 1)
    summary = provider.result(DEADLINE_S + 4 * CALLERS / AGENTS)
    shown = assert_nothing_is_lost(summary, agents)
    assert summary["completed"] == CALLERS and summary["granted"] == CALLERS - AGENTS
    assert shown["echoed"] == summary["frames_echoed"] == 50 * CALLERS  # from the agent's first frame on
    assert router.get("/api/v1/status").json()["active_calls"] == 0
    expected = {"twilio": ROUND, "plivo": ROUND, "exotel": decode(ROUND)}
    held = [line for line in journal(tmp_path / "calls") if line["event"].startswith("hold")]
    assert [line["event"] for line in held] == ["hold_ended"] * (CALLERS - AGENTS)
    assert {line["provider"] for line in held} == set(expected)
    assert sum(line["messages"] for line in held) >= len(held), "those who waited have heard something"
    for line in held:
        heard = expected[line["provider"]] * line["messages"]
        assert (line["bytes"], line["sha256"]) == (len(heard), hashlib.sha256(heard).hexdigest())
    show("from the end of a call to the next caller's first echo", summary["handover_us"])


@pytest.mark.parametrize("how", ["cut", "reset", "close?code=1012"])
def test_a_call_goes_on_at_another_agent_when_its_own_breaks(world, tmp_path, how):
    router, agents = world()
    callers = AGENTS // 2
    provider = Provider(router, tmp_path / "calls", "--calls", callers, "--concurrent", callers, "--seconds", 3600,
                        "--allow-gaps")  # fmt: skip

    def busy():
        return [agent["name"] for agent in agents.show()["agents"] if agent["calls"]]

    def has_room():
        """An agent that broke gets no call for a moment. Calls that wait for one are the matter of other tests."""
        return router.get("/api/v1/status").json()["tiers"]["gold"]["available"] > 0

    def break_one(number):
        wait_until(lambda: len(busy()) == callers and has_room(), "all calls are at agents, and one more could be")
        assert agents.tell(how, busy()[number % callers]) == 200

    def moved():
        return (tmp_path / "agents").read_text().count('"start"') - callers

    wait_until((tmp_path / "agents").exists, "the first call is at an agent")
    for number in range(RESCUES):
        break_one(number)
        wait_until(lambda wanted=number + 1: moved() == wanted, "the call has moved")
    provider.process.terminate()
    summary = provider.result(DEADLINE_S)
    assert_nothing_is_lost(summary, agents)
    assert summary["completed"] == callers and summary["gaps"] > RESCUES // 2
    starts = [line for line in journal(tmp_path / "agents") if line["event"] == "start"]
    assert sorted(line["resumed"] for line in starts)[callers:] and all(
        line["resumed"] > 0 for line in starts if line["at_ns"] > starts[callers - 1]["at_ns"]
    )
    for sessions in sessions_of(tmp_path / "agents").values():
        for (_, ended), (started, _) in zip(sessions, sessions[1:]):
            assert ended <= started  # never two agents at once
    show(f"without audio ({how})", summary["silence_us"])


class Process:
    """An agent that is a process of its own."""

    def __init__(self, router, number, folder):
        self.name = f"agent-{number}-0"
        self.agents = Agents(["--name-prefix", f"agent-{number}-", "--router", router.url, "--register", "--heartbeat", "1",
                              "--journal", str(folder / "agents")], folder / f"agent-{number}")  # fmt: skip
        self.killed_ns = None

    def has_call(self):
        return self.killed_ns is None and self.agents.show()["agents"][0]["calls"] != []

    def die(self, how):
        """By a signal, or by itself in the middle of a frame."""
        self.killed_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        if how == "exit":
            with contextlib.suppress(httpx.RemoteProtocolError):  # it may not come to an answer
                self.agents.tell("exit")
        else:
            self.agents.proc.send_signal(signal.SIGKILL)
        self.agents.proc.wait(DEADLINE_S)

    def stop(self):
        self.agents.proc.kill()
        self.agents.proc.stdout.read()
        self.agents.proc.wait()


class Fleet:
    """Agents that die, and new ones that take their places."""

    def __init__(self, router, folder, count):
        self.router, self.folder = router, folder
        self.processes = []
        for _ in range(count):
            self.add()

    def add(self):
        self.processes.append(Process(self.router, len(self.processes), self.folder))

    def busy(self):
        return [process for process in self.processes if process.has_call()]

    def starts(self):
        path = self.folder / "agents"
        return path.read_text().count('"start"') if path.exists() else 0

    def killed(self):
        return {process.name: process.killed_ns for process in self.processes if process.killed_ns}

    def stop(self):
        for process in self.processes:
            process.stop()


def test_calls_go_on_when_the_processes_of_their_agents_are_killed(holding_router, tmp_path):
    """Every third time two at once: then one of their calls waits, until there is another agent."""
    callers = max(3, AGENTS // 2)
    router = holding_router(callers + 1)
    fleet = Fleet(router, tmp_path, callers + 1)
    waited = 0
    try:
        provider = Provider(router, tmp_path / "calls", "--calls", callers, "--concurrent", callers, "--seconds", 3600, "--allow-gaps")
        deaths = 0
        while deaths < DEATHS:
            wait_until(lambda: len(fleet.busy()) == callers, "all calls are at agents")
            wait_until(lambda: router.get("/api/v1/status").json()["tiers"]["gold"]["available"] > 0, "one more could be")
            before = fleet.starts()
            dying = fleet.busy()[: 2 if deaths % 3 == 1 else 1]
            for number, process in enumerate(dying):
                process.die("exit" if (deaths + number) % 2 else "SIGKILL")
            deaths += len(dying)
            if len(dying) == 2:
                wait_until(lambda: router.get("/api/v1/waiting").json()["total"] == 1, "one of them waits")
                waited += 1
            for _ in dying:
                fleet.add()
            wait_until(lambda wanted=before + len(dying): fleet.starts() == wanted, "their calls are at other agents")
        wait_until(lambda: len(fleet.busy()) == callers, "all calls are at agents")
        provider.process.terminate()
        summary = provider.result(DEADLINE_S)
    finally:
        fleet.stop()
    for kind in ("frames_lost", "frames_reordered", "frames_corrupt", "echoes_behind_hold", "failed", "busy"):
        assert summary[kind] == 0, (kind, summary)
    assert summary["completed"] == callers and summary["gaps"] > deaths // 2 and waited > 0
    killed = fleet.killed()
    for sessions in agents_of(tmp_path / "agents").values():
        for (name, _), (_, started) in zip(sessions, sessions[1:]):
            assert killed[name] <= started  # each call was at one agent after the other
    assert sum(map(len, agents_of(tmp_path / "agents").values())) == callers + deaths
    show(f"without audio ({deaths} killed processes, {waited} of their calls had to wait for a new one)", summary["silence_us"])


def agents_of(path):
    """call -> the agents that it was at, and since when, in their order."""
    calls = {}
    for line in journal(path):
        if line["event"] == "start":
            calls.setdefault(line["call_sid"], []).append((line["agent"], line["at_ns"]))
    return calls
