"""Calls of an agent whose streams end or break: close codes, sessions, failures of the agent itself."""

import asyncio
import json

import httpx
import pytest
import tree
from scripted import FakeClock
from smartrouter import Agent, Breaker, Client, Settings, close_ends_call
from smartrouter import agent as agent_module

assert tree.PACKAGE.is_dir()  # tree has made its package the one to import
QUIET = {"success": True, "renewed": [], "adopted": [], "ended": [], "conflicts": []}


class Router(httpx.AsyncBaseTransport):
    """Answers heartbeats with `beat`, after `during` was called; everything else with 200."""

    def __init__(self):
        self.requests = []
        self.beat = QUIET
        self.during = None

    async def handle_async_request(self, request):
        body = json.loads(await request.aread() or b"{}")
        self.requests.append((request.url.path, body))
        if not request.url.path.endswith("/heartbeat"):
            return httpx.Response(200, json={"success": True})
        if self.during:
            await self.during()
        return httpx.Response(200, json=self.beat)

    @property
    def releases(self):
        return [body for path, body in self.requests if path == "/api/v1/release"]

    @property
    def beats(self):
        return [body["call_sids"] for path, body in self.requests if path.endswith("/heartbeat")]


def make_agent(keep_seconds=3600.0):
    settings, router, clock = Settings(base_url="http://router.test"), Router(), FakeClock()
    client = Client(settings, breaker=Breaker.of(settings), clock=clock, transport=router, jitter=lambda: 0.0)
    client.background.run_by_hand()
    return Agent(client, pod_name="agent-1", registers=False, keep_seconds=keep_seconds), router, clock


async def break_call(agent, call_sid="CA1", code=1006, session=None, on_gone=None):
    async with agent.call(call_sid, on_gone=on_gone) as call:
        call.session = session
        call.close_code = code


@pytest.mark.parametrize("code", [1000, 1005, 3000, 4000, 4999])
def test_a_code_that_somebody_meant_ends_the_call(code):
    async def run():
        agent, router, _ = make_agent()
        await break_call(agent, code=code)
        assert agent.calls == [] and not agent._broken
        assert router.releases == [{"call_sid": "CA1", "pod_name": "agent-1", "reason": "stream_closed"}]

    assert close_ends_call(code)
    asyncio.run(run())


@pytest.mark.parametrize("code", [0, 999, 1001, 1002, 1006, 1009, 1011, 1012, 1013, 2999, 5000])
def test_every_other_code_keeps_the_call_in_the_heartbeats(code):
    async def run():
        agent, router, _ = make_agent()
        await break_call(agent, code=code)
        await agent.beat()
        assert router.beats == [["CA1"]] and router.releases == []

    assert not close_ends_call(code)
    asyncio.run(run())


def test_after_the_providers_stop_message_the_close_code_does_not_matter():
    async def run():
        agent, router, _ = make_agent()
        async with agent.call("CA1") as call:
            call.has_stopped = True
            call.close_code = 1006
        assert agent.calls == [] and len(router.releases) == 1

    asyncio.run(run())


def test_the_session_of_a_broken_call_comes_back_with_its_next_stream():
    async def run():
        agent, router, _ = make_agent()
        gone = []
        session = object()
        await break_call(agent, code=1012, session=session, on_gone=lambda: gone.append("CA1"))
        async with agent.call("CA1", resumed="2") as call:
            assert call.session is session and call.resumed == 2 and not agent._broken
            call.close_code = 1000
        assert gone == [] and len(router.releases) == 1
        async with agent.call("CA1", resumed="3") as call:
            assert call.session is None and call.resumed == 3, "this agent does not know the call any more"

    asyncio.run(run())


def test_a_stream_that_comes_back_before_the_old_one_has_closed_has_the_session_too():
    async def run():
        agent, router, _ = make_agent()
        async with agent.call("CA1") as old:
            old.session = session = object()
            new_context = agent.call("CA1", resumed="1")
            new = await new_context.__aenter__()
            assert new.session is session
            old.close_code = 1000
        assert agent.calls == ["CA1"] and router.releases == [], "the end of the old stream changes nothing"
        new.close_code = 1000
        await new_context.__aexit__(None, None, None)
        assert agent.calls == [] and len(router.releases) == 1

    asyncio.run(run())


@pytest.mark.parametrize("resumed", [None, "", "x", "-1", "1.5", "9" * 50])
def test_a_header_that_is_no_count_is_none(resumed):
    async def run():
        agent, _, _ = make_agent()
        async with agent.call("CA1", resumed=resumed) as call:
            assert call.resumed == 0

    asyncio.run(run())


