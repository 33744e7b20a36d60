"""What the table of behaviours cannot say: concurrency, cancellation, limits, hooks, the sync face, bad settings."""

import asyncio
import json
import re
import threading

import httpx
import pytest
import tree
from scripted import FakeClock
from smartrouter import Agent, Breaker, Client, Hooks, Rollout, Settings, SettingsError, SyncClient, is_terminal
from smartrouter import background as background_module
from smartrouter import client as client_module
from smartrouter.version import VERSION

OPEN_GATE = Rollout(enabled=True, percentage=100)
POD = {"success": True, "pod_name": "agent-1", "ws_url": "ws://router.test/x"}


class Router(httpx.AsyncBaseTransport):
    """Answers every request with `answer(request)`, a coroutine function; remembers them."""

    def __init__(self, answer):
        self.answer = answer
        self.requests = []

    async def handle_async_request(self, request):
        body = json.loads(await request.aread() or b"{}")
        self.requests.append((request.url.path, body, dict(request.headers)))
        return await self.answer(request)

    def paths(self):
        return [path for path, _, _ in self.requests]


def settings_of(**members):
    return Settings(**{"base_url": "http://router.test", "rollout": OPEN_GATE, **members})


def make_client(answer, hooks=None, **members):
    settings = settings_of(**members)
    router = Router(answer)
    return Client(settings, breaker=Breaker.of(settings), transport=router, jitter=lambda: 0.0, hooks=hooks), router


async def well(request):
    return httpx.Response(200, json=POD)


async def broken(request):
    return httpx.Response(500, json={"success": False})


def test_the_version_is_the_routers():
    assert VERSION == (tree.PACKAGE.parents[1] / "VERSION").read_text().strip()


# Settings.


@pytest.mark.parametrize(
    "name, value",
    [
        ("SMART_ROUTER_TIMEOUT_MS", "3s"),
        ("SMART_ROUTER_TIMEOUT_MS", "0"),
        ("SMART_ROUTER_RETRY_ATTEMPTS", "11"),
        ("SMART_ROUTER_PERCENTAGE", "101"),
        ("SMART_ROUTER_PERCENTAGE", "-1"),
        ("SMART_ROUTER_CB_RECOVERY_TIMEOUT", "soon"),
        ("SMART_ROUTER_CB_RECOVERY_TIMEOUT", "nan"),
        ("SMART_ROUTER_ENABLE_FALLBACK", "perhaps"),
        ("ENABLE_VOICE_AGENT_POD_ISOLATION", "enabled"),
        ("SMART_ROUTER_BASE_URL", "router:8080"),
        ("VOICE_AGENT_BASE_URL", "https://voice.test"),
        ("VOICE_AGENT_HEARTBEAT_TTL", "10"),
    ],
)
def test_a_bad_variable_is_named(name, value):
    with pytest.raises(SettingsError, match=name):
        Settings.from_env({name: value})


def test_the_defaults_are_those_of_the_first_client():
    settings = Settings.from_env({})
    assert (settings.base_url, settings.api_key, settings.timeout_ms) == ("http://smart-router:8080", "", 3000)
    assert (settings.retry_attempts, settings.enable_fallback) == (3, True)
    assert (settings.failure_threshold, settings.recovery_timeout, settings.half_open_max_calls) == (5, 30, 3)
    assert (settings.pod_name, settings.pod_ip, settings.voice_agent_base_url) == ("", "", "")
    assert (settings.heartbeat_interval, settings.heartbeat_ttl, settings.shutdown_timeout) == (30, 90, 300)
    assert settings.rollout == Rollout(enabled=False, percentage=0, merchants=())
    assert not settings.is_direct("twilio") and not settings.is_direct("plivo")
    direct = Settings.from_env({"SMART_ROUTER_ENABLE_TWILIO_DIRECT": "true"})
    assert direct.is_direct("Twilio") and not direct.is_direct("plivo") and not direct.is_direct("exotel")
    assert "secret" not in repr(Settings(api_key="secret"))


# The breaker.


