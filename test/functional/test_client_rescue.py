"""Agents beside the gateway whose calls are rescued: what an agent does at the end of its stream must not end them.

Each agent stands behind a proxy of its own, which can cut its streams: then both sides see the end at the same time.
"""

import json
import os
import re
import struct
import subprocess
import sys

import basics
import client_faults
import pytest
import streams
import test_examples
from conftest import DEADLINE_S, ROOT, wait_until

TIERS = '{"gold":{"type":"exclusive","target":2}}'


class RescueAgent:
    """A running rescue_agent.py."""

    def __init__(self, mode, url, name, folder):
        self.name = name
        port = basics.free_port()
        self.proxy = client_faults.CutProxy(port)
        self.log = folder / f"{name}.log"
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "clients/python/src")}
        command = [sys.executable, ROOT / "test/functional/rescue_agent.py", mode, url, name, self.proxy.address, str(port)]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        wait_until(lambda: self.has_said("ready"), f"{name} is ready")

    def has_said(self, words):
        return re.search(f"^{words}$", self.log.read_text(), re.MULTILINE)

    def stop(self):
        self.proxy.close()
        self.process.kill()
        self.process.wait()


class Caller:
    """The provider's end of a stream, as Twilio's."""

    def __init__(self, router, call_sid):
        url = router.allocate(call_sid)["ws_url"]
        self.stream = streams.Stream(router.port, url[url.index("/", url.index("://") + 3) :])
        assert self.stream.status == 101
        self.sequence = 0
        self.say({"event": "connected", "protocol": "Call", "version": "1.0.0"})
        media_format = {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1}
        start = {"streamSid": "MZ1", "accountSid": "AC1", "callSid": call_sid, "tracks": ["inbound"], "mediaFormat": media_format}
        self.say({"event": "start", "streamSid": "MZ1", "start": start})

    def say(self, event):
        if event["event"] != "connected":
            self.sequence += 1
            event["sequenceNumber"] = str(self.sequence)
        self.stream.send(streams.TEXT, json.dumps(event).encode())

    def talk(self, payload="//7+"):
        media = {"track": "inbound", "chunk": str(self.sequence), "timestamp": "20", "payload": payload}
        self.say({"event": "media", "streamSid": "MZ1", "media": media})

    def hear(self):
        """The next message that is not the router's: marks of its music go back, as a provider does it."""
        while True:
            fin, opcode, payload = self.stream.receive()
            assert fin and opcode == streams.TEXT, (opcode, payload)
            event = json.loads(payload)
            if event["event"] != "mark" or not event["mark"]["name"].startswith("sr-"):
                return event
            self.say({"event": "mark", "streamSid": "MZ1", "mark": event["mark"]})

    def hears(self, name):
        """Talks until the agent of this name has answered. There may be music in between."""
        for _ in range(2000):
            self.talk()
            if self.hear() == {"event": "mark", "streamSid": "MZ1", "mark": {"name": name}}:
                return True
        return False

    def is_echoed(self, payload):
        """Talks until an agent has repeated it, with its track: music has none."""
        for _ in range(2000):
            self.talk(payload)
            media = self.hear().get("media", {})
            if media.get("track") == "inbound" and media["payload"] == payload:
                return True
        return False

    def hear_out_and_close(self):
        """An agent that has repeated all that it heard has nothing to send any more, and does not fail with it."""
        self.talk("CCCC")
        while self.hear().get("media", {}).get("payload") != "CCCC":
            pass
        self.stream.send(streams.CLOSE, struct.pack("!H", 1000))
        self.stream.rest()
        self.stream.close()

    def hang_up(self):
        self.say({"event": "stop", "streamSid": "MZ1", "stop": {"callSid": "CA1"}})
        self.stream.close()


@pytest.fixture
def two_agents(start_router, tmp_path):
    """two_agents(mode, **settings) -> the router, and two agents by name"""
    agents = {}

    def start(mode, **settings):
        env = {"STATIC_PODS": None, "POD_SOURCE": "api", "TIER_CONFIG": TIERS, "GATEWAY_SECRET": "0" * 32, **settings}
        router = start_router(env)
        for name in ("agent-1", "agent-2"):
            agents[name] = RescueAgent(mode, router.url, name, tmp_path)
        return router, agents

    yield start
    for agent in agents.values():
        agent.stop()


def pod_of(router, call_sid):
    answer = router.get(f"/api/v1/call/{call_sid}")
    return answer.json()["pod_name"] if answer.status_code == 200 else None


