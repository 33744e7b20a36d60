"""Calls that wait, as far as the table of behaviours cannot say it: cancellation, two at once, many at once, callbacks."""

import asyncio
import json
import threading

import httpx
import pytest
import tree
from scripted import FakeClock
from smartrouter import Agent, Breaker, Client, Hooks, Rollout, Settings, SyncClient
from smartrouter import waiting as waiting_module

assert tree.PACKAGE.is_dir()  # tree has made its package the one to import
POD = {"success": True, "pod_name": "agent-1", "ws_url": "ws://router.test/x"}
WAITING = {"success": True, "waiting": True, "position": 3, "waited_seconds": 1, "retry_after_ms": 10}


class Router(httpx.AsyncBaseTransport):
    """Keeps requests with wait_ms open until `grant`; answers all others with 202, releases with 200."""

    def __init__(self):
        self.requests = []
        self.granted = set()
        self.polls = []  # requests that are open
        self.most_open = 0
        self.may_keep_open = True

    def bodies(self, path):
        return [body for asked, body in self.requests if asked == path]

    @property
    def releases(self):
        return [(body["call_sid"], body["reason"]) for body in self.bodies("/api/v1/release")]

    @property
    def open(self):
        return len(self.polls)

    def grant(self, call_sid):
        self.granted.add(call_sid)
        for asked, answered in self.polls:
            if asked == call_sid:
                answered.set()

    async def handle_async_request(self, request):
        body = json.loads(await request.aread() or b"{}")
        self.requests.append((request.url.path, body))
        if request.url.path != "/api/v1/allocate":
            return httpx.Response(200, json={"success": True})
        if body.get("wait_ms") and self.may_keep_open and body["call_sid"] not in self.granted:
            poll = (body["call_sid"], asyncio.Event())
            self.polls.append(poll)
            self.most_open = max(self.most_open, self.open)
            try:
                await poll[1].wait()
            finally:
                self.polls.remove(poll)
        return httpx.Response(200, json=POD) if body["call_sid"] in self.granted else httpx.Response(202, json=WAITING)


def settings_of(**members):
    rollout = Rollout(enabled=True, percentage=100)
    return Settings(**{"base_url": "http://router.test", "rollout": rollout, **members})


def make_client(hooks=None, clock=None, **members):
    settings, router = settings_of(**members), Router()
    breaker = Breaker.of(settings, clock.now) if clock else Breaker.of(settings)
    client = Client(settings, breaker=breaker, clock=clock, transport=router, jitter=lambda: 0.0, hooks=hooks)
    client.background.run_by_hand()
    return client, router


async def until(condition):
    while not condition():
        await asyncio.sleep(0)


def test_a_cancelled_wait_breaks_its_request_off_and_is_released():
    async def run():
        client, router = make_client()
        task = asyncio.create_task(client.allocate("CA1", wait=30))
        await until(lambda: router.open == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: router.open == 0)
        assert client.pending_releases == 1 and not client.stop_waiting("CA1")
        await client.aclose()
        assert router.releases == [("CA1", "allocate_unanswered")]

    asyncio.run(run())


def test_a_release_stops_the_wait_of_its_call():
    async def run():
        client, router = make_client()
        task = asyncio.create_task(client.allocate("CA1", wait=30))
        await until(lambda: router.open == 1)
        assert await client.release("CA1", reason="hung_up")
        allocation = await task
        assert (allocation.outcome, allocation.reason, allocation.position) == ("busy", "stopped", 3)
        assert sorted(router.releases) == [("CA1", "hung_up"), ("CA1", "wait_stopped")]
        asked = len(router.requests)
        await asyncio.sleep(0.05)
        assert len(router.requests) == asked and client.pending_releases == 0, "it does not join the line again"
        await client.aclose()

    asyncio.run(run())


def test_a_status_callback_stops_the_wait_of_its_call():
    async def run():
        client, router = make_client()
        task = asyncio.create_task(client.allocate("CA1", wait=30))
        await until(lambda: router.open == 1)
        assert await client.handle_status("CA1", "completed")
        assert (await task).reason == "stopped"
        await client.aclose()

    asyncio.run(run())


def test_a_wait_can_be_stopped_during_a_pause():
    async def run():
        client, router = make_client()
        router.may_keep_open = False
        paused = asyncio.Event()

        async def sleep(seconds):
            paused.set()
            await asyncio.sleep(3600)

        client._clock.sleep = sleep
        task = asyncio.create_task(client.allocate("CA1", wait=30))
        await paused.wait()
        assert client.stop_waiting("CA1") and not client.stop_waiting("CA2")
        assert (await task).reason == "stopped" and router.releases == [("CA1", "wait_stopped")]
        await client.aclose()

    asyncio.run(run())


@pytest.mark.parametrize("how", ["time is over", "cancelled"])
def test_of_two_waits_for_one_call_the_first_that_ends_does_not_take_the_place_of_the_other(how):
    async def run():
        clock = FakeClock()
        client, router = make_client(clock=clock)
        first = asyncio.create_task(client.allocate("CA1", wait=5))
        await until(lambda: router.open == 1)
        second = asyncio.create_task(client.allocate("CA1", wait=30))
        await until(lambda: router.open == 2)
        if how == "cancelled":
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
        else:
            clock.at += 5
            router.polls[0][1].set()  # 202
            assert (await first).reason == "no_pods"
        assert router.releases == [] and client.pending_releases == 0
        router.grant("CA1")
        assert (await second).has_pod
        await client.aclose()

    asyncio.run(run())