def test_half_open_lets_three_requests_through_and_a_cancelled_one_gives_its_place_back():
    clock = FakeClock()
    breaker = Breaker(clock=clock.now)
    for _ in range(5):
        breaker.leave(breaker.enter(), False)
    assert breaker.enter() is None
    clock.at += 30
    permits = [breaker.enter() for _ in range(3)]
    assert None not in permits and breaker.enter() is None
    breaker.leave(permits[0], None)
    last = breaker.enter()
    assert last is not None and breaker.enter() is None
    for permit in (permits[1], permits[2], last):
        assert breaker.state == "half_open"
        breaker.leave(permit, True)
    assert breaker.state == "closed"


def test_a_result_of_an_earlier_state_changes_nothing():
    clock = FakeClock()
    breaker = Breaker(clock=clock.now)
    slow = breaker.enter()
    for _ in range(5):
        breaker.leave(breaker.enter(), False)
    clock.at += 30
    assert breaker.enter() is not None
    breaker.leave(slow, False)
    assert breaker.state == "half_open"


def test_clients_of_one_router_share_a_breaker_and_others_do_not():
    async def run():
        one, two = Client(settings_of()), Client(settings_of())
        other = Client(settings_of(base_url="http://other.test"))
        assert one.breaker is two.breaker and one.breaker is not other.breaker

    asyncio.run(run())