@pytest.mark.parametrize("how", ["ended", "conflicts"])
def test_a_broken_call_that_is_over_or_on_another_pod_is_dropped_with_its_session(how):
    async def run():
        agent, router, _ = make_agent()
        gone = asyncio.Event()
        await break_call(agent, session=object(), on_gone=gone.set)
        router.beat = {**QUIET, how: ["CA1"]}
        await agent.beat()
        assert gone.is_set() and agent.calls == [] and not agent._broken
        router.beat = QUIET
        await agent.beat()
        assert router.beats[-1] == [] and router.releases == []
        async with agent.call("CA1") as call:
            assert call.session is None

    asyncio.run(run())


def test_a_broken_call_is_told_soon_and_released_when_it_does_not_come_back(monkeypatch):
    monkeypatch.setattr(agent_module, "EXTRA_BEAT_S", 0.01)

    async def run():
        agent, router, _ = make_agent(keep_seconds=0.05)
        gone = asyncio.Event()

        async def on_gone():
            gone.set()

        await break_call(agent, on_gone=on_gone)
        await gone.wait()
        while not router.releases:
            await asyncio.sleep(0.01)
        assert router.beats == [["CA1"]] and agent.calls == []
        assert router.releases == [{"call_sid": "CA1", "pod_name": "agent-1", "reason": "stream_closed"}]

    asyncio.run(run())


def test_the_answer_to_an_older_heartbeat_does_not_end_a_stream_that_came_after_it():
    async def run():
        agent, router, _ = make_agent()
        ended = []
        await break_call(agent)
        context = agent.call("CA1", on_ended=lambda: ended.append("CA1"))
        router.during = context.__aenter__
        router.beat = {**QUIET, "conflicts": ["CA1"]}
        await agent.beat()
        assert agent.calls == ["CA1"] and ended == []
        router.during = None
        await agent.beat()
        assert agent.calls == [] and ended == ["CA1"]

    asyncio.run(run())


@pytest.mark.parametrize("error", [LookupError, asyncio.CancelledError, SystemExit])
def test_a_call_with_which_the_agent_failed_is_left_to_the_router_for_a_while(error):
    async def run():
        agent, router, clock = make_agent()
        with pytest.raises(error):
            async with agent.call("CA1"):
                raise error
        assert agent.calls == [] and router.releases == []
        await agent.beat()
        assert router.beats == [[]], "a heartbeat that lists it would bring it back to this agent"
        await agent.client.background.run_until(clock.at + 4.9)
        assert router.releases == []
        clock.at += 5
        await agent.client.background.run_until(clock.at)
        assert router.releases == [{"call_sid": "CA1", "pod_name": "agent-1", "reason": "agent_failed"}]

    asyncio.run(run())


def test_a_call_that_comes_back_to_the_agent_that_failed_is_not_released():
    async def run():
        agent, router, clock = make_agent()
        with pytest.raises(LookupError):
            async with agent.call("CA1") as call:
                call.session = object()
                raise LookupError
        async with agent.call("CA1", resumed="1") as call:
            assert call.session is None and agent.client.pending_releases == 0
            clock.at += 60
            await agent.client.background.run_until(clock.at)
            assert router.releases == []
            call.close_code = 1000

    asyncio.run(run())


class Disconnect(Exception):
    """As Starlette's."""

    def __init__(self, code):
        self.code = code


class Closed(Exception):
    """As that of websockets, whose `code` warns that it is deprecated."""

    def __init__(self, rcvd):
        self.rcvd = rcvd

    @property
    def code(self):
        raise AssertionError("deprecated")


@pytest.mark.parametrize(
    "error, ends",
    [
        (Disconnect(1000), True),
        (Disconnect(1006), False),
        (Closed(Disconnect(1000)), True),
        (Closed(Disconnect(1012)), False),
        (Closed(None), False),
        (ConnectionResetError(), False),
        (EOFError(), False),
    ],
)
def test_an_exception_that_says_how_the_stream_closed_is_no_failure(error, ends):
    async def run():
        agent, router, _ = make_agent()
        with pytest.raises(type(error)):
            async with agent.call("CA1"):
                raise error
        assert agent.calls == ([] if ends else ["CA1"]) and len(router.releases) == ends
        assert agent.client.pending_releases == 0

    asyncio.run(run())


def test_an_exception_after_the_stream_has_closed_is_no_failure():
    async def run():
        agent, router, _ = make_agent()
        with pytest.raises(LookupError):
            async with agent.call("CA1") as call:
                call.close_code = 1000
                raise LookupError
        assert len(router.releases) == 1
        with pytest.raises(LookupError):
            async with agent.call("CA2") as call:
                call.close_code = 1006
                raise LookupError
        assert agent.calls == ["CA2"]

    asyncio.run(run())