def test_a_client_that_closes_ends_its_waits_and_releases_them():
    async def run():
        client, router = make_client()
        tasks = [asyncio.create_task(client.allocate(f"CA{number}", wait=3600)) for number in range(3)]
        await until(lambda: router.open == 3)
        await client.aclose()
        assert [task.result().reason for task in tasks] == ["stopped"] * 3
        assert sorted(router.releases) == [(f"CA{number}", "wait_stopped") for number in range(3)]

    asyncio.run(run())


def test_calls_that_wait_leave_connections_for_the_others(monkeypatch):
    monkeypatch.setattr(waiting_module, "OPEN_ASKS_MAX", 5)

    async def run():
        client, router = make_client()
        tasks = [asyncio.create_task(client.allocate(f"CA{number}", wait=3600)) for number in range(12)]

        def asked_often():  # those that may not stay open ask again and again
            bodies = router.bodies("/api/v1/allocate")
            return len({body["call_sid"] for body in bodies}) == 12 and len(bodies) > 40

        while not asked_often():
            await asyncio.sleep(0.01)
        assert router.open == router.most_open == 5
        for number in range(12):
            router.grant(f"CA{number}")
        assert all(allocation.has_pod for allocation in await asyncio.gather(*tasks))
        assert client._lines._open_asks == 0
        await client.aclose()

    asyncio.run(run())


def test_on_waiting_may_be_a_coroutine_function_and_may_raise():
    lines, heard = [], []

    class Watch(Hooks):
        def log(self, level, message, fields):
            lines.append(message)

    async def run():
        client, router = make_client(Watch())

        async def on_waiting(waiting):
            heard.append((waiting.position, waiting.waited_seconds, waiting.estimated_wait_seconds))
            raise LookupError

        def raises(waiting):
            router.grant("CA2")
            raise LookupError

        task = asyncio.create_task(client.allocate("CA1", wait=30, on_waiting=on_waiting))
        await until(lambda: router.open == 1)
        router.grant("CA1")
        assert (await task).has_pod
        assert (await client.allocate("CA2", wait=30, on_waiting=raises)).has_pod
        await client.aclose()

    asyncio.run(run())
    assert heard == [(3, 1.0, None)]
    assert [line for line in lines if "on_waiting" in line] == ["on_waiting has raised LookupError()"] * 2


def test_a_call_of_an_agent_is_not_released_at_the_end_of_a_wait():
    async def run():
        client, router = make_client()
        agent = Agent(client, pod_name="agent-1", registers=False)
        async with agent.call("CA1") as call:
            task = asyncio.create_task(client.allocate("CA1", wait=30))
            await until(lambda: router.open == 1)
            client.stop_waiting("CA1")
            assert (await task).reason == "stopped" and router.releases == []
            call.close_code = 1000
        await client.aclose()

    asyncio.run(run())


def test_a_wait_that_is_stopped_while_an_old_release_is_under_way_sends_no_request():
    async def run():
        client, router = make_client()
        go_on = asyncio.Event()

        async def slow(call_sid):
            await go_on.wait()
            return True

        client.background.cancel = slow
        task = asyncio.create_task(client.allocate("CA1", wait=30))
        await asyncio.sleep(0)
        assert client.stop_waiting("CA1")
        go_on.set()
        assert (await task).reason == "stopped" and router.bodies("/api/v1/allocate") == []
        await client.aclose()

    asyncio.run(run())


def test_the_sync_face_waits_and_is_stopped_by_another_thread_and_by_its_callback():
    settings, router = settings_of(), Router()
    with SyncClient(settings, breaker=Breaker.of(settings), transport=router) as client:
        outcomes = []
        thread = threading.Thread(target=lambda: outcomes.append(client.allocate("CA1", wait=3600)), daemon=True)
        thread.start()
        while not client.stop_waiting("CA1"):
            pass
        thread.join(30)
        assert [allocation.reason for allocation in outcomes] == ["stopped"]
        stop = client.allocate("CA2", wait=3600, on_waiting=lambda waiting: client.stop_waiting("CA2"))
        assert (stop.reason, stop.position) == ("stopped", 3)
        with client.call("CA3", wait=3600, on_waiting=lambda waiting: router.grant("CA3")) as call:
            assert call.has_pod and call.allocation.position == 3
    assert router.releases[-1] == ("CA3", "call_ended")


def test_a_sync_client_that_is_closed_ends_the_waits_of_other_threads():
    settings, router = settings_of(), Router()
    client = SyncClient(settings, breaker=Breaker.of(settings), transport=router)
    waits, outcomes = threading.Event(), []

    def wait():
        outcomes.append(client.allocate("CA1", wait=3600, on_waiting=lambda waiting: waits.set()).reason)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    assert waits.wait(30)
    client.close()
    thread.join(30)
    assert outcomes == ["stopped"] and router.releases == [("CA1", "wait_stopped")]