def test_a_breaker_counts_right_when_many_threads_use_it():
    breaker = Breaker(failure_threshold=4001)

    def fail():
        for _ in range(500):
            breaker.leave(breaker.enter(), False)

    threads = [threading.Thread(target=fail) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert breaker.state == "closed"
    breaker.leave(breaker.enter(), False)
    assert breaker.state == "open"


# Calls.


def test_a_cancelled_allocation_is_released_in_the_background():
    async def run():
        asked = asyncio.Event()

        async def answer(request):
            if request.url.path == "/api/v1/release":
                return httpx.Response(200, json={"success": True})
            asked.set()
            await asyncio.sleep(3600)

        client, router = make_client(answer)
        client.background.run_by_hand()
        task = asyncio.create_task(client.allocate("CA1"))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert client.pending_releases == 1
        await client.aclose()
        assert router.paths() == ["/api/v1/allocate", "/api/v1/release"] and client.pending_releases == 0

    asyncio.run(run())


def test_a_cancellation_that_comes_together_with_the_answer_is_not_forgotten():
    async def run():
        async def answer(request):
            asking.cancel()
            return httpx.Response(200, json=POD)

        client, _ = make_client(answer)
        client.background.run_by_hand()
        asking = asyncio.create_task(client.allocate("CA1"))
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert client.pending_releases == 1

    asyncio.run(run())


@pytest.mark.parametrize("end", ["return", "raise", "cancel", "cancel twice"])
def test_a_call_is_released_however_its_block_ends(end):
    async def run():
        releasing, go_on = asyncio.Event(), asyncio.Event()

        async def answer(request):
            if request.url.path == "/api/v1/release":
                releasing.set()
                await go_on.wait()
            return httpx.Response(200, json=POD)

        client, router = make_client(answer)
        inside = asyncio.Event()

        async def talk():
            async with client.call("CA1") as call:
                assert call.pod_name == "agent-1"
                inside.set()
                if end == "raise":
                    raise LookupError
                if end.startswith("cancel"):
                    await asyncio.sleep(3600)

        task = asyncio.create_task(talk())
        await inside.wait()
        if end.startswith("cancel"):
            task.cancel()
        await releasing.wait()
        if end == "cancel twice":
            task.cancel()
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.wait([task])
        await client.aclose()
        path, body, _ = router.requests[-1]
        assert (path, body["call_sid"], body["pod_name"]) == ("/api/v1/release", "CA1", "agent-1")
        assert router.paths() == ["/api/v1/allocate", "/api/v1/release"]  # the second cancellation did not break it off
        assert client.pending_releases == 0

    asyncio.run(run())


def test_an_allocation_waits_for_the_release_of_the_same_call_that_is_under_way():
    async def run():
        go_on = asyncio.Event()

        async def answer(request):
            if request.url.path == "/api/v1/release":
                await go_on.wait()
            return httpx.Response(200, json=POD)

        client, router = make_client(answer)
        client.background.run_by_hand()
        client.background.add("CA1", None, None, client._clock.now() + 60)
        releasing = asyncio.create_task(client.background.run_until(client._clock.now() + 60))
        while not router.requests:
            await asyncio.sleep(0)
        allocating = asyncio.create_task(client.allocate("CA1"))
        for _ in range(20):
            await asyncio.sleep(0)
        assert router.paths() == ["/api/v1/release"]
        go_on.set()
        assert (await allocating).has_pod
        await releasing
        assert router.paths() == ["/api/v1/release", "/api/v1/allocate"]
        await client.aclose()

    asyncio.run(run())


def test_an_allocation_that_is_cancelled_while_it_waits_for_a_release_leaves_the_release_pending():
    async def run():
        async def answer(request):
            await asyncio.sleep(3600)

        client, router = make_client(answer)
        client.background.run_by_hand()
        client.background.add("CA1", None, None, client._clock.now() + 60)
        releasing = asyncio.create_task(client.background.run_until(client._clock.now() + 60))
        while not router.requests:
            await asyncio.sleep(0)
        allocating = asyncio.create_task(client.allocate("CA1"))
        for _ in range(20):
            await asyncio.sleep(0)
        allocating.cancel()
        with pytest.raises(asyncio.CancelledError):
            await allocating
        assert client.pending_releases == 1
        releasing.cancel()

    asyncio.run(run())


def test_releases_that_are_carried_out_leave_nothing_behind():
    async def run():
        client, _ = make_client(well)
        client.background.run_by_hand()
        for number in range(1000):
            client.background.add(f"CA{number}", None, None, client._clock.now() + 60)
            assert await client.release(f"CA{number}")
        assert client.pending_releases == 0 and len(client.background._heap) < 100

    asyncio.run(run())


def test_pending_releases_have_a_limit_and_the_oldest_is_given_up(monkeypatch):
    monkeypatch.setattr(background_module, "PENDING_RELEASES_MAX", 2)
    events = []

    class Watch(Hooks):
        def release(self, event):
            events.append((event.call_sid, event.outcome))

    async def run():
        client, _ = make_client(broken, Watch(), failure_threshold=1000)
        client.background.run_by_hand()
        for call_sid in ("CA1", "CA2", "CA3"):
            assert not await client.release(call_sid)
        assert client.pending_releases == 2

    asyncio.run(run())
    assert events == [("CA1", "pending"), ("CA2", "pending"), ("CA1", "given_up"), ("CA3", "pending")]


def test_the_background_task_repeats_a_release_by_itself(monkeypatch):
    monkeypatch.setattr(background_module, "RELEASE_WAIT_S", 0.01)

    async def run():
        answers = iter([broken, broken, well])

        async def answer(request):
            return await next(answers)(request)

        client, router = make_client(answer)
        assert not await client.release("CA1", "agent-1")
        while client.pending_releases:
            await asyncio.sleep(0.01)
        assert len(router.requests) == 3
        await client.aclose()

    asyncio.run(run())


def test_a_call_of_an_agent_is_not_released_when_an_allocation_gets_no_answer():
    async def run():
        client, _ = make_client(broken, failure_threshold=1000, retry_attempts=1)
        client.background.run_by_hand()
        agent = Agent(client, pod_name="agent-1", registers=False)
        async with agent.call("CA1"):
            await client.allocate("CA1")
            assert client.pending_releases == 0
            await client.release("CA1")  # somebody wants its end, and an allocation does not take that back
            await client.allocate("CA1")
            assert client.pending_releases == 1

    asyncio.run(run())


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_call_that_has_its_pod_is_not_released_when_a_second_allocation_is_cancelled(is_kept):
    async def run():
        asked, asks = asyncio.Event(), []

        async def answer(request):
            asks.append(request.url.path)
            if len(asks) == 2:
                asked.set()
                await asyncio.sleep(3600)
            return httpx.Response(200, json=POD)

        client, router = make_client(answer)
        client.background.run_by_hand()
        context = client.call("CA1")
        assert (await context.__aenter__() if is_kept else await client.allocate("CA1")).has_pod
        if is_kept:
            client._answered.clear()  # as after 10,000 other calls
        again = asyncio.create_task(client.allocate("CA1"))
        await asked.wait()
        again.cancel()
        with pytest.raises(asyncio.CancelledError):
            await again
        assert client.pending_releases == 0
        await (context.__aexit__() if is_kept else client.release("CA1"))
        assert router.paths() == ["/api/v1/allocate", "/api/v1/allocate", "/api/v1/release"]
        assert not client._kept and not client._answered

    asyncio.run(run())


def test_calls_that_have_a_pod_are_remembered_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(client_module, "ANSWERED_MAX", 2)

    async def run():
        answers = {"CA1": well, "CA2": well, "CA3": well}

        async def answer(request):
            return await answers[json.loads(request.content)["call_sid"]](request)

        client, _ = make_client(answer, failure_threshold=1000, retry_attempts=1)
        client.background.run_by_hand()
        for call_sid in answers:
            assert (await client.allocate(call_sid)).has_pod
        answers = dict.fromkeys(answers, broken)
        for call_sid, pending in (("CA2", 0), ("CA3", 0), ("CA1", 1)):
            assert not (await client.allocate(call_sid)).has_pod
            assert client.pending_releases == pending

    asyncio.run(run())


@pytest.mark.parametrize("how", ["no pods", "ended"])
def test_a_call_that_the_router_has_not_any_more_is_released_after_an_unanswered_allocation(how):
    async def run():
        async def no_pods(request):
            return httpx.Response(503, json={"success": False})

        async def ended(request):
            lists = {"renewed": [], "unknown": [], "ended": ["CA1"], "conflicts": [], "expires_at": ""}
            return httpx.Response(200, json={"success": True, **lists})

        answers = iter([well, no_pods if how == "no pods" else ended, broken])

        async def answer(request):
            return await next(answers)(request)

        client, _ = make_client(answer, retry_attempts=1)
        client.background.run_by_hand()
        assert (await client.allocate("CA1")).has_pod
        await (client.allocate("CA1") if how == "no pods" else client.renew(["CA1", "CA2"]))
        assert not (await client.allocate("CA1")).has_pod
        assert client.pending_releases == 1

    asyncio.run(run())


@pytest.mark.parametrize("first_ends", [0, 1])
def test_a_call_that_two_blocks_keep_is_renewed_and_released_by_the_last_one(first_ends):
    async def run():
        client, router = make_client(well)
        client.background.run_by_hand()
        contexts = [client.call("CA1"), client.call("CA1")]
        for context in contexts:
            await context.__aenter__()
        await contexts.pop(first_ends).__aexit__()
        assert "/api/v1/release" not in router.paths()
        assert list(client._kept) == ["CA1"] and client.background.is_renewing
        await contexts.pop().__aexit__()
        assert router.paths().count("/api/v1/release") == 1
        assert not client._kept and not client.background.is_renewing

    asyncio.run(run())


# The end of a client.


def test_a_client_that_is_closed_waits_for_an_allocation_and_releases_what_it_may_have_got():
    async def run():
        asked, go_on = asyncio.Event(), asyncio.Event()

        async def answer(request):
            if request.url.path == "/api/v1/release":
                return await well(request)
            asked.set()
            await go_on.wait()
            return await broken(request)

        client, router = make_client(answer)
        allocating = asyncio.create_task(client.allocate("CA1"))
        await asked.wait()
        closing = asyncio.create_task(client.aclose())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not closing.done()
        go_on.set()
        await closing
        assert (await allocating).reason == "unavailable"
        assert router.paths() == ["/api/v1/allocate", "/api/v1/release"] and client.pending_releases == 0

    asyncio.run(run())


def test_an_allocation_that_outlives_its_client_raises_nothing_and_its_release_is_given_up_aloud():
    events, lines = [], []

    class Watch(Hooks):
        def release(self, event):
            events.append((event.call_sid, event.outcome))

        def log(self, level, message, fields):
            lines.append(message)

    async def run():
        asked = asyncio.Event()

        async def answer(request):
            asked.set()
            await asyncio.sleep(0.2)
            raise RuntimeError("Cannot send a request, as the client has been closed.")

        client, _ = make_client(answer, Watch(), failure_threshold=1)
        allocating = asyncio.create_task(client.allocate("CA1"))
        await asked.wait()
        await client.background.close(0)
        await client._exchange.close()  # as at the end of aclose
        assert (await allocating).reason == "unavailable"
        assert client.breaker.state == "closed"  # other clients may share it
        assert events == [("CA1", "given_up")] and any("the client is closed" in line for line in lines)

    asyncio.run(run())


def test_a_client_that_is_closed_raises_nothing_and_leaves_the_breaker_to_others():
    async def run():
        client, router = make_client(well, failure_threshold=1)
        await client.aclose()
        assert (await client.allocate("CA1")).reason == "unavailable"
        assert not await client.release("CA1") and not await client.health()
        assert not router.requests and client.breaker.state == "closed"

    asyncio.run(run())


def test_a_status_callback_releases_only_at_the_end_of_a_call():
    async def run():
        client, router = make_client(well)
        assert not await client.handle_status("CA1", "in-progress")
        assert not router.requests
        assert await client.handle_status("CA1", "Completed")
        assert router.requests[0][1] == {"call_sid": "CA1", "reason": "status_callback"}
        await client.aclose()

    asyncio.run(run())
    assert all(is_terminal(word) for word in ("no-answer", "busy", "failed", "canceled"))


def test_an_answer_that_never_ends_is_a_failure():
    async def run():
        class Endless(httpx.AsyncByteStream):
            async def __aiter__(self):
                while True:
                    yield b" " * 65536

        async def answer(request):
            return httpx.Response(200, stream=Endless())

        client, _ = make_client(answer, retry_attempts=1)
        client.background.run_by_hand()
        assert (await client.allocate("CA1")).reason == "unavailable"

    asyncio.run(run())


def test_an_empty_call_sid_is_an_error_of_the_program():
    async def run():
        client, router = make_client(well)
        for ask in (client.allocate, client.release):
            with pytest.raises(ValueError):
                await ask("")
        assert not router.requests

    asyncio.run(run())


# Hooks and traces.


def test_all_tries_of_an_operation_have_one_trace_which_a_program_may_give():
    given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    class Traced(Hooks):
        def traceparent(self):
            return "00-11111111111111111111111111111111-2222222222222222-00"

    async def run():
        client, router = make_client(broken, Traced(), failure_threshold=1000, retry_attempts=2)
        client.background.run_by_hand()
        await client.allocate("CA1", traceparent=given)
        await client.allocate("CA2", traceparent="not a trace")
        plain, plain_router = make_client(broken, retry_attempts=2)
        plain.background.run_by_hand()
        await plain.allocate("CA3")
        return [[h["traceparent"] for _, _, h in r.requests] for r in (router, plain_router)]

    traced, plain = asyncio.run(run())
    assert traced == [given, given] + ["00-11111111111111111111111111111111-2222222222222222-00"] * 2
    assert plain[0] == plain[1] and re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-01", plain[0])


@pytest.mark.parametrize(
    "trace",
    [
        "00-" + "0" * 32 + "-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-" + "0" * 16 + "-01",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\nX-Evil: 1",
    ],
)
def test_a_trace_that_is_not_valid_is_replaced(trace):
    async def run():
        client, router = make_client(well)
        await client.allocate("CA1", traceparent=trace)
        sent = router.requests[0][2]["traceparent"]
        assert sent != trace and re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-01", sent)

    asyncio.run(run())


def test_hooks_see_everything_and_their_exceptions_go_no_further():
    seen = []

    class Raises(Hooks):
        def request(self, event):
            seen.append(f"request {event.operation} {event.number} {event.status}")
            raise LookupError

        def breaker(self, old, new):
            seen.append(f"breaker {old} {new}")
            raise LookupError

        def allocation(self, call_sid, allocation, seconds):
            seen.append(f"allocation {call_sid} {allocation.outcome} {allocation.reason}")
            raise LookupError

        def log(self, level, message, fields):
            seen.append("log")
            raise LookupError

    async def run():
        client, _ = make_client(broken, Raises(), failure_threshold=2)
        client.background.run_by_hand()
        assert (await client.allocate("CA1")).outcome == "busy"

    asyncio.run(run())
    assert [line for line in seen if line != "log"] == [
        "request allocate 1 500",
        "breaker closed open",
        "request allocate 2 500",
        "allocation CA1 busy unavailable",
    ]
    assert "log" in seen


# The sync face and the agent.


def test_the_sync_face_is_the_same_client():
    settings = settings_of()
    router = Router(well)
    with SyncClient(settings, breaker=Breaker.of(settings), transport=router) as client:
        assert client.allocate("CA1").pod_name == "agent-1"
        with pytest.raises(LookupError):
            with client.call("CA2") as call:
                assert call.has_pod
                raise LookupError
        assert client.release("CA1", "agent-1") and client.health() and client.pending_releases == 0
        with pytest.raises(ValueError):
            client.allocate("")
    assert router.paths() == [f"/api/v1/{name}" for name in ("allocate", "allocate", "release", "release")] + ["/health"]
    with pytest.raises(SettingsError):
        SyncClient(Settings(base_url="x"))


def sync_client(answer, hooks=None, **members):
    settings = settings_of(**members)
    router = Router(answer)
    return SyncClient(settings, breaker=Breaker.of(settings), transport=router, hooks=hooks), router


def test_a_sync_client_that_is_closed_hangs_no_other_thread_and_loses_no_allocation():
    asked = threading.Event()

    async def answer(request):
        if request.url.path == "/api/v1/release":
            return await well(request)
        asked.set()
        await asyncio.sleep(3600)

    client, router = sync_client(answer, timeout_ms=200)
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(client.allocate("CA1").reason), daemon=True)
    thread.start()
    assert asked.wait(30)
    client.close()
    thread.join(30)
    assert outcomes == ["unavailable"]
    assert router.paths() == ["/api/v1/allocate", "/api/v1/release"] and client.pending_releases == 0
    client.close()
    with pytest.raises(RuntimeError, match="closed"):
        client.allocate("CA2")


