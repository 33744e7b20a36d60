"""Many callers of all three providers at once, as the simulators play them: more callers than agents, and agents that break.

Every frame is counted and every byte of what a waiting caller hears is hashed. WAITING_CALLERS and WAITING_AGENTS make it larger,
RESCUES is how often an agent breaks; the times are printed."""

import hashlib
import json
import os
import random
import struct

import pytest
from basics import free_port
from conftest import DEADLINE_S, wait_until
from simulators import Provider, journal, sessions_of

CALLERS = int(os.environ.get("WAITING_CALLERS", "20"))
AGENTS = int(os.environ.get("WAITING_AGENTS", "4"))
RESCUES = int(os.environ.get("RESCUES", "5"))
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
def world(request, start_router, start_agents, tmp_path):
    """start(**environment) -> a router that holds callers, and agents that have registered with it."""
    store = {"REDIS_URL": request.getfixturevalue("redis_server").url} if request.param == "redis" else {}

    def start(*options, **environment):
        port = free_port()
        router = start_router({
            **store,
            "HTTP_PORT": str(port), "POD_SOURCE": "api", "STATIC_PODS": None, "GATEWAY_SECRET": SECRET,
            "PUBLIC_BASE_URL": f"http://127.0.0.1:{port}", "HOLD_MAX_WAIT": "5m", "CLEANUP_INTERVAL": "1s",
            "HOLD_AUDIO": write_wav(tmp_path / "hold.wav"),
            "TIER_CONFIG": json.dumps({"tiers": {"gold": {"type": "exclusive", "target": AGENTS}}}), **environment,
        })  # fmt: skip
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
    assert summary["completed"] == callers and summary["gaps"] >= 1
    starts = [line for line in journal(tmp_path / "agents") if line["event"] == "start"]
    assert sorted(line["resumed"] for line in starts)[callers:] and all(
        line["resumed"] > 0 for line in starts if line["at_ns"] > starts[callers - 1]["at_ns"]
    )
    for sessions in sessions_of(tmp_path / "agents").values():
        for (_, ended), (started, _) in zip(sessions, sessions[1:]):
            assert ended <= started  # never two agents at once
    show(f"without audio ({how})", summary["silence_us"])