def begin(router, agents):
    """A call that talks; its agent, and the other one."""
    caller = Caller(router, "CA1")
    first = agents[pod_of(router, "CA1")]
    assert caller.hears(first.name)
    second, = (agent for agent in agents.values() if agent is not first)
    return caller, first, second


def end(router, caller):
    caller.hang_up()
    wait_until(lambda: pod_of(router, "CA1") is None, "the call ends with the provider's stop")


def test_an_agent_that_releases_in_finally_with_its_name_does_not_end_a_rescued_call(two_agents):
    router, agents = two_agents("finally")
    caller, first, second = begin(router, agents)
    first.proxy.cut()
    assert caller.hears(second.name), "the call goes on at the other agent"
    wait_until(lambda: first.has_said(r"released \d+"), "the first agent has released it")
    assert first.has_said("released 404") and pod_of(router, "CA1") == second.name
    assert second.has_said("opened CA1 1") and second.has_said("connected 0") and second.has_said("start 1")
    assert caller.hears(second.name), "it still goes on"
    end(router, caller)


def test_an_agent_that_is_killed_loses_its_call_to_another_one(two_agents):
    router, agents = two_agents("client")
    caller, first, second = begin(router, agents)
    first.stop()
    assert caller.hears(second.name)
    assert second.has_said("opened CA1 1") and second.has_said("session None"), "this one has no session of the call"
    end(router, caller)


@pytest.mark.parametrize("name", list(test_examples.NEEDS))
def test_a_call_of_an_example_that_is_killed_goes_on_at_another_one(name, start_router, tmp_path):
    test_examples.need(name)
    env = {"STATIC_PODS": None, "POD_SOURCE": "api", "TIER_CONFIG": TIERS, "GATEWAY_SECRET": "0" * 32, "API_KEY": "key"}
    router = start_router(env)
    agents = {}
    try:
        for pod in ("agent-1", "agent-2"):
            agents[pod] = test_examples.Example(name, router.url, tmp_path, pod=pod)
        caller = Caller(router, "CA1")
        assert caller.is_echoed("AAAA")
        first = pod_of(router, "CA1")
        agents[first].stop()
        wait_until(lambda: pod_of(router, "CA1") not in (first, None), "the call is at the other example")
        assert caller.is_echoed("BBBB")  # an echo of the first one may still be on its way
        second = agents[pod_of(router, "CA1")]
        assert not name.startswith("examples/") or second.has_said("CA1 was rescued")
        caller.hear_out_and_close()
        wait_until(lambda: pod_of(router, "CA1") is None, "the call ends with the close frame")
        assert "Traceback" not in second.log.read_text(), second.log.read_text()
    finally:
        for agent in agents.values():
            agent.stop()


def test_the_client_drops_a_call_that_was_rescued_to_another_pod(two_agents):
    router, agents = two_agents("client")
    caller, first, second = begin(router, agents)
    first.proxy.cut()
    assert caller.hears(second.name)
    wait_until(lambda: first.has_said("over CA1") and first.has_said("gone"), "a heartbeat has told the first agent")
    wait_until(lambda: first.log.read_text().splitlines()[-1] == "calls", "it lists the call no more")
    assert pod_of(router, "CA1") == second.name and caller.hears(second.name)
    end(router, caller)


def test_a_call_with_which_an_agent_fails_goes_on_at_another_one(two_agents):
    router, agents = two_agents("client")
    caller, first, second = begin(router, agents)
    caller.talk("fail")
    assert caller.hears(second.name)
    # With its own name, 5 s later, in case that nobody has moved it.
    wait_until(lambda: first.has_said("release agent_failed done"), "the first agent has released it")
    assert pod_of(router, "CA1") == second.name and caller.hears(second.name)
    end(router, caller)


def test_a_stream_that_comes_back_to_its_agent_finds_its_session(two_agents):
    """Without rescue: the provider itself comes back, with the same URL."""
    router, agents = two_agents("client", RESCUE="false", GATEWAY_RELEASE_GRACE=f"{DEADLINE_S}s")
    caller, first, _ = begin(router, agents)
    first.proxy.cut()
    caller.stream.close()
    wait_until(lambda: first.has_said("calls CA1"), "the agent keeps the call")
    again = Caller(router, "CA1")
    assert again.hears(first.name)
    assert first.has_said("session None") and first.has_said("session 1"), "its second stream goes on with its session"
    again.hang_up()