def test_what_a_sync_client_cannot_wait_for_ends_with_an_error():
    asked = threading.Event()

    async def answer(request):
        asked.set()
        await asyncio.sleep(3600)

    client, _ = sync_client(answer, timeout_ms=100)
    errors = []

    def wait():
        try:
            client.drained("agent-1", 60)
        except RuntimeError as error:
            errors.append(str(error))

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    assert asked.wait(30)
    client.close()
    thread.join(30)
    assert errors == ["the client was closed meanwhile"]


def test_a_sync_client_says_that_its_own_thread_cannot_wait_for_it():
    lines, raised, done = [], [], threading.Event()

    class Watch(Hooks):
        def allocation(self, call_sid, allocation, seconds):
            for ask in (lambda: client.release(call_sid), client.close):
                try:
                    ask()
                except RuntimeError as error:
                    raised.append(str(error))

        def log(self, level, message, fields):
            lines.append(message)
            done.set()

    async def answer(request):
        if request.url.path == "/api/v1/renew":
            lists = {"renewed": [], "unknown": [], "ended": ["CA1"], "conflicts": [], "expires_at": ""}
            return httpx.Response(200, json={"success": True, **lists})
        return await well(request)

    client, _ = sync_client(answer, Watch(), heartbeat_interval=1)
    allocating = threading.Thread(target=client.allocate, args=("CA0",), daemon=True)
    allocating.start()
    allocating.join(30)
    assert not allocating.is_alive() and len(raised) == 2 and all("another thread" in text for text in raised)
    with client.call("CA1") as call:
        call.on_ended = lambda: client.release("CA1")
        assert done.wait(30)
    assert len(lines) == 1 and "on_ended has raised RuntimeError" in lines[0]
    client.close()


def test_an_agent_needs_a_name_and_an_address():
    async def run():
        client, _ = make_client(well)
        with pytest.raises(SettingsError, match="POD_NAME"):
            Agent(client)
        with pytest.raises(SettingsError, match="POD_IP"):
            Agent(client, pod_name="agent-1")
        assert Agent(client, pod_name="agent-1", registers=False).address == ""
        named, _ = make_client(well, pod_name="agent-1", pod_ip="fd00::1")
        assert Agent(named, port=9000).address == "[fd00::1]:9000"

    asyncio.run(run())


def test_an_agent_closes_a_call_that_the_router_has_ended_and_does_not_release_it():
    async def run():
        async def answer(request):
            ended = {"success": True, "renewed": [], "adopted": [], "ended": ["CA1"], "conflicts": []}
            return httpx.Response(200, json=ended)

        client, router = make_client(answer)
        agent = Agent(client, pod_name="agent-1", registers=False)
        closed = asyncio.Event()

        async def close():
            closed.set()

        async with agent.call("CA1", on_ended=close) as call:
            await agent.beat()
            await closed.wait()
            assert call.has_ended and agent.calls == []
        assert router.paths() == ["/api/v1/pod/agent-1/heartbeat"]
        await client.aclose()

    asyncio.run(run())


def test_a_call_whose_release_overtakes_a_heartbeat_is_released_again():
    async def run():
        asked, go_on = asyncio.Event(), asyncio.Event()

        async def answer(request):
            if request.url.path == "/api/v1/release":
                return httpx.Response(200, json={"success": True})
            asked.set()
            await go_on.wait()
            adopted = {"success": True, "renewed": [], "adopted": ["CA1", "CA2"], "ended": [], "conflicts": []}
            return httpx.Response(200, json=adopted)

        client, router = make_client(answer)
        agent = Agent(client, pod_name="agent-1", registers=False)
        async with agent.call("CA2"):
            async with agent.call("CA1"):
                beating = asyncio.create_task(agent.beat())
                await asked.wait()
            go_on.set()
            await beating
            while len(router.requests) < 3:
                await asyncio.sleep(0)
            released = [body["call_sid"] for path, body, _ in router.requests if path == "/api/v1/release"]
            assert released == ["CA1", "CA1"]
        await client.aclose()

    asyncio.run(run())


def test_a_call_that_broke_and_came_back_is_not_released_by_its_first_stream():
    async def run():
        client, router = make_client(well)
        agent = Agent(client, pod_name="agent-1", registers=False, keep_seconds=0.01)
        async with agent.call("CA1") as first:
            first.close_code = 1006
        async with agent.call("CA1") as second:
            await asyncio.sleep(0.1)
            assert agent.calls == ["CA1"] and "/api/v1/release" not in router.paths()
            second.close_code = 1000
        assert router.paths().count("/api/v1/release") == 1
        async with agent.call("CA2") as third:
            third.close_code = 1006
        assert agent.calls == ["CA2"]
        while agent.calls:
            await asyncio.sleep(0.01)
        await client.aclose()
        assert router.requests[-1][1] == {"call_sid": "CA2", "pod_name": "agent-1", "reason": "stream_closed"}

    asyncio.run(run())


@pytest.mark.parametrize("release_is", ["pending", "under way"])
def test_a_call_that_comes_back_late_is_not_released_by_the_background(release_is):
    async def run():
        is_away, releasing, go_on = True, asyncio.Event(), asyncio.Event()

        async def answer(request):
            if not is_away:
                return await well(request)
            if request.url.path == "/api/v1/release":
                releasing.set()
                await go_on.wait()
            raise httpx.ConnectError("away")

        client, router = make_client(answer, failure_threshold=1000)
        client.background.run_by_hand()
        agent = Agent(client, pod_name="agent-1", registers=False, keep_seconds=0.01)
        async with agent.call("CA1") as first:
            first.close_code = 1006
        await releasing.wait()
        if release_is == "pending":
            go_on.set()
            while not client.pending_releases:
                await asyncio.sleep(0.01)
        async with agent.call("CA1") as second:
            go_on.set()
            while client._tasks:
                await asyncio.sleep(0.01)
            assert client.pending_releases == 0 and agent.calls == ["CA1"]
            is_away = False
            await client.background.run_until(client._clock.now() + 3600)
            assert router.paths().count("/api/v1/release") == 1
            second.close_code = 1000
        assert router.paths().count("/api/v1/release") == 2
        await client.aclose()

    asyncio.run(run())


def test_a_call_that_is_cancelled_while_it_waits_for_its_old_release_is_released():
    async def run():
        releasing, go_on = asyncio.Event(), asyncio.Event()

        async def answer(request):
            releasing.set()
            await go_on.wait()
            return await well(request)

        client, router = make_client(answer)
        client.background.run_by_hand()
        client.background.add("CA1", None, None, client._clock.now() + 60)
        background = asyncio.create_task(client.background.run_until(client._clock.now() + 60))
        await releasing.wait()
        agent = Agent(client, pod_name="agent-1", registers=False)
        opening = asyncio.create_task(agent.call("CA1").__aenter__())
        while not agent.calls:
            await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        go_on.set()
        await background
        await client.aclose()
        assert agent.calls == [] and router.requests[-1][1]["reason"] == "stream_closed"

    asyncio.run(run())
